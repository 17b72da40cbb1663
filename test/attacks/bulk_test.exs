defmodule BeTree.Attacks.BulkTest do
  # Instructions that fill or copy much memory at once. The host divides them into parts (wasm/host/src/compile/rewrite/mod.rs). The
  # result must equal that of a memory model in Elixir, and other processes must run between the parts.
  use ExUnit.Case, async: true

  import BeTree.WasmModule

  alias BeTree.{Error, Sandbox}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.Attack

  @moduletag timeout: :infinity
  @moduletag runtime: Wasmtime

  @page 65_536
  # Bytes of one part.
  @part_bytes 65_536
  @pages 24
  @size @pages * @page
  @segment :binary.copy(<<0::8, 1::8, 2::8, 3::8, 4::8, 5::8, 6::8>>, div(@size, 8))

  # `fill`, `copy` and `init` take their instruction's operands. `drop` drops the segment.
  defp wasm(more \\ []) do
    operands = for index <- 0..2, do: local_get(index)

    functions = [
      function("fill", [:i32, :i32, :i32], [], [operands, memory_fill()]),
      function("copy", [:i32, :i32, :i32], [], [operands, memory_copy()]),
      function("init", [:i32, :i32, :i32], [], [operands, memory_init(0)]),
      function("drop", [], [], data_drop(0))
    ]

    assemble([memory: {@pages, nil}, data: [{:passive, @segment}], functions: functions] ++ more)
  end

  defp sandbox(wasm, options \\ []), do: wasm |> Sandbox.load!() |> Sandbox.new!(options)

  defp memory(sandbox) do
    {:ok, bytes} = Sandbox.read(sandbox, 0, @size)
    bytes
  end

  # The model: memory after an instruction, or :trap.
  defp apply_to(memory, "fill", [to, value, length]), do: put(memory, to, length, &:binary.copy(<<value>>, &1))
  defp apply_to(memory, "copy", [to, from, length]), do: put(memory, to, length, &part(memory, from, &1))
  defp apply_to(memory, "init", [to, from, length]), do: put(memory, to, length, &part(@segment, from, &1))

  defp put(memory, to, length, _bytes) when to + length > byte_size(memory), do: :trap

  defp put(memory, to, length, bytes) do
    with bytes when is_binary(bytes) <- bytes.(length) do
      {before, rest} = :erlang.split_binary(memory, to)
      {_replaced, behind} = :erlang.split_binary(rest, length)
      before <> bytes <> behind
    end
  end

  defp part(bytes, from, length) when from + length > byte_size(bytes), do: :trap
  defp part(bytes, from, length), do: binary_part(bytes, from, length)

  defp check(sandbox, before, export, arguments) do
    expected = apply_to(before, export, arguments)
    answer = Sandbox.call(sandbox, export, arguments, slice: Enum.random([1_000, 100_000, 300_000, :infinity]))

    case {expected, answer} do
      {:trap, {:error, %Error{kind: :trap, message: message}}} ->
        assert message =~ "out of bounds memory access"
        assert memory(sandbox) == before, "#{export} #{inspect(arguments)} wrote before it trapped"
        before

      {memory, {:ok, [], _stats}} ->
        assert memory(sandbox) == memory, "#{export} #{inspect(arguments)}"
        memory
    end
  end

  defp length_of(limit) do
    Enum.random([
      0,
      1,
      @part_bytes - 1,
      @part_bytes,
      @part_bytes + 1,
      2 * @part_bytes,
      2 * @part_bytes + 1,
      :rand.uniform(limit),
      limit,
      limit + 1
    ])
  end

  test "divided bulk instructions write the bytes of undivided ones, and none when they trap" do
    sandbox = sandbox(wasm())

    Attack.each(Attack.size(40, 2_000), fn _number ->
      # Each has separate content, so a case can be repeated alone.
      noise = :rand.bytes(@size)
      :ok = Sandbox.write(sandbox, 0, noise)

      Enum.reduce(1..5, noise, fn _, before ->
        [to, from] = for _ <- 1..2, do: Enum.random([0, 1, @part_bytes, :rand.uniform(@size) - 1, :rand.uniform(1_000)])
        export = Enum.random(["fill", "copy", "init"])
        second = if export == "fill", do: :rand.uniform(256) - 1, else: from
        room = if export == "fill", do: @size - to, else: @size - max(to, from)
        check(sandbox, before, export, [to, second, length_of(room)])
      end)
    end)
  end

  test "copies within a memory handle overlap in both directions" do
    sandbox = sandbox(wasm())
    noise = :rand.bytes(@size)

    for distance <- [1, 7, @part_bytes - 1, @part_bytes, @part_bytes + 1],
        {to, from} <- [{0, distance}, {distance, 0}, {5, 5}] do
      :ok = Sandbox.write(sandbox, 0, noise)
      check(sandbox, noise, "copy", [to, from, @size - distance - 5])
    end
  end

  test "ends beyond 32 bits trap" do
    sandbox = sandbox(wasm())
    before = memory(sandbox)

    for export <- ["fill", "copy", "init"],
        arguments <- [[0xFFFF_FFFF, 0, @part_bytes + 1], [1, 1, 0xFFFF_FFFF], [0xFFFF_FFFF, 0, 0xFFFF_FFFF]] do
      check(sandbox, before, export, arguments)
    end

    check(sandbox, before, "copy", [0, 0xFFFF_FFFF, @part_bytes + 1])
    check(sandbox, before, "init", [0, 0xFFFF_FFFF, @part_bytes + 1])
  end

  test "a dropped segment is empty" do
    sandbox = sandbox(wasm())
    before = memory(sandbox)
    [] = Sandbox.call!(sandbox, "drop", [])
    assert {:error, %Error{kind: :trap}} = Sandbox.call(sandbox, "init", [0, 0, @part_bytes + 1])
    assert memory(sandbox) == before
  end

  test "several memories with 32-bit and 64-bit addresses" do
    operands = for index <- 0..2, do: local_get(index)

    functions = [
      function("fill", [:i64, :i32, :i64], [], [operands, memory_fill(1)]),
      function("to_first", [:i32, :i64, :i32], [], [operands, memory_copy(0, 1)]),
      function("to_other", [:i64, :i32, :i32], [], [operands, memory_copy(1, 0)]),
      function("within_other", [:i64, :i64, :i64], [], [operands, memory_copy(1, 1)]),
      function("init", [:i64, :i32, :i32], [], [operands, memory_init(0, 1)]),
      function("constant", [], [], [i32_const(0), i64_const(9), i32_const(@part_bytes + 9), memory_copy(0, 1)]),
      function("huge", [:i64], [], [local_get(0), i32_const(1), local_get(0), memory_fill(1)])
    ]

    memories = [{@pages, nil}, {@pages, @pages, :i64}]
    sandbox = sandbox(assemble(memory: memories, data: [{:passive, @segment}], functions: functions))
    length = byte_size(@segment) - 10
    call = fn export, arguments -> assert [] = Sandbox.call!(sandbox, export, arguments, slice: 300_000) end

    call.("init", [10, 3, length - 10])
    call.("to_first", [10, 10, length - 10])
    expected = <<0::80>> <> binary_part(@segment, 3, length - 10)
    assert binary_part(memory(sandbox), 0, length) == expected

    # Copies through the other memory, two bytes further.
    call.("to_other", [1, 0, length])
    call.("within_other", [2, 1, length])
    call.("to_first", [0, 0, @size])
    assert binary_part(memory(sandbox), 2, length) == expected

    call.("fill", [1, 7, length])
    call.("constant", [])
    assert binary_part(memory(sandbox), 0, @part_bytes + 9) == :binary.copy(<<7>>, @part_bytes + 9)

    assert {:error, %Error{kind: :trap}} = Sandbox.call(sandbox, "huge", [0xFFFF_FFFF_FFFF_FFFF], fuel: :infinity)
    assert {:error, %Error{kind: :trap}} = Sandbox.call(sandbox, "huge", [@size - @part_bytes])
  end

  test "a call yields and can be cancelled before each part, and costs one fuel unit per byte" do
    large = 64 * 1024 * 1024
    sandbox = sandbox(wasm(), memory: 2 * large)
    sandbox_pages = div(large, @page)
    grower = assemble(memory: {sandbox_pages, nil}, functions: [fill_all()])
    filled = sandbox(grower, memory: 2 * large)

    assert {:ok, [], %{fuel: fuel, slices: slices}} = Sandbox.call(filled, "fill", [1, large], slice: @part_bytes)
    assert slices >= div(large, @part_bytes)
    assert fuel in large..(large + div(large, 100))

    # After ten yields at most ten parts are written, and the call can still be cancelled.
    {:yield, call} = Sandbox.start(filled, "fill", [2, large], slice: @part_bytes)
    call = Enum.reduce(1..10, call, fn _, call -> yielded(Sandbox.resume(call)) end)
    assert :ok = Sandbox.cancel(call)
    {:ok, bytes} = Sandbox.read(filled, 0, large)
    assert byte_size(bytes |> :binary.split(<<1>>) |> hd()) in 1..(12 * @part_bytes)

    assert {:error, %Error{kind: :out_of_fuel}} = Sandbox.call(filled, "fill", [3, large], fuel: large - @part_bytes)
    assert {:error, %Error{kind: :timeout}} = Sandbox.call(filled, "fill", [4, large], timeout: 0)
    assert {:ok, [], _stats} = Sandbox.call(sandbox, "fill", [0, 1, @size])
  end

  defp fill_all, do: function("fill", [:i32, :i32], [], [i32_const(0), local_get(0), local_get(1), memory_fill()])

  defp yielded({:yield, call}), do: call

  test "rewriting keeps the module's bytes and exports" do
    wasm = wasm(globals: [{"__stack_pointer", :i32, :mutable, 0}])
    {:ok, module} = Wasmtime.load(wasm)
    assert Wasmtime.wasm(module) == wasm
    names = for {name, _type} <- Wasmtime.exports(module), do: name
    assert Enum.sort(names) == ["__stack_pointer", "copy", "drop", "fill", "init", "memory"]
  end

  test "tables are bounded by the length of one bulk instruction" do
    assert {:error, %Error{kind: :bad_module, message: message}} = Sandbox.load(assemble(table: 100_001))
    assert message =~ "100001 elements in a table"
    assert message =~ "at most 100000"

    grow = function("grow", [:i32], [:i32], [ref_null(), local_get(0), table_grow()])
    sandbox = sandbox(assemble(table: 1, functions: [grow]))
    assert Sandbox.call!(sandbox, "grow", [99_999]) == [1]
    assert Sandbox.call!(sandbox, "grow", [1]) == [-1]
  end
end
