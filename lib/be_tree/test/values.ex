defmodule BeTree.Test.Values do
  @moduledoc false
  # The notable values of a domain: those at which code breaks, and those beside the constants of expressions. For a list they are its
  # elements.

  alias BeTree.Domain
  alias BeTree.Test.Constants

  import Bitwise

  @min_integer -0x8000_0000_0000_0000
  @max_integer 0x7FFF_FFFF_FFFF_FFFF
  @now 1_700_000_000
  @km_per_degree 111.195

  @doc "The value around which `now` and timestamps are, in seconds."
  @spec now() :: integer
  def now, do: @now

  @doc """
  Returns the notable values of a domain, given the predicates that read it: those of the domain alone, and those beside constants. Without
  constants both are the same.
  """
  @spec of(Domain.t(), [Constants.predicate()]) :: {[term, ...], [term, ...]}
  def of(domain, predicates) do
    edges = domain |> edges() |> Enum.filter(&fits?(domain, &1))
    near = predicates |> Enum.flat_map(&near(domain, &1)) |> Enum.filter(&fits?(domain, &1))
    {edges, if(near == [], do: edges, else: near)}
  end

  @doc "Returns the least and the greatest number that a random value of the domain has."
  @spec range(Domain.t()) :: {number, number}
  def range(%Domain{name: "now", min: nil, max: nil}), do: {@now - 1_000, @now + 1_000}
  def range(%Domain{min: nil, max: nil}), do: {-1_000, 1_000}
  def range(%Domain{min: min, max: nil}), do: {min, min(min + 1_000, @max_integer)}
  def range(%Domain{min: nil, max: max}), do: {max(max - 1_000, @min_integer), max}
  def range(%Domain{min: min, max: max}), do: {min, max}

  defp edges(%Domain{type: :boolean}), do: [true, false]
  defp edges(%Domain{name: "now", min: nil, max: nil}), do: [@now]
  defp edges(%Domain{name: "latitude", type: :float, min: nil}), do: [-90.0, 0.0, 90.0]
  defp edges(%Domain{name: "longitude", type: :float, min: nil}), do: [-180.0, 0.0, 180.0]

  defp edges(%Domain{type: type} = domain) when type in [:integer, :integer_list, :integer_enum] do
    {min, max} = {domain.min || @min_integer, domain.max || @max_integer}
    [min, min + 1, max - 1, max, -1, 0, 1]
  end

  defp edges(%Domain{type: :float} = domain) do
    {min, max} = {domain.min || -1.7976931348623157e308, domain.max || 1.7976931348623157e308}
    [min * 1.0, max * 1.0, 0.0, 1.0, -1.0, 0.1, 5.0e-324]
  end

  defp edges(%Domain{type: type}) when type in [:string, :string_list],
    do: ["", " ", "a", "A", "it's", ~S(say "no"), ~S(back\slash), "é", "日本", "🎈", String.duplicate("x", 300)]

  defp edges(%Domain{type: :ip}),
    do: ["0.0.0.0", "10.0.0.1", "255.255.255.255", "::", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]

  defp edges(%Domain{type: :datetime, unit: unit}), do: for(seconds <- [-1, 0, 1, @now], do: seconds * per_second(unit))
  defp edges(%Domain{type: :segments}), do: [{1, @now * 1_000_000}]

  defp edges(%Domain{type: :frequency_caps}),
    do: [{{"flight", 1, "ads"}, 0, nil}, {{"campaign", 1, "ads"}, 1, @now * 1_000_000}]

  defp near(%Domain{type: type} = domain, predicate) do
    case {predicate.function, type} do
      {"geo_within_radius", :float} -> near_circle(domain.name, predicate.literals)
      {_function, :segments} -> near_segment(predicate.literals)
      {_function, :frequency_caps} -> near_cap(predicate)
      _other -> Enum.flat_map(predicate.literals, &beside(domain, &1))
    end
  end

  defp beside(%Domain{type: type}, number) when type in [:integer, :integer_enum, :integer_list] and is_integer(number),
    do: [number - 1, number, number + 1]

  defp beside(%Domain{type: :integer}, number) when is_float(number) and abs(number) < 1.0e18,
    do: [floor(number), ceil(number)]

  defp beside(%Domain{type: :float}, number) when is_number(number) do
    number = number * 1.0
    for step <- [-1, 1], value <- [number, number + step, next(number, step)], do: value
  end

  defp beside(%Domain{type: type}, string) when type in [:string, :string_list] and is_binary(string) do
    plain = string |> String.replace("*", "") |> String.replace("?", "x")
    shorter = String.slice(string, 0, max(String.length(string) - 1, 0))
    others = Enum.uniq([plain, string <> "x", "x" <> string, shorter, String.upcase(string), String.downcase(string)])
    # The constant three times, so that one event often has the constants of several attributes.
    List.duplicate(string, 3) ++ others
  end

  # The length of a string.
  defp beside(%Domain{type: :string}, number) when is_integer(number) and number in 0..1_000,
    do: for(length <- (number - 1)..(number + 1), length >= 0, do: String.duplicate("x", length))

  defp beside(%Domain{type: :ip}, network) when is_binary(network) do
    [address | bits] = String.split(network, "/")

    case address |> String.to_charlist() |> :inet.parse_strict_address() do
      {:ok, address} -> beside_network(address, bits)
      {:error, _reason} -> []
    end
  end

  defp beside(%Domain{type: :datetime, unit: unit}, time) when is_binary(time) do
    case DateTime.from_iso8601(time) do
      {:ok, time, _offset} -> for step <- [-1, 0, 1], do: DateTime.to_unix(time, unit) + step
      {:error, _reason} -> []
    end
  end

  defp beside(_domain, _literal), do: []

  # The addresses at both ends of a network, and those outside of it.
  defp beside_network(address, bits) do
    {count, part} = if tuple_size(address) == 4, do: {4, 8}, else: {8, 16}
    width = count * part
    <<number::size(width)>> = for value <- Tuple.to_list(address), into: <<>>, do: <<value::size(part)>>

    size = 1 <<< (width - bits_of(bits, width))
    first = number - rem(number, size)

    for number <- [first - 1, first, first + size - 1, first + size], number in 0..((1 <<< width) - 1) do
      parts = for <<(value::size(part) <- <<number::size(width)>>)>>, do: value
      parts |> List.to_tuple() |> :inet.ntoa() |> to_string()
    end
  end

  defp bits_of([bits], _width), do: String.to_integer(bits)
  defp bits_of([], width), do: width

  # The centre, and places just inside and outside of the circle.
  defp near_circle("latitude", [latitude, _longitude, km]) do
    for way <- [-1, 1],
        share <- [0, 0.99, 1.01],
        value = latitude + way * share * km / @km_per_degree,
        abs(value) <= 90,
        do: value * 1.0
  end

  defp near_circle("longitude", [_latitude, longitude, _km]), do: [longitude * 1.0]
  defp near_circle(_other, _literals), do: []

  defp near_segment([id, seconds]) when is_integer(id) and is_integer(seconds),
    do: for(step <- [-1, 0, 1], do: {id, (@now - seconds) * 1_000_000 + step})

  defp near_segment(_other), do: []

  defp near_cap(%{literals: [type, namespace, limit, seconds], constants: constants}) do
    entity = type |> String.split(":") |> hd()

    for {:ok, id} <- [Map.fetch(constants, entity <> "_id")],
        shown <- [limit - 1, limit],
        at <- [nil, (@now - seconds) * 1_000_000, (@now - seconds) * 1_000_000 + 1],
        do: {{type, id, namespace}, shown, at}
  end

  defp near_cap(_other), do: []

  # The next float in the direction of `step`.
  defp next(number, step) when abs(number) < 1.0e-300 or abs(number) > 1.0e300, do: number + step

  defp next(number, step) do
    <<bits::64>> = <<number::float>>
    <<next::float>> = <<bits + if(number > 0, do: step, else: -step)::64>>
    next
  end

  defp per_second(unit), do: System.convert_time_unit(1, :second, unit)

  defp fits?(%Domain{type: type} = domain, number) when type in [:integer, :integer_enum, :integer_list],
    do: number >= (domain.min || @min_integer) and number <= (domain.max || @max_integer)

  defp fits?(%Domain{type: :float} = domain, number),
    do: (domain.min == nil or number >= domain.min) and (domain.max == nil or number <= domain.max)

  defp fits?(_domain, _value), do: true
end
