defmodule BeTree.Input.SubscriptionTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Call.{Insertion, Reply}

  # Around one chunk, and around several.
  @counts [0, 1, 499, 500, 501, 1_000, 1_234]

  defp subscription(id), do: {id, "age > #{id}", constants: [flight_id: -id]}
  defp wire(id), do: {id, "age > #{id}", [{"flight_id", -id}]}

  test "a batch of several chunks is one list of the ABI" do
    for count <- @counts do
      ids = Enum.take(Stream.iterate(1, &(&1 + 1)), count)
      {:ok, batch} = ids |> Stream.map(&subscription/1) |> Insertion.new()
      assert batch.count == count
      assert batch.input == :erlang.term_to_binary(Enum.map(ids, &wire/1), minor_version: 2)
    end
  end

  test "an error in any chunk has its position, and its batch changes nothing" do
    tree = BeTree.new!(age: :integer)
    right = for id <- 0..1_233, do: {id, "age > #{id}"}

    for position <- [0, 499, 500, 501, 1_233] do
      for {wrong, kind} <- [
            {{position, "age >"}, :syntax},
            {{position, :age}, :type},
            {{-1, "age > 1"}, :out_of_bounds}
          ] do
        assert {:error, %Error{kind: ^kind, position: ^position} = error} =
                 BeTree.insert_all(tree, List.replace_at(right, position, wrong))

        if kind == :syntax do
          assert error.text == "age >"
          assert error.message =~ "subscription #{position}: "
        end
      end
    end

    assert BeTree.info!(tree).expressions == 0
    assert BeTree.insert_all!(tree, right) == length(right)
  end

  test "a stream is consumed up to the first wrong subscription" do
    tree = BeTree.new!(age: :integer)

    stream =
      Stream.map(0..10_000, fn
        id when id < 700 -> {id, "age > #{id}"}
        700 -> :wrong
        id -> flunk("#{id} was asked for")
      end)

    assert {:error, %Error{kind: :type, position: 700}} = BeTree.insert_all(tree, stream)
  end

  test "a refusal with a position outside the batch is an error of kind :bad_module" do
    {:ok, batch} = Insertion.new([{1, "age > 1"}])
    fetch = &Insertion.fetch!(batch, &1)
    assert %Error{kind: :bad_module} = Reply.blame(%Error{kind: :syntax, message: "no", position: 1}, 1, fetch)
    assert %Error{text: "age > 1"} = Reply.blame(%Error{kind: :syntax, message: "no", position: 0}, 1, fetch)
  end
end
