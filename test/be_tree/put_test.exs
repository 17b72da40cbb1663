defmodule BeTree.PutTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.WasmGuest

  for runtime <- BeTree.Runtime.available() do
    @runtime runtime

    test "put/4 replaces a subscription or changes nothing, with #{inspect(runtime)}" do
      tree = BeTree.new!([a: {:integer, max: 1_000}], runtime: @runtime)
      :rand.seed(:exsss, {1, 2, 3})

      model =
        for _ <- 1..400, reduce: %{} do
          model ->
            {id, least} = {:rand.uniform(60), :rand.uniform(100)}

            case :rand.uniform(4) do
              1 ->
                assert {:error, %Error{kind: :out_of_bounds, text: "a >= 2000", position: nil}} =
                         BeTree.put(tree, id, "a >= 2000")

                model

              2 ->
                result = BeTree.delete(tree, id)
                assert result == :ok or not is_map_key(model, id)
                Map.delete(model, id)

              _more ->
                assert BeTree.put(tree, id, "a >= #{least} and not (a >= 500)") == :ok
                Map.put(model, id, least)
            end
        end

      for a <- [0, 13, 50, 99, 200, 600] do
        expected = for {id, least} <- model, a >= least and a < 500, do: id
        assert BeTree.search(tree, %{a: a}) == {:ok, Enum.sort(expected)}
      end

      assert BeTree.info!(tree).expressions == map_size(model)
    end
  end

  test "concurrent searches see the old or the new subscription" do
    tree = BeTree.new!(a: :integer)
    BeTree.put!(tree, 1, "a = 0")
    stop = :atomics.new(1, [])

    searcher =
      Task.async(fn ->
        Stream.repeatedly(fn -> BeTree.search!(tree, %{a: 0}) end)
        |> Enum.reduce_while(0, fn ids, count ->
          assert ids == [1]
          if :atomics.get(stop, 1) == 1, do: {:halt, count + 1}, else: {:cont, count + 1}
        end)
      end)

    for n <- 1..2_000, do: BeTree.put!(tree, 1, "a = 0 or a = #{n}")
    :atomics.put(stop, 1, 1)
    assert Task.await(searcher, 60_000) > 0
  end

  test "a refusal of memory keeps the old subscription" do
    tree = BeTree.new!([a: :integer], memory: 3_000_000)
    BeTree.insert!(tree, 1, "a = 1")
    long = Enum.map_join(1..200_000, " or ", &"a = #{&1}")
    assert {:error, %Error{kind: :out_of_memory}} = BeTree.put(tree, 1, long)
    assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
    assert BeTree.search(tree, %{a: 2}) == {:ok, []}
    assert BeTree.put(tree, 1, "a = 2") == :ok
    assert BeTree.search(tree, %{a: 2}) == {:ok, [1]}
  end

  test "put/4 names an index module without the export" do
    tree = BeTree.new!([], guest: WasmGuest.assemble([]))
    assert {:error, %Error{kind: :bad_module, message: message}} = BeTree.put(tree, 1, "true")
    assert message =~ "delete it first"
  end

  test "put/4 refuses wrong arguments like insert/4" do
    tree = BeTree.new!(a: :integer)
    assert {:error, %Error{kind: :type}} = BeTree.put(tree, "1", "true")
    assert {:error, %Error{kind: :out_of_bounds}} = BeTree.put(tree, -1, "true")
    assert {:error, %Error{kind: :type}} = BeTree.put(tree, 1, true)
    assert_raise ArgumentError, fn -> BeTree.put(BeTree.publish!(tree), 1, "true") end
    assert_raise ArgumentError, fn -> BeTree.put(tree, 1, "true", what: 1) end
  end

  test "insert/4 of an id that exists names put" do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a = 1")
    assert {:error, %Error{kind: :duplicate_id, message: message}} = BeTree.insert(tree, 1, "a = 2")
    assert message == "a subscription with the id 1 exists; `put` replaces it"
  end
end
