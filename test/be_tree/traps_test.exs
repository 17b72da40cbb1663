defmodule BeTree.TrapsTest do
  # A search that traps anywhere resumes as docs/abi.md specifies. An exhausted budget is such a trap: the instance stays as
  # the last instruction left it, and the host restores the stack pointer.
  use ExUnit.Case, async: true

  alias BeTree.{Event, Runtime.Wasmtime}

  @request %{input: nil, output: :binary, fuel: :infinity, slice: :infinity, scheduler: :normal}
  @schema [
    a: :integer,
    b: {:boolean, optional: true},
    s: {:string, optional: true},
    l: {:integer_list, optional: true},
    t: {:string_list, optional: true}
  ]

  # Unsorted ids, so the result is sorted, and expressions for every part of the index.
  defp tree do
    expressions = fn i ->
      ["a > #{i}", "b", "not b", "s = 'x#{i}' or contains(s, 'ell')", "l one of (#{i}, 3)", "not (a > #{i} and b)"]
    end

    tree = BeTree.new!(@schema)
    BeTree.insert_all!(tree, for(i <- 1..40, do: {rem(i * 7919, 1000), Enum.at(expressions.(i), rem(i, 6))}))
    tree
  end

  @events [
    terms: %{a: 33, b: true, s: "hello", l: [3, 2, 1]},
    escapes: {:json, ~S({"a": 3, "s": "h\u0065llo\n", "t": ["\t\"", "x"], "unknown": [[[{"q": [1]}]]]})},
    latin_1: %{a: 1, s: :héllo},
    refused: %{b: true},
    mistyped: {:json, ~S({"a": "x"})},
    malformed: {:json, ~S({"a": "x\n)}
  ]

  for {name, event} <- @events, ids <- [nil, [910, 1, 838, 919]] do
    @tag event: event, ids: ids
    test "#{name} with #{if ids, do: "some", else: "all"} ids trapped at every unit of fuel", %{event: event, ids: ids} do
      check(event, ids, &(1..&1))
    end
  end

  # Larger than the preallocated memory of searches.
  @large %{a: 3, l: for(i <- 1..4_000, do: i * 1_000_003), t: for(i <- 1..1_000, do: "s#{i}")}

  test "a large event trapped at a hundred places" do
    check(@large, nil, &(1..&1//div(&1, 100)))
  end

  test "a large event with ids: trapped at a hundred places" do
    check(@large, for(i <- 1..3_000, do: rem(i, 1_100)), &(1..&1//div(&1, 100)))
  end

  test "a batch trapped at twenty places" do
    frames =
      for event <- [@events[:terms], @events[:escapes], @events[:latin_1], @events[:terms]], into: "" do
        {:ok, format, bytes} = Event.encode(event)
        <<format::little-32, byte_size(bytes)::little-32, bytes::binary>>
      end

    for form <- [0, 1] do
      check("be_tree_search_many", [7, 4, byte_size(frames), -1, form], frames, &(1..&1//div(&1, 20)))
    end
  end

  test "preparing an event trapped at every seventh unit of fuel" do
    {:ok, format, bytes} = Event.encode(@events[:escapes])
    check("be_tree_prepare", [format, byte_size(bytes)], bytes, &(1..&1//7))
  end

  defp check(event, ids, places) do
    {:ok, format, bytes} = Event.encode(event)
    packed = for id <- ids || [], into: "", do: <<id::little-64>>
    ids_length = if ids, do: byte_size(packed), else: -1
    check("be_tree_search", [format, byte_size(bytes), ids_length, 0], bytes <> packed, places)
  end

  defp check(export, arguments, input, places) do
    tree = tree()

    search = %{
      instance: tree.instance,
      outbox: outbox(tree.instance),
      export: export,
      arguments: arguments,
      input: input
    }

    # The first search allocates for later ones.
    {:done, _status, _found, _fuel} = start(search, :infinity)
    {:done, status, found, fuel} = start(search, :infinity)
    memory = Wasmtime.info(tree.instance).memory

    for first <- places.(fuel) do
      assert {first, finish(search, first, :infinity)} == {first, {status, found}}
      assert {first, finish(search, first, first)} == {first, {status, found}}
    end

    # The interrupted search left no partial state.
    assert {:done, ^status, ^found, ^fuel} = start(search, :infinity)
    assert Wasmtime.info(tree.instance).memory == memory
    BeTree.insert_all!(tree, for(i <- 1..500, do: {2_000 + i, "a > #{i} or contains(s, '#{i}')"}))
    for i <- 1..500, do: BeTree.delete!(tree, 2_000 + i)
    {:done, ^status, later, _fuel} = start(search, :infinity)
    if export == "be_tree_search", do: assert(without_counts(status, later) == without_counts(status, found))
  end

  # Changes may leave other entries to visit.
  defp without_counts(0, <<_visited::64, _evaluated::64, ids::binary>>), do: ids
  defp without_counts(1, refusal), do: refusal

  # Runs a search with `first` fuel, then `later` fuel for each resumption, doubled without progress.
  defp finish(search, first, later), do: go_on(start(search, first), search, later, 0)

  defp go_on({:done, status, found, _fuel}, _search, _later, _before), do: {status, found}

  defp go_on({:error, %{kind: :out_of_fuel}}, search, later, before) do
    progress = progress(search)
    later = if progress == before and later != :infinity, do: 2 * later, else: later
    next = if progress == 0, do: start(search, later), else: call(search.instance, "be_tree_resume", [], fuel: later)
    go_on(next, search, later, progress)
  end

  defp start(search, fuel),
    do: call(search.instance, search.export, search.arguments, input: search.input, fuel: fuel)

  defp progress(search) do
    {:ok, <<progress::little-32>>} = Wasmtime.read(search.instance, search.outbox + 8, 4)
    progress
  end

  defp outbox(instance) do
    {:done, address, nil, _fuel} = call(instance, "be_tree_outbox", [], output: :none)
    address
  end

  defp call(instance, export, arguments, changes) do
    Wasmtime.call(instance, export, arguments, Map.merge(@request, Map.new(changes)))
  end

  test "resume is refused before a search and after it" do
    tree = tree()

    for _ <- 1..2 do
      assert {:done, 1, refusal, _fuel} = call(tree.instance, "be_tree_resume", [], [])
      assert BeTree.Call.Reply.refusal(refusal).kind == :not_found
      assert {:ok, [_ | _]} = BeTree.search(tree, %{a: 33})
    end
  end
end
