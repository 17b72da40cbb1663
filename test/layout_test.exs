defmodule BeTree.LayoutTest do
  # The files are laid out as docs/contributing/architecture.md says.
  use ExUnit.Case, async: true

  import ExUnit.CaptureIO

  defp modules do
    {:ok, modules} = :application.get_key(:be_tree, :modules)
    modules
  end

  defp source(module), do: module.module_info(:compile)[:source] |> List.to_string() |> Path.relative_to_cwd()

  defp private?(module), do: match?({:docs_v1, _, _, _, :hidden, _, _}, Code.fetch_docs(module))

  # Modules that stand directly in lib/be_tree, and are private all the same.
  @private [BeTree.Application, BeTree.Journal, BeTree.Target]

  # Folders without a public module.
  @private_folders ["call", "input", "journal", "processes", "target"]

  test "modules directly in lib/be_tree are public, except the application, the journal and the protocol" do
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

  # The folders of lib/be_tree from the lowest to the highest. The file of the same name counts to the folder.
  @layers ~w(stats error input processes target telemetry journal domain pattern fuel runtime event guest call explanation search
             tree index sandbox profile image be_tree files server cluster output pub_sub rules tenants gauges live_dashboard tune test
             encoders application)

  test "folders use lower folders only" do
    arrows =
      for {from, to} <- imports(), user = folder(from), used = folder(to), user != used, uniq: true, do: {user, used}

    assert length(arrows) > 100
    assert arrows |> Enum.flat_map(&Tuple.to_list/1) |> Enum.uniq() |> Enum.reject(&(&1 in @layers)) == []
    rank = @layers |> Enum.with_index() |> Map.new()
    assert arrows |> Enum.filter(fn {user, used} -> rank[used] > rank[user] end) == []
  end

  defp folder(file) do
    case Path.split(file) do
      ["lib", "be_tree.ex"] -> "be_tree"
      ["lib", "be_tree", first | _rest] -> Path.rootname(first)
      _other -> nil
    end
  end

  test "no cycle of files but a behaviour and its implementations" do
    graph = :digraph.new()

    for {from, to} <- imports() do
      for file <- [from, to], do: :digraph.add_vertex(graph, file)
      :digraph.add_edge(graph, from, to)
    end

    cycles = :digraph_utils.cyclic_strong_components(graph)
    assert Enum.any?(cycles, &("lib/be_tree/runtime.ex" in &1 and "lib/be_tree/runtime/wasmtime.ex" in &1))
    by_source = Enum.group_by(modules(), &source/1)
    assert Enum.reject(cycles, &behaviour?(&1, by_source)) == []
  end

  # Pairs of a file and a file that it uses. Without protocols: a protocol names its implementations, and does not depend on them.
  defp imports do
    output = capture_io(fn -> Mix.Task.rerun("xref", ["graph"]) end)

    protocols =
      for module <- modules(),
          Code.ensure_loaded?(module),
          function_exported?(module, :__protocol__, 1),
          do: source(module)

    {_file, pairs} =
      output
      |> String.split("\n", trim: true)
      |> Enum.reduce({nil, []}, fn line, {file, pairs} ->
        case Regex.run(~r/^([├└]── )?(\S+\.ex)\b/u, line, capture: :all_but_first) do
          ["", file] -> {file, pairs}
          [_branch, used] -> {file, [{file, used} | pairs]}
          nil -> {file, pairs}
        end
      end)

    for {file, _used} = pair <- pairs, file not in protocols, do: pair
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
  test "the documentation names only documented modules, functions and callbacks" do
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
