defmodule BeTree.Test.Instructions do
  @moduledoc false
  # Modules that execute mainly one kind of instruction, to measure its fuel and time.

  import BeTree.WasmModule

  @pages 16
  @memory @pages * 0x1_0000
  @page 0x1_0000
  @elements 100_000
  # How often a round repeats the code of a case.
  @times 16

  # The parameter is the number of rounds.
  @i32 1
  @i64 2
  @f32 3
  @f64 4
  @v128 5
  @locals [:i32, :i64, :f32, :f64, :v128]
  @local %{i32: @i32, i64: @i64, f32: @f32, f64: @f64, v128: @v128}

  # The functions after the exported one.
  @nothing 1
  @identity 2
  @tail 3

  @doc """
  Returns the cases, `{class, name, before, code, after}`. A round executes `before`, then `code` `times/0` times, then
  `after`. Each result is the next operand, which forms the slowest chain of dependencies.
  """
  def all do
    computing("numbers", numeric()) ++
      computing("vectors", vectors()) ++ memory() ++ bulk() ++ table_bulk() ++ tables() ++ control()
  end

  def times, do: @times

  @doc "Returns a module whose export `run` executes a number of rounds of a case."
  def module({_class, _name, before, code, later}) do
    assemble(
      memory: {@pages, 2 * @pages},
      table: [@elements, @elements],
      globals: [{"global", :i32, :mutable, 0}],
      data: [{:passive, :binary.copy(<<7>>, @page)}, {64, ring()}],
      elements: [{0, List.duplicate(@nothing, 1_000)}, {:passive, List.duplicate(@nothing, 1_000)}],
      functions: [
        function("run", [:i32], [], [initial(), count_down(0, [before, List.duplicate(code, @times), later])], @locals),
        function("nothing", [], [], []),
        function("identity", [:i32], [:i32], local_get(0)),
        function("tail", [], [], return_call(@nothing))
      ]
    )
  end

  # A chain of pointers: each word from address 64 on has the address of another word.
  defp ring, do: for(number <- 0..63, into: <<>>, do: <<64 + 4 * rem(number + 23, 64)::little-32>>)

  # Operands that keep division and square root slow.
  defp initial do
    [
      [i32_const(0x7654_3210), local_set(@i32), i64_const(0x7654_3210_FEDC_BA98), local_set(@i64)],
      [f32_const(1.2345678), local_set(@f32), f64_const(1.23456789012345), local_set(@f64)],
      [f64_const(1.23456789012345), f64x2_splat(), local_set(@v128)]
    ]
  end

  defp f64x2_splat, do: vector(0x14)
  defp i32x4_splat, do: vector(0x11)
  defp i32_and, do: 0x71
  defp i32_or, do: 0x72
  defp i64_or, do: 0x84
  defp ref_func, do: [0xD2, @nothing]
  defp table_get, do: [0x25, 0]
  defp return_call(function), do: [0x12, function]
  defp vector(opcode) when opcode < 0x80, do: [0xFD, opcode]
  defp vector(opcode), do: [0xFD, rem(opcode, 0x80) + 0x80, div(opcode, 0x80)]

  # `{name, type, code}`: the code takes an operand from the stack and leaves a result.
  defp computing(class, cases) do
    for {name, type, code} <- cases, local = Map.fetch!(@local, type) do
      {class, name, local_get(local), code, local_set(local)}
    end
  end

  defp numeric, do: unary() ++ binary() ++ comparisons() ++ divisions() ++ conversions()

  defp unary do
    listed(:i32, 0x67, ~w(clz ctz popcnt)) ++
      listed(:i32, 0xC0, ~w(extend8_s extend16_s)) ++
      listed(:i64, 0x79, ~w(clz ctz popcnt)) ++
      listed(:i64, 0xC2, ~w(extend8_s extend16_s extend32_s)) ++
      listed(:f32, 0x8B, ~w(abs neg ceil floor trunc nearest sqrt)) ++
      listed(:f64, 0x99, ~w(abs neg ceil floor trunc nearest sqrt))
  end

  defp binary do
    for {name, type, opcode} <-
          listed(:i32, 0x6A, ~w(add sub mul)) ++
            listed(:i32, 0x71, ~w(and or xor shl shr_s shr_u rotl rotr)) ++
            listed(:i64, 0x7C, ~w(add sub mul)) ++
            listed(:i64, 0x83, ~w(and or xor shl shr_s shr_u rotl rotr)) ++
            listed(:f32, 0x92, ~w(add sub mul div min max copysign)) ++
            listed(:f64, 0xA0, ~w(add sub mul div min max copysign)) do
      {name, type, [local_get(Map.fetch!(@local, type)), opcode]}
    end
  end

  defp comparisons do
    for {name, _type, opcode} <- listed(:i32, 0x46, ~w(eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u)) do
      {name, :i32, [local_get(@i32), opcode]}
    end ++
      [{"i32.eqz", :i32, i32_eqz()}] ++
      for {type, first, names} <- [
            {:i64, 0x51, ~w(eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u)},
            {:f32, 0x5B, ~w(eq ne lt gt le ge)},
            {:f64, 0x61, ~w(eq ne lt gt le ge)}
          ],
          {name, _type, opcode} <- listed(type, first, names) do
        {name, :i32, [drop(), local_get(@local[type]), local_get(@local[type]), opcode]}
      end
  end

  # A divisor that is not constant, and a dividend that stays large.
  defp divisions do
    for {name, type, opcode} <-
          listed(:i32, 0x6D, ~w(div_s div_u rem_s rem_u)) ++ listed(:i64, 0x7F, ~w(div_s div_u rem_s rem_u)) do
      large =
        if type == :i32, do: [i32_const(0x7654_3210), i32_or()], else: [i64_const(0x7654_3210_FEDC_BA98), i64_or()]

      # A remainder of 0 could not divide.
      odd = if type == :i32, do: [i32_const(1), i32_or()], else: [i64_const(1), i64_or()]
      {name, type, [large, local_get(Map.fetch!(@local, type)), opcode, if(name =~ "rem", do: odd, else: [])]}
    end
  end

  # Each conversion, and its reverse if the type changes.
  defp conversions do
    to_i32 = [f32: 0xA8, f32: 0xA9, f64: 0xAA, f64: 0xAB]
    to_i64 = [f32: 0xAE, f32: 0xAF, f64: 0xB0, f64: 0xB1]
    signs = fn -> Stream.cycle(["s", "u"]) end

    trapping =
      for {integer, list, back} <- [{:i32, to_i32, %{f32: 0xB2, f64: 0xB7}}, {:i64, to_i64, %{f32: 0xB4, f64: 0xB9}}],
          {{float, opcode}, sign} <- Enum.zip(list, signs.()) do
        {"#{integer}.trunc_#{float}_#{sign}", float, [opcode, back[float]]}
      end

    saturating =
      for {{{integer, float}, sign}, opcode} <-
            [{:i32, :f32}, {:i32, :f64}, {:i64, :f32}, {:i64, :f64}]
            |> Enum.flat_map(&[{&1, "s"}, {&1, "u"}])
            |> Enum.with_index() do
        back = %{{:i32, :f32} => 0xB2, {:i32, :f64} => 0xB7, {:i64, :f32} => 0xB4, {:i64, :f64} => 0xB9}
        {"#{integer}.trunc_sat_#{float}_#{sign}", float, [0xFC, opcode, back[{integer, float}]]}
      end

    trapping ++
      saturating ++
      [
        {"f32.convert_i32_u", :f32, [0xA8, 0xB3]},
        {"f32.convert_i64_u", :f32, [0xAE, 0xB5]},
        {"f64.convert_i32_u", :f64, [0xAA, 0xB8]},
        {"f64.convert_i64_u", :f64, [0xB0, 0xBA]},
        {"f32.demote_f64, f64.promote_f32", :f64, [0xB6, 0xBB]},
        {"i32.reinterpret_f32, f32.reinterpret_i32", :f32, [0xBC, 0xBE]},
        {"i64.reinterpret_f64, f64.reinterpret_i64", :f64, [0xBD, 0xBF]},
        {"i32.wrap_i64, i64.extend_i32_s", :i64, [0xA7, 0xAC]},
        {"i32.wrap_i64, i64.extend_i32_u", :i64, [0xA7, 0xAD]}
      ]
  end

  defp listed(type, first, names) do
    for {name, index} <- Enum.with_index(names), do: {"#{type}.#{name}", type, first + index}
  end

  # Instructions on vectors, by their numbers in the specification.
  @vector_unary [
    [0x4D, 0x5E, 0x5F, 0x60, 0x61, 0x62, 0x67, 0x68, 0x69, 0x6A, 0x74, 0x75, 0x7A, 0x7C, 0x7D, 0x7E, 0x7F, 0x80, 0x81],
    [0x87, 0x88, 0x89, 0x8A, 0x94, 0xA0, 0xA1, 0xA7, 0xA8, 0xA9, 0xAA, 0xC0, 0xC1, 0xC7, 0xC8, 0xC9, 0xCA],
    [0xE0, 0xE1, 0xE3, 0xEC, 0xED, 0xEF],
    Enum.to_list(0xF8..0xFF),
    Enum.to_list(0x101..0x104)
  ]
  @vector_binary [
    [0x0E, 0x4E, 0x4F, 0x50, 0x51, 0x65, 0x66, 0x76, 0x77, 0x78, 0x79, 0x7B, 0x82, 0x85, 0x86, 0x9B, 0xAE, 0xB1],
    Enum.to_list(0x23..0x4C),
    Enum.to_list(0x6E..0x73),
    Enum.to_list(0x8E..0x93),
    Enum.to_list(0x95..0x99),
    Enum.to_list(0x9C..0x9F),
    Enum.to_list(0xB5..0xBA),
    Enum.to_list(0xBC..0xBF),
    [0xCE, 0xD1],
    Enum.to_list(0xD5..0xDF),
    Enum.to_list(0xE4..0xEB),
    Enum.to_list(0xF0..0xF7),
    [0x100, 0x10D, 0x10E, 0x10F, 0x110, 0x111, 0x112]
  ]
  @vector_ternary [0x52, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10A, 0x10B, 0x10C, 0x113]
  @vector_shifts [0x6B, 0x6C, 0x6D, 0x8B, 0x8C, 0x8D, 0xAB, 0xAC, 0xAD, 0xCB, 0xCC, 0xCD]
  @vector_tests [0x53, 0x63, 0x64, 0x83, 0x84, 0xA3, 0xA4, 0xC3, 0xC4]

  defp vectors do
    for(opcode <- List.flatten(@vector_unary), do: named(opcode, vector(opcode))) ++
      for(opcode <- List.flatten(@vector_binary), do: named(opcode, [local_get(@v128), vector(opcode)])) ++
      for(opcode <- @vector_ternary, do: named(opcode, [local_get(@v128), local_get(@v128), vector(opcode)])) ++
      for(opcode <- @vector_shifts, do: named(opcode, [local_get(@i32), vector(opcode)])) ++
      for(opcode <- @vector_tests, do: named(opcode, [vector(opcode), i32x4_splat()])) ++
      [
        {"i8x16.shuffle", :v128, [local_get(@v128), vector(0x0D), Enum.map(0..15, &(2 * &1))]},
        {"i8x16.extract_lane_s, i8x16.splat", :v128, [vector(0x15), 3, vector(0x0F)]},
        {"i64x2.extract_lane, i64x2.replace_lane", :v128,
         [local_tee(@v128), local_get(@v128), vector(0x1D), 1, vector(0x1E), 0]},
        {"f64x2.extract_lane, f64x2.splat", :v128, [vector(0x21), 1, f64x2_splat()]}
      ]
  end

  defp named(opcode, code), do: {"vector instruction 0x#{Integer.to_string(opcode, 16)}", :v128, code}

  defp memory do
    at_end = @memory - 64

    for {name, before, code, later} <- [
          {"i32.load", [], [i32_const(64), i32_load(), drop()], []},
          {"i32.load of the address that was loaded",
           [i32_const(64), local_get(@i32), i32_const(252), i32_and(), i32_add()], i32_load(), local_set(@i32)},
          {"i64.load across pages", [], [i32_const(4093), i64_load(), drop()], []},
          {"i64.store", [], [i32_const(128), i64_const(1), i64_store()], []},
          {"i64.store across pages", [], [i32_const(4093), i64_const(1), i64_store()], []},
          {"i64.store, a page further each time", local_get(@i32),
           [
             [i32_const(4096 + 64), i32_add(), i32_const(at_end), i32_and(), local_tee(@i32)],
             [local_get(@i32), i64_const(1), i64_store()]
           ], local_set(@i32)},
          {"v128.store across pages", [], [i32_const(4090), local_get(@v128), vector(0x0B), 0, 0], []},
          {"i64.store and i64.load across pages", local_get(@i32),
           [drop(), i32_const(4093), i64_const(1), i64_store(), i32_const(4090), i32_load()], local_set(@i32)},
          {"memory.size", [], [memory_size(), drop()], []},
          {"memory.grow by 0", [], [i32_const(0), memory_grow(), drop()], []},
          {"memory.grow, refused", [], [i32_const(0x1_0000), memory_grow(), drop()], []},
          {"data.drop", [], data_drop(0), []}
        ],
        do: {"memory", name, before, code, later}
  end

  defp bulk do
    for {title, length, code} <- lengths(),
        # A new memory is not yet written, before an address or at its end.
        {place, address} <- if(length == 0, do: [{"", @page}, {", at the end", @memory}], else: [{"", @page}]),
        {name, operand, opcode} <- [
          {"memory.fill", i32_const(7), memory_fill()},
          {"memory.copy", i32_const(0), memory_copy()},
          {"memory.copy to the same address", i32_const(@page), memory_copy()},
          {"memory.init", i32_const(0), memory_init(0)}
        ] do
      {"memory.fill, memory.copy, memory.init", "#{name} of #{title}#{place}", [],
       [i32_const(address), operand, code, opcode], []}
    end
  end

  defp lengths do
    for length <- [0, 1, 16, 64, 128, 129, @page],
        {title, code} <- [
          {"#{length} bytes", i32_const(length)},
          {"#{length} bytes, not constant", [local_get(0), i32_const(0), i32_and(), i32_const(length), i32_or()]}
        ],
        do: {title, length, code}
  end

  defp table_bulk do
    for length <- [0, 1, 64, 1_000, @elements],
        {name, operand, opcode, most} <- [
          {"table.fill", null_function(), [0xFC, 0x11, 0], @elements},
          {"table.fill with a function", ref_func(), [0xFC, 0x11, 0], @elements},
          {"table.copy", i32_const(0), [0xFC, 0x0E, 0, 0], @elements},
          {"table.copy to another table", i32_const(0), [0xFC, 0x0E, 1, 0], @elements},
          {"table.init", i32_const(0), [0xFC, 0x0C, 1, 0], 1_000}
        ],
        length <= most do
      {"table.fill, table.copy, table.init", "#{name} of #{length} elements", [],
       [i32_const(0), operand, i32_const(length), opcode], []}
    end
  end

  defp tables do
    for {name, code} <- [
          {"table.get", [i32_const(5), table_get(), drop()]},
          {"table.set", [i32_const(5), null_function(), table_set()]},
          {"table.set of a function", [i32_const(5), ref_func(), table_set()]},
          {"table.get and table.set", [i32_const(5), i32_const(6), table_get(), table_set()]},
          {"table.size", [0xFC, 0x10, 0, drop()]},
          {"table.grow by 0", [null_function(), i32_const(0), table_grow(), drop()]},
          {"table.grow, refused", [null_function(), i32_const(1), table_grow(), drop()]},
          {"elem.drop", [0xFC, 0x0D, 1]},
          {"ref.func", [ref_func(), drop()]},
          {"ref.null", [null_function(), drop()]},
          {"ref.is_null", [ref_func(), 0xD1, drop()]}
        ],
        do: {"tables and references", name, [], code, []}
  end

  defp control do
    for {name, code} <- [
          {"nothing", []},
          {"nop", nop()},
          {"block", block([])},
          {"loop", loop([])},
          {"if", [local_get(@i32), 0x04, 0x40, 0x0B]},
          {"br_table", block(block([local_get(@i32), 0x0E, 2, 0, 1, 0]))},
          {"select", [local_get(@i32), i32_const(1), local_get(@i32), 0x1B, local_set(@i32)]},
          {"global.get and global.set", [global_get(0), global_set(0)]},
          {"call", call(@nothing)},
          {"call with an argument and a result", [i32_const(1), call(@identity), drop()]},
          {"call_indirect", [i32_const(5), 0x11, 1, 0]},
          {"return_call", call(@tail)}
        ],
        do: {"control, calls", name, [], code, []}
  end
end
