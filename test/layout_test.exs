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

  # Modules that stand directly in lib/be_tree, and are private all the same.
  @private [BeTree.Application, BeTree.Journal]

  # Folders without a public module.
  @private_folders ["call", "input", "journal", "processes"]

  test "modules directly in lib/be_tree are public, except the application and the journal" do
    modules = for module <- modules(), Path.dirname(source(module)) == "lib/be_tree", do: module
    assert BeTree.Search in modules

    private = Enum.filter(modules, &(private?(&1) and not function_exported?(&1, :__impl__, 1)))
    assert Enum.sort(private) == @private
  end

  test "modules in private folders have no documentation" do
    modules =
      for module <- modules(),
          [_lib, _be_tree, folder | _] <- [Path.split(source(module))],
          folder in @private_folders,
          # A derived implementation of a protocol has no documentation to hide.
          not function_exported?(module, :__impl__, 1),
          do: module

    assert BeTree.Call.Reply in modules and BeTree.Journal.Segment in modules
    assert Enum.reject(modules, &private?/1) == []
  end

  test "no cycle of files but a behaviour and its implementations" do
    output = capture_io(fn -> Mix.Task.rerun("xref", ["graph", "--format", "cycles"]) end)
    cycles = output |> String.split(~r/^Cycle of length.*$/m) |> tl() |> Enum.map(&files/1)
    assert Enum.any?(cycles, &("lib/be_tree/runtime.ex" in &1 and "lib/be_tree/runtime/wasmtime.ex" in &1))
    by_source = Enum.group_by(modules(), &source/1)
    assert Enum.reject(cycles, &behaviour?(&1, by_source)) == []
  end

  defp files(cycle) do
    ~r/^ +(\S+\.ex)\b/m |> Regex.scan(cycle, capture: :all_but_first) |> List.flatten() |> Enum.uniq() |> Enum.sort()
  end

  defp behaviour?(cycle, by_source) do
    Enum.any?(cycle, fn file -> Enum.all?(cycle -- [file], &implements?(by_source[&1], by_source[file])) end)
  end

  defp implements?(modules, behaviours) do
    Enum.any?(modules, fn module ->
      Enum.any?(module.module_info(:attributes)[:behaviour] || [], &(&1 in behaviours))
    end)
  end

  # What ex_doc makes links of, with the modules and functions that it documents.
  test "the documentation names no module, function or callback that is not documented" do
    documented = for module <- modules(), String.starts_with?(source(module), "lib/"), not private?(module), do: module
    targets = documented |> Enum.flat_map(&targets/1) |> MapSet.new()
    assert "BeTree.search/3" in targets and "c:BeTree.Runtime.call/4" in targets

    broken =
      for module <- documented,
          text <- texts(module),
          [name] <-
            Regex.scan(~r/`((?:[ct]:)?[A-Za-z_.]*[A-Za-z_!?]\/\d|BeTree[A-Za-z.]*)`/, text, capture: :all_but_first),
          name =~ ~r/BeTree|^[ct]:|^[a-z_!?]+\//,
          name not in targets and qualified(module, name) not in targets and not elsewhere?(name),
          do: {module, name}

    assert broken == []
  end

  defp texts(module) do
    {:docs_v1, _, _, _, text, _, entries} = Code.fetch_docs(module)
    for text <- [text | Enum.map(entries, &elem(&1, 3))], is_map(text), do: text["en"]
  end

  defp targets(module) do
    {:docs_v1, _, _, _, _text, _, entries} = Code.fetch_docs(module)

    names =
      for {{kind, name, arity}, _, _, text, metadata} <- entries,
          text != :hidden,
          fewer <- 0..(metadata[:defaults] || 0) do
        prefix = %{callback: "c:", type: "t:", opaque: "t:"}[kind]
        "#{prefix}#{inspect(module)}.#{name}/#{arity - fewer}"
      end

    [inspect(module) | names]
  end

  defp qualified(module, name) do
    case String.split(name, ":", parts: 2) do
      [prefix, local] -> "#{prefix}:#{inspect(module)}.#{local}"
      [local] -> "#{inspect(module)}.#{local}"
    end
  end

  # Exports of WebAssembly modules and functions of Elixir's own.
  defp elsewhere?(name), do: name in ["is_reference/1", "be_tree/1"]
end
