defmodule FlagsTest do
  use ExUnit.Case

  import ExUnit.CaptureIO

  @dir Application.compile_env!(:flags, :dir)

  setup do
    build!(File.read!("flags.txt"))
    :ok = Flags.Store.reload()
  end

  defp build(text, schema \\ Application.fetch_env!(:flags, :schema)), do: Flags.Image.build(text, schema, @dir)

  defp build!(text) do
    {:ok, _count} = build(text)
    :ok
  end

  # Looks again until a condition holds. ExUnit ends the test after its timeout.
  defp wait(condition) do
    if not condition.() do
      Process.sleep(10)
      wait(condition)
    end
  end

  test "the flags of a user are on" do
    assert Flags.on(%{user_id: 42, bucket: 5, country: "CA", plan: "team", app_version: 431}) ==
             ~w(ai_search dark_mode export new_checkout)

    assert Flags.on(%{user_id: 8, bucket: 50, country: "CA", app_version: 431}) == ["dark_mode"]
    assert Flags.on?("ai_search", %{user_id: 7})
    refute Flags.on?("ai_search", %{user_id: 8})
    refute Flags.on?("no_such_flag", %{user_id: 7})
    # A value that does not fit turns flags off, and not the page.
    assert Flags.on(%{user_id: "seven", bucket: 5}) == []
  end

  test "an explanation names the predicate that is false" do
    assert {:ok, why} = Flags.why("export", %{user_id: 8, plan: "team", app_version: 410})
    assert to_string(why) =~ "app_version >= 420: false (app_version is 410)"
  end

  test "a rollout grows: who has the flag at 20 percent has it at 50" do
    users = 1..5_000
    with_flag = fn -> for user <- users, Flags.on?("checkout", %{user_id: user}), do: user end

    [few, many, all] =
      for rule <- ["bucket < 20", "bucket < 50", "true"] do
        build!("checkout: #{rule}")
        :ok = Flags.Store.reload()
        with_flag.()
      end

    assert few -- many == []
    assert Enum.count(few) in 800..1_200
    assert Enum.count(many) in 2_300..2_700
    assert all == Enum.to_list(users)
  end

  test "a new image is read without a call, with another schema too" do
    schema = Application.fetch_env!(:flags, :schema) ++ [device: {:string, optional: true}]
    assert build("tv_only: device = 'tv'", schema) == {:ok, 1}
    wait(fn -> Flags.on(%{user_id: 1, device: "tv"}) == ["tv_only"] end)
    assert Flags.on(%{user_id: 1}) == []
  end

  test "a wrong rule changes nothing, and a damaged image leaves the flags as they are" do
    assert {:error, "line 2: " <> message} = build("dark_mode: true\nexport: plan = 3")
    assert message =~ "plan"
    assert {:error, "line 1: a line is NAME: RULE"} = build("dark_mode")
    :ok = Flags.Store.reload()
    assert Flags.on?("dark_mode", %{user_id: 1})

    File.write!(Flags.Image.path(@dir), "no image")
    :ok = Flags.Store.reload()
    assert Flags.on?("dark_mode", %{user_id: 1})
  end

  test "mix flags.build writes the image, and tells the line of a wrong rule" do
    assert capture_io(fn -> Mix.Task.rerun("flags.build") end) == "5 flags are in #{Flags.Image.path(@dir)}\n"
    path = Path.join(@dir, "wrong.txt")
    File.write!(path, "# a comment\nnew: bucket < 200\n")
    assert_raise Mix.Error, ~r/\Aline 2: .*bucket/, fn -> Mix.Task.rerun("flags.build", [path]) end
  end
end
