defmodule BeTree.Tune.Turn do
  @moduledoc false
  # Runs one load for some milliseconds, while one process sleeps a millisecond at a time beside it.

  alias BeTree.Error.Attempt
  alias BeTree.Index
  alias BeTree.Tune.Histogram

  @sleep_ms 1

  @typedoc """
  A configuration of searches: fuel of a slice and of a reduction, events of a call, replicas of the index, and the number
  of searching processes.
  """
  @type setting :: %{
          slice: BeTree.Fuel.budget(),
          fuel_per_reduction: pos_integer,
          batch: pos_integer,
          replicas: pos_integer,
          max_concurrency: pos_integer
        }

  @typedoc "The work beside the sleeper: nothing, loops of plain Elixir, or searches."
  @type load :: :nothing | {:plain, processes :: pos_integer} | {:search, setting}

  @typedoc "Searches a second, with histograms in nanoseconds of the calls and of the sleeper's lateness."
  @type t :: %{rate: float, latency: Histogram.t(), late: Histogram.t()}

  @typedoc "The shared input of turns: the published index for each number of replicas, and the persistent term with the events."
  @type stage :: %{indexes: %{pos_integer => Index.t()}, events: term}

  @doc """
  Calls `fun` with a stage for `loads`: `tree`, published for each number of replicas, and the shared `events`.
  """
  @spec with_stage(BeTree.t(), [BeTree.Event.t(), ...], [load], (stage -> result)) ::
          result | {:error, BeTree.Error.t()}
        when result: term
  def with_stage(tree, events, loads, fun) do
    settings = for {:search, setting} <- loads, do: setting
    key = {__MODULE__, make_ref()}
    batches = settings |> Enum.map(& &1.batch) |> Enum.uniq()
    :persistent_term.put(key, Map.new(batches, &{&1, chunks(events, &1)}))
    keeper = keep(key, self())

    try do
      with {:ok, indexes} <- publish(tree, settings |> Enum.map(& &1.replicas) |> Enum.uniq()),
           do: fun.(%{indexes: indexes, events: key})
    after
      send(keeper, :release)
    end
  end

  # Starts a process that erases the shared term on `:release`, or when `owner` is killed.
  defp keep(key, owner) do
    spawn(fn ->
      monitor = Process.monitor(owner)

      receive do
        :release -> :persistent_term.erase(key)
        {:DOWN, ^monitor, :process, ^owner, _reason} -> :persistent_term.erase(key)
      end
    end)
  end

  defp publish(tree, replicas) do
    Attempt.reduce(replicas, %{}, fn count, indexes ->
      with {:ok, index} <- BeTree.publish(tree, replicas: count), do: {:ok, Map.put(indexes, count, index)}
    end)
  end

  # Persistent terms are never garbage-collected, so the events cost the processes nothing. Few events repeat to fill a
  # batch.
  defp chunks(events, batch) do
    enough = max(length(events), batch)

    events
    |> Stream.cycle()
    |> Stream.take(enough)
    |> Stream.chunk_every(batch, batch, :discard)
    |> Enum.to_list()
    |> List.to_tuple()
  end

  @doc "Runs a turn of some milliseconds."
  @spec run(load, stage, pos_integer) :: {:ok, t} | {:error, BeTree.Error.t()}
  def run(load, stage, milliseconds) do
    shared = %{stop: :atomics.new(1, []), searches: :counters.new(1, [:write_concurrency])}
    workers = load |> works(stage, shared) |> Enum.map(&Task.async/1)
    # Wait until the processes run and their first calls have warmed the caches.
    Process.sleep(@sleep_ms)
    {late, rate} = sleep_beside(shared.searches, milliseconds)
    :atomics.put(shared.stop, 1, 1)
    results = Task.await_many(workers, :infinity)

    case Enum.find(results, &match?({:error, _error}, &1)) do
      nil -> {:ok, %{rate: rate, latency: Histogram.read(for({:ok, histogram} <- results, do: histogram)), late: late}}
      error -> error
    end
  end

  defp works(:nothing, _stage, _shared), do: []
  defp works({:plain, count}, _stage, shared), do: for(_ <- 1..count, do: fn -> plain(shared.stop, 0) end)

  defp works({:search, setting}, stage, shared) do
    index = %{Map.fetch!(stage.indexes, setting.replicas) | fuel_per_reduction: setting.fuel_per_reduction}
    chunks = stage.events |> :persistent_term.get() |> Map.fetch!(setting.batch)
    options = [slice: setting.slice]
    call = if setting.batch == 1, do: &search(index, &1, options), else: &BeTree.search_many(index, &1, options)
    shared = Map.merge(shared, %{chunks: chunks, batch: setting.batch})

    for number <- 1..setting.max_concurrency do
      fn -> search(call, rem(97 * number, tuple_size(chunks)), shared, Histogram.new()) end
    end
  end

  defp search(index, [event], options), do: BeTree.search(index, event, options)

  defp search(call, at, shared, histogram) do
    started = now()

    case call.(elem(shared.chunks, at)) do
      {:ok, _ids} ->
        Histogram.add(histogram, now() - started)
        :counters.add(shared.searches, 1, shared.batch)
        next = if at + 1 == tuple_size(shared.chunks), do: 0, else: at + 1
        if :atomics.get(shared.stop, 1) == 0, do: search(call, next, shared, histogram), else: {:ok, histogram}

      {:error, error} ->
        {:error, error}
    end
  end

  # A loop that burns one reduction in each step.
  defp plain(stop, number) do
    if rem(number, 1_000) == 0 and :atomics.get(stop, 1) == 1,
      do: :ok,
      else: plain(stop, rem(number * 31 + 7, 1_000_003))
  end

  defp sleep_beside(searches, milliseconds) do
    late = Histogram.new()
    before = :counters.get(searches, 1)
    started = now()
    sleep(started + milliseconds * 1_000_000, late)
    count = :counters.get(searches, 1) - before
    {Histogram.read([late]), count * 1_000_000_000 / (now() - started)}
  end

  defp sleep(deadline, late) do
    started = now()
    Process.sleep(@sleep_ms)
    woken = now()
    Histogram.add(late, woken - started - @sleep_ms * 1_000_000)
    if woken < deadline, do: sleep(deadline, late), else: :ok
  end

  defp now, do: System.monotonic_time(:nanosecond)

  @doc "Returns the number of working processes of a load."
  @spec processes(load) :: non_neg_integer
  def processes(:nothing), do: 0
  def processes({:plain, count}), do: count
  def processes({:search, setting}), do: setting.max_concurrency
end
