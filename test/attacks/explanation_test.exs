defmodule BeTree.Attacks.ExplanationTest do
  # Explanations of huge expressions and values are complete, readable and bounded.
  use ExUnit.Case, async: true

  alias BeTree.Explanation
  alias BeTree.Explanation.Node
  alias BeTree.Test.Attack

  @max_printed_bytes 65_536

  defp explain(expression, event) do
    tree = BeTree.new!(a: :integer, b: {:boolean, optional: true}, s: {:string, optional: true})
    BeTree.insert!(tree, 1, expression)
    BeTree.explain!(tree, Map.put(event, :a, 1), 1)
  end

  defp printed(explanation) do
    for text <- [to_string(explanation), inspect(explanation)] do
      assert byte_size(text) <= @max_printed_bytes
      assert String.valid?(text)
      assert length(String.split(text, "\n")) <= 202
    end

    to_string(explanation)
  end

  test "explain/3 of a deep expression is bounded" do
    for count <- [1_000, Attack.size(20_000, 1_000_000)] do
      explanation = explain(String.duplicate("not ", count) <> "b", %{b: true})
      assert printed(explanation) =~ "left out"
      assert [%Node{}] = Explanation.deciding(explanation)
    end
  end

  test "explain/3 of a wide expression is bounded" do
    expression = Enum.map_join(1..Attack.size(20_000, 300_000), " or ", &"a = #{&1 + 1}")
    explanation = explain(expression, %{})
    assert printed(explanation) =~ "left out"
    assert [%Node{kind: :predicate} | _] = deciding = Explanation.deciding(explanation)
    assert %Node{kind: :omitted, verdict: false} = List.last(deciding)
  end

  test "explain/3 of alternating operators is bounded" do
    count = Attack.size(3_000, 100_000)
    expression = String.duplicate("not (a = 2 or (a = 1 and ", count) <> "b" <> String.duplicate("))", count)
    assert printed(explain(expression, %{b: true})) =~ "left out"
  end

  test "explain/3 of long constants and values is bounded" do
    long = String.duplicate("é", Attack.size(100_000, 2_000_000))
    text = printed(explain("s = '#{long}' or s <> 'x'", %{s: long}))
    assert text =~ "left out"
    assert text =~ "a long value of #{byte_size(long)} bytes"
  end

  test "explain/3 checks the reply of a foreign module" do
    count = Attack.size(100_000, 2_000_000)
    deep = Enum.reduce(1..count, {true, :constant, nil, []}, fn _, node -> {true, :not, nil, [node]} end)
    {:ok, explanation} = Explanation.decode(:erlang.term_to_binary(deep), 1)
    assert printed(explanation) =~ "left out"
    assert [%Node{kind: :constant}] = Explanation.deciding(explanation)

    chain =
      Enum.reduce(1..count, {true, :constant, nil, []}, fn _, node ->
        {true, :and, nil, [node, {true, :constant, nil, []}]}
      end)

    {:ok, explanation} = Explanation.decode(:erlang.term_to_binary(chain), 1)
    assert length(Explanation.deciding(explanation)) == count + 1

    for node <- [{true, :omitted, 0, []}, {true, :omitted, nil, []}, {true, :omitted, 1, [{true, :constant, nil, []}]}] do
      assert {:error, %BeTree.Error{kind: :bad_module}} = Explanation.decode(:erlang.term_to_binary(node), 1)
    end
  end
end
