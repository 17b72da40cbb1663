defmodule BeTree.Tenants.ShardTest do
  use ExUnit.Case, async: true

  alias BeTree.{Domain, Error, Event}
  alias BeTree.Call.Instance
  alias BeTree.Tenants.Shard

  @memory 512 * 1024 * 1024
  @day 20_000
  @limits %{fuel: :infinity, timeout: :infinity}

  setup do
    {:ok, shard: start(age: :integer, city: {:string, optional: true})}
  end

  defp start(schema) do
    {:ok, guest} = Instance.built_in(BeTree.Runtime.Wasmtime)
    {:ok, schema} = Domain.parse(schema)
    {:ok, shard} = Shard.start(guest, schema, @memory)
    shard
  end

  defp change!(shard, number, deleted \\ [], puts, options \\ []) do
    puts = for {id, expression} <- puts, do: {id, expression, [], nil}
    {:ok, sizes} = Shard.change(shard, number, @day, nil, deleted, puts, options)
    sizes
  end

  defp match(shard, number, event, limits \\ @limits, day \\ @day) do
    {:ok, format, bytes} = Event.encode(event)
    Shard.match(shard, number, day, format, bytes, limits)
  end

  defp ids(shard, number, event) do
    {:ok, ids, _fuel} = match(shard, number, event)
    ids
  end

  defp info!(shard, number) do
    {:ok, info} = Shard.info(shard, number)
    info
  end

  describe "change/7" do
    test "creates a tenant, whose expressions no other tenant sees", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}, {2, "city = 'Rome'"}])
      change!(shard, 7, [{1, "age < 3"}])
      assert ids(shard, 0, %{age: 4, city: "Rome"}) == [1, 2]
      assert ids(shard, 7, %{age: 4, city: "Rome"}) == []
      assert ids(shard, 7, %{age: 2}) == [1]
      assert {:error, %Error{kind: :not_found}, _fuel} = match(shard, 1, %{age: 2})
    end

    test "deletes, inserts and replaces together", %{shard: shard} do
      change!(shard, 0, for(id <- 1..9, do: {id, "age > #{id}"}))
      change!(shard, 0, [1, 2, 3], [{3, "age = 5"}, {4, "age = 6"}, {100, "age = 5"}])
      assert ids(shard, 0, %{age: 5}) == [3, 100]
      assert ids(shard, 0, %{age: 10}) == [5, 6, 7, 8, 9]
      assert info!(shard, 0).expressions == 8
    end

    test "changes nothing after an error, which has its position", %{shard: shard} do
      change!(shard, 0, [{1, "age > 1"}, {2, "age > 2"}])

      refused = fn deleted, puts ->
        puts = for {id, expression} <- puts, do: {id, expression, [], nil}
        {:error, error} = Shard.change(shard, 0, @day, nil, deleted, puts)
        {error.kind, error.position, error.text}
      end

      assert refused.([1], [{1, "age > 3"}, {2, "age >"}]) == {:syntax, 1, "age >"}
      assert refused.([1, 3], [{1, "age > 3"}]) == {:not_found, nil, nil}
      assert refused.([1, 1], []) == {:not_found, nil, nil}
      assert refused.([], [{5, "age = 1"}, {5, "age = 2"}]) == {:duplicate_id, 1, "age = 2"}
      assert refused.([], [{2, "age = 1"}, {2, "age = 2"}]) == {:duplicate_id, 1, "age = 2"}
      assert ids(shard, 0, %{age: 3}) == [1, 2]
      assert info!(shard, 0).expressions == 2
      assert {:error, %Error{kind: :syntax}} = Shard.change(shard, 5, @day, nil, [], [{1, "age", [], nil}, {2, "(", [], nil}])
      assert {:error, %Error{kind: :not_found}} = Shard.info(shard, 5)
    end
  end

  describe "drop/2" do
    test "forgets a tenant, whose number can be used again", %{shard: shard} do
      change!(shard, 3, [{1, "age > 3"}])
      assert Shard.drop(shard, 3) == :ok
      assert {:error, %Error{kind: :not_found}} = Shard.drop(shard, 3)
      assert {:error, %Error{kind: :not_found}, _fuel} = match(shard, 3, %{age: 5})
      change!(shard, 3, [{2, "age > 3"}])
      assert ids(shard, 3, %{age: 5}) == [2]
    end
  end

  describe "match/6" do
    test "returns the error of an event, and counts nothing", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      {:ok, before} = Shard.statistics(shard, 0)
      assert {:error, %Error{kind: :type, attribute: "age"}, _fuel} = match(shard, 0, %{age: "x"})
      assert Shard.statistics(shard, 0) == {:ok, before}
    end
  end
end
