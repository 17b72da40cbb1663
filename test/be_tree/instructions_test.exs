defmodule BeTree.InstructionsTest do
  # The fuel of each instruction (wasm/host/src/compile/costs.rs), and where a call yields between loops and calls (wasm/host/src/compile/rewrite/fuel_checks.rs).
  # bench/instructions.exs measures their times.
  use ExUnit.Case, async: true

  import BeTree.WasmModule

  alias BeTree.{Error, Sandbox}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.Instructions

  @moduletag runtime: Wasmtime

  # The fuel of the cases that cost more than a unit for each instruction (`drop` excepted), and of some others.
  @fuel %{
    "i32.add" => 2,
    "i64.mul" => 2,
    "f64.add" => 2,
    "i32.load" => 2,
    "i64.store" => 3,
    "memory.size" => 1,
    "f32.div" => 4,
    "f64.div" => 4,
    "i32.div_u" => 7,
    "i64.rem_s" => 9,
    "f32.sqrt" => 4,
    "f64.sqrt" => 4,
    "f32.nearest" => 4,
    "f64.floor" => 2,
    "f64.trunc" => 2,
    "i64.trunc_f64_s" => 5,
    "i32.trunc_sat_f64_s" => 3,
    "f32.demote_f64, f64.promote_f32" => 4,
    # i8x16.add, f64x2.div, f64x2.sqrt, i32x4.mul, i64x2.mul, i32x4.trunc_sat_f64x2_u_zero
    "vector instruction 0x6E" => 2,
    "vector instruction 0xF3" => 9,
    "vector instruction 0xEF" => 8,
    "vector instruction 0xB5" => 3,
    "vector instruction 0xD5" => 5,
    "vector instruction 0xFD" => 8,
    "memory.grow by 0" => 256,
    "memory.grow, refused" => 256,
    "memory.copy of 16 bytes" => 20,
    "memory.fill of 64 bytes" => 68,
    "memory.init of 16 bytes, not constant" => 24,
    "table.set" => 3,
    "table.set of a function" => 102,
    "table.get" => 2,
    "table.fill with a function of 1 elements" => 104,
    "table.copy of 64 elements" => 132,
    "table.init of 64 elements" => 83,
    "table.grow, refused" => 258,
    "elem.drop" => 16,
    "ref.func" => 100,
    "ref.null" => 1,
    "ref.is_null" => 101,
    "nothing" => 0,
    "nop" => 0,
    "block" => 0,
    "loop" => 0,
    "call" => 2,
    "call_indirect" => 6
  }

  defp sandbox(parts), do: parts |> assemble() |> Sandbox.load!() |> Sandbox.new!()

  defp fuel(sandbox, argument) do
    {:ok, _results, %{fuel: fuel}} = Sandbox.call(sandbox, "run", [argument])
    fuel
  end

  # The fuel of a round of a loop.
  defp per_round(sandbox), do: fuel(sandbox, 3) - fuel(sandbox, 2)

  describe "the fuel of an instruction" do
    test "is defined for each kind" do
      cases = for {_class, name, _before, _code, _later} = case <- Instructions.all(), @fuel[name], do: {name, case}
      assert length(cases) == map_size(@fuel)

      for {name, {_class, _name, before, _code, later} = case} <- cases do
        # Excludes the loop, and the code before and after it.
        around = 8 + Enum.count(List.flatten([before, later]), &(&1 in [0x20, 0x21]))
        each = case |> Instructions.module() |> Sandbox.load!() |> Sandbox.new!() |> per_round()
        assert {name, (each - around) / Instructions.times()} == {name, @fuel[name] / 1}
      end
    end

    test "covers the host's work in filling or copying nothing" do
      for {_class, name, _before, _code, _later} = case <- Instructions.all(),
          name =~ ~r/^memory.(fill|copy)/ and name =~ "of 0 bytes" do
        each = case |> Instructions.module() |> Sandbox.load!() |> Sandbox.new!() |> per_round()
        assert {name, each > 25 * Instructions.times()} == {name, true}
      end
    end

    test "is burned up to a trap that fills or copies nothing out of bounds" do
      operands = for index <- 0..2, do: local_get(index)

      exports = [
        function("fill", [:i32, :i32, :i32], [], [operands, memory_fill()]),
        function("copy", [:i32, :i32, :i32], [], [operands, memory_copy()]),
        function("fill_0", [:i32], [], [local_get(0), i32_const(7), i32_const(0), memory_fill()]),
        function("copy_0", [:i32], [], [local_get(0), i32_const(0), i32_const(0), memory_copy()])
      ]

      sandbox = sandbox(memory: {1, nil}, functions: exports)

      for address <- [0, 1, 65_535, 65_536] do
        assert Sandbox.call!(sandbox, "fill", [address, 7, 0]) == []
        assert Sandbox.call!(sandbox, "copy", [address, 65_536 - address, 0]) == []
        assert Sandbox.call!(sandbox, "fill_0", [address]) == []
        assert Sandbox.call!(sandbox, "copy_0", [address]) == []
      end

      assert {:ok, <<0::size(65_536)-unit(8)>>} = Sandbox.read(sandbox, 0, 65_536)

      for {export, arguments} <- [
            {"fill", [65_537, 7, 0]},
            {"fill", [0xFFFF_FFFF, 7, 0]},
            {"copy", [65_537, 0, 0]},
            {"copy", [0, 65_537, 0]},
            {"fill_0", [65_537]},
            {"copy_0", [65_537]}
          ] do
        assert {:error, %Error{kind: :trap, message: message}} = Sandbox.call(sandbox, export, arguments)
        assert message =~ "out of bounds memory access"
      end
    end
  end

  describe "code without instructions of cost" do
    test "is charged: empty blocks, and loops without repetition" do
      for {title, code} <- [{"blocks", block([])}, {"loops", loop([])}, {"loops of loops", loop(loop([]))}] do
        sandbox = sandbox(functions: [function("run", [:i32], [], count_down(0, List.duplicate(code, 10_000)))])
        # A unit for each 25 operators; a block has at least two.
        assert {title, per_round(sandbox) >= 800} == {title, true}
      end
    end

    test "is charged for values moved by branches and returns" do
      for count <- [16, 100, 900] do
        values = List.duplicate(:i32, count)
        # The type has the index 1. Each branch moves the values by one.
        wide = function(nil, values, [], [])
        again = [i32_const(1), local_get(0), i32_const(1), i32_sub(), local_tee(0), branch_if(0)]
        shift = [List.duplicate(local_get(0), count), [0x03, 1, again, List.duplicate(drop(), count + 1), 0x0B]]
        # A branch takes the topmost values.
        assert {:branch, count, per_round(sandbox(functions: [function("run", [:i32], [], shift), wide])) >= count} ==
                 {:branch, count, true}
      end

      for count <- [16, 100] do
        results = List.duplicate(:i32, count)
        leaf = function(nil, [], results, List.duplicate(i32_const(1), count))
        callers = for number <- 1..100, do: function(nil, [], results, call(number))
        body = count_down(0, [call(101), List.duplicate(drop(), count)])
        sandbox = sandbox(functions: [function("run", [:i32], [], body), leaf | callers])
        once = function("run", [:i32], [], [call(1), List.duplicate(drop(), count)])
        # The function's end and the call both move the values.
        assert {:once, count, fuel(sandbox(functions: [once, leaf]), 0) >= 3 * count} == {:once, count, true}
        assert {:call, count, per_round(sandbox) >= 100 * count} == {:call, count, true}
      end
    end
  end

  describe "a call yields" do
    test "in code without a loop" do
      # Paths that skip the checks of untaken branches: the parameter is 0.
      skipped = [local_get(0), 0x04, 0x40, loop([local_get(0), branch_if(0)]), straight(100), 0x0B]

      for {title, body} <- [{"straight", straight(80_000)}, {"passing", List.duplicate([skipped, straight(100)], 400)}] do
        sandbox = sandbox(functions: [function("run", [:i32], [], body)])
        {:ok, [], %{fuel: fuel}} = Sandbox.call(sandbox, "run", [0], slice: :infinity)
        assert fuel > 40_000
        assert {:ok, [], %{slices: slices, fuel: ^fuel}} = Sandbox.call(sandbox, "run", [0], slice: 5_000)
        assert {title, slices > div(fuel, 25_000)} == {title, true}
      end
    end

    test "while a recursion returns" do
      level = [local_get(0), i32_const(1), i32_sub(), call(0), straight(1_000)]
      sandbox = sandbox(functions: [function("run", [:i32], [], [local_get(0), 0x04, 0x40, level, 0x0B])])
      assert {:ok, [], %{slices: slices, fuel: fuel}} = Sandbox.call(sandbox, "run", [1_000], slice: 10_000)
      assert fuel > 1_000_000
      assert slices > div(fuel, 12_000)
    end

    # As many units of fuel plus two.
    defp straight(units), do: [local_get(0), List.duplicate(i32_eqz(), units), drop()]
  end

  describe "rewritten loops and nops" do
    test "behave as before" do
      # The type of a block with an i32 as its result.
      i32 = 0x7F

      exports = [
        function("not repeated", [], [:i32], [0x03, i32, nop(), i32_const(7), 0x0B]),
        function("left", [:i32], [:i32], [
          block([loop([local_get(0), branch_if(1), i32_const(5), local_set(0)])]),
          local_get(0)
        ]),
        function("repeated from a block", [:i32], [:i32], [
          loop(
            block([
              [local_get(0), i32_eqz(), branch_if(0)],
              local_get(0),
              i32_const(1),
              i32_sub(),
              local_set(0),
              branch(1)
            ])
          ),
          local_get(0)
        ]),
        function("repeated by a table", [:i32], [:i32], [
          loop([
            [local_get(0), i32_const(1), i32_sub(), local_set(0)],
            block(block([local_get(0), [0x0E, 2, 2, 0, 1]])),
            nop()
          ]),
          local_get(0)
        ])
      ]

      sandbox = sandbox(functions: exports)
      assert Sandbox.call!(sandbox, "not repeated", []) == [7]
      assert Sandbox.call!(sandbox, "left", [3]) == [3]
      assert Sandbox.call!(sandbox, "left", [0]) == [5]
      assert Sandbox.call!(sandbox, "repeated from a block", [9]) == [0]
      # 1 - 1 is 0, which repeats; -1 is outside of the table.
      assert Sandbox.call!(sandbox, "repeated by a table", [1]) == [-1]
      assert Sandbox.call!(sandbox, "repeated by a table", [5]) == [4]
    end
  end
end
