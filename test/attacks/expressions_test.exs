defmodule BeTree.Attacks.ExpressionsTest do
  # Random expression texts: grammatical ones with wrong types and constants, damaged ones, and noise. Each is refused
  # without a change, or inserted and then matched exactly when the oracle matches it.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.{Attack, Language, Random}

  @moduletag timeout: :infinity

  @refused [:syntax, :unknown_attribute, :type, :out_of_bounds, :missing_attribute]
  @words ~w[and or not in of one none all is null empty ( ) , = <> < <= > >= && || true false 'a' "b" 1 -9 1.5 1e9 a b_2
            contains starts_with geo_within_radius segment_within within_frequency_cap 99999999999999999999 1e999 ' " \\]

  test "insert/4 survives expressions of damaged bytes and shuffled words" do
    Attack.each(Attack.size(40, 4_260), fn number ->
      domains = Random.schema()
      tree = BeTree.new!(domains)

      taken =
        for id <- 1..50 do
          text = text(domains, number + id)

          case BeTree.insert(tree, id, text, constants: Random.constants()) do
            :ok -> id
            {:error, %Error{kind: kind} = error} -> refused(kind, error, text)
          end
        end

      taken = Enum.reject(taken, &is_nil/1)
      found = BeTree.search!(tree, Random.event(domains))
      assert found -- taken == []
      assert BeTree.info!(tree).expressions == length(taken)
      for id <- Enum.shuffle(taken), do: BeTree.delete!(tree, id)
      assert BeTree.info!(tree).expressions == 0
    end)
  end

  defp refused(kind, error, text) do
    assert kind in @refused, "#{inspect(text)}: #{inspect(error)}"
    assert error.text == text
    # A byte of invalid UTF-8 counts as at most one character.
    most = if String.valid?(text), do: length(String.codepoints(text)), else: byte_size(text)
    assert error.column == nil or error.column in 1..(most + 1)
    assert is_binary(Exception.message(error))
    nil
  end

  defp text(domains, kind) do
    case rem(kind, 4) do
      0 -> Enum.map_join(1..Enum.random(1..30), " ", fn _ -> Enum.random(@words) end)
      1 -> for(_ <- 1..Enum.random(1..60), into: "", do: <<:rand.uniform(256) - 1>>)
      _ -> domains |> Random.expression() |> Random.text() |> Attack.mutate() |> printable()
    end
  end

  # Few texts stay invalid UTF-8; most are repaired.
  defp printable(text), do: if(:rand.uniform(10) == 1, do: text, else: String.replace(text, ~r/[^\x20-\x7e]/, " "))

  test "a like of many parts takes time linear in the string" do
    length = 20_000

    for form <- [
          &String.duplicate("*a", &1),
          &("*" <> String.duplicate("a?*", &1) <> "b"),
          &Enum.map_join(1..&1, "*", fn part -> String.duplicate("a", rem(part, 60) + 1) end)
        ] do
      [few, many] =
        for parts <- [10, 1_000] do
          tree = BeTree.new!(s: :string)
          BeTree.insert!(tree, 1, "s like '#{form.(parts)}*'")
          {:ok, _ids, stats} = BeTree.search(tree, %{s: String.duplicate("a", length)}, stats: true)
          stats.fuel
        end

      # The string has a hundred times as many parts; the pattern is read once.
      assert many < 3 * few
    end
  end

  test "insert/4 survives expressions generated for another schema" do
    Attack.each(Attack.size(12, 2_130), fn _number ->
      own = Random.schema()
      domains = Random.schema()
      tree = BeTree.new!(domains)
      expressions = for id <- 1..100, do: {id, Random.expression(if(rem(id, 2) == 0, do: own, else: domains))}

      results =
        for {id, expression} <- expressions,
            do: {id, expression, BeTree.insert(tree, id, Random.text(expression), constants: Random.constants())}

      taken = for {id, expression, :ok} <- results, do: {id, expression}

      # A tree takes all expressions of its own schema, unless the count of distinct values of an attribute is used up.
      for {id, expression, {:error, error}} <- results, rem(id, 2) == 1 do
        assert error.kind == :out_of_bounds and error.message =~ "raise its count", inspect({expression, error})
      end

      for _ <- 1..5 do
        event = Random.event(domains)
        expected = Random.matches(taken, Map.new(event))
        # With another schema an attribute may have another type, which the oracle treats differently.
        found = BeTree.search!(tree, event)
        own = Enum.filter(found, &(rem(&1, 2) == 1))
        assert own == Enum.filter(expected, &(rem(&1, 2) == 1))
      end
    end)
  end

  test "insert/4 survives the conformance cases with each byte changed once" do
    tree = BeTree.new!(Language.schema())
    rows = Enum.take_every(Language.rows(), Attack.size(10, 1))

    for {text, _event, _holds} <- rows,
        at <- 0..(byte_size(text) - 1)//1,
        byte <- Attack.size([0xFF], [0, ?(, ?', 0xFF]) do
      {before, <<_byte, behind::binary>>} = :erlang.split_binary(text, at)
      changed = <<before::binary, byte, behind::binary>>

      case BeTree.insert(tree, 1, changed, constants: Language.constants()) do
        :ok -> BeTree.delete!(tree, 1)
        {:error, error} -> refused(error.kind, error, changed)
      end
    end

    assert BeTree.info!(tree).expressions == 0
  end
end
