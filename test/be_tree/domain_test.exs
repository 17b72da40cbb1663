defmodule BeTree.DomainTest do
  use ExUnit.Case, async: true

  alias BeTree.{Domain, Error}
  alias BeTree.Call.Reply

  doctest Domain
  doctest Domain.Path

  test "every type is parsed, bare and with bounds, in order" do
    domains = [
      {:b, :boolean},
      {"i", {:integer, optional: true, min: -1, max: 5}},
      {:f, {:float, min: 0, max: 1.5}},
      {:s, {:string, count: 3}},
      {:e, {:integer_enum, count: 3}},
      {:il, {:integer_list, min: 0}},
      {:sl, {:string_list, count: 1}},
      {:g, {:segments, optional: false}},
      {:c, :frequency_caps}
    ]

    {:ok, parsed} = Domain.parse(domains)
    assert Enum.map(parsed, & &1.name) == ~w(b i f s e il sl g c)
    assert Enum.at(parsed, 1) == %Domain{name: "i", type: :integer, optional: true, min: -1, max: 5}
    assert %{min: min, max: 1.5} = Enum.at(parsed, 2)
    assert is_float(min) and min == 0
    assert Domain.parse(parsed) == {:ok, parsed}
    assert {:ok, _tree} = BeTree.new(parsed)
  end

  test "a schema has the shape of docs/contributing/abi.md" do
    {:ok, domains} = Domain.parse(a: {:integer, min: 1}, b: {:string, optional: true, count: 2}, c: :boolean)

    assert :erlang.binary_to_term(Domain.encode(domains)) ==
             [{"a", :integer, false, {1, nil}}, {"b", :string, true, 2}, {"c", :boolean, false, nil}]
  end

  test "an encoded schema decodes to the same" do
    {:ok, domains} =
      Domain.parse([
        {:b, :boolean},
        {"`ä`", {:integer, optional: true, min: -1}},
        {:f, {:float, min: 0, max: 1.5}},
        {:s, {:string, count: 3}},
        {:c, :frequency_caps}
      ])

    assert Reply.schema(Domain.encode(domains)) == {:ok, domains}
    assert Reply.schema(Domain.encode([])) == {:ok, []}

    {:ok, coerced} = Domain.parse(a: {:integer, coerce: true, max: 5}, b: {:string, coerce: false})

    assert [{"a", :integer, false, {nil, 5}, true}, {"b", :string, false, nil}] =
             :erlang.binary_to_term(Domain.encode(coerced))

    assert Reply.schema(Domain.encode(coerced)) == {:ok, coerced}
    assert Domain.parse(coerced) == {:ok, coerced}
  end

  test "other terms than schemas are refused" do
    terms = [
      :a,
      [:a],
      [{"a", :integer, false}],
      [{:a, :integer, false, nil}],
      [{"", :integer, false, nil}],
      [{<<255>>, :integer, false, nil}],
      [{"a", :integer, 1, nil}],
      [{"a", {:integer}, false, nil}],
      [{"a", :integer, false, 3}],
      [{"a", :integer, false, {1}}],
      [{"a", :integer, false, {2, 1}}],
      [{"a", :integer, false, {1, 0x8000_0000_0000_0000}}],
      [{"a", :boolean, false, {1, 2}}],
      [{"a", :string, false, -1}],
      [{"a", :integer, false, nil} | :b]
    ]

    for term <- terms, do: assert({:error, %Error{}} = Reply.schema(:erlang.term_to_binary(term)))
    for bytes <- ["", "a", <<131, 80, 0>>], do: assert({:error, %Error{kind: :bad_module}} = Reply.schema(bytes))
  end

  test "a nested schema equals the flat one" do
    flat = [
      "user.name": :string,
      "user.address.city": {:string, optional: true},
      "user.address.zip": :integer,
      b: :boolean
    ]

    for nested <- [
          [user: [name: :string, address: [city: {:string, optional: true}, zip: :integer]], b: :boolean],
          [
            {"user", [{:name, :string}, {"address", %{:zip => :integer, "city" => {:string, optional: true}}}]},
            b: :boolean
          ],
          ["user.name": :string, "user.address": [city: {:string, optional: true}, zip: :integer], b: :boolean],
          [user: ["`name`": :string, "address.city": {:string, optional: true}, "address.zip": :integer], b: :boolean],
          [
            user: [
              %Domain{name: "name", type: :string},
              {"address.city", {:string, optional: true}},
              {"address.zip", :integer}
            ],
            b: :boolean
          ]
        ] do
      assert Domain.parse(nested) == Domain.parse(flat)
    end

    assert {:ok, [%{name: "a.`b c`"}, %{name: "`d.e`"}, %{name: "f.and"}]} =
             Domain.parse("`a`": ["`b c`": :integer], "`d.e`": :integer, f: [and: :integer])
  end

  @refused [
    {[a: :int], :type, "a", ~r/`a` has the type :int; use :integer; the types are :boolean, /},
    {[a: :time], :type, "a", ~r/`a` has the type :time; use :datetime; the types are /},
    {[a: :nope], :type, "a", ~r/`a` has the type :nope; the types are /},
    {[a: {:list, :string}], :type, "a", ~r/a list of these is :string_list; the fields of `a` are a list or a map/},
    {[a: {:list, :int}], :type, "a", ~r/a list of these is :integer_list; /},
    {[a: {:list, :nope}], :type, "a", ~r/^the fields of `a` are a list or a map, got: :nope/},
    {[a: {:array, :string}], :type, "a", ~r/`a` has the type :array; .*:string_list/},
    {[a: {:boolean, min: 1}], :type, "a", ~r/takes :optional, :on_mismatch, :coerce, but not :min/},
    {[a: {:integer, count: 1}], :type, "a", ~r/takes :optional, :on_mismatch, :min, :max, :coerce, but not :count/},
    {[a: {:integer, :optional}], :type, "a", ~r/options of `a` are a keyword list/},
    {[a: {:integer, optional: 1}], :type, "a", ~r/is true or false, got: 1/},
    {[a: {:integer, min: 1.5}], :type, "a", ~r/min: of `a` is an integer, got: 1.5/},
    {[a: {:integer, min: 2, max: 1}], :type, "a", ~r/above its max/},
    {[a: {:integer, max: 0x8000_0000_0000_0000}], :out_of_bounds, "a", ~r/not from -9223372036854775808 to/},
    {[a: {:float, max: Integer.pow(10, 400)}], :out_of_bounds, "a", ~r/max: of `a`/},
    {[a: {:float, max: "1"}], :type, "a", ~r/is a number/},
    {[a: {:string, count: 0}], :out_of_bounds, "a", ~r/from 1 to 4294967295/},
    {[a: {:string, count: 0x1_0000_0000}], :out_of_bounds, "a", ~r/from 1 to 4294967295/},
    {[a: {:string, count: :many}], :type, "a", ~r/is an integer/},
    {[{"", :integer}], :type, nil, ~r/an atom or a string/},
    {[{nil, :integer}], :type, nil, ~r/an atom or a string/},
    {[{1, :integer}], :type, nil, ~r/an atom or a string/},
    {[{<<0xFF>>, :integer}], :type, nil, ~r/UTF-8/},
    {[{"first name", :integer}], :type, "first name",
     ~r/no expression can spell the name `first name`.*"`first name`"/},
    {[and: :integer], :type, "and", ~r/is an operator or a constant.*"`and`"/},
    {[{"a.", :integer}], :type, "a.", ~r/no expression can spell/},
    {[{"`a", :integer}], :type, "`a", ~r/a backtick has no end/},
    {[a: []], :type, "a", ~r/`a` is a map without fields/},
    {[a: %{}], :type, "a", ~r/`a` is a map without fields/},
    {[a: [b: :int]], :type, "a.b", ~r/`a.b` has the type :int/},
    {[a: [:b]], :type, nil, ~r/an attribute is {name, domain}/},
    {[a: [{:b, :integer} | :c]], :type, nil, ~r/proper list/},
    {[a: %{1 => :integer}], :type, nil, ~r/an atom or a string/},
    {[a: [b: :integer], "a.b": :string], :type, "a.b", ~r/declared twice/},
    {[a: :integer, b: [c: :integer], "a.b": :string], :type, "a.b",
     ~r/attribute `a` is of type integer, so `a.b` cannot/},
    {["a.b.c": :string, a: [b: :integer]], :type, "a.b.c", ~r/attribute `a.b` is of type integer/},
    {[a: {:integer, coerce: 1}], :type, "a", ~r/coerce: of `a` is true or false/},
    {[a: {:segments, coerce: true}], :type, "a", ~r/takes :optional, :on_mismatch, but not :coerce/},
    {[:a], :type, nil, ~r/an attribute is {name, domain}/},
    {[{:a, :integer} | :b], :type, nil, ~r/proper list/},
    {%{a: :integer}, :type, nil, ~r/a list of {name, domain}/},
    {[a: :integer, a: :string], :type, "a", ~r/declared twice/},
    {[%Domain{name: "a", type: :nope}], :type, "a", ~r/the types are/}
  ]

  test "contradictory options are refused with the attribute's name" do
    for {domains, kind, attribute, message} <- @refused do
      assert {:error, %BeTree.Error{} = error} = BeTree.new(domains)
      assert {domains, error.kind, error.attribute} == {domains, kind, attribute}
      assert Exception.message(error) =~ message
    end
  end

  test "inspect/1 leaves out the defaults" do
    assert inspect(%Domain{name: "a", type: :integer}) == ~s(%BeTree.Domain{name: "a", type: :integer})
    assert inspect(%Domain{name: "a", type: :integer, optional: true, max: 9}) =~ "optional: true, max: 9}"
  end

  test "a schema in JSON has the types that its reader takes" do
    schema = %{"user" => %{"seen" => "segments", "age" => %{"type" => "integer", "min" => 0}}}
    assert {:ok, [%{name: "user.age", type: :integer, min: 0}, %{name: "user.seen"}]} = Domain.Json.domains(schema)
    assert {:error, error} = Domain.Json.domains(schema, [:segments])
    assert error.attribute == "user.seen"

    assert error.message =~
             ~s(`user.seen`: "segments" is no type that can be used here; the types are boolean, datetime)

    assert {:error, error} = Domain.Json.domains(%{"seen" => "segment"}, [:segments])
    assert error.message =~ ~s(`seen`: "segment" is no type; the types are boolean, datetime)
    refute error.message =~ "segments"
    assert {:error, %{message: "a schema is a JSON object" <> _}} = Domain.Json.domains([], [:segments])
    assert {:error, %{message: "`a binary of 3 bytes`: " <> _}} = Domain.Json.domains(%{<<255>> => "flaot"})
  end
end
