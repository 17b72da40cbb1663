defmodule BeTree.RollbackTest do
  # A change stopped between two slices, by its timeout or its budget, is made or rolled back (docs/abi.md, be_tree_stop).
  use ExUnit.Case, async: true

  alias BeTree.{Error, Runtime.Wasmtime}
  alias BeTree.Input.Subscription
  alias BeTree.Runtime.Native

  @timeout 1
  @out_of_fuel 2

  @schema [
    i: {:integer, optional: true},
    j: {:integer, optional: true},
    b: {:boolean, optional: true},
    c: {:boolean, optional: true},
    s: {:string, optional: true},
    l: {:string_list, optional: true},
    ip: {:ip, optional: true}
  ]

  @events [
    %{i: 7, j: 3, s: "abc", b: true, c: false, l: ["abc", "x"], ip: "10.0.0.1"},
    %{i: 14, s: "ABCxyz", b: false, ip: "10.0.1.1"},
    %{j: 30, c: true, l: ["x7"]},
    %{}
  ]

  defp texts(n) do
    [
      "i = #{n}",
      "i > #{n} and i < #{n + 9} and j <> 3",
      "j in (#{n}, 3, 30) or s = 'abc'",
      "starts_with(s, 'a#{n}') or contains(lower(s), 'bc')",
      "b and not c or i = #{n}",
      "b or c",
      "l one of ('x#{n}', 'abc') and s is not null",
      "ip in ('10.0.0.0/24', '10.#{n}.0.0/16')",
      "not (s like 'a*c' and j = #{n})"
    ]
  end

  defp tree(count) do
    tree = BeTree.new!(@schema)
    for n <- 1..count//1, {text, k} <- Enum.with_index(texts(n)), do: BeTree.insert!(tree, 100 * n + k, text)
    tree
  end

  # All visible state of a tree.
  defp content(tree) do
    {Map.take(BeTree.info!(tree), [:expressions, :predicates, :strings]), Enum.map(@events, &BeTree.search!(tree, &1))}
  end

  # Begins a change in slices, and requests a stop before each slice after the first `granted`.
  defp change(tree, export, subscriptions, slice, granted, reason) do
    input = Subscription.encode(for {id, text} <- subscriptions, do: {id, text, []})
    request = %{input: input, output: :binary, fuel: :infinity, slice: slice, scheduler: :whole}
    to_end(Wasmtime.call(tree.instance, export, [byte_size(input)], request), granted, reason)
  end

  defp to_end({:yield, suspended, _fuel}, granted, reason) when granted > 0,
    do: to_end(Wasmtime.resume(suspended), granted - 1, reason)

  defp to_end({:yield, suspended, _fuel}, 0, reason), do: to_end(Native.resume(suspended, reason), 0, reason)
  defp to_end({:done, [status], output, fuel}, 0, reason), do: to_end({:done, status, output, fuel}, 0, reason)

  defp to_end({:done, status, output, _fuel}, granted, _reason), do: {status, output, granted}

  # Stops the change after each possible number of slices, and reverts it by `undo` if it was made. Returns the number of
  # rollbacks.
  defp sweep(tree, export, subscriptions, slice, undo) do
    before = content(tree)

    Stream.iterate(0, &(&1 + 1))
    |> Enum.reduce_while(0, fn granted, refusals ->
      {reason, name} = if rem(granted, 2) == 0, do: {@timeout, "timeout"}, else: {@out_of_fuel, "out_of_fuel"}

      case change(tree, export, subscriptions, slice, granted, reason) do
        {1, refusal, _left} ->
          assert refusal =~ name and refusal =~ "rolled back"
          assert content(tree) == before
          {:cont, refusals + 1}

        {0, _output, left} ->
          undo.()
          assert content(tree) == before
          # It ended before the stop.
          if left > 0, do: {:halt, refusals}, else: {:cont, refusals}
      end
    end)
  end

  for count <- [0, 1, 12] do
    test "insertions into a tree of #{9 * count} expressions roll back at each slice" do
      tree = tree(unquote(count))
      more = for {text, k} <- Enum.with_index(texts(7)), do: {90_000 + k, text}
      delete_all = fn -> for {id, _text} <- more, do: BeTree.delete!(tree, id) end
      assert sweep(tree, "be_tree_insert", more, 2_003, delete_all) > 20

      for {id, text} <- more do
        assert sweep(tree, "be_tree_insert", [{id, text}], 499, fn -> BeTree.delete!(tree, id) end) > 0
      end
    end
  end

  test "replacements roll back at each slice" do
    tree = tree(5)

    for {text, k} <- Enum.with_index(texts(3)), {other, _k} <- Enum.take(Enum.with_index(texts(60)), 4) do
      id = 300 + k
      assert sweep(tree, "be_tree_put", [{id, other}], 997, fn -> BeTree.put!(tree, id, text) end) > 0
    end
  end

  test "an expression of many alternatives rolls back at each slice" do
    tree = tree(1)
    text = Enum.map_join(1..400, " or ", &"i = #{&1 * 7} and j > #{&1}")
    assert sweep(tree, "be_tree_insert", [{1, text}], 100_003, fn -> BeTree.delete!(tree, 1) end) > 0
    BeTree.insert!(tree, 1, text)
    assert BeTree.search!(tree, %{i: 14, j: 3}) |> hd() == 1
  end

  test "a change that exhausts its budget rolls back" do
    tree = tree(3)
    before = content(tree)
    input = Subscription.encode(for id <- 10_000..40_000, do: {id, "i = #{id}", []})
    request = %{input: input, output: :binary, fuel: 1_000_000, slice: :infinity, scheduler: :dirty}
    assert {:done, 1, refusal, _fuel} = Wasmtime.call(tree.instance, "be_tree_insert", [byte_size(input)], request)
    assert refusal =~ "out_of_fuel"
    assert content(tree) == before
  end

  test "later changes and searches work after a stopped change" do
    [one, other] = for _ <- 1..2, do: tree(2)
    many = for id <- 10_000..60_000, do: {id, "i = #{id}"}
    assert {:error, %Error{kind: :timeout}} = BeTree.insert_all(one, many, timeout: 0)
    assert content(one) == content(other)
    assert BeTree.insert_all(one, many) == {:ok, 50_001}
    assert BeTree.search!(one, %{i: 60_000}) == BeTree.search!(other, %{i: 60_000}) ++ [60_000]
  end
end
