defmodule BeTree.Server.ValidityTest do
  # A tree decides which expressions are valid. All functions of servers, followers and clusters must agree with it.
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Cluster, Error, Server}
  alias BeTree.Test.{Attack, Random, Servers}

  setup :folder

  @schemas Attack.size(30, 300)
  @expressions 25

  # Predicates that only erl-be-tree refuses, and others that every tree refuses.
  @schema [
    a: :integer,
    e: :integer_enum,
    seg: :segments,
    frequency_caps: :frequency_caps,
    list: :integer_list,
    s: {:string, count: 2}
  ]
  @taken [
    "a is null",
    "a is not null",
    "e in (1, 2)",
    "e not in (1, 2)",
    "seg is empty",
    "frequency_caps is empty",
    "not (list is empty)",
    "s in ('a', 'b')"
  ]
  @refused [
    {"a =", :syntax},
    {"b = 1", :unknown_attribute},
    {"a = 'x'", :type},
    {"a is empty", :type},
    {"s in ('a', 'b', 'c')", :out_of_bounds}
  ]

  defp kind({:error, [%Error{position: 0, kind: kind}]}), do: kind
  defp kind({:error, %Error{kind: kind}}), do: kind
  defp kind({:ok, _count}), do: :ok
  defp kind(:ok), do: :ok

  # Each function inserts a new id, and returns a function that reverts that.
  defp ways(server, constants) do
    cluster = Cluster.new([{server, node()}])
    options = [constants: constants]
    wire = &{&1, &2, options}

    [
      insert: &Server.insert(server, &1, &2, options),
      insert_all: &Server.insert_all(server, [wire.(&1, &2)]),
      collect: &Server.insert_all(server, [wire.(&1, &2)], on_error: :collect),
      put: &Server.put(server, &1, &2, options),
      change: &Server.change(server, put: [wire.(&1, &2)]),
      cluster_insert: &Cluster.insert(cluster, &1, &2, options),
      cluster_insert_all: &Cluster.insert_all(cluster, [wire.(&1, &2)]),
      cluster_put: &Cluster.put(cluster, &1, &2, options)
    ]
  end

  # Returns the kind of the tree's error, or :ok. All others must agree.
  defp compare(text, constants, tree, server) do
    expected = kind(BeTree.insert(tree, 1, text, constants: constants))
    assert kind(BeTree.put(tree, 1, text, constants: constants)) == expected, "BeTree.put: #{text}"
    if expected == :ok, do: :ok = BeTree.delete(tree, 1)
    assert {:validate, kind(Server.validate(server, text, constants: constants)), text} == {:validate, expected, text}

    for {way, insert} <- ways(server, constants) do
      assert {way, kind(insert.(7, text)), text} == {way, expected, text}

      if expected == :ok do
        # A replacement is checked too.
        assert {way, kind(Server.put(server, 7, text, constants: constants)), text} == {way, :ok, text}
        :ok = Server.delete(server, 7)
      end
    end

    expected
  end

  test "every function agrees on which expressions are valid" do
    tree = BeTree.new!(@schema)
    server = Servers.start(schema: @schema)
    for text <- @taken, do: assert({text, compare(text, %{}, tree, server)} == {text, :ok})
    for {text, kind} <- @refused, do: assert({text, compare(text, %{}, tree, server)} == {text, kind})
  end

  test "a follower and a recovering server take the same expressions", %{folder: dir} do
    name = Servers.new_name()
    start = fn -> start_supervised!({Server, name: name, schema: @schema, dir: dir}, id: name) end
    start.()
    follower = Servers.start(follow: {name, node()})
    all = Enum.with_index(@taken, &{&2, &1})
    {:ok, _counts} = Server.change(name, put: all)
    for {id, text} <- all, do: :ok = Server.put(name, id, text)
    assert {:ok, _version} = Server.await(follower, Server.position!(name))
    assert Server.ids!(follower) == Enum.to_list(0..(length(@taken) - 1))
    assert %{error: nil} = Server.info!(follower)
    stop_supervised!(name)
    start.()
    assert Server.count!(name) == length(@taken)
  end

  test "every function agrees with a tree over the whole language" do
    kinds =
      for seed <- 1..@schemas, reduce: %{} do
        kinds ->
          :rand.seed(:exsss, seed)
          domains = Random.nested_schema()
          # Expressions for another schema have unknown attributes, or attributes of other types.
          others = Random.nested_schema()
          tree = BeTree.new!(domains)
          server = Servers.start(schema: domains)

          for number <- 1..@expressions, reduce: kinds do
            kinds ->
              text = text(rem(number, 5), domains, others)
              Map.update(kinds, compare(text, Random.constants(), tree, server), 1, &(&1 + 1))
          end
      end

    # Both results occurred often.
    assert kinds[:ok] > 10 * @schemas
    assert kinds[:type] > 0 and kinds[:unknown_attribute] > 0 and kinds[:syntax] > 0
  end

  defp text(0, _domains, others), do: others |> Random.expression() |> Random.text()
  defp text(1, domains, _others), do: domains |> Random.expression() |> Random.text() |> Attack.mutate()
  defp text(_more, domains, _others), do: domains |> Random.expression() |> Random.text()
end
