defmodule BeTree.Input.Describe do
  @moduledoc false
  # Describes any value for a message, in bounded time and length. `value/1` prints small values, and describes large ones by
  # kind and size: printing an integer of a million bits takes seconds on its scheduler. `kind/1` prints nothing of a value
  # but its kind and size. It is for values that may be events or parts of events, which no message and no log discloses.

  # The greatest number of values, and of bytes of a string, that are printed.
  @max_printed_values 24
  @max_printed_bytes 64
  # Keys are sorted, so that a message does not depend on the VM.
  @inspect [structs: false, custom_options: [sort_maps: true]]
  # The greatest number of list elements that are counted.
  @max_counted_elements 10_000
  # Longer binaries are not checked for UTF-8, because the check takes time linear in their length.
  @max_checked_bytes 0x1000

  @doc "Returns a small `term` as text, or the kind and size of a large one."
  @spec value(term) :: String.t()
  def value(term) do
    if is_integer(small(term, @max_printed_values)), do: inspect(term, @inspect), else: kind(term)
  end

  @doc "Returns the name of an attribute or a constant, shortened if it is long, and described if it is no text."
  @spec name(binary) :: String.t()
  def name(name) do
    if byte_size(name) <= 4 * @max_printed_bytes and String.valid?(name), do: name, else: kind(name)
  end

  @doc "Returns a name in backticks for a message, or the name itself if it has some already."
  @spec quoted(String.t()) :: String.t()
  def quoted(name) do
    name = name(name)
    if String.contains?(name, "`"), do: name, else: "`#{name}`"
  end

  @doc """
  Returns the exit reason of a process: an atom, or the name of an exception, with the function that raised it. The text has
  no argument of the function and no other value.
  """
  @spec reason(term) :: String.t()
  def reason({:exception, reason, stacktrace}) when is_list(stacktrace), do: reason({reason, stacktrace})

  # Its message has the function.
  def reason({%BeTree.Error{kind: :callback} = error, stacktrace}) when is_list(stacktrace), do: reason(error)

  def reason({reason, [{module, function, arity_or_arguments, location} | _rest]})
      when is_atom(module) and is_atom(function) and is_list(location) do
    arity = if is_list(arity_or_arguments), do: length(arity_or_arguments), else: arity_or_arguments
    "#{reason(reason)} in #{value(module)}.#{function}/#{arity}"
  end

  def reason({:shutdown, %BeTree.Error{} = error}), do: reason(error)
  def reason({reason, _details}) when is_atom(reason), do: value(reason)
  def reason(%BeTree.Error{message: message}), do: message
  def reason(reason) when is_atom(reason), do: value(reason)
  def reason(reason), do: kind(reason)

  @doc "Returns `, because` and the failure of the user's code that ended a process, or an empty text for another exit reason."
  @spec because(term) :: String.t()
  def because({%BeTree.Error{kind: :callback, message: message}, _stacktrace}), do: ", because #{message}"
  def because(_other), do: ""

  @doc "Returns a number of expressions as `1 expression` or `12000 expressions`."
  @spec expressions(non_neg_integer) :: String.t()
  def expressions(count), do: number_of(count, "expression")

  @doc "Returns a number of things, whose noun takes an s in the plural: `1 rule` or `2 rules`."
  @spec number_of(non_neg_integer, String.t()) :: String.t()
  def number_of(1, noun), do: "1 #{noun}"
  def number_of(count, noun), do: "#{count} #{noun}s"

  @doc """
  Returns the content of an instance for `inspect/2`: the text that `read` returns, or why there is none. Printing does not wait until
  another process is done with the instance, so `read` has a timeout of 0.
  """
  @spec content(map, (... -> {:ok, String.t()} | {:error, BeTree.Error.t()})) :: String.t() | atom
  def content(%{state: state}, _read) when state != :free, do: state

  def content(_info, read) do
    case read.() do
      {:ok, text} -> text
      {:error, %BeTree.Error{kind: :timeout}} -> :running
      {:error, error} -> error.kind
    end
  end

  @doc "Returns 1234567 as `1,234,567`."
  @spec grouped(integer) :: String.t()
  def grouped(integer), do: integer |> Integer.to_string() |> String.replace(~r/(?<=\d)(?=(\d{3})+$)/, ",")

  @doc "Returns a number of bytes as `3.1 MB`."
  @spec megabytes(non_neg_integer) :: String.t()
  def megabytes(bytes), do: :erlang.float_to_binary(bytes / 1_000_000, decimals: 1) <> " MB"

  # Returns the rest of the budget, or :large.
  defp small(_term, 0), do: :large

  defp small(integer, budget) when is_integer(integer) do
    if integer in -0x8000_0000_0000_0000..0xFFFF_FFFF_FFFF_FFFF, do: budget - 1, else: :large
  end

  defp small(bits, budget) when is_bitstring(bits),
    do: if(byte_size(bits) <= @max_printed_bytes, do: budget - 1, else: :large)

  defp small([head | tail], budget), do: with(left when is_integer(left) <- small(head, budget), do: small(tail, left))
  defp small(%_{}, _budget), do: :large

  defp small(map, budget) when is_map(map) do
    if map_size(map) < budget, do: small(Map.to_list(map), budget), else: :large
  end

  defp small(tuple, budget) when is_tuple(tuple) do
    if tuple_size(tuple) < budget, do: small(Tuple.to_list(tuple), budget), else: :large
  end

  defp small(_other, budget), do: budget - 1

  @doc "Returns the kind and the size of a term, such as `a string of 3 bytes`. The text tells nothing else of the term."
  @spec kind(term) :: String.t()
  def kind(integer) when integer in -0x8000_0000_0000_0000..0xFFFF_FFFF_FFFF_FFFF, do: "an integer"
  def kind(integer) when is_integer(integer) and integer < 0, do: "a negative integer of more than 64 bits"
  def kind(integer) when is_integer(integer), do: "an integer of more than 64 bits"

  def kind(binary) when is_binary(binary) do
    is_text = byte_size(binary) <= @max_checked_bytes and String.valid?(binary)
    "#{if is_text, do: "a string", else: "a binary"} of #{number_of(byte_size(binary), "byte")}"
  end

  def kind(bits) when is_bitstring(bits), do: "a bitstring of #{number_of(bit_size(bits), "bit")}"
  def kind(list) when is_list(list), do: count(list, 0)
  def kind(%module{}), do: "a %#{inspect(module)}{}"
  def kind(map) when is_map(map), do: "a map of #{number_of(map_size(map), "key")}"
  def kind(tuple) when is_tuple(tuple), do: "a tuple of #{number_of(tuple_size(tuple), "element")}"
  def kind(float) when is_float(float), do: "a float"
  def kind(atom) when atom in [nil, true, false], do: inspect(atom)
  def kind(atom) when is_atom(atom), do: "an atom"
  def kind(function) when is_function(function), do: "a function"
  def kind(pid) when is_pid(pid), do: "a process"
  def kind(reference) when is_reference(reference), do: "a reference"
  def kind(_port), do: "a port"

  defp count([], count), do: "a list of #{number_of(count, "element")}"
  defp count([_ | _], @max_counted_elements), do: "a list of more than #{@max_counted_elements} elements"
  defp count([_ | rest], count), do: count(rest, count + 1)
  defp count(_tail, count), do: "an improper list of #{number_of(count, "element")}"
end
