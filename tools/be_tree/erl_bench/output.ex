defmodule BeTree.ErlBench.Output do
  @moduledoc false
  # Files of results, a list of ids an event as an Erlang term, and what two of them differ in.

  alias BeTree.Files.{Error, Reader, Terms}

  @type ids :: [BeTree.id()]

  # Calls `fun` with a function that writes the ids of one event to the file at `path`, or nowhere where that is `nil`.
  @spec with_file!(Path.t() | nil, ((ids -> :ok) -> result)) :: result when result: term
  def with_file!(nil, fun), do: fun.(fn _ids -> :ok end)

  def with_file!(path, fun) do
    case :file.open(path, [:write, :raw, :delayed_write]) do
      {:ok, device} ->
        result = fun.(&done!(:file.write(device, line(&1)), path))
        done!(:file.close(device), path)
        result

      {:error, reason} ->
        raise Error.posix(path, reason)
    end
  end

  # How many events were compared, and of those with different ids the number, the ids in the first file and the ids
  # in the second, `:eof` where a file has no more.
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

  # Either file may be in any order; ours are ascending.
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

  defp done!(:ok, _path), do: :ok
  defp done!({:error, reason}, path), do: raise(Error.posix(path, reason))
end
