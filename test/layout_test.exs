defmodule BeTree.LayoutTest do
  # The files are laid out as docs/design.md says.
  use ExUnit.Case, async: true

  import ExUnit.CaptureIO

  defp modules do
    {:ok, modules} = :application.get_key(:be_tree, :modules)
    modules
  end

  defp source(module), do: module.module_info(:compile)[:source] |> List.to_string() |> Path.relative_to_cwd()

  defp private?(module), do: match?({:docs_v1, _, _, _, :hidden, _, _}, Code.fetch_docs(module))

  test "what lies directly in lib/be_tree is public" do
    public = for module <- modules(), Path.dirname(source(module)) == "lib/be_tree", do: module
    assert BeTree.Search in public
    assert Enum.filter(public, &(private?(&1) and &1 |> Module.split() |> hd() != "Inspect")) == []
  end

  test "what lies in lib/be_tree/engine is private" do
    engine = for module <- modules(), String.starts_with?(source(module), "lib/be_tree/engine/"), do: module
    assert BeTree.Engine.Native in engine
    assert Enum.reject(engine, &private?/1) == []
  end

  test "no cycle of files but a behaviour and its implementation" do
    output = capture_io(fn -> Mix.Task.rerun("xref", ["graph", "--format", "cycles"]) end)
    cycles = output |> String.split(~r/^Cycle of length.*$/m) |> tl() |> Enum.map(&files/1)
    assert ["lib/be_tree/runtime.ex", "lib/be_tree/runtime/wasmtime.ex"] in cycles
    by_source = Enum.group_by(modules(), &source/1)
    assert Enum.reject(cycles, &behaviour?(&1, by_source)) == []
  end

  defp files(cycle) do
    ~r/^ +(\S+\.ex)\b/m |> Regex.scan(cycle, capture: :all_but_first) |> List.flatten() |> Enum.uniq() |> Enum.sort()
  end

  defp behaviour?([one, other], by_source) do
    implements?(by_source[one], by_source[other]) or implements?(by_source[other], by_source[one])
  end

  defp behaviour?(_longer, _by_source), do: false

  defp implements?(modules, behaviours) do
    Enum.any?(modules, fn module ->
      Enum.any?(module.module_info(:attributes)[:behaviour] || [], &(&1 in behaviours))
    end)
  end
end
