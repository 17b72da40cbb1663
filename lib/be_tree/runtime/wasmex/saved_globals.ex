defmodule BeTree.Runtime.Wasmex.SavedGlobals do
  @moduledoc false
  # Finds the globals of a module that a snapshot holds: the exported mutable ones. It reads the module's sections, because
  # wasmex describes only exports.

  import Bitwise

  @header 8
  @memories 5
  @globals 6
  @exports 7

  @exported_memory 2
  @exported_global 3

  # The types of references; a type follows the last two.
  @references [0x70, 0x6F, 0x69, 0x63, 0x64]

  @doc """
  Returns the names of the mutable globals of a valid module, or the reason why its instances have state that cannot be
  copied.
  """
  @spec globals(binary) :: {:ok, [String.t()]} | {:error, String.t()}
  def globals(wasm) do
    <<_header::binary-size(@header), rest::binary>> = wasm
    sections = sections(rest)
    exports = items(sections[@exports], &export/1)
    memory = for {"memory", @exported_memory, index} <- exports, do: index

    with :ok <- check_memories(length(items(sections[@memories], &limits/1)), memory) do
      sections[@globals]
      |> items(&global/1)
      |> Enum.with_index()
      |> Enum.filter(fn {{_type, mutable?}, _index} -> mutable? end)
      |> names(for({name, @exported_global, index} <- exports, into: %{}, do: {index, name}))
    end
  end

  defp check_memories(0, []), do: :ok
  defp check_memories(1, [_index]), do: :ok
  defp check_memories(1, []), do: {:error, "its memory is not exported as memory"}
  defp check_memories(count, _exported), do: {:error, "it has #{count} memories"}

  defp names([], _exported), do: {:ok, []}

  defp names([{{type, true}, index} | globals], exported) do
    case exported do
      %{^index => name} when type not in @references ->
        with {:ok, names} <- names(globals, exported), do: {:ok, [name | names]}

      %{^index => name} ->
        {:error, "its mutable global #{name} holds a reference"}

      %{} ->
        {:error, "its mutable global number #{index} is not exported"}
    end
  end

  defp sections(""), do: %{}

  defp sections(<<id, rest::binary>>) do
    {size, rest} = unsigned(rest)
    {section, rest} = :erlang.split_binary(rest, size)
    Map.put(sections(rest), id, section)
  end

  defp items(nil, _read), do: []

  defp items(section, read) do
    {count, rest} = unsigned(section)
    items(count, rest, read)
  end

  defp items(0, _rest, _read), do: []

  defp items(count, rest, read) do
    {item, rest} = read.(rest)
    [item | items(count - 1, rest, read)]
  end

  defp export(bytes) do
    {length, rest} = unsigned(bytes)
    {name, <<kind, rest::binary>>} = :erlang.split_binary(rest, length)
    {index, rest} = unsigned(rest)
    {{name, kind, index}, rest}
  end

  # The lowest bit of the flags says whether there is a maximum.
  defp limits(<<flags, rest::binary>>) do
    {minimum, rest} = unsigned(rest)
    {_maximum, rest} = if (flags &&& 1) == 1, do: unsigned(rest), else: {nil, rest}
    {minimum, rest}
  end

  defp global(<<type, rest::binary>>) do
    {_heap, rest} = if type in [0x63, 0x64], do: unsigned(rest), else: {nil, rest}
    <<mutable, rest::binary>> = rest
    {{type, mutable == 1}, skip_constant(rest)}
  end

  # Skips the instructions of a global's initial value.
  defp skip_constant(<<0x0B, rest::binary>>), do: rest
  defp skip_constant(<<0x43, _f32::32, rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<0x44, _f64::64, rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<0xFD, 12, _v128::128, rest::binary>>), do: skip_constant(rest)
  # Additions and the like have no operand; constants, globals and references have a number.
  defp skip_constant(<<operator, rest::binary>>) when operator in 0x6A..0x7E, do: skip_constant(rest)

  defp skip_constant(<<_operator, rest::binary>>) do
    {_number, rest} = unsigned(rest)
    skip_constant(rest)
  end

  # A number in LEB128. The value of a signed one does not matter here.
  defp unsigned(<<0::1, low::7, rest::binary>>), do: {low, rest}

  defp unsigned(<<1::1, low::7, rest::binary>>) do
    {high, rest} = unsigned(rest)
    {low + (high <<< 7), rest}
  end
end
