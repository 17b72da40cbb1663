defmodule BeTree.Profile.Recorder do
  @moduledoc false
  # Runs searches part by part (docs/contributing/abi.md), measures the fuel of each part, and reads its counts.
  #
  # Each event is first searched as usual, for its total fuel. Then the same phases run as parts, one call each. A part
  # costs its phase plus the fixed fuel of a call, which the last, empty part measures. The remaining fuel belongs to the
  # call of the search.

  alias BeTree.{Error, Event, Search, Tree}
  alias BeTree.Error.Attempt
  alias BeTree.Call.{Instance, Reply, Slices}
  alias BeTree.Processes.Deadline
  alias BeTree.Profile.Tally

  @phases List.to_tuple([:walk, :scan, :verify, :dense, :unindexed, :collect, :sort])
  @no_part 0xFFFF_FFFF

  # The address space of a module. A copy takes only the pages that it writes.
  @max_memory 0x1_0000_0000

  @typedoc "A part: its phase, its fuel, and its counts as the module returns them."
  @type part :: {BeTree.Profile.phase(), BeTree.Fuel.t(), [tuple]}

  @typedoc "The record of one search: its statistics, its number of matches, and its parts. The fuel of `:call` may be negative."
  @type recorded :: %{stats: BeTree.Stats.t(), matches: non_neg_integer, parts: [part]}

  @doc "Returns the profile of searches for `events` in a snapshot of `source`."
  @spec profile(
          BeTree.t() | BeTree.Index.t(),
          BeTree.Runtime.snapshot(),
          Enumerable.t(),
          Deadline.t(),
          BeTree.Domain.on_mismatch()
        ) ::
          {:ok, BeTree.Profile.t()} | {:error, Error.t()}
  def profile(source, snapshot, events, deadline, on_mismatch) do
    reading = %{strict: false, on_mismatch: on_mismatch}

    with {:ok, tree} <- copy(source, snapshot),
         {:ok, tally} <- tally(Stream.with_index(events), tree, reading, deadline),
         do: {:ok, Tally.profile(tally)}
  end

  defp tally(events, tree, reading, deadline) do
    Attempt.reduce(events, Tally.new(tree.schema), fn {event, position}, tally ->
      case record_in_time(tree, event, reading, deadline) do
        {:ok, recorded} -> {:ok, Tally.add(tally, recorded)}
        {:error, error} -> {:error, %{error | position: position}}
      end
    end)
  end

  defp record_in_time(tree, event, reading, deadline) do
    if Deadline.passed?(deadline),
      do: {:error, %Error{kind: :timeout, message: "the profile passed its timeout"}},
      else: record(tree, event, reading, deadline)
  end

  # A profile makes several calls for an event. A private copy keeps other calls out between them, and leaves the source free.
  defp copy(source, snapshot) do
    if Instance.exports?(source.guest, "be_tree_profile") do
      Tree.from_snapshot(source, snapshot, @max_memory)
    else
      message = "this index module has no profiles: it lacks the export be_tree_profile"
      {:error, %Error{kind: :bad_module, message: message}}
    end
  end

  # Returns the record of a search for `event` in `tree`.
  defp record(tree, event, reading, deadline) do
    options = [slice: slice(tree), timeout: Deadline.left(deadline), as: :binary, on_mismatch: reading.on_mismatch]

    with {:done, ids, stats} <- Search.run(tree, event, options),
         {:ok, format, bytes} <- Event.encode(event, reading),
         {:ok, _nothing, decode} <- call(tree, "be_tree_profile", [format, byte_size(bytes)], bytes, deadline),
         {:ok, parts, price} <- parts(tree, deadline, []) do
      parts = for {phase, fuel, counts} <- [{:decode, decode, []} | parts], do: {phase, fuel - price, counts}
      call = stats.fuel - Enum.sum(for {_phase, fuel, _counts} <- parts, do: fuel)
      {:ok, %{stats: stats, matches: div(byte_size(ids), 8), parts: parts ++ [{:call, call, []}]}}
    end
  end

  # Returns all parts, and the fuel of an empty call.
  defp parts(tree, deadline, parts) do
    case call(tree, "be_tree_profile_part", [], nil, deadline) do
      {:ok, <<@no_part::little-32>>, fuel} ->
        {:ok, Enum.reverse(parts), fuel}

      {:ok, <<phase::little-32>>, fuel} when phase < tuple_size(@phases) ->
        with {:ok, output, _fuel} <- call(tree, "be_tree_profile_counts", [], nil, deadline),
             {:ok, counts} <- Reply.counts(output, length(tree.schema) + 1) do
          parts(tree, deadline, [{elem(@phases, phase), fuel, counts} | parts])
        end

      {:ok, _output, _fuel} ->
        {:error, Reply.bad("a part of a profile that is none")}

      {:error, error} ->
        {:error, error}
    end
  end

  defp call(%{runtime: runtime} = tree, function, arguments, input, deadline) do
    slice = slice(tree)
    timeout = Deadline.left(deadline)
    request = %{input: input, output: :binary, fuel: :infinity, slice: slice, scheduler: :normal, timeout: timeout}
    limits = Map.take(request, [:fuel, :slice, :timeout])
    slices = Slices.new(runtime, &runtime.resume/1, tree.fuel_per_reduction, limits)

    case tree.instance |> runtime.call(function, arguments, request) |> Slices.settle(slices) |> to_end() do
      {:done, 0, output, slices} -> {:ok, output, slices.fuel}
      {:done, 1, refusal, _slices} when is_binary(refusal) -> {:error, Reply.refusal(refusal)}
      {:done, status, _output, _slices} -> {:error, Reply.bad("#{function} with status #{status}")}
      {:error, error} -> {:error, error}
    end
  end

  defp to_end({:yield, slices}), do: slices |> Slices.resume() |> to_end()
  defp to_end(ended), do: ended

  # A runtime that resumes from a checkpoint repeats some work, so each call runs in one slice there.
  defp slice(%{runtime: BeTree.Runtime.Wasmtime = runtime}), do: runtime.default_slice()
  defp slice(_tree), do: :infinity
end
