defmodule BeTree.Test.Attack do
  @moduledoc false
  # Sizes and seeds of test/attacks: small in `make test`, full in `make attack`, which sets BE_TREE_ATTACK=full.

  @doc "Returns `small`, or `full` in `make attack`."
  def size(small, full), do: if(full?(), do: full, else: small)

  @doc "Returns whether this is `make attack`."
  def full?, do: System.get_env("BE_TREE_ATTACK") == "full"

  @doc "Returns the seed of this run, BE_TREE_SEED. test_helper.exs sets and prints it if it is missing."
  def seed, do: "BE_TREE_SEED" |> System.fetch_env!() |> String.to_integer()

  @doc """
  Runs `attack` for each number from 1 to `count`, with `:rand` seeded by the run's seed and the number. A failure names
  both.
  """
  def each(count, attack) do
    for number <- numbers(count) do
      :rand.seed(:exsss, {seed(), number, 0})

      try do
        attack.(number)
      rescue
        error ->
          again = "BE_TREE_SEED=#{seed()} BE_TREE_NUMBER=#{number}"
          reraise "#{again} repeats this: #{Exception.message(error)}", __STACKTRACE__
      end
    end
  end

  defp numbers(count) do
    case System.get_env("BE_TREE_NUMBER") do
      nil -> 1..count
      text -> [String.to_integer(text)]
    end
  end

  @doc "Returns `bytes` with one to four random faults: flipped bits, inserted or deleted bytes, removed or repeated parts."
  def mutate(bytes), do: Enum.reduce(1..Enum.random([1, 1, 2, 4]), bytes, fn _, bytes -> fault(bytes) end)

  # Syntax of expressions, JSON and Erlang terms.
  @characters [0, 0xFF, ?\\, ?", ?'] ++ ~c"()[]{}<>=,:0-.ea "

  defp fault(""), do: <<:rand.uniform(256) - 1>>

  defp fault(bytes) do
    at = :rand.uniform(byte_size(bytes)) - 1
    length = min(Enum.random([1, 1, 2, 7, 64, 1_000]), byte_size(bytes) - at)
    {before, <<byte, behind::binary>> = from} = :erlang.split_binary(bytes, at)
    {part, rest} = :erlang.split_binary(from, length)

    case :rand.uniform(8) do
      1 -> <<before::binary, Bitwise.bxor(byte, Bitwise.bsl(1, :rand.uniform(8) - 1)), behind::binary>>
      2 -> <<before::binary, Enum.random([0, 1, 127, 128, 255, :rand.uniform(256) - 1]), behind::binary>>
      3 -> <<before::binary, :rand.uniform(256) - 1, byte, behind::binary>>
      4 -> before <> behind
      5 -> before <> rest
      6 -> before
      7 -> <<before::binary, part::binary, part::binary, rest::binary>>
      8 -> <<before::binary, Enum.random(@characters), rest::binary>>
    end
  end
end
