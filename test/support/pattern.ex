defmodule BeTree.Test.Pattern do
  @moduledoc """
  A naive evaluator of EventBridge patterns, by event-ruler's documentation, for fields of one type; and a generator of
  random patterns and events. Unlike in event-ruler a field in `$or` and beside it must pass both.
  """

  @doc "Returns whether the decoded `event` matches the decoded `pattern`. The fields in `arrays` may have arrays."
  def matches?(pattern, event) do
    Enum.all?(pattern, fn
      {"$or", alternatives} -> Enum.any?(alternatives, &matches?(&1, event))
      {name, fields} when is_map(fields) -> matches?(fields, if(is_map(event), do: event[name]))
      {name, tests} -> Enum.any?(tests, &passes?(&1, if(is_map(event), do: event[name])))
    end)
  end

  defp passes?(%{"exists" => exists}, value), do: exists == value not in [nil, []]
  defp passes?(nil, value), do: value == nil
  defp passes?(_test, nil), do: false
  defp passes?(test, list) when is_list(list), do: Enum.any?(list, &passes?(test, &1))
  defp passes?(%{"exactly" => string}, value), do: value == string
  defp passes?(%{"prefix" => %{"equals-ignore-case" => text}}, value), do: String.starts_with?(low(value), low(text))
  defp passes?(%{"prefix" => text}, value), do: String.starts_with?(value, text)
  defp passes?(%{"suffix" => %{"equals-ignore-case" => text}}, value), do: String.ends_with?(low(value), low(text))
  defp passes?(%{"suffix" => text}, value), do: String.ends_with?(value, text)
  defp passes?(%{"equals-ignore-case" => text}, value), do: low(value) == low(text)
  defp passes?(%{"wildcard" => text}, value), do: value =~ wildcard(text)
  defp passes?(%{"cidr" => network}, value), do: within?(value, network)
  defp passes?(%{"numeric" => numeric}, value), do: within_numbers?(numeric, value)

  defp passes?(%{"anything-but" => object}, value) when is_map(object) do
    [{name, texts}] = Map.to_list(object)
    not Enum.any?(List.wrap(texts), &passes?(%{name => &1}, value))
  end

  defp passes?(%{"anything-but" => values}, value), do: not Enum.any?(List.wrap(values), &(&1 == value))
  defp passes?(scalar, value), do: scalar == value

  defp within_numbers?([], _value), do: true
  defp within_numbers?(["=", number | rest], value), do: value == number and within_numbers?(rest, value)
  defp within_numbers?(["<", number | rest], value), do: value < number and within_numbers?(rest, value)
  defp within_numbers?(["<=", number | rest], value), do: value <= number and within_numbers?(rest, value)
  defp within_numbers?([">", number | rest], value), do: value > number and within_numbers?(rest, value)
  defp within_numbers?([">=", number | rest], value), do: value >= number and within_numbers?(rest, value)

  defp wildcard(text) do
    source =
      Regex.replace(~r/\\[*\\]|\*|[^*\\]+/s, text, fn part ->
        if part == "*", do: ".*", else: Regex.escape(plain(part))
      end)

    Regex.compile!("\\A" <> source <> "\\z", "su")
  end

  defp plain("\\" <> character), do: character
  defp plain(text), do: text

  defp within?(address, network) do
    [first, bits] = String.split(network, "/")
    {own, width} = integer(address)
    {other, other_width} = integer(first)
    shift = width - String.to_integer(bits)
    width == other_width and Bitwise.bsr(own, shift) == Bitwise.bsr(other, shift)
  end

  defp integer(address) do
    {:ok, parts} = :inet.parse_address(String.to_charlist(address))
    size = if tuple_size(parts) == 4, do: 8, else: 16
    {parts |> Tuple.to_list() |> Integer.undigits(Bitwise.bsl(1, size)), size * tuple_size(parts)}
  end

  defp low(text), do: String.downcase(text)

  @strings ["a", "ab", "abc", "B", "Ab", "x*y", "a\\b", "it's", "", "é", "a?c", "running"]
  @numbers [-1.5, 0, 1, 2, 3.018e2, 10, 1.0e20]
  @fields [
    {["source"], :string},
    {["detail", "state"], :string},
    {["detail", "count"], :number},
    {["detail", "first name"], :string},
    {["on"], :boolean},
    {["detail", "tags"], :array},
    {["seen"], :any}
  ]

  @doc "Returns the names of the fields that may have arrays."
  def arrays, do: ["detail.tags"]

  @doc "Returns a random decoded pattern. `more` has further tests of strings."
  def random(more \\ []), do: random(more, 2)

  defp random(more, depth) do
    fields = for {path, type} <- Enum.take_random(@fields, Enum.random(1..3)), do: {path, tests(type, more)}
    pattern = Enum.reduce(fields, %{}, fn {path, tests}, pattern -> put(pattern, path, tests) end)

    if depth > 0 and :rand.uniform(3) == 1,
      do: Map.put(pattern, "$or", for(_ <- 1..Enum.random(2..3), do: random(more, depth - 1))),
      else: pattern
  end

  defp put(map, [name], value), do: Map.put(map, name, value)
  defp put(map, [name | rest], value), do: Map.put(map, name, put(map[name] || %{}, rest, value))

  defp tests(type, more), do: for(_ <- 1..Enum.random(1..3), do: test(type, more))

  defp test(type, _more) when type == :any, do: %{"exists" => Enum.random([true, false])}
  defp test(:boolean, _more), do: Enum.random([true, false, nil, %{"exists" => true}])
  defp test(:array, _more), do: Enum.random([Enum.random(@strings), %{"exists" => false}, %{"exactly" => "a"}])

  defp test(:number, _more) do
    [low, high] = @numbers |> Enum.take_random(2) |> Enum.sort()

    Enum.random([
      low,
      %{"numeric" => [Enum.random(~w(= < <= > >=)), low]},
      %{"numeric" => [Enum.random(~w(> >=)), low, Enum.random(~w(< <=)), high]},
      %{"anything-but" => low},
      %{"anything-but" => [low, high]},
      %{"exists" => false}
    ])
  end

  defp test(:string, more) do
    string = Enum.random(@strings)
    texts = Enum.random([string, "x", [string, "b"]])
    not_empty = if texts == "", do: "a", else: texts |> List.wrap() |> Enum.reject(&(&1 == ""))

    Enum.random([
      string,
      %{"exactly" => string},
      %{"prefix" => string},
      %{"suffix" => string},
      %{"anything-but" => texts},
      %{"anything-but" => %{"prefix" => not_empty}},
      %{"anything-but" => %{"suffix" => not_empty}},
      %{"exists" => Enum.random([true, false])},
      nil
      | Enum.flat_map(more, &further(&1, string))
    ])
  end

  defp further(:ignore_case, string) do
    object = %{"equals-ignore-case" => string}
    [object, %{"prefix" => object}, %{"suffix" => object}, %{"anything-but" => object}]
  end

  defp further(:wildcard, _string) do
    wildcard = Enum.random(["a*", "*b", "*a*", "x\\*y", "a\\\\b", "*", "a*c", "a?*", ""])
    [%{"wildcard" => wildcard}, %{"anything-but" => %{"wildcard" => wildcard}}]
  end

  @doc "Returns a random decoded event for the fields of random patterns."
  def event do
    for {path, type} <- @fields, :rand.uniform(4) > 1, reduce: %{} do
      event -> put(event, path, value(type))
    end
  end

  defp value(:string), do: Enum.random(@strings)
  defp value(:number), do: Enum.random([5, -1 | @numbers])
  defp value(:boolean), do: Enum.random([true, false])
  defp value(:array), do: Enum.random([Enum.random(@strings), Enum.take_random(@strings, Enum.random(0..3))])
  defp value(:any), do: Enum.random([1, "x", true, nil, ["x"]])
end
