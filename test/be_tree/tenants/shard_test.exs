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
      assert {:error, %Error{kind: :syntax}} = Shard.change(shard, 5, @day, nil, [], [{1, "age >", [], nil}])
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

  # The first statistics, events and matches of each id.
  defp counts(shard, number) do
    {:ok, <<0, day::little-signed-32, events::little-64, matched::little-64, _length::little-32, ids::binary>>} =
      Shard.statistics(shard, number)

    {day, events, matched, for(<<id::little-64, matches::little-64 <- ids>>, into: %{}, do: {id, matches})}
  end

  describe "match/6" do
    test "counts the events of a tenant", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}, {2, "age > 5"}])
      change!(shard, 1, [{1, "age > 3"}])
      for age <- [1, 4, 6, 7], do: match(shard, 0, %{age: age})
      assert counts(shard, 0) == {@day, 4, 3, %{1 => 3, 2 => 2}}
      assert counts(shard, 1) == {@day, 0, 0, %{}}
    end

    test "returns the error of an event, and counts nothing", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      {:ok, before} = Shard.statistics(shard, 0)
      assert {:error, %Error{kind: :type, attribute: "age"}, _fuel} = match(shard, 0, %{age: "x"})
      assert Shard.statistics(shard, 0) == {:ok, before}
    end

    test "returns the same and counts once, for every slice", %{shard: shard} do
      fill(shard, 0, 300)
      {ids, fuel} = warm(shard, 0, %{age: 200, city: "Rome"})
      assert length(ids) == 200

      for slice <- [1, 7, 100, 1_001, fuel - 1, fuel, fuel + 1] do
        before = counts(shard, 0)
        assert {:ok, ^ids, ^fuel} = match(shard, 0, %{age: 200, city: "Rome"}, Map.put(@limits, :slice, slice))
        assert elem(counts(shard, 0), 1) == elem(before, 1) + 1
      end
    end

    test "counts nothing beyond a budget, and at most once at it", %{shard: shard} do
      fill(shard, 0, 300)
      event = %{age: 200, city: "Rome"}
      {ids, fuel} = warm(shard, 0, event)

      for budget <- Enum.uniq([1, 100 | Enum.to_list(1_000..fuel//div(fuel, 50))] ++ [fuel]) do
        {_day, before, _matched, _ids} = counts(shard, 0)
        outcome = match(shard, 0, event, %{@limits | fuel: budget})
        {_day, events, _matched, _ids} = counts(shard, 0)

        case outcome do
          {:ok, ^ids, ^fuel} -> assert events == before + 1
          {:error, %Error{kind: :out_of_fuel}, used} -> assert events == before and used < fuel
        end
      end

      assert {:error, %Error{kind: :out_of_fuel}, _fuel} = match(shard, 0, event, %{@limits | fuel: 1})
      assert {:ok, ^ids, ^fuel} = match(shard, 0, event, %{@limits | fuel: fuel + 1})
    end

    test "counts nothing after its timeout", %{shard: shard} do
      fill(shard, 0, 300)

      assert {:error, %Error{kind: :timeout}, _fuel} =
               match(shard, 0, %{age: 200}, %{@limits | timeout: 0} |> Map.put(:slice, 1_000))

      assert counts(shard, 0) == {@day, 0, 0, %{}}
    end
  end

  # Returns the ids and the fuel of a match whose counters exist.
  defp warm(shard, number, event) do
    {:ok, ids, _fuel} = match(shard, number, event)
    {:ok, ^ids, fuel} = match(shard, number, event)
    {ids, fuel}
  end

  defp fill(shard, number, count),
    do: change!(shard, number, for(id <- 1..count, do: {id, "age >= #{id} and city <> 'x#{id}'"}))

  describe "match_many/5" do
    test "returns the results of all events, each counted", %{shard: shard} do
      fill(shard, 0, 300)
      ages = for number <- 0..599, do: rem(number * 7, 301)
      {:ok, results, fuel} = match_many(shard, 0, for(age <- ages, do: %{age: age, city: "Rome"}))
      assert results == for(age <- ages, do: Enum.to_list(1..age//1))
      assert fuel > 600
      assert {@day, 600, matched, ids} = counts(shard, 0)
      assert matched == Enum.count(ages, &(&1 > 0))
      assert ids[150] == Enum.count(ages, &(&1 >= 150))
    end

    test "has the error of an event in its place", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      wrong = %{age: "x"}
      assert {:ok, results, _fuel} = match_many(shard, 0, [wrong, %{age: 4}, wrong, wrong, %{age: 3}])
      assert [%Error{kind: :type, position: nil}, [1], %Error{}, %Error{}, []] = results
      assert counts(shard, 0) == {@day, 2, 1, %{1 => 1}}
      assert match_many(shard, 0, []) == {:ok, [], 0}
      assert {:error, %Error{kind: :not_found}, _fuel} = match_many(shard, 1, [wrong])
    end

    test "counts the events within its budget", %{shard: shard} do
      fill(shard, 0, 300)
      events = for age <- 1..100, do: %{age: age, city: "Rome"}
      {:ok, all, fuel} = match_many(shard, 0, events)
      {:ok, results, used} = match_many(shard, 0, events, %{@limits | fuel: div(fuel, 2)})
      {found, errors} = Enum.split_while(results, &is_list/1)
      assert found == Enum.take(all, length(found)) and found != []
      assert length(results) == 100 and Enum.all?(errors, &match?(%Error{kind: :out_of_fuel}, &1)) and errors != []
      assert used in div(fuel, 2)..fuel
      assert {@day, events, _matched, _ids} = counts(shard, 0)
      assert events == 100 + length(found)
    end
  end

  defp match_many(shard, number, events, limits \\ @limits) do
    encoded = for event <- events, {:ok, format, bytes} <- [Event.encode(event)], do: {format, bytes}
    Shard.match_many(shard, number, @day, encoded, limits)
  end

  describe "search/5" do
    test "counts nothing", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      {:ok, format, bytes} = Event.encode(%{age: 5})
      assert {:ok, [1], _fuel} = Shard.search(shard, 0, format, bytes, @limits)
      assert counts(shard, 0) == {@day, 0, 0, %{}}
    end
  end
end
