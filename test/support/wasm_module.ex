defmodule BeTree.WasmModule do
  @moduledoc false
  # Assembles small modules from sections and instructions.
  #
  #     assemble(functions: [function("add", [:i32, :i32], [:i32], [local_get(0), local_get(1), i32_add()])])

  import Bitwise

  @doc """
  Returns the bytes of a module.

    * `functions:` - see `function/5`;
    * `memory:` - `{minimum, maximum}` in pages, `{minimum, maximum, :i64}` for 64-bit addresses, or a list of these. The
      first one is exported as `memory`;
    * `globals:` - `[{export, type, :mutable | :constant, value}]`; with `nil` a global is not exported;
    * `data:` - `[{address, bytes}]`; `:passive` in place of an address makes a segment that code copies;
    * `imports:` - `[{module, name}]` of functions without parameters and results. Their indexes precede those of functions;
    * `table:` - a number of elements of a table of functions, or a list of these;
    * `elements:` - `[{offset, functions}]`, the indexes of functions from an element of the first table on; `:passive` in place
      of an offset makes a segment that code copies;
    * `start:` - the index of a function.
  """
  def assemble(parts) do
    functions = Keyword.get(parts, :functions, [])
    imports = Keyword.get(parts, :imports, [])
    types = for(_import <- imports, do: {[], []}) ++ for(function <- functions, do: {function.params, function.results})

    IO.iodata_to_binary([
      <<"\0asm", 1::little-32>>,
      vector_section(1, types, &type/1),
      vector_section(2, Enum.with_index(imports), fn {{module, name}, type} ->
        [name(module), name(name), 0, u(type)]
      end),
      vector_section(3, Enum.with_index(functions, length(imports)), fn {_function, type} -> u(type) end),
      vector_section(4, List.wrap(parts[:table]), &[0x70, 0, u(&1)]),
      vector_section(5, List.wrap(parts[:memory]), &limits/1),
      vector_section(6, Keyword.get(parts, :globals, []), &global/1),
      vector_section(7, exports(parts, functions, length(imports)), & &1),
      if(parts[:start], do: section(8, u(parts[:start])), else: []),
      vector_section(9, Keyword.get(parts, :elements, []), &elements/1),
      if(parts[:data], do: section(12, u(length(parts[:data]))), else: []),
      vector_section(10, functions, &code/1),
      vector_section(11, Keyword.get(parts, :data, []), &data/1)
    ])
  end

  @doc "Returns a function, exported under `export` unless that is `nil`, with more local variables of the types `locals`."
  def function(export, params, results, body, locals \\ []) do
    %{export: export, params: params, results: results, body: body, locals: locals}
  end

  def unreachable, do: 0x00
  def nop, do: 0x01
  def block(body), do: [0x02, 0x40, body, 0x0B]
  def loop(body), do: [0x03, 0x40, body, 0x0B]
  def branch(depth), do: [0x0C, u(depth)]
  def branch_if(depth), do: [0x0D, u(depth)]
  def return, do: 0x0F
  def call(index), do: [0x10, u(index)]
  def drop, do: 0x1A
  def local_get(index), do: [0x20, u(index)]
  def local_set(index), do: [0x21, u(index)]
  def local_tee(index), do: [0x22, u(index)]
  def global_get(index), do: [0x23, u(index)]
  def global_set(index), do: [0x24, u(index)]
  def table_set, do: [0x26, 0]
  def null_function, do: [0xD0, 0x70]
  def i32_load(offset \\ 0), do: [0x28, 2, u(offset)]
  def i64_load(offset \\ 0), do: [0x29, 3, u(offset)]
  def i32_load8_u(offset \\ 0), do: [0x2D, 0, u(offset)]
  def i32_store(offset \\ 0), do: [0x36, 2, u(offset)]
  def i64_store(offset \\ 0), do: [0x37, 3, u(offset)]
  def memory_size, do: [0x3F, 0]
  def memory_grow, do: [0x40, 0]
  def memory_fill(memory \\ 0), do: [0xFC, 0x0B, u(memory)]
  def memory_copy(to \\ 0, from \\ 0), do: [0xFC, 0x0A, u(to), u(from)]
  def memory_init(segment, memory \\ 0), do: [0xFC, 0x08, u(segment), u(memory)]
  def data_drop(segment), do: [0xFC, 0x09, u(segment)]
  def table_grow, do: [0xFC, 0x0F, 0]
  def ref_null, do: [0xD0, 0x70]
  def i32_const(value), do: [0x41, s(value)]
  def i64_const(value), do: [0x42, s(value)]
  def f32_const(value), do: [0x43, <<value::little-float-32>>]
  def f64_const(value), do: [0x44, <<value::little-float-64>>]
  def i32_eqz, do: 0x45
  def i32_ne, do: 0x47
  def i32_add, do: 0x6A
  def i32_sub, do: 0x6B
  def i32_div_u, do: 0x6E
  def i64_add, do: 0x7C
  def f64_add, do: 0xA0
  def f64_div, do: 0xA3

  @doc "Returns code that runs `body` and counts the i32 local `index` down to 0."
  def count_down(index, body) do
    block([
      loop([
        [local_get(index), i32_eqz(), branch_if(1)],
        body,
        [local_get(index), i32_const(1), i32_sub(), local_set(index), branch(0)]
      ])
    ])
  end

  defp exports(parts, functions, imported) do
    memory = if parts[:memory], do: [[name("memory"), 2, u(0)]], else: []
    globals = Keyword.get(parts, :globals, [])

    memory ++
      for(
        {{export, _type, _mutability, _value}, index} when export != nil <- Enum.with_index(globals),
        do: [name(export), 3, u(index)]
      ) ++
      for {%{export: export}, index} when export != nil <- Enum.with_index(functions, imported),
          do: [name(export), 0, u(index)]
  end

  defp vector_section(_id, [], _encode), do: []
  defp vector_section(id, items, encode), do: section(id, vector(items, encode))

  defp section(id, content), do: [id, sized(content)]

  defp vector(items, encode), do: [u(length(items)) | Enum.map(items, encode)]

  defp type({params, results}), do: [0x60, vector(params, &value_type/1), vector(results, &value_type/1)]

  defp value_type(:i32), do: 0x7F
  defp value_type(:i64), do: 0x7E
  defp value_type(:f32), do: 0x7D
  defp value_type(:f64), do: 0x7C
  defp value_type(:v128), do: 0x7B

  defp limits({minimum, nil}), do: [0, u(minimum)]
  defp limits({minimum, maximum}), do: [1, u(minimum), u(maximum)]
  defp limits({minimum, maximum, :i64}), do: [5, u(minimum), u(maximum)]

  defp global({_export, type, mutability, value}) do
    constant = if type == :i32, do: i32_const(value), else: i64_const(value)
    [value_type(type), if(mutability == :mutable, do: 1, else: 0), constant, 0x0B]
  end

  defp code(%{locals: locals, body: body}) do
    sized([vector(locals, &[u(1), value_type(&1)]), body, 0x0B])
  end

  defp elements({:passive, functions}), do: [1, 0, vector(functions, &u/1)]
  defp elements({offset, functions}), do: [0, i32_const(offset), 0x0B, vector(functions, &u/1)]

  defp data({:passive, bytes}), do: [1, sized(bytes)]
  defp data({address, bytes}), do: [0, i32_const(address), 0x0B, sized(bytes)]

  defp name(name), do: sized(name)

  defp sized(content), do: [u(IO.iodata_length(content)), content]

  # LEB128, unsigned and signed.
  defp u(value) when value < 128, do: <<value>>
  defp u(value), do: [(value &&& 127) ||| 128, u(value >>> 7)]

  defp s(value) when value in -64..63, do: <<value &&& 127>>
  defp s(value), do: [(value &&& 127) ||| 128, s(value >>> 7)]
end
