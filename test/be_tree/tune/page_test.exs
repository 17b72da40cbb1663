defmodule BeTree.Tune.PageTest do
  # The report in a real browser. Nothing depends on time: the page is the same for quiet and noisy machines.
  use ExUnit.Case

  alias BeTree.Tune

  @moduletag :tmp_dir
  @moduletag :browser

  test "the page draws charts and reacts to the pointer and the slider", %{tmp_dir: folder} do
    tree = BeTree.new!(age: :integer, country: {:string, optional: true}, text: {:string, optional: true})

    subscriptions =
      [{1, "text = '</script><b id=injected>'"}] ++
        for id <- 2..300,
            do: {id, "age > #{rem(id * 7, 90)} and country in ('CA', 'c#{rem(id, 40)}') or not (age < #{id})"}

    BeTree.insert_all!(tree, subscriptions)

    events =
      [%{age: 500, country: "CA", text: "</script><b id=injected>"}] ++
        for(number <- 1..200, do: %{age: number, country: "c#{rem(number, 50)}"})

    run = Tune.run!(tree, events, seconds: 1, subscriptions: subscriptions, lines: Enum.to_list(1..201))
    page = IO.iodata_to_binary(Tune.to_html!(run))
    assert byte_size(page) < 2_000_000
    path = Path.join(folder, "tune.html")
    File.write!(path, page)

    {output, status} =
      System.cmd("node", ["--test-reporter=spec", "test/browser/tune.mjs"],
        env: [{"BE_TREE_PAGE", Path.expand(path)}],
        stderr_to_stdout: true
      )

    assert status == 0, output
    assert output =~ ~r/^ℹ pass 10$/m
  end
end
