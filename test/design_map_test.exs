defmodule BeTree.DesignMapTest do
  # The map and the pages beside it: each file that they name exists, and has the functions that they name beside it.
  use ExUnit.Case, async: true

  @text Enum.map_join(~w(map architecture decisions), &File.read!("docs/contributing/#{&1}.md"))

  defp files(name) do
    for folder <- ["", "wasm/index/src/"], path = folder <> name, File.exists?(path), do: path
  end

  test "every named file exists" do
    names = Regex.scan(~r/`((?:[\w.]+\/)*[\w.]+\.(?:rs|ex|exs))`/, @text, capture: :all_but_first)
    names = names |> List.flatten() |> Enum.uniq()
    assert length(names) > 30
    # A bare name is relative to the folder of the previous one.
    missing = for name <- names, String.contains?(name, "/"), files(name) == [], do: name
    assert missing == []
  end

  test "every function named beside a file is defined in it" do
    beside = ~r/`((?:[\w.]+\/)+[\w.]+\.(?:rs|ex))`(?:: | \()`(\w+)`/
    named = Regex.scan(beside, @text, capture: :all_but_first)
    assert length(named) > 10

    missing =
      for [file, name] <- named,
          not Enum.any?(files(file), &(File.read!(&1) =~ ~r/\b(fn|def|defp|struct|enum|pub|type) (crate )?#{name}\b/)) do
        {file, name}
      end

    assert missing == []
  end
end
