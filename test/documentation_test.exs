defmodule BeTree.DocumentationTest do
  # The documentation as ExDoc publishes it, checked without ExDoc: `make test PART=docs` opens its pages in a browser.
  use ExUnit.Case, async: true

  alias BeTree.Test.Published

  # Pages of ExDoc itself.
  @reserved ~w(404 api-reference index search)
  # Only a checkout has them. They are read where they are.
  @unpublished for pattern <- [
                     "*/README.md",
                     "{clients,examples,plugins,wasm}/*/README.md",
                     "wasm/index/src/**/README.md"
                   ],
                   path <- Path.wildcard(pattern),
                   not String.contains?(path, ["_build", "target", "node_modules"]),
                   do: path

  describe "extras" do
    test "have every page of docs/ and every notebook, once, each in a group" do
      pages = Path.wildcard("docs/**/*.md") ++ Path.wildcard("notebooks/*.livemd")
      extras = Published.pages()
      assert extras == Enum.uniq(extras)
      assert pages -- extras == []
      assert Enum.reject(extras, &File.regular?/1) == []
      assert extras -- Enum.flat_map(Published.config()[:groups_for_extras], &elem(&1, 1)) == ["README.md"]
    end

    test "have the order of the README" do
      links =
        Regex.scan(~r"\]\(((?:docs/(?:guides|operating)|notebooks)/[^)#]+)\)", after_heading("README.md", "Read on"))

      named = for([_all, path] <- links, do: path)
      assert Enum.filter(Published.pages(), &(&1 in named)) == order(named)
    end

    test "have names of their own, because each becomes NAME.html" do
      names = for path <- Published.pages(), do: path |> Path.basename() |> Path.rootname() |> String.downcase()
      assert names -- Enum.uniq(names) == []
      assert Enum.filter(names, &(&1 in @reserved)) == []
    end
  end

  # Guides, then pages for operators, then notebooks.
  defp order(paths),
    do:
      Enum.sort_by(
        paths,
        &Enum.find_index(["docs/guides", "docs/operating", "notebooks"], fn folder -> Path.dirname(&1) == folder end)
      )

  defp after_heading(path, heading), do: path |> File.read!() |> String.split("\n## #{heading}\n") |> List.last()

  test "every public module is in a group" do
    groups = Published.config()[:groups_for_modules]

    lost =
      for module <- Published.modules(),
          not String.starts_with?(inspect(module), "Mix."),
          not Enum.any?(groups, fn {_group, modules} -> in_group?(modules, module) end),
          do: module

    assert lost == []
  end

  defp in_group?(%Regex{} = pattern, module), do: inspect(module) =~ pattern
  defp in_group?(modules, module), do: module in modules

  test "links between pages lead to a published page, and to a heading in it" do
    faults =
      for path <- Published.pages(), link <- links(File.read!(path)), fault = published_fault(path, link) do
        "#{path}: #{link}: #{fault}"
      end

    assert faults == []
  end

  test "links of pages that only a checkout has lead to a file, and to a heading in it" do
    assert length(@unpublished) > 5

    faults =
      for path <- @unpublished, link <- links(File.read!(path)), fault = checkout_fault(path, link) do
        "#{path}: #{link}: #{fault}"
      end

    assert faults == []
  end

  # ExDoc finds a page by the name of its file.
  test "links in the documentation of modules lead to a published page, or to a heading of the module" do
    paths = Map.new(Published.pages(), &{Path.basename(&1), &1})

    faults =
      for module <- Published.modules(),
          {name, text} <- Published.texts(module),
          link <- links(text),
          [file | rest] = String.split(link, "#"),
          fault =
            if(file == "",
              do: module_fault(module, rest),
              else: published_fault("README.md", Enum.join([paths[file] || file | rest], "#"))
            ) do
        "#{name}: #{link}: #{fault}"
      end

    assert faults == []
  end

  test "a dead link, a dead heading and an unpublished page are found" do
    assert published_fault("README.md", "docs/guides/none.md") == "no such page"
    assert published_fault("README.md", "bench/README.md") == "no such page"
    assert published_fault("README.md", "docs/guides/image.md#none") == "no such heading"
    assert published_fault("docs/guides/image.md", "#none") == "no such heading"
    assert published_fault("docs/guides/image.md", "../../README.md#playground") == nil
    assert published_fault("README.md", "docs/images/none.png") == "no such picture"
    assert published_fault("README.md", "wasm/none.png") == "no such picture"
    assert checkout_fault("bench/README.md", "../none") == "no such file"
    assert checkout_fault("bench/README.md", "#none") == "no such heading"
    assert module_fault(BeTree, ["module-none"]) == "no such heading"
  end

  defp links(text) do
    for [_all, link] <- Regex.scan(~r/\]\(([^()\s]+)\)/, without_code(text)), not (link =~ ~r/^([a-z]+:|`)/), do: link
  end

  defp without_code(text) do
    text |> without_blocks() |> String.replace(~r/`[^`\n]*`/, "``")
  end

  defp without_blocks(text), do: String.replace(text, ~r/^```.*?^```$/ms, "")

  defp published_fault(page, link) do
    {path, heading} = target(page, link)

    cond do
      Path.extname(path) in [".png", ".svg", ".jpg"] -> if picture?(link, path), do: nil, else: "no such picture"
      path not in Published.pages() -> "no such page"
      heading == nil or heading in Enum.map(headings(path), &slug/1) -> nil
      true -> "no such heading"
    end
  end

  defp checkout_fault(page, link) do
    {path, heading} = target(page, link)

    cond do
      not File.exists?(path) -> "no such file"
      heading == nil or heading in Enum.map(headings(path), &forge_slug/1) -> nil
      true -> "no such heading"
    end
  end

  defp module_fault(module, ["module-" <> heading]) do
    [{_name, text} | _functions] = Published.texts(module)
    if heading in Enum.map(titles(text), &slug/1), do: nil, else: "no such heading"
  end

  defp target(page, link) do
    case String.split(link, "#") do
      ["", heading] ->
        {page, heading}

      [path | heading] ->
        {page |> Path.dirname() |> Path.join(path) |> Path.expand() |> Path.relative_to_cwd(), List.first(heading)}
    end
  end

  # In a browser all pages are in one folder, and pictures where `assets:` puts them.
  defp picture?(link, path) do
    File.regular?(path) and Map.get(Published.config()[:assets], Path.dirname(path)) == Path.dirname(link)
  end

  defp headings(path), do: path |> File.read!() |> titles()
  defp titles(text), do: for([_all, title] <- Regex.scan(~r/^#+ (.+)$/m, without_blocks(text)), do: title)

  # ExDoc's name of a heading.
  defp slug(title), do: title |> String.replace(~r/\W+/u, "-") |> String.trim("-") |> String.downcase()

  # The name of a heading where the repository is browsed.
  defp forge_slug(title) do
    title |> String.downcase() |> String.replace(~r/[^\w\- ]/u, "") |> String.replace(" ", "-")
  end

  test "code in the text names public modules, functions and types" do
    pages = for path <- Published.pages(), path != "CHANGELOG.md", do: {path, File.read!(path)}
    texts = pages ++ for module <- Published.modules(), text <- Published.texts(module), do: text
    skipped = Published.config()[:skip_code_autolink_to]

    faults =
      for {name, text} <- texts,
          [_all, code] <- Regex.scan(~r/`(?:[tc]:)?([^`\n]+)`/, without_blocks(text)),
          code not in skipped,
          unknown?(code),
          uniq: true,
          do: "#{name}: #{code}"

    assert faults == []
  end

  test "an unknown module, a hidden one, and an unknown function are found" do
    for code <- ~w(BeTree.None BeTree.Journal BeTree.none/1 BeTree.insert/9 BeTree.None.insert/3),
        do: assert(unknown?(code))

    for code <- ["BeTree", "BeTree.insert/3", "BeTree.insert/4", "BeTree.Search", "age >= 3"],
        do: refute(unknown?(code))
  end

  # A name of BeTree that ExDoc would make a link of.
  defp unknown?(code) do
    case Regex.run(~r/^((?:BeTree)(?:\.[A-Z]\w*)*|:erl_betree)(?:\.([a-z_]\w*[?!]?)\/(\d+))?$/, code,
           capture: :all_but_first
         ) do
      [module] -> not Published.public?(module(module))
      [module, name, arity] -> not function?(module(module), name, String.to_integer(arity))
      nil -> false
    end
  end

  defp module(":" <> name), do: String.to_atom(name)
  defp module(name), do: Module.concat([name])

  defp function?(module, name, arity),
    do: Published.public?(module) and Published.has?(module, String.to_atom(name), arity)

  test "an example stands behind text, not behind a list, which would take it in" do
    faults = for module <- Published.modules(), {name, text} <- Published.texts(module), listed_example?(text), do: name

    assert faults == []
  end

  test "an example behind a list is found" do
    assert listed_example?("Text\n\n  * item\n    goes on\n\n      iex> 1\n")
    assert listed_example?("Text\n\n- item\n\n      iex> 1\n")
    refute listed_example?("Text\n\n  * item\n\nAn example:\n\n    iex> 1\n")
    refute listed_example?("  * item\n\n## Examples\n\n    iex> 1\n")
  end

  # A paragraph without indentation ends a list.
  defp listed_example?(text) do
    text
    |> String.split(~r/\n\s*\n/)
    |> Enum.reduce_while(false, fn block, list? ->
      cond do
        block =~ ~r/^\s*([*-]|\d+\.) /m -> {:cont, true}
        list? and block =~ ~r/\A\s*iex>/ -> {:halt, :found}
        block =~ ~r/\A\S/ -> {:cont, false}
        true -> {:cont, list?}
      end
    end)
    |> Kernel.==(:found)
  end

  test "public types and specifications use public types" do
    faults =
      for module <- Published.modules(),
          {name, type} <- types(module) ++ specifications(module),
          {used, of, arity} <- remote_types(type),
          String.starts_with?(inspect(used), ["BeTree", "ErlBetree", ":erl_betree"]),
          not (Published.public?(used) and Published.has?(used, of, arity)),
          do: "#{inspect(module)}.#{name}: #{inspect(used)}.#{of}"

    assert faults == []
  end

  # The definition of an opaque type is not published.
  defp types(module) do
    {:ok, types} = Code.Typespec.fetch_types(module)
    for {:type, {name, type, _arguments}} <- types, do: {name, type}
  end

  defp specifications(module) do
    {:ok, specifications} = Code.Typespec.fetch_specs(module)
    {:ok, callbacks} = Code.Typespec.fetch_callbacks(module)

    for {{name, arity}, specification} <- specifications ++ callbacks, Published.has?(module, name, arity) do
      {name, specification}
    end
  end

  defp remote_types({:remote_type, _, [{:atom, _, module}, {:atom, _, name}, arguments]}) do
    [{module, name, length(arguments)} | remote_types(arguments)]
  end

  defp remote_types(list) when is_list(list), do: Enum.flat_map(list, &remote_types/1)
  defp remote_types(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> remote_types()
  defp remote_types(_other), do: []
end
