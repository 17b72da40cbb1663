defmodule BeTree.ContentsTest do
  # The ids of a tree, its number of subscriptions, and changes of several at once.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Server}

  @schema [age: :integer, plan: {:integer, min: 0, max: 9}, country: {:string, optional: true}]

  setup do
    name = :"contents_#{System.unique_integer([:positive])}"
    start_supervised!({Server, name: name, schema: @schema})
    %{tree: BeTree.new!(@schema), server: name}
  end

  defp contents(tree) do
    {:ok, ids} = BeTree.ids(tree)
    assert BeTree.count(tree) == {:ok, length(ids)}
    assert {:ok, found} = BeTree.search(tree, %{age: 50, plan: 5, country: "CA"})
    {ids, found}
  end

  defp outcome({:error, error}), do: {:error, error.kind, error.position}
  # A server leaves equal expressions as they are.
  defp outcome({:ok, %{put: put, deleted: deleted} = counts}),
    do: {:ok, %{put: put + Map.get(counts, :unchanged, 0), deleted: deleted}}

  defp outcome(other), do: other

  test "random changes have the results that they have in a server", %{tree: tree, server: server} do
    :rand.seed(:exsss, 1)
    id = fn -> :rand.uniform(40) end

    expression = fn ->
      Enum.random(["age > #{id.()}", "plan = #{:rand.uniform(9)}", "country in ('CA')", "plan = 10", "age >"])
    end

    for _step <- 1..1_500 do
      puts = for _ <- 1..:rand.uniform(4), do: {id.(), expression.()}
      deleted = for _ <- 2..:rand.uniform(3)//1, do: id.()
      changed = BeTree.change(tree, put: puts, delete: deleted)
      assert outcome(changed) == outcome(Server.change(server, put: puts, delete: deleted)), inspect({puts, deleted})
      assert BeTree.ids(tree) == Server.ids(server)
      assert BeTree.count(tree) == Server.count(server)
      one = id.()
      assert BeTree.member?(tree, one) == Server.member?(server, one)
    end

    event = %{age: 20, plan: 4, country: "CA"}
    assert BeTree.search(tree, event) == BeTree.search(server, event)
  end

  test "change/2 makes all or nothing", %{tree: tree} do
    BeTree.insert_all!(tree, [{1, "age > 1"}, {2, "age > 2"}, {3, "plan = 1"}])
    before = contents(tree)

    for {changes, kind, position, message} <- [
          {[put: [{4, "true"}, {5, "age >"}], delete: [1]], :syntax, 1, ~r/^subscription 5: /},
          {[put: [{4, "true"}], delete: [9]], :not_found, nil, ~r/the id 9/},
          {[put: [{4, "true"}, {4, "true"}]], :duplicate_id, nil, ~r/the id 4 stands twice/},
          {[put: [{1, "true"}], delete: [1]], :duplicate_id, nil, ~r/the id 1 stands twice/},
          {[put: [{-1, "true"}]], :out_of_bounds, 0, ~r/id/},
          {[delete: [1, :x]], :type, 1, ~r/id/},
          {[put: [{1, "plan = 12"}]], :out_of_bounds, 0, ~r/^subscription 1: /},
          {[put: :none], :type, nil, ~r/subscriptions/}
        ] do
      assert {:error, %Error{} = error} = BeTree.change(tree, changes)
      assert {error.kind, error.position} == {kind, position}, inspect({changes, error})
      assert error.message =~ message
      assert contents(tree) == before
    end

    assert BeTree.change(tree, put: [{3, "age = 50"}, {7, "age = 51"}], delete: [1, 2]) == {:ok, %{put: 2, deleted: 2}}
    assert contents(tree) == {[3, 7], [3]}
    assert BeTree.change(tree, []) == {:ok, %{put: 0, deleted: 0}}
    assert_raise ArgumentError, ~r/unknown keys \[:insert\]/, fn -> BeTree.change(tree, insert: []) end
  end

  test "change/2 that empties a large tree returns its memory", %{tree: tree} do
    BeTree.insert_all!(tree, for(id <- 1..20_000, do: {id, "age > #{id} and country = '#{id}'"}))
    full = BeTree.info!(tree).memory_bytes
    assert BeTree.change(tree, delete: BeTree.ids!(tree)) == {:ok, %{put: 0, deleted: 20_000}}
    assert BeTree.ids!(tree) == []
    assert BeTree.info!(tree).memory_bytes < div(full, 2)
    assert BeTree.change!(tree, put: [{1, "age > 1"}]) == %{put: 1, deleted: 0}
  end

  test "ids/2 has all ids in ascending order, also the greatest", %{tree: tree} do
    greatest = 0xFFFF_FFFF_FFFF_FFFF
    ids = Enum.shuffle([0, greatest, 0x8000_0000_0000_0000 | Enum.to_list(1..3_000)])
    BeTree.insert_all!(tree, for(id <- ids, do: {id, "true"}))
    assert BeTree.ids!(tree) == Enum.sort(ids)
    assert BeTree.member?(tree, greatest)
    BeTree.delete!(tree, greatest)
    refute BeTree.member?(tree, greatest)
    assert BeTree.count!(tree) == 3_002
    assert_raise Error, fn -> BeTree.member?(tree, -1) end
  end

  test "validate/3 checks an expression, and changes nothing", %{tree: tree, server: server} do
    BeTree.insert!(tree, 0, "age > 1")

    for text <- ["age > 1", "age >", "nope = 1", "plan = 10", "age = 'x'", "within_frequency_cap('flight', 'x', 1, 2)"] do
      of_tree = BeTree.validate(tree, text)
      of_server = Server.validate(server, text)
      assert outcome(of_tree) == outcome(of_server)

      with {:error, error} <- of_tree do
        {:error, expected} = of_server
        assert Exception.message(error) == Exception.message(expected)
      end
    end

    assert contents(tree) == {[0], [0]}
  end

  test "other terms than trees are refused", %{tree: tree, server: server} do
    for other <- [server, BeTree.publish!(tree), nil, "tree"],
        function <- [
          &BeTree.ids/1,
          &BeTree.count/1,
          &BeTree.member?(&1, 1),
          &BeTree.validate(&1, "true"),
          &BeTree.change(&1, [])
        ],
        do: assert_raise(ArgumentError, ~r/tree/, fn -> function.(other) end)
  end
end
