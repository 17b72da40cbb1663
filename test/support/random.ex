defmodule BeTree.Test.Random do
  @moduledoc """
  Makes random domains, expressions (as terms of `BeTree.Test.Naive`), their texts, and events.

  All use the process's `:rand`, so a seed repeats them. Values come from small pools, so that predicates are often true.
  """

  alias BeTree.Test.{Naive, Nested}

  # Some names begin like keywords, or contain a hyphen.
  @names ~w(a b_2 android orange nothing inner island contains_it true_north x-y Z _u emptyish null_ one_of_us allowed)

  @strings [
    "a",
    "b",
    "ab",
    "bab",
    "",
    "it's",
    ~S(say "no"),
    ~S(back\slash),
    "été",
    "日本",
    "🎈",
    "with space",
    "AB",
    "ÉtÉ"
  ]
  # Paths, and names that are no identifiers.
  @paths [
    "user.age",
    "user.name",
    "user.address.city",
    "user.`first name`",
    "`a.b`",
    "`é``x`.and",
    "`not`",
    "deep.a.b.c.d"
  ]

  @string_atoms %{"a" => :a, "ab" => :ab, "été" => :été}
  @addresses [{10, 0, 0, 1}, {10, 1, 2, 3}, {10, 1, 2, 2}, {192, 168, 0, 1}] ++
               [{0x2001, 0xDB8, 0, 0, 0, 0, 0, 1}, {0x2001, 0xDB8, 0, 1, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0, 0, 1}]
  # Times that share the upper 32 bits, and others.
  @times [0, 1, -1, 1_700_000_000_000_000, 1_700_000_000_000_001, 1_700_000_000_000_002, -5_000_000_000_000_000]
  @integers Enum.to_list(-3..10)
  @extremes [-0x8000_0000_0000_0000, 0x7FFF_FFFF_FFFF_FFFF, 0x8000_0000, -0x8000_0001]
  @floats [-2.5, -1.0, 0.0, 0.1, 0.30000000000000004, 1.0, 2.5, 7.0, 123_456_789.125]
  @now 1_700_000_000
  @cap_types for entity <- ~w(flight advertiser campaign campaign_group product), ip <- ["", ":ip"], do: entity <> ip

  @doc "Returns the constants of every random expression."
  def constants,
    do: %{"flight_id" => 1, "advertiser_id" => 2, "campaign_id" => 1, "campaign_group_id" => 3, "product_id" => -4}

  @doc "Limits this process's generators to erl-be-tree's language."
  def original, do: Process.put(__MODULE__, :original)

  defp extended?, do: Process.get(__MODULE__) != :original

  @doc "Returns domains for `BeTree.new/2`: mostly the predefined attributes, and some of all types."
  def schema, do: schema(@names)

  @doc "Returns domains, some of them for fields of maps."
  def nested_schema, do: schema(@names ++ @paths ++ @paths)

  defp schema(names) do
    own = [
      {"now", :integer},
      {"latitude", :float},
      {"longitude", :float},
      {"segments_with_timestamp", :segments},
      {"frequency_caps", :frequency_caps}
    ]

    types = ~w(boolean integer float string integer_enum integer_list string_list segments)a
    types = if extended?(), do: [:ip, :datetime | types], else: types
    others = for name <- Enum.uniq(Enum.take_random(names, Enum.random(3..15))), do: {name, Enum.random(types)}
    kept = Enum.filter(own, fn _ -> chance(0.7) end)

    lists = if extended?() and chance(0.4), do: [{"items", {:list, objects(), [optional: chance(0.6)]}}], else: []

    domains =
      for {name, type} <- kept ++ others do
        bounds = if name in ~w(now latitude longitude), do: [], else: bounds(type)
        {name, {type, [optional: chance(0.6)] ++ bounds}}
      end

    Enum.shuffle(domains ++ lists)
  end

  # Returns the domains of the objects in a list.
  defp objects do
    types = ~w(boolean integer float string integer_enum integer_list string_list ip datetime)a

    for name <- Enum.take_random(@names, Enum.random(1..6)) do
      type = Enum.random(types)
      {name, {type, [optional: chance(0.6)] ++ bounds(type)}}
    end
  end

  # Returns bounds that include all constants of `expression/1` for this domain.
  defp bounds(type) when type in [:integer, :integer_list],
    do: Enum.random([[], [min: -3, max: 10], [min: -3], [max: 10]])

  defp bounds(:float), do: Enum.random([[], [min: -2.5], [min: -2.5, max: 123_456_789.125]])
  # A part of a string is a constant of a pattern without a wildcard.
  defp bounds(:string), do: Enum.random([[], [count: 10 * length(@strings)]])
  defp bounds(:integer_enum), do: Enum.random([[], [count: length(@integers)]])
  defp bounds(_type), do: []

  @doc "Returns an expression over `domains`, of a random depth."
  def expression(domains), do: expression(domains, Enum.random(0..5))

  defp expression(domains, 0) do
    if chance(0.03), do: {:constant, chance(0.5)}, else: predicate(domains)
  end

  defp expression(domains, depth) do
    case :rand.uniform(10) do
      n when n <= 4 -> {:and, expression(domains, depth - 1), expression(domains, depth - 1)}
      n when n <= 8 -> {:or, expression(domains, depth - 1), expression(domains, depth - 1)}
      9 -> {:not, expression(domains, depth - 1)}
      10 -> expression(domains, 0)
    end
  end

  defp predicate(domains) do
    case Enum.random(domains) do
      {name, {:list, objects, _options}} -> of_objects(name, objects)
      {name, {type, options}} -> predicate_of(name, type, options, domains)
    end
  end

  # `lower` is not allowed inside a condition on objects.
  defp of_objects(name, objects) do
    case :rand.uniform(10) do
      1 ->
        {:is, Enum.random([:null, :not_null, :empty]), name}

      _ ->
        {:objects, Enum.random([:any, :any, :all, :none]), name,
         objects |> expression(Enum.random(0..3)) |> raise_lower()}
    end
  end

  defp raise_lower({:lower, name}), do: name

  defp raise_lower(expression) when is_tuple(expression),
    do: expression |> Tuple.to_list() |> Enum.map(&raise_lower/1) |> List.to_tuple()

  defp raise_lower(other), do: other

  defp predicate_of(name, type, options, domains) do
    special = Enum.filter([:geo, :segment, :cap], &possible?(&1, domains))

    cond do
      special != [] and chance(0.2) -> special(Enum.random(special), domains)
      extended?() and chance(0.1) and computable(domains) != [] -> computed(computable(domains))
      chance(0.1) -> {:is, Enum.random([:null, :not_null]), name}
      true -> predicate(type, name, options, domains)
    end
  end

  # Returns the possible operands of computations over `domains`.
  defp computable(domains) do
    for {name, {type, _options}} <- domains, operand = operand(type, name), do: operand
  end

  defp operand(type, name) when type in [:integer, :float, :datetime], do: name
  defp operand(type, name) when type in [:integer_list, :string_list, :segments], do: {:size, name}
  defp operand(:string, name), do: {:length, name}
  defp operand(_type, _name), do: nil

  # One side has an attribute; a constant is never beside a bare attribute.
  defp computed(operands) do
    left = {Enum.random([:+, :-, :*]), Enum.random(operands), computation(operands, 2)}
    {:computed, Enum.random([:<, :<=, :>, :>=, :=, :<>]), left, computation(operands, 2)}
  end

  defp computation(operands, depth) do
    if depth == 0 or chance(0.3) do
      Enum.random([Enum.random(@integers), Enum.random(@floats), Enum.random(operands), Enum.random(operands)])
    else
      {Enum.random([:+, :-, :*, :/]), computation(operands, depth - 1), computation(operands, depth - 1)}
    end
  end

  defp predicate(:boolean, name, _options, _domains), do: {:variable, name}

  defp predicate(:datetime, name, _options, _domains) do
    case :rand.uniform(3) do
      1 -> {:between, Enum.random([:between, :not_between]), name, Enum.random(@times), Enum.random(@times)}
      _ -> {:compare, Enum.random([:<, :<=, :>, :>=]), name, Enum.random(@times)}
    end
  end

  defp predicate(:integer, "now", _options, _domains) do
    {:compare, Enum.random([:<, :<=, :>, :>=]), "now", @now + Enum.random(-2..2)}
  end

  defp predicate(:integer, name, options, _domains) do
    case :rand.uniform(if(extended?(), do: 5, else: 4)) do
      5 -> {:between, Enum.random([:between, :not_between]), name, integer_constant(options), integer_constant(options)}
      1 -> {:equal, Enum.random([:==, :!=]), name, integer_constant(options)}
      2 -> {:member, Enum.random([:in, :not_in]), name, one_to_five(fn -> integer_constant(options) end)}
      _ -> {:compare, Enum.random([:<, :<=, :>, :>=]), name, integer_constant(options)}
    end
  end

  defp predicate(:float, name, options, _domains) do
    constant = if options[:min] == nil and chance(0.2), do: Enum.random(@integers), else: Enum.random(@floats)
    constant = if options[:max] != nil, do: min(constant, options[:max]), else: constant

    if chance(0.4),
      do: {:equal, Enum.random([:==, :!=]), name, constant},
      else: {:compare, Enum.random([:<, :<=, :>, :>=]), name, constant}
  end

  defp predicate(:string, name, _options, _domains) do
    name = if extended?() and chance(0.3), do: {:lower, name}, else: name
    strings = if is_tuple(name), do: Enum.map(@strings, &String.downcase/1), else: @strings

    case :rand.uniform(if(extended?(), do: 4, else: 3)) do
      1 -> {:equal, Enum.random([:==, :!=]), name, Enum.random(strings)}
      2 -> {:member, Enum.random([:in, :not_in]), name, one_to_five(fn -> Enum.random(strings) end)}
      3 -> {:text, Enum.random([:contains, :starts_with, :ends_with]), name, Enum.random(strings)}
      4 -> {:like, Enum.random([:like, :not_like]), name, pattern(strings)}
    end
  end

  defp predicate(:ip, name, _options, _domains) do
    networks =
      one_to_five(fn ->
        address = Enum.random(@addresses)
        {address, Enum.random(0..if(tuple_size(address) == 4, do: 32, else: 128))}
      end)

    {:network, Enum.random([:in, :not_in]), name, networks}
  end

  defp predicate(:integer_enum, name, _options, _domains) do
    if chance(0.5),
      do: {:equal, Enum.random([:==, :!=]), name, Enum.random(@integers)},
      else: {:member, Enum.random([:in, :not_in]), name, one_to_five(fn -> Enum.random(@integers) end)}
  end

  defp predicate(:integer_list, name, options, _domains), do: list(name, fn -> integer_constant(options) end)
  defp predicate(:string_list, name, _options, _domains), do: list(name, fn -> Enum.random(@strings) end)
  defp predicate(:segments, name, _options, domains), do: segments(name, domains)
  defp predicate(:frequency_caps, name, _options, _domains), do: {:is, :not_null, name}

  # A pattern without wildcards would count as a constant of a bounded attribute.
  defp pattern(strings) do
    Enum.shuffle([Enum.random([:any, :one]) | one_to_five(fn -> Enum.random([:any, :any, :one | strings]) end)])
  end

  defp list(name, constant) do
    case :rand.uniform(3) do
      1 -> {:has, Enum.random([:in, :not_in]), name, constant.()}
      2 -> {:list, Enum.random([:one_of, :none_of, :all_of]), name, one_to_five(constant)}
      3 -> if chance(0.3), do: {:is, :empty, name}, else: {:list, :one_of, name, one_to_five(constant)}
    end
  end

  defp segments(name, domains) do
    if type_of(domains, "now") == :integer,
      do: {:segment, Enum.random([:within, :before]), name, Enum.random(1..4), Enum.random([0, 10, 100, -5])},
      else: {:is, :not_null, name}
  end

  defp possible?(:geo, domains), do: type_of(domains, "latitude") == :float and type_of(domains, "longitude") == :float
  defp possible?(:segment, domains), do: has_type?(domains, "segments_with_timestamp")
  defp possible?(:cap, domains), do: has_type?(domains, "frequency_caps")

  defp has_type?(domains, name), do: type_of(domains, name) != nil and type_of(domains, "now") != nil

  defp type_of(domains, name) do
    with {^name, {type, _options}} <- List.keyfind(domains, name, 0), do: type
  end

  defp special(:geo, _domains),
    do: {:geo, Enum.random([45.5, -10, 0.25]), Enum.random([-73.6, 179, 0]), Enum.random([1, 500.5, 8000])}

  defp special(:segment, domains), do: segments("segments_with_timestamp", domains)

  defp special(:cap, _domains) do
    {:cap, Enum.random(@cap_types), Enum.random(["ns", "été"]), Enum.random([-1, 0, 5, 20]),
     Enum.random([-1, 0, 10, 100])}
  end

  defp integer_constant(options) do
    if options[:min] == nil and options[:max] == nil and chance(0.05),
      do: Enum.random(@extremes),
      else: Enum.random(@integers)
  end

  defp one_to_five(constant), do: for(_ <- 1..Enum.random(1..5), do: constant.())

  @doc "Returns an event for `domains`: `{name, value}` for each defined attribute."
  def event(domains) do
    for domain <- domains, {name, value} <- value_of(domain), do: {name, value}
  end

  defp value_of({name, {:list, objects, options}}) do
    if options[:optional] and chance(0.3),
      do: [],
      else: [{name, for(_ <- 1..Enum.random(0..4)//1, do: event(objects))}]
  end

  defp value_of({name, {type, options}}) do
    if options[:optional] and chance(0.3), do: [], else: [{name, value(name, type)}]
  end

  defp value("now", _type), do: @now + Enum.random(-2..2)
  defp value("latitude", _type), do: Enum.random([45.4, 45.6, -10.0, 0.0, 89.9])
  defp value("longitude", _type), do: Enum.random([-73.5, -179.9, 0.0, 178.0])
  defp value(_name, :boolean), do: chance(0.5)
  defp value(_name, :integer), do: if(chance(0.1), do: Enum.random(@extremes), else: Enum.random(@integers))
  defp value(_name, :float), do: if(chance(0.2), do: Enum.random(@integers) * 1.0, else: Enum.random(@floats))
  defp value(_name, :string), do: Enum.random(["unheard of" | @strings])
  defp value(_name, :integer_enum), do: Enum.random([77 | @integers])
  defp value(_name, :integer_list), do: any(fn -> value(nil, :integer) end)
  defp value(_name, :string_list), do: any(fn -> value(nil, :string) end)

  defp value(_name, :datetime), do: Enum.random(@times)
  defp value(_name, :ip), do: Enum.random(@addresses)

  defp value(_name, :segments) do
    for id <- Enum.take_random(1..5, Enum.random(0..4)) do
      {id, (@now - Enum.random([-5, 0, 10, 50, 100])) * 1_000_000 + Enum.random([-1, 0, 1, 500_000])}
    end
  end

  defp value(_name, :frequency_caps) do
    any(fn ->
      micros = (@now - Enum.random([0, 10, 50, 100])) * 1_000_000 + Enum.random([-1, 0, 1, 500_000])
      key = {Enum.random(@cap_types), Enum.random([1, 2, 3, -4]), Enum.random(["ns", "été", "other"])}
      {key, Enum.random([0, 4, 5, 6, 30]), Enum.random([nil, micros])}
    end)
  end

  defp any(value), do: for(_ <- 1..Enum.random(0..5)//1, do: value.())

  @doc """
  Replaces values of optional attributes, in objects of lists too, by mismatching ones. Returns the event without these
  values, the event with them, and their number.
  """
  def spoil(event, domains) do
    attributes = Enum.map(domains, &spoil_attribute(&1, List.keyfind(event, elem(&1, 0), 0)))
    plain = for {plain, _spoilt, _count} when plain != nil <- attributes, do: plain
    spoilt = for {_plain, spoilt, _count} when spoilt != nil <- attributes, do: spoilt
    {plain, spoilt, attributes |> Enum.map(&elem(&1, 2)) |> Enum.sum()}
  end

  defp spoil_attribute({name, spec}, attribute) do
    options = elem(spec, tuple_size(spec) - 1)

    case {spec, attribute} do
      {{:list, objects, _options}, {_name, list}} ->
        if options[:optional] and chance(0.2),
          do: {nil, {name, unfit(:list)}, 1},
          else: spoil_objects(name, list, objects)

      _other ->
        if options[:optional] and chance(0.3),
          do: {nil, {name, unfit(elem(spec, 0))}, 1},
          else: {attribute, attribute, 0}
    end
  end

  defp spoil_objects(name, list, objects) do
    spoilt = Enum.map(list, &spoil(&1, objects))
    [plain, others, counts] = for position <- 0..2, do: Enum.map(spoilt, &elem(&1, position))
    {{name, plain}, {name, others}, Enum.sum(counts)}
  end

  defp unfit(type) do
    common = [%{"x" => 1}, %{"x" => [nil]}]

    others =
      case type do
        :boolean -> [7, "true", 0.5, [true]]
        integer when integer in [:integer, :integer_enum] -> ["7", 1.5, 2 ** 70, true, [1]]
        :float -> ["x", "", true, [1.5]]
        :string -> [7, 1.5, true, ["a"]]
        :integer_list -> ["a", 7, [1, nil], ["a"], [1, 1.5]]
        :string_list -> ["a", 7, [1], ["a", nil], ["a", true]]
        :ip -> ["sts.amazonaws.com", "", "10.0.0.256", 7, [1]]
        :datetime -> ["yesterday", "", "2026-13-01", 1.5, true, [1]]
        list when list in [:segments, :frequency_caps, :list] -> ["x", 7, [7], [[1]], [nil]]
      end

    Enum.random(common ++ others)
  end

  @doc """
  Returns an equivalent event in another form: paths as maps, shuffled, undefined attributes absent or explicit, strings as
  atoms here and there, whole floats as integers, unknown attributes added.
  """
  def dress(event, domains) do
    undefined =
      for {name, {_type, [{:optional, true} | _]}} <- domains, not List.keymember?(event, name, 0), chance(0.5) do
        {name, Enum.random([nil, :undefined])}
      end

    unknown = if chance(0.2), do: [{"nobody_knows", [%{"a" => {1.5, "b"}}, 3]}], else: []
    lists = for {name, {:list, objects, _options}} <- domains, into: %{}, do: {name, objects}
    dressed = Enum.map(event, &dress_attribute(&1, lists))
    Enum.shuffle(Nested.nest(dressed ++ undefined) ++ unknown)
  end

  defp dress_attribute({name, value}, lists) when is_map_key(lists, name) do
    objects =
      for object <- value,
          dressed = dress(object, lists[name]),
          do: if(chance(0.5), do: dressed, else: Map.new(dressed))

    # An empty list of pairs is an object among terms, and an array in JSON.
    {name, Enum.map(objects, &if(&1 == [], do: %{}, else: &1))}
  end

  defp dress_attribute(pair, _lists), do: dress_pair(pair)

  defp dress_pair({name, string}) when is_map_key(@string_atoms, string) do
    {name, if(chance(0.3), do: @string_atoms[string], else: string)}
  end

  defp dress_pair({name, float}) when is_float(float) and abs(float) < 1.0e15 and trunc(float) == float do
    {name, if(chance(0.3), do: trunc(float), else: float)}
  end

  defp dress_pair({name, address}) when is_tuple(address) and tuple_size(address) in [4, 8] do
    {name, if(chance(0.5), do: to_string(:inet.ntoa(address)), else: address)}
  end

  defp dress_pair(pair), do: pair

  @doc "Returns `{id, expression}` pairs as subscriptions with random spellings."
  def subscriptions(expressions),
    do: for({id, expression} <- expressions, do: {id, text(expression), constants: constants()})

  @doc "Returns the ids of the `{id, expression}` pairs that the oracle finds for a map of values."
  def matches(expressions, event),
    do: for({id, expression} <- expressions, Naive.eval(expression, event, constants()), do: id)

  @doc "Returns the text of an expression, in a random spelling."
  def text(expression), do: expression |> spell(0) |> IO.iodata_to_binary()

  # Levels: 0 allows any operator, 1 all but `or`, 2 neither `or` nor `and`.
  defp spell({:or, a, b}, level), do: wrap(level > 0, [spell(a, 0), Enum.random([" or ", " || ", "||"]), spell(b, 1)])
  defp spell({:and, a, b}, level), do: wrap(level > 1, [spell(a, 1), Enum.random([" and ", " && ", "&&"]), spell(b, 2)])
  defp spell({:not, a}, _level), do: wrap(false, ["not ", spell(a, 2)])
  defp spell(predicate, _level), do: wrap(false, spell(predicate))

  defp wrap(needed, text), do: if(needed or chance(0.1), do: ["(", text, ")"], else: text)

  defp spell({:constant, constant}), do: Atom.to_string(constant)
  defp spell({:variable, name}), do: name
  defp spell({:compare, relation, name, constant}), do: either(Atom.to_string(relation), name, constant)

  defp spell({:equal, how, {:lower, _} = name, constant}),
    do: [subject(name), if(how == :==, do: "=", else: "<>"), space(), constant(constant)]

  defp spell({:equal, :==, name, constant}), do: either("=", name, constant)
  defp spell({:equal, :!=, name, constant}), do: either("<>", name, constant)
  defp spell({:member, how, name, constants}), do: [subject(name), membership(how), constants(constants)]
  defp spell({:has, how, name, constant}), do: [constant(constant), membership(how), name]
  defp spell({:list, :one_of, name, constants}), do: [name, " one of ", constants(constants)]
  defp spell({:list, :none_of, name, constants}), do: [name, " none of ", constants(constants)]
  defp spell({:list, :all_of, name, constants}), do: [name, " all of ", constants(constants)]
  defp spell({:is, :null, name}), do: [name, " is null"]
  defp spell({:is, :not_null, name}), do: [name, " is not null"]
  defp spell({:is, :empty, name}), do: [name, " is empty"]
  defp spell({:text, how, name, part}), do: call(Atom.to_string(how), [subject(name), constant(part)])

  defp spell({:like, how, name, pattern}) do
    text =
      Enum.map_join(pattern, fn
        :any -> "*"
        :one -> "?"
        text -> String.replace(text, ["\\", "*", "?"], &("\\" <> &1))
      end)

    [subject(name), if(how == :like, do: " like ", else: " not like "), constant(text)]
  end

  defp spell({:between, how, name, low, high}) do
    [name, if(how == :between, do: " between ", else: " not between "), constant(low), " and ", constant(high)]
  end

  defp spell({:computed, relation, left, right}), do: [sum(left), " ", Atom.to_string(relation), " ", sum(right)]

  defp spell({:network, how, name, networks}) do
    networks = Enum.map(networks, &network/1)
    [name, membership(how), constants(networks)]
  end

  defp spell({:objects, quantifier, name, condition}),
    do: [Atom.to_string(quantifier), " ", name, space(), "(", spell(condition, 0), ")"]

  defp spell({:geo, latitude, longitude, radius}),
    do: call("geo_within_radius", Enum.map([latitude, longitude, radius], &constant/1))

  defp spell({:segment, how, "segments_with_timestamp", id, seconds}) do
    name = if chance(0.5), do: ["segments_with_timestamp"], else: []
    call("segment_#{how}", name ++ [constant(id), constant(seconds)])
  end

  defp spell({:segment, how, name, id, seconds}), do: call("segment_#{how}", [name, constant(id), constant(seconds)])

  defp spell({:cap, type, namespace, value, seconds}) do
    call("within_frequency_cap", Enum.map([type, namespace, value, seconds], &constant/1))
  end

  defp sum({:size, name}), do: ["size", space(), "(", name, ")"]
  defp sum({:length, name}), do: ["length(", space(), name, ")"]

  defp sum({operator, left, right}) when operator in [:+, :-, :*, :/] do
    tight = operator in [:*, :/]
    [part(left, tight, false), " ", Atom.to_string(operator), " ", part(right, tight, true)]
  end

  defp sum(name) when is_binary(name), do: name
  defp sum(number), do: constant(number)

  # Sums get parentheses beside `*` and `/`, and so do operations on the right.
  defp part({operator, _, _} = operation, tight, right) do
    if right or (tight and operator in [:+, :-]), do: ["(", sum(operation), ")"], else: sum(operation)
  end

  defp part(operand, _tight, _right), do: sum(operand)

  defp subject({:lower, name}), do: ["lower", space(), "(", space(), name, space(), ")"]
  defp subject(name), do: name

  # An address alone, or a network's first address with its bits.
  defp network({address, bits}) do
    width = if tuple_size(address) == 4, do: 8, else: 16
    all = width * tuple_size(address)
    number = address |> Tuple.to_list() |> Integer.undigits(Integer.pow(2, width))
    first = number - rem(number, Integer.pow(2, all - bits))

    parts =
      for place <- (tuple_size(address) - 1)..0//-1,
          do: first |> Bitwise.>>>(place * width) |> rem(Integer.pow(2, width))

    address = to_string(:inet.ntoa(List.to_tuple(parts)))
    if bits == all and chance(0.5), do: address, else: "#{address}/#{bits}"
  end

  defp call(function, arguments), do: [function, space(), "(", Enum.intersperse(arguments, [",", space()]), ")"]

  @mirrored %{"<" => ">", "<=" => ">=", ">" => "<", ">=" => "<=", "=" => "=", "<>" => "<>"}

  # A space stands before the relation since a name may end in a hyphen.
  defp either(relation, name, constant) do
    if chance(0.3),
      do: [constant(constant), space(), @mirrored[relation], space(), name],
      else: [name, " ", relation, space(), constant(constant)]
  end

  defp membership(:in), do: " in "
  defp membership(:not_in), do: " not in "

  defp constants(constants),
    do: ["(", space(), constants |> Enum.map(&constant/1) |> Enum.intersperse([",", space()]), ")"]

  defp constant(integer) when is_integer(integer), do: Integer.to_string(integer)
  defp constant(float) when is_float(float), do: :erlang.float_to_binary(float, [:compact, decimals: 17])

  defp constant(string) do
    quote_mark = Enum.random([~S("), ~S(')])
    [quote_mark, String.replace(string, ["\\", quote_mark], &("\\" <> &1)), quote_mark]
  end

  defp space, do: Enum.random(["", "", " ", "  "])
  defp chance(probability), do: :rand.uniform() < probability
end
