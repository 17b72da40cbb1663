defmodule BeTree.ImagesElsewhereTest do
  # Images in WebAssembly runtimes of other languages: the programs of examples/images and the package clients/go find the ids
  # that this library finds. `make test PART=runtimes` installs the runtimes and builds the portable module.
  use ExUnit.Case, async: false

  alias BeTree.{Files, Guest, Image, ImagePrograms, Release, Workload}
  alias BeTree.Test.{Json, Language}

  @moduletag :foreign
  @moduletag timeout: :infinity

  # erl-be-tree's files lie beside some checkouts and are not part of this project.
  @data Path.expand("../../../shared/data", __DIR__)

  @megabyte 1_048_576

  setup_all do
    folder = Path.join(Mix.Project.build_path(), "runtimes")
    File.rm_rf!(folder)
    File.mkdir_p!(folder)
    ImagePrograms.build!()
    {:ok, portable} = Guest.load(Mix.BeTree.PortableGuest.read!())
    guests = [fast: nil, portable: portable]
    corpora = [language(), ads(folder)] ++ real_data()
    %{folder: folder, corpora: for(corpus <- corpora, do: write(corpus, guests, folder))}
  end

  ## What is searched: a schema, subscriptions, and events as lines of JSON

  # Every predicate of the language.
  defp language do
    events = for {_expression, event, _holds} <- Language.rows(), uniq: true, do: line(event)
    {"language", Language.schema(), Language.subscriptions(), events}
  end

  # Ad targeting. Some of the events are wrong, and are refused.
  defp ads(folder) do
    files = Workload.write(Workload.W3, %{Workload.W3.defaults() | expressions: 3_000, events: 2_000}, folder)
    {:ok, schema, subscriptions} = Files.load(files.expressions, schema: files.schema, constants: files.constants)
    schema = [%BeTree.Domain{name: "required", type: :boolean} | schema]
    good = ~s({"required": true})

    events =
      for <<"{", rest::binary>> <- File.stream!(files.events), do: ~s({"required": true, ) <> String.trim_trailing(rest)

    long = ~s({"unknown": ") <> String.duplicate("a", 3 * @megabyte) <> ~s(", "required": true})
    wrong = ["{", "[]", "\"\"", ~s({"required": 1}), "{}", ~s({"required": true}}), <<255>>, long]
    {"ads", schema, subscriptions, Enum.flat_map(wrong, &[&1, good]) ++ events}
  end

  defp real_data do
    if File.dir?(@data) do
      {:ok, schema, subscriptions} = Files.load(Path.join(@data, "P_20_Ex_300.txt"))
      events = for {event, _line} <- Files.events(Path.join(@data, "P_20_Ev_3_000.txt")), do: line(named(event, schema))
      [{"real", schema, subscriptions, events}]
    else
      []
    end
  end

  defp named({:record, values}, schema), do: schema |> Enum.map(& &1.name) |> Enum.zip(values)
  defp named(event, _schema), do: event

  # Strings have no line breaks, so those between tokens can be replaced.
  defp line(event) do
    pairs = for {name, value} <- event, do: {to_string(name), value}
    pairs |> Json.encode() |> String.replace(["\n", "\r"], " ")
  end

  defp write({name, schema, subscriptions, events}, guests, folder) do
    events_path = Path.join(folder, name <> ".events")
    File.write!(events_path, Enum.map(events, &[&1, ?\n]))

    images =
      for {build, guest} <- guests, into: %{} do
        tree = BeTree.new!(schema, guest: guest)
        BeTree.insert_all!(tree, subscriptions)
        path = Path.join(folder, "#{name}.#{build}.wasm")
        Image.write!(tree, path)
        {build, path}
      end

    %{name: name, images: images, events: events_path, expected: expected(images.fast, events)}
  end

  defp expected(image, events) do
    index = Image.read!(image)
    Enum.map(events, &result(BeTree.search(index, {:json, &1})))
  end

  defp result({:ok, ids}), do: "[" <> Enum.join(ids, ",") <> "]"
  defp result({:error, error}), do: "refused: #{error.kind}"

  ## The programs

  for {runtime, build} <- ImagePrograms.all() do
    test "#{runtime} finds the ids of this library in the #{build} image, and refuses what it refuses", %{
      corpora: corpora
    } do
      for corpus <- corpora do
        {status, errors, lines, _time} =
          ImagePrograms.run(unquote(runtime), corpus.images[unquote(build)], corpus.events)

        assert {corpus.name, status, errors} == {corpus.name, 0, ""}
        assert length(lines) == length(corpus.expected)

        assert Enum.reject(Enum.zip([1..length(lines), lines, corpus.expected]), fn {_at, found, right} ->
                 found == right
               end) == []
      end
    end
  end

  test "this library finds the same ids in the portable image", %{corpora: corpora} do
    for %{name: name, images: images, events: events, expected: expected} <- corpora do
      lines = events |> File.read!() |> String.split("\n", trim: true)
      assert {name, expected(images.portable, lines)} == {name, expected}
    end
  end

  test "the events of ads are refused for several reasons", %{corpora: corpora} do
    kinds = for %{expected: lines} <- corpora, "refused: " <> kind <- lines, uniq: true, do: kind
    assert Enum.all?(~w(missing_attribute syntax type), &(&1 in kinds))
  end

  test "the JVM's runtime refuses the image that is not portable", %{corpora: [language | _others]} do
    {status, errors, lines, _time} = ImagePrograms.run(:java, language.images.fast, language.events)
    assert status != 0 and lines == []
    assert errors =~ "Unhandled opcode"
  end

  for {runtime, build} <- ImagePrograms.all(), runtime != :node do
    test "#{runtime} refuses an event for which the memory of the #{build} image does not suffice", context do
      [language | _others] = context.corpora
      image = language.images[unquote(build)]
      events = Path.join(context.folder, "large.events")
      File.write!(events, [~s({"s": "), String.duplicate("a", 32 * @megabyte), ~s("}\n), "{}\n"])
      {:ok, ids} = BeTree.search(Image.read!(image), {:json, "{}"})
      limit = Image.info!(image).memory + 16 * @megabyte
      {status, errors, lines, _time} = ImagePrograms.run(unquote(runtime), image, events, limit)
      assert {status, errors} == {0, ""}
      assert lines == ["refused: out_of_memory", result({:ok, ids})]
    end
  end

  test "the package for Go passes its tests", %{folder: folder, corpora: [language | _others]} do
    slow = Path.join(folder, "slow.wasm")
    Image.write!(slow_index(), slow)
    variables = [{"BE_TREE_IMAGE", language.images.portable}, {"BE_TREE_SLOW_IMAGE", slow}]

    {output, status} =
      System.cmd(Path.expand("scripts/go"), ~w(test -C clients/go -v -count=1 ./...),
        env: variables,
        stderr_to_stdout: true
      )

    assert status == 0, output
    refute output =~ "SKIP"
  end

  # A search for a string of some megabytes takes minutes, because each expression reads the whole string.
  defp slow_index do
    tree = BeTree.new!(s: :string)
    BeTree.insert_all!(tree, for(id <- 1..2_000, do: {id, "s not like '*a?c#{id}*b?d#{id}*'"}))
    tree
  end

  test "the package of a release has the portable module", %{folder: folder} do
    archive = Release.package(Path.join(folder, "release"))
    {:ok, paths} = archive |> String.to_charlist() |> :erl_tar.table([:compressed])

    for name <- ["be_tree_portable.wasm", "be_tree_portable.wasm.sha256"] do
      assert Enum.any?(paths, &String.ends_with?(to_string(&1), "/priv/" <> name))
    end
  end

  test "mix be_tree.image build --portable writes a portable image", %{folder: folder} do
    expressions = Path.join(folder, "exprs")
    [schema, image, events] = for name <- ["defs", "task.wasm", "task.events"], do: Path.join(folder, name)
    File.write!(schema, "age|integer|false\n")
    File.write!(expressions, "age > 3\nage > 30\n")
    File.write!(events, ~s({"age": 7}\n))

    Mix.Task.rerun("be_tree.image", [
      "build",
      "--portable",
      "--schema",
      schema,
      "--expressions",
      expressions,
      "--out",
      image
    ])

    assert {0, "", ["[1]"], _time} = ImagePrograms.run(:java, image, events)
    assert BeTree.search(Image.read!(image), %{age: 7}) == {:ok, [1]}
  end
end
