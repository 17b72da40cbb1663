defmodule BeTree.Test.Plan do
  @moduledoc false
  # How to make events of a schema: for each attribute the fields that lead to it, its domain, and its notable values, or for a list of
  # objects the plan of an object. `event/2` makes an event with a state of `:rand`, `generator/1` the same with StreamData.

  alias BeTree.Domain
  alias BeTree.Test.{Constants, Values}

  @compile {:no_warn_undefined, StreamData}

  @lists [:integer_list, :string_list, :segments, :frequency_caps]
  @max_length 4

  @type t :: [{fields :: [String.t(), ...], Domain.t(), {edges :: [term, ...], near :: [term, ...]} | t}]

  defdelegate now(), to: Values

  @doc "Returns the plan of a schema, given the predicates that read its attributes."
  @spec new([Domain.t()], %{optional(String.t()) => [Constants.predicate()]}) :: t
  def new(schema, predicates), do: plan(schema, [], predicates)

  # `around` are the fields of the list whose objects are planned.
  defp plan(schema, around, predicates) do
    fields = for domain <- schema, {:ok, path} = Domain.Path.fields(domain.name), do: {path, domain}
    lists = for {path, %{type: :object_list}} <- fields, do: path
    within = fn path -> Enum.find(lists, &(&1 != path and List.starts_with?(path, &1))) end

    for {path, domain} <- fields, within.(path) == nil do
      {Enum.drop(path, length(around)), domain, source(domain, path, fields, predicates)}
    end
  end

  defp source(%{type: :object_list}, list, fields, predicates) do
    members = for {path, domain} <- fields, path != list, List.starts_with?(path, list), do: domain
    plan(members, list, predicates)
  end

  defp source(domain, _path, _fields, predicates), do: Values.of(domain, Map.get(predicates, domain.name, []))

  @doc "Returns a random event."
  @spec event(t, :rand.state()) :: map
  def event(plan, random), do: plan |> object(random) |> elem(0)

  defp object(plan, random) do
    Enum.reduce(plan, {%{}, random}, fn {fields, domain, source}, {object, random} ->
      {undefined?, random} = one_in(4, random)
      {value, random} = value(domain, source, random)
      {if(domain.optional and undefined?, do: object, else: put(object, fields, value)), random}
    end)
  end

  defp value(%{type: :object_list}, plan, random), do: list(random, &object(plan, &1))

  defp value(%{type: type} = domain, values, random) when type in @lists do
    {list, random} = list(random, &element(domain, values, &1))
    {distinct(type, list), random}
  end

  defp value(domain, values, random), do: element(domain, values, random)

  defp list(random, element) do
    {length, random} = integer(0, @max_length, random)
    Enum.map_reduce(List.duplicate(nil, length), random, fn nil, random -> element.(random) end)
  end

  # Half of the values are near constants.
  defp element(domain, {edges, near}, random) do
    case :rand.uniform_s(4, random) do
      {1, random} -> plain(domain, edges, random)
      {2, random} -> member(edges, random)
      {_other, random} -> member(near, random)
    end
  end

  # An ordinary value. A type without ordinary values has only its edges.
  defp plain(%{type: type} = domain, _edges, random) when type in [:integer, :integer_list, :integer_enum] do
    {min, max} = Values.range(domain)
    integer(min, max, random)
  end

  defp plain(%{type: :float} = domain, _edges, random) do
    {min, max} = Values.range(domain)
    {share, random} = :rand.uniform_s(random)
    {share * min + (1 - share) * max, random}
  end

  defp plain(%{type: type}, _edges, random) when type in [:string, :string_list] do
    {characters, random} = list(random, &integer(?a, ?z, &1))
    {List.to_string(characters), random}
  end

  defp plain(%{type: :ip}, _edges, random) do
    {parts, random} = Enum.map_reduce(1..4, random, fn _part, random -> integer(0, 255, random) end)
    {Enum.join(parts, "."), random}
  end

  defp plain(_other, edges, random), do: member(edges, random)

  defp member(values, random) do
    {number, random} = :rand.uniform_s(length(values), random)
    {Enum.at(values, number - 1), random}
  end

  defp integer(min, max, random) do
    {number, random} = :rand.uniform_s(max - min + 1, random)
    {min + number - 1, random}
  end

  defp one_in(count, random) do
    {number, random} = :rand.uniform_s(count, random)
    {number == 1, random}
  end

  @doc "Returns a generator of StreamData."
  @spec generator(t) :: term
  def generator(plan) do
    values = for {fields, domain, source} <- plan, into: %{}, do: {fields, value_generator(domain, source)}
    optional = for {fields, %{optional: true}, _source} <- plan, do: fields

    values
    |> StreamData.optional_map(optional)
    |> StreamData.map(&Enum.reduce(&1, %{}, fn {fields, value}, object -> put(object, fields, value) end))
  end

  defp value_generator(%{type: :object_list}, plan), do: StreamData.list_of(generator(plan), max_length: @max_length)

  defp value_generator(%{type: type} = domain, values) when type in @lists do
    domain
    |> element_generator(values)
    |> StreamData.list_of(max_length: @max_length)
    |> StreamData.map(&distinct(type, &1))
  end

  defp value_generator(domain, values), do: element_generator(domain, values)

  # A value shrinks to a plain one.
  defp element_generator(domain, {edges, near}) do
    plain = plain_generator(domain) || StreamData.member_of(edges)
    StreamData.frequency([{1, plain}, {1, StreamData.member_of(edges)}, {2, StreamData.member_of(near)}])
  end

  defp plain_generator(%{type: type} = domain) when type in [:integer, :integer_list, :integer_enum] do
    {min, max} = Values.range(domain)
    StreamData.integer(min..max)
  end

  defp plain_generator(%{type: :float} = domain) do
    {min, max} = Values.range(domain)
    StreamData.float(min: min * 1.0, max: max * 1.0)
  end

  defp plain_generator(%{type: type}) when type in [:string, :string_list], do: StreamData.string(:utf8, max_length: 8)
  defp plain_generator(_other), do: nil

  # A list of segments has one entry for a segment, and one of caps for a key.
  defp distinct(type, list) when type in [:segments, :frequency_caps], do: Enum.uniq_by(list, &elem(&1, 0))
  defp distinct(_type, list), do: list

  defp put(object, fields, value), do: put_in(object, Enum.map(fields, &Access.key(&1, %{})), value)
end
