defmodule BeTree.Attacks.ImagesTest do
  # Damaged and truncated images are refused with a reason.
  use ExUnit.Case, async: true

  import Bitwise

  alias BeTree.{Error, Image}
  alias BeTree.Test.{Attack, Language}

  @moduletag timeout: :infinity

  setup_all do
    tree = BeTree.new!(Language.schema())
    BeTree.insert_all!(tree, Language.subscriptions())
    {:ok, image: Image.to_binary!(tree)}
  end

  test "images with wrong bytes", %{image: image} do
    Attack.each(Attack.size(60, 20_000), fn _number ->
      mutated = Attack.mutate(image)
      if mutated != image, do: refused(mutated)
    end)
  end

  test "images with one wrong bit", %{image: image} do
    Attack.each(Attack.size(60, 20_000), fn _number ->
      {before, <<byte, behind::binary>>} = :erlang.split_binary(image, :rand.uniform(byte_size(image)) - 1)
      refused(<<before::binary, bxor(byte, 1 <<< (:rand.uniform(8) - 1)), behind::binary>>)
    end)
  end

  test "truncated and extended images", %{image: image} do
    Attack.each(Attack.size(20, 5_000), fn _number ->
      refused(binary_part(image, 0, :rand.uniform(byte_size(image)) - 1))
    end)

    for length <- 0..Attack.size(20, 5_000), do: refused(binary_part(image, 0, length))
    for length <- 1..10, do: refused(binary_part(image, 0, byte_size(image) - length))
    for more <- [<<0>>, "more", image], do: refused(image <> more)
  end

  test "an unchanged image is read", %{image: image} do
    index = Image.read!({:binary, image})
    for {_text, event, _holds} <- Enum.take(Language.rows(), 20), do: assert({:ok, _ids} = BeTree.search(index, event))
  end

  defp refused(image) do
    source = {:binary, image}

    for answer <- [Image.read(source), Image.read_tree(source), Image.verify(source)] do
      assert {:error, %Error{kind: kind} = error} = answer
      assert kind in [:bad_module, :out_of_memory]
      assert is_binary(Exception.message(error))
    end
  end
end
