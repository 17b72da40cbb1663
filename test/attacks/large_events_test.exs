defmodule BeTree.Attacks.LargeEventsTest do
  # Events and results of megabytes. The host copies them in parts and yields in between. With slices of unlimited length
  # every yield of a call comes from copying.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  import BeTree.WasmModule

  alias BeTree.{Error, Event, Search}
  alias BeTree.Runtime.Native
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.Attack

  @moduletag timeout: :infinity
  @moduletag runtime: Wasmtime

  # Bytes of one copied part.
  @part_bytes 262_144
  # More fuel than any search burns.
  @unlimited_fuel 1_000_000_000_000

  setup do
    tree = BeTree.new!([s: {:string, optional: true}, l: {:integer_list, optional: true}], memory: 2_000_000_000)
    BeTree.insert_all!(tree, [{1, "s is null"}, {2, "not (s is null)"}, {3, "7 in l"}])
    size = Attack.size(8_000_000, 100_000_000)
    text = String.duplicate("x", size)
    {:ok, tree: tree, size: size, text: text}
  end

  defp run(answer, yields \\ 0)
  defp run({:yield, search}, yields), do: run(Search.resume(search), yields + 1)
  defp run({:done, found, stats}, yields), do: {found, stats.fuel, yields}

  test "an event copied in parts is matched like one copied at once", %{tree: tree, text: text, size: size} do
    numbers = Enum.to_list(1..div(size, 10))
    {:ok, prepared} = Event.prepare(tree, %{s: text})

    events = [
      {{:json, ~s({"s":"#{text}"})}, [2]},
      {%{s: text, l: [7]}, [2, 3]},
      {%{l: numbers}, [1, 3]},
      {{:record, [text, :undefined]}, [2]},
      {{:records, [{:r, text}]}, [2]},
      {prepared, [2]}
    ]

    for {event, ids} <- events, options <- [[], [ids: [1, 2, 3]]] do
      {:ok, _format, bytes} = Event.encode(event)
      # The second event finds the inbox as large as the first left it.
      for _ <- 1..2 do
        assert {^ids, _fuel, yields} = run(Search.start(tree, event, [slice: @unlimited_fuel] ++ options))
        assert yields >= div(byte_size(bytes), @part_bytes)
        assert {^ids, _fuel, 0} = run(Search.start(tree, event, [slice: :infinity] ++ options))
      end

      assert BeTree.search_many(tree, [event, %{l: [7]}, event], options) == {:ok, [ids, [1, 3], ids]}
    end
  end

  test "a search killed between two parts leaves a usable tree without the event", context do
    %{tree: tree, text: text, size: size} = context
    :erlang.garbage_collect()
    before = :erlang.memory(:binary)

    for steps <- [0, 1, 2, 5, div(size, @part_bytes) - 1, div(size, @part_bytes), div(3 * size, 2 * @part_bytes)] do
      {pid, monitor} =
        spawn_monitor(fn ->
          first = Search.start(tree, %{s: text}, slice: @unlimited_fuel)
          Enum.reduce(Stream.duplicate(nil, steps), first, fn nil, {:yield, search} -> Search.resume(search) end)
          Process.exit(self(), :kill)
        end)

      assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, 60_000
      eventually(fn -> Wasmtime.info(tree.instance).state == :free end)
      assert BeTree.search(tree, %{l: [7]}) == {:ok, [1, 3]}
    end

    eventually(fn ->
      # This process may still hold a call of its own that has ended.
      :erlang.garbage_collect()
      elem(Native.counts(), 2) == 0
    end)

    eventually(fn -> :erlang.memory(:binary) < before + div(size, 2) end)
  end

  test "results of every form are copied in parts" do
    tree = BeTree.new!([a: :integer], memory: 2_000_000_000)
    count = Attack.size(100_000, 2_000_000)
    ids = Enum.to_list(1..count)
    for chunk <- Enum.chunk_every(ids, 100_000), do: BeTree.insert_all!(tree, for(id <- chunk, do: {id, "a > 1"}))
    binary = for id <- ids, into: "", do: <<id::little-64>>

    for {form, found} <- [list: ids, binary: binary] do
      assert {^found, fuel, yields} = run(Search.start(tree, %{a: 2}, as: form, slice: @unlimited_fuel))
      assert yields >= div(8 * count, @part_bytes)
      assert {^found, ^fuel, 0} = run(Search.start(tree, %{a: 2}, as: form, slice: :infinity))
      none = if form == :list, do: [], else: ""
      events = [%{a: 1}, %{a: 2}, %{a: 1}, %{a: 3}]
      assert BeTree.search_many(tree, events, as: form) == {:ok, [none, found, none, found]}
    end

    {:ok, bitmap} = BeTree.search(tree, %{a: 2}, as: :bitmap)
    assert bitmap |> :binary.decode_unsigned(:little) |> Integer.digits(2) |> Enum.sum() == count
  end

  test "a result of too many lists is refused" do
    # The outbox returns this value as that many lists.
    for {value, lists} <- [{0, 10_000}, {100, 400}, {9_000, 5}] do
      expected = List.duplicate(List.duplicate(value, value), lists)
      words = lists * (value + 1)
      assert {:done, [], ^expected, _fuel} = outbox(value, words, :u64_lists)
      packed = for list <- expected, do: for(word <- list, into: "", do: <<word::little-64>>)
      assert {:done, [], ^packed, _fuel} = outbox(value, words, :u64_binaries)
    end

    for output <- [:u64_lists, :u64_binaries] do
      assert {:error, %Error{kind: :bad_module, message: message}} = outbox(0, 10_001, output)
      assert message =~ "more than 10000 lists"
    end
  end

  # The kernel clears a large page in one piece when it is first written.
  if File.dir?("/sys/kernel/mm/transparent_hugepage") do
    test "a large event grows the memory by small pages", %{tree: tree, text: text, size: size} do
      before = in_small_pages()
      assert BeTree.search(tree, %{s: text}) == {:ok, [2]}

      assert [address] =
               for({address, bytes} <- in_small_pages(), bytes >= size, not is_map_key(before, address), do: address)

      # Another large event adds no mapping.
      {mappings, _descriptors} = Native.taken()
      assert BeTree.search(tree, %{s: text <> text}) == {:ok, [2]}
      assert in_small_pages()[address] >= 2 * size
      eventually(fn -> match?({^mappings, _descriptors}, Native.taken()) end)
    end

    # Returns the resident bytes of each mapping marked for small pages, by address.
    defp in_small_pages do
      for mapping <- maps(), mapping =~ ~r/^VmFlags:.* nh\b/m, into: %{} do
        [_line, kilobytes] = Regex.run(~r/^Rss: +(\d+) kB/m, mapping)
        {mapping |> String.split("-") |> hd(), 1024 * String.to_integer(kilobytes)}
      end
    end

    # Returns the lines of each mapping of this process.
    defp maps, do: "/proc/self/smaps" |> File.read!() |> String.split(~r/^(?=[0-9a-f]+-[0-9a-f]+ )/m, trim: true)
  end

  # Returns the outcome of a call whose outbox has `words` words of this value.
  defp outbox(value, words, output) do
    bytes = :binary.copy(<<value::little-64>>, words)
    outbox = <<16::little-32, byte_size(bytes)::little-32>>
    functions = [function("outbox", [], [:i32], i32_const(0)), function("answer", [], [], nop())]

    wasm =
      assemble(memory: {div(byte_size(bytes), 65_536) + 1, nil}, data: [{0, outbox}, {16, bytes}], functions: functions)

    {:ok, module} = Wasmtime.load(wasm)
    {:ok, instance} = Wasmtime.instantiate(module, memory: 100_000_000, outbox: "outbox")
    request = %{input: nil, output: output, fuel: :infinity, slice: @unlimited_fuel, scheduler: :normal}
    instance |> Wasmtime.invoke("answer", [], request) |> ended()
  end

  defp ended({:yield, suspended, _fuel}), do: ended(Wasmtime.continue(suspended))
  defp ended(answer), do: answer
end
