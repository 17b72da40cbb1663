defmodule BeTree.Attacks.BignumTest do
  # Values that would take a scheduler minutes to print: integers of a million bits, and terms that contain them. Messages
  # name such values by kind and size. A test that prints one whole exceeds its timeout.
  use ExUnit.Case, async: true

  import Bitwise

  alias BeTree.{Domain, Error, Event, Explanation}
  alias BeTree.Call.Reply
  alias BeTree.Input.Describe

  # Bytes of the longest accepted message.
  @max_message_bytes 1_000

  setup_all do
    # Newer versions of OTP allow integers of up to four million bits.
    huge = 1 <<< 4_000_000
    {:ok, huge: huge, values: [huge, -huge, {huge, 1}, [huge], [1 | huge], %{key: huge}, %{huge => 1}, [[[{huge}]]]]}
  end

  test "every huge integer is described in a few bytes", %{values: values} do
    others = [
      String.duplicate("x", 10_000_000),
      <<0::size(80_000_001)>>,
      Enum.to_list(1..100_000),
      Enum.to_list(1..100_000) ++ :tail,
      Enum.reduce(1..1_000_000, [], fn _depth, inner -> [inner] end),
      Enum.reduce(1..1_000_000, {}, fn _depth, inner -> {inner} end),
      Map.new(1..100_000, &{&1, &1}),
      Tuple.duplicate(0, 100_000),
      %Domain{name: "a", type: :integer},
      %{__struct__: "no module"},
      fn -> :ok end,
      self(),
      make_ref(),
      1.0e308,
      nil
    ]

    for value <- values ++ others, do: assert(byte_size(Describe.value(value)) < 1_000)
    assert Describe.value(Enum.to_list(1..100_000) ++ :tail) == "a list of more than 10000 elements"
    assert Describe.value([1, 2 | 3]) == "[1, 2 | 3]"
    assert Describe.value(-5) == "-5"
    assert Describe.value(%{a: "b"}) == ~s(%{a: "b"})
    assert Describe.value(hd(values)) == "an integer of more than 64 bits"
    assert Describe.name(String.duplicate("n", 300)) == "a string of 300 bytes"
    assert Describe.name(<<255>>) == "a binary of 1 byte"
  end

  defp refused({:error, %Error{} = error}) do
    assert byte_size(Exception.message(error)) < @max_message_bytes
    error.kind
  end

  defp refused!(function) do
    error = assert_raise(ArgumentError, function)
    assert byte_size(Exception.message(error)) < @max_message_bytes
  end

  test "a huge integer as an id, an expression or a constant", %{values: values, huge: huge} do
    tree = BeTree.new!(a: :integer)

    for value <- values do
      assert refused(BeTree.insert(tree, value, "a = 1")) in [:type, :out_of_bounds]
      assert refused(BeTree.insert(tree, 1, value)) == :type
      assert refused(BeTree.insert(tree, 1, "a = 1", constants: [flight_id: value])) in [:type, :out_of_bounds]
      assert refused(BeTree.insert(tree, 1, "a = 1", constants: [value])) == :type
      assert refused(BeTree.insert_all(tree, [{value, "a = 1"}])) in [:type, :out_of_bounds]
      assert refused(BeTree.delete(tree, value)) in [:type, :out_of_bounds]
      assert refused(BeTree.explain(tree, %{a: 1}, value)) in [:type, :out_of_bounds]
      assert refused(BeTree.search(tree, %{a: 1}, ids: [value])) in [:type, :out_of_bounds]
    end

    assert refused(BeTree.insert_all(tree, [huge])) == :type
    assert BeTree.info!(tree).expressions == 0
  end

  test "a huge integer in an event or a domain", %{values: values} do
    tree = BeTree.new!(a: :integer)

    for value <- values do
      assert refused(BeTree.search(tree, %{a: value})) in [:type, :out_of_bounds]
      assert refused(Event.prepare(tree, {:json, value})) == :type
      assert refused(BeTree.new([{"a", value}])) == :type
      assert refused(BeTree.new([{value, :integer}])) == :type
      assert refused(BeTree.new(a: {:integer, min: value})) in [:type, :out_of_bounds]
      assert refused(BeTree.new(a: {:integer, [{value, 1}]})) == :type
      assert refused(BeTree.new(a: {:string, count: value})) in [:type, :out_of_bounds]
    end
  end

  test "a huge integer in the reply of a guest", %{values: values, huge: huge} do
    deep = Enum.reduce(1..100_000, [], fn _depth, inner -> [inner] end)
    names = ~w(expressions predicates strings nodes entries unindexed depth code_bytes memory_bytes)a
    answered = fn term -> :erlang.term_to_binary(term) end
    assert {:ok, %{nodes: 7}} = Reply.info(answered.(for name <- names, do: {name, 7}))

    for value <- [deep | values] do
      assert refused(Reply.info(answered.(for name <- names, do: {name, value}))) == :bad_module
      assert refused({:error, Reply.refusal(answered.({:syntax, "m", nil, value, nil}))}) == :bad_module
      assert refused({:error, Reply.refusal(answered.({:syntax, "m", nil, nil, value}))}) == :bad_module
      assert refused({:error, Reply.refusal(answered.(value))}) == :bad_module
      predicate = {true, :predicate, {"a", "a = 1", value}, []}
      assert refused(Explanation.decode(answered.(predicate), 1)) == :bad_module
      assert refused(Explanation.decode(answered.({true, :not, nil, [predicate]}), 1)) == :bad_module
      assert refused(Explanation.decode(answered.(value), 1)) == :bad_module
    end

    assert refused(Explanation.decode(answered.({true, :omitted, huge, []}), 1)) == :bad_module
    caps = [{{"flight", 10, "ns"}, 3, nil}]
    {:ok, explanation} = Explanation.decode(answered.({true, :predicate, {"frequency_caps", "f()", caps}, []}), 1)
    assert to_string(explanation) =~ ~s({{"flight", 10, "ns"}, 3, nil})
  end

  test "a huge integer as an option", %{huge: huge} do
    tree = BeTree.new!(a: :integer)
    refused!(fn -> BeTree.search(tree, %{a: 1}, fuel: {huge}) end)
    refused!(fn -> BeTree.search(tree, %{a: 1}, timeout: -huge) end)
    refused!(fn -> BeTree.search(tree, %{a: 1}, unknown: huge) end)
    refused!(fn -> BeTree.search(tree, %{a: 1}, huge) end)
    refused!(fn -> BeTree.search(huge, %{a: 1}) end)
    refused!(fn -> BeTree.new([a: :integer], memory: -huge) end)
    refused!(fn -> BeTree.publish(tree, replicas: huge) end)
    refused!(fn -> BeTree.Files.locate_event(%Error{kind: :type, message: "m"}, %{a: 1}, "file", huge) end)
    refused!(fn -> BeTree.Cluster.new([{huge, node()}]) end)
    refused!(fn -> BeTree.Server.start_link(name: huge, schema: []) end)
  end
end
