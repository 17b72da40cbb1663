defmodule BeTree.GuidesTest do
  # Not async: the guides name servers and attach handlers like an application.
  use ExUnit.Case

  import BeTree.Test.Quiet, only: [quiet: 1]
  import ExUnit.CaptureIO

  alias BeTree.Test.Guide

  # Guides end processes.
  setup :quiet

  # :telemetry may be missing.
  setup_all do
    before = Code.get_compiler_option(:no_warn_undefined)
    Code.put_compiler_option(:no_warn_undefined, [:telemetry])
    on_exit(fn -> Code.put_compiler_option(:no_warn_undefined, before) end)
  end

  @guides Path.wildcard("docs/{guides,operating}/*.md")
  @runnable Enum.filter(@guides, &(File.read!(&1) =~ ~r/^```elixir$/m))

  for page <- ["README.md" | @runnable ++ Path.wildcard("notebooks/*.livemd")] do
    test "#{page} does what it says" do
      # A notebook prints.
      capture_io(fn -> assert Guide.run(unquote(page)) > 0 end)
    end
  end

  @tag :tmp_dir
  test "a wrong guide fails with its line", %{tmp_dir: folder} do
    for {block, line} <- [
          {"iex> 1 + 1\n3", 5},
          {"iex> :ok\n:ok\niex> raise \"no\"", 7},
          {"iex> raise \"no\"\n** (RuntimeError) yes", 5},
          {"iex> MapSet.new([1])\n#MapSet<[2]>", 5},
          {"x = 1\n:ok = x + 1", 5}
        ] do
      path = Path.join(folder, "guide.md")
      File.write!(path, "# A guide\n\nText.\n```elixir\n#{block}\n```\n")
      error = assert_raise ExUnit.AssertionError, fn -> Guide.run(path) end
      assert error.message =~ "#{path}:#{line}: "
    end
  end

  @tag :tmp_dir
  test "a block sees the bindings of earlier blocks; a skipped block does not run", %{tmp_dir: folder} do
    path = Path.join(folder, "guide.md")

    File.write!(path, """
    ```elixir
    alias String, as: S
    text = "a"
    ```

    <!-- not run -->
    ```elixir
    raise "not run"
    ```

    ```elixir
    iex> double = fn text ->
    ...>   S.duplicate(text, 2)
    ...> end
    iex> double.(text)
    "aa"
    ```
    """)

    assert Guide.run(path) == 2
  end

  test "every guide is listed in the README" do
    listed = Regex.scan(~r"\((docs/(?:guides|operating)/\w+\.md)\)", File.read!("README.md"), capture: :all_but_first)
    assert Enum.sort(Enum.uniq(listed)) == Enum.sort(Enum.map(@guides, &[&1]))
  end
end
