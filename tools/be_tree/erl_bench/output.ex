defmodule BeTree.ErlBench.Output do
  @moduledoc false
  # Files of results, one Erlang list of ids per event, and their differences.

  alias BeTree.Files.{Reader, Terms}
  alias Mix.BeTree.Command

  @type ids :: [BeTree.id()]

  # Calls `fun` with a function that writes the ids of one event to the file at `path`, or discards them if `path` is `nil`.
  @spec with_file!(Path.t() | nil, [Path.t()], ((ids -> :ok) -> result)) :: result when result: term
  def with_file!(nil, _inputs, fun), do: fun.(fn _ids -> :ok end)

  def with_file!(path, inputs, fun) do
    Command.with_output!(path, inputs, fn write -> fun.(&write.(line(&1))) end)
  end

  # Returns the number of compared events, and for each difference the event's number and the ids in both files (`:eof` at
  # an end).
  @spec diff!(Path.t(), Path.t()) :: {non_neg_integer, [{pos_integer, ids | :eof, ids | :eof}]}
  def diff!(first, second) do
    {count, differences} =
      [first, second]
      |> Enum.map(&Stream.concat(read(&1), Stream.repeatedly(fn -> :eof end)))
      |> Stream.zip()
      |> Stream.take_while(&(&1 != {:eof, :eof}))
      |> Enum.reduce({0, []}, fn {one, other}, {count, differences} ->
        count = count + 1
        {count, if(same?(one, other), do: differences, else: [{count, one, other} | differences])}
      end)

    {count, Enum.reverse(differences)}
  end

  # erl-be-tree's order is arbitrary; ours is ascending.
  defp same?(ids, ids), do: true
  defp same?(one, other) when is_list(one) and is_list(other), do: Enum.sort(one) == Enum.sort(other)
  defp same?(_one, _other), do: false

  defp read(path) do
    path
    |> Terms.stream()
    |> Stream.map(fn {ids, text, number, offset} ->
      unless is_list(ids), do: raise(Reader.error(path, text, number, offset, "expected a list of ids"))
      ids
    end)
  end

  defp line(ids), do: [?[, Enum.map_intersperse(ids, ?,, &Integer.to_string/1), "].\n"]
end
