defmodule ErlBetree.Reasons do
  @moduledoc false
  # Searches that also return reasons for misses: be_tree_reasons of docs/abi.md.

  alias BeTree.{Error, Event, Search}
  alias BeTree.Call.{Reply, Slices}
  alias ErlBetree.{Ids, Reference, Tree}

  # After the counts come two fields: whether the ids of each group ascend, and whether the event is invalid.
  @trailer 2

  @doc "Returns the matching ids and a reference to the misses; `:error` instead of the ids if a required attribute is missing."
  @spec search(Tree.t(), Event.t(), [BeTree.id()] | nil) :: {:ok | :error, [BeTree.id()], reference}
  def search(%Tree{reasons: nil}, _event, _ids), do: :erlang.error(:badarg)

  def search(%Tree{reasons: names} = tree, event, ids) do
    target = Tree.target(tree)

    with {:ok, format, bytes} <- Event.encode(event),
         {:ok, packed, ids_length} <- Search.pack_ids(target, %{ids: ids, as: :list}),
         {:ok, found} <- run(target, [format, byte_size(bytes), ids_length], Search.input(bytes, packed)),
         {:ok, result} <- split(found, names) do
      result
    else
      {:error, error} -> Tree.fail(error)
    end
  end

  defp run(tree, arguments, input) do
    runtime = tree.runtime
    request = %{input: input, output: :binary, fuel: :infinity, slice: runtime.default_slice(), scheduler: :normal}
    slices = Slices.new(runtime, &runtime.resume/1, tree.fuel_per_reduction, Slices.defaults())
    tree.instance |> runtime.call("be_tree_reasons", arguments, request) |> Slices.settle(slices) |> finish()
  end

  defp finish({:yield, slices}), do: slices |> Slices.resume() |> finish()
  defp finish({:done, 0, found, _slices}), do: {:ok, found}
  defp finish({:done, 1, refusal, _slices}), do: {:error, Reply.refusal(refusal)}
  defp finish({:done, status, _output, _slices}), do: {:error, Reply.bad("a search for reasons with status #{status}")}
  defp finish({:error, %Error{} = error}), do: {:error, error}

  # Returns the matching ids, and the undecoded bytes of the misses, which few programs decode.
  defp split(<<_visited::64, _evaluated::64, found::binary>>, names) do
    counts_size = 8 * tuple_size(names)

    with {:ok, ids, rest} <- split_at(found, byte_size(found) - counts_size - 8 * @trailer),
         {:ok, counts, <<ascend::little-64, does_not_fit::little-64>>} <- split_at(rest, counts_size),
         missed_size = 8 * (counts |> Ids.unpack() |> Enum.sum()),
         {:ok, matched, missed} <- split_at(ids, byte_size(ids) - missed_size) do
      status = if does_not_fit == 0, do: :ok, else: :error
      {:ok, {status, Ids.unpack(matched), Reference.new(:reasons, {names, missed, counts, ascend == 1})}}
    else
      _other -> {:error, Reply.bad("reasons of the wrong shape")}
    end
  end

  defp split(_other, _names), do: {:error, Reply.bad("reasons of the wrong shape")}

  defp split_at(bytes, size) when size >= 0 and size <= byte_size(bytes) do
    {before, rest} = :erlang.split_binary(bytes, size)
    {:ok, before, rest}
  end

  defp split_at(_bytes, _size), do: :error

  @doc "Returns the name of each reason with its ids in ascending order."
  @spec parse(reference) :: [{atom, [BeTree.id()]}]
  def parse(reference) do
    {names, missed, counts, ascend} = Reference.open(:reasons, reference)
    groups(Tuple.to_list(names), Ids.unpack(counts), missed, ascend)
  end

  defp groups([], [], <<>>, _ascend), do: []
  defp groups([_name | names], [0 | counts], missed, ascend), do: groups(names, counts, missed, ascend)

  defp groups([name | names], [count | counts], missed, ascend) do
    {group, missed} = :erlang.split_binary(missed, 8 * count)
    ids = Ids.unpack(group)
    [{name, if(ascend, do: ids, else: Enum.sort(ids))} | groups(names, counts, missed, ascend)]
  end
end
