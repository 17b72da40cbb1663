defmodule BeTree.Attacks.TermsTest do
  # Any term as an event, a schema or subscriptions is accepted, returned as an error, or raises an ArgumentError. Searches
  # of other processes continue.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.{Attack, Language}

  @moduletag timeout: :infinity

  @schema Language.schema()
  @names Keyword.keys(@schema)
  @batch 100

  setup_all do
    tree = BeTree.new!(@schema)
    BeTree.insert_all!(tree, Language.subscriptions())
    {:ok, tree: tree, event: hd(for {_text, event, true} <- Language.rows(), do: event)}
  end

  test "random terms as events", %{tree: tree, event: event} do
    expected = BeTree.search!(tree, event)

    attack(Attack.size(4_000, 320_000), fn ->
      term = Enum.random([&term/1, &event/1, &event/1]).(3)
      way = Enum.random([&{:record, &1}, &{:json, &1}, & &1, & &1, & &1])
      answer(fn -> BeTree.search(tree, way.(term)) end, way.(term))
    end)

    assert BeTree.search!(tree, event) == expected
  end

  test "damaged JSON as events", %{tree: tree} do
    events = for {_text, event, _holds} <- Language.rows(), do: json(event)

    attack(Attack.size(2_000, 100_000), fn ->
      json = events |> Enum.random() |> Attack.mutate()
      answer(fn -> BeTree.search(tree, {:json, json}) end, json)
    end)
  end

  defp json(event), do: BeTree.Test.Json.encode(for {name, value} <- event, do: {to_string(name), value})

  test "damaged events in the external term format", %{tree: tree} do
    attack(Attack.size(1_000, 50_000), fn ->
      bytes = event(2) |> :erlang.term_to_binary() |> Attack.mutate()
      answer(fn -> BeTree.search(tree, {:record, bytes}) end, bytes)
    end)
  end

  test "random terms as schemas" do
    attack(Attack.size(500, 55_638), fn ->
      spec = fn ->
        Enum.random([term(2), :integer, {:string, term(2)}, {:integer, [{:min, term(0)}]}, {term(0), []}])
      end

      domains = Enum.random([term(3), for(_ <- 1..3, do: {term(0), spec.()}), for(n <- [:a, :b], do: {n, spec.()})])
      answer(fn -> BeTree.new(domains) end, domains)
    end)
  end

  test "random terms as subscriptions" do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a = 1")

    attack(Attack.size(500, 100_000), fn ->
      part = fn -> Enum.random([term(2), {term(0), term(1)}, {2, term(1)}, {2, "a = 2", [constants: term(1)]}]) end
      many = for _ <- 1..Enum.random(1..3), do: part.()
      answer(fn -> BeTree.insert_all(tree, many) end, many)
      id = term(0)
      answer(fn -> BeTree.insert(tree, id, "a = 2") end, id)
      answer(fn -> BeTree.insert(tree, 2, term(1)) end, "a term")
      unless id === 1, do: answer(fn -> BeTree.delete(tree, id) end, id)
    end)

    assert 1 in BeTree.search!(tree, %{a: 1})
  end

  defp attack(count, once), do: Attack.each(div(count, @batch), fn _number -> for(_ <- 1..@batch, do: once.()) end)

  defp answer(call, term) do
    case call.() do
      :ok -> :ok
      {:ok, _value} -> :ok
      {:error, %Error{} = error} -> assert is_binary(Exception.message(error))
      other -> flunk("#{inspect(term, limit: 50)}: #{inspect(other, limit: 50)}")
    end
  rescue
    error in [ArgumentError] -> assert is_binary(Exception.message(error))
  end

  # An event with the schema's names and mostly wrong values.
  defp event(depth) do
    pairs = for name <- Enum.take_random(@names, Enum.random(0..4)), do: {Enum.random([name, "#{name}"]), term(depth)}
    Enum.random([Map.new(pairs), pairs])
  end

  defp term(0) do
    case :rand.uniform(12) do
      1 -> Enum.random([nil, true, false, :undefined, :a, :"", :é])
      2 -> Enum.random([0, 1, -1, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFFFFFFFFFF, -0x8000000000000000])
      3 -> Bitwise.bsl(1, Enum.random([63, 64, 65, 200, 2_000])) * Enum.random([1, -1])
      4 -> Enum.random([0.0, -0.0, 1.5, 1.0e308, -1.0e-308])
      5 -> for(_ <- 1..Enum.random(1..20), into: "", do: <<:rand.uniform(256) - 1>>)
      6 -> Enum.random(["", "a", "CA", "été", "a = 1", <<0>>, <<1::3>>, <<255, 1::1>>])
      7 -> Enum.random([self(), make_ref(), &is_nil/1, fn -> 1 end])
      8 -> Enum.random(@names)
      9 -> Enum.random([[], %{}, {}, ~c"abc", [300, 1]])
      _ -> :rand.uniform(10)
    end
  end

  defp term(depth) do
    below = fn -> term(depth - 1) end

    case :rand.uniform(7) do
      1 -> for _ <- 1..Enum.random(1..5), do: below.()
      2 -> List.to_tuple(for _ <- 1..Enum.random(1..4), do: below.())
      3 -> Map.new(1..Enum.random(1..4), fn _ -> {below.(), below.()} end)
      4 -> [below.() | below.()]
      5 -> for _ <- 1..3, do: {below.(), below.()}
      _ -> term(0)
    end
  end
end
