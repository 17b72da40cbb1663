defmodule BeTree.AdversarialTest do
  @moduledoc "Unlikely input: each gets a result or a BeTree.Error."
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.{Attack, Json, Random}

  @moduletag :adversarial

  setup do
    :rand.seed(:exsss, 20_000)
    domains = Random.schema()
    tree = BeTree.new!(domains)
    texts = for id <- 1..200, do: {id, Random.text(Random.expression(domains)), constants: Random.constants()}
    BeTree.insert_all!(tree, texts)
    sound = Random.event(domains)
    {:ok, tree: tree, schema: domains, texts: texts, sound: sound, expected: BeTree.search!(tree, sound)}
  end

  defp ids?(ids), do: ids == Enum.sort(ids) and Enum.all?(ids, &(&1 in 1..200))

  test "search/3 survives odd terms as events", %{tree: tree, schema: domains} = context do
    names = for {name, _spec} <- domains, do: name

    for _ <- 1..Attack.size(4_000, 8_000) do
      event =
        case :rand.uniform(4) do
          1 -> odd(3)
          2 -> {Enum.random([:json, :record]), odd(2)}
          3 -> Map.merge(Map.new(context.sound), %{Enum.random(names) => odd(2)})
          4 -> [{odd(1), odd(1)} | context.sound]
        end

      case BeTree.search(tree, event) do
        {:ok, ids} ->
          assert ids?(ids), inspect(event)

        {:error, %Error{kind: kind}} ->
          assert kind in [:type, :out_of_bounds, :missing_attribute, :syntax], inspect(event)
      end
    end

    assert BeTree.search!(tree, context.sound) == context.expected
  end

  defp odd(0) do
    Enum.random([
      nil,
      true,
      :undefined,
      :atom,
      :été,
      0,
      -1,
      0x7FFF_FFFF_FFFF_FFFF,
      -0x8000_0000_0000_0000,
      0x8000_0000_0000_0000,
      Integer.pow(-3, 900),
      -0.0,
      1.0e308,
      5.0e-324,
      "",
      "text",
      <<0xFF, 0xFE>>,
      <<1::5>>,
      :binary.copy("x", 70_000),
      self(),
      make_ref(),
      &odd/1,
      ~c"string",
      {}
    ])
  end

  defp odd(depth) do
    case :rand.uniform(7) do
      1 -> odd(0)
      2 -> for _ <- 1..:rand.uniform(4), do: odd(depth - 1)
      3 -> [odd(depth - 1) | odd(depth - 1)]
      4 -> List.to_tuple(for _ <- 1..:rand.uniform(4), do: odd(depth - 1))
      5 -> %{odd(depth - 1) => odd(depth - 1)}
      6 -> [{odd(depth - 1), odd(depth - 1)}]
      7 -> Enum.random([1..3, ~D[2024-02-29], MapSet.new([odd(depth - 1)]), %Error{kind: :type, message: "m"}])
    end
  end

  test "search/3 survives mutated JSON", %{tree: tree, schema: domains} = context do
    for _ <- 1..Attack.size(3_000, 6_000) do
      json = Attack.mutate(Json.encode(Random.dress(Random.event(domains), domains)))

      case BeTree.search(tree, {:json, json}) do
        {:ok, ids} ->
          assert ids?(ids), inspect(json)

        {:error, %Error{kind: kind} = error} ->
          assert kind in [:syntax, :type, :out_of_bounds, :missing_attribute], inspect(json)
          assert is_binary(Exception.message(error))
      end
    end

    assert BeTree.search!(tree, context.sound) == context.expected
  end

  test "insert/4 survives mutated expressions", %{tree: tree, texts: texts} = context do
    for _ <- 1..Attack.size(1_500, 5_000) do
      {_, text, options} = Enum.random(texts)
      text = Attack.mutate(text)

      case BeTree.insert(tree, 1_000, text, options) do
        :ok ->
          assert BeTree.delete(tree, 1_000) == :ok

        {:error, %Error{kind: kind} = error} ->
          assert kind in [:syntax, :unknown_attribute, :type, :out_of_bounds, :missing_attribute], inspect(text)
          assert is_binary(Exception.message(error))
      end
    end

    for text <- ["(", "not ", "-", "true and "], times <- [10_000, 200_000] do
      assert {:error, %Error{kind: :syntax}} = BeTree.insert(tree, 1_000, String.duplicate(text, times))
    end

    deep = String.duplicate("not (", 100_000) <> "true" <> String.duplicate(")", 100_000)
    assert BeTree.insert(tree, 1_000, deep) == :ok
    assert 1_000 in BeTree.search!(tree, context.sound)
    assert BeTree.delete(tree, 1_000) == :ok
    assert BeTree.search!(tree, context.sound) == context.expected
    assert BeTree.info!(tree).expressions == 200
  end

  test "load/1 survives mutated modules" do
    wasm = :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!()

    # One that is still a module is compiled, which takes a second.
    for _ <- 1..Attack.size(30, 1_000) do
      with {:ok, tree} <- BeTree.new([a: :integer], guest: Attack.mutate(wasm), memory: 64_000_000),
           {:ok, 2} <- BeTree.insert_all(tree, [{1, "a > 1"}, {2, "not (a in (3, 4)) or a = 5"}]),
           {:ok, ids} <- BeTree.search(tree, %{a: 3}, fuel: 10_000_000) do
        assert Enum.all?(ids, &is_integer/1)
      else
        {:error, %Error{} = error} -> assert is_binary(Exception.message(error))
      end
    end
  end
end
