defmodule BeTree.LiveDashboard.Sampler do
  @moduledoc false
  # Samples the searches of a node while a page of a dashboard shows them: sums for each server, and the slowest search of each server in
  # each second. It reads the events [:be_tree, :search, :stop], which have no value of the searched event.
  #
  # All pages that show a node share its sampler, which the first of them starts. It ends when their processes have ended.

  use BeTree.Processes.Server

  alias BeTree.Telemetry

  # The sampler keeps the slowest search of each server in each of the last 300 seconds, up to 5,000 searches. With many servers these
  # cover fewer seconds.
  @kept_seconds 300
  @max_slow 5_000
  # The maximum number of rows with sums: a node may start and stop servers of ever new names while a page is open.
  @max_sums 20_000
  @forget_every_ms 1_000

  @typedoc "The tables of the sums and of the slow searches, and the monotonic microseconds at which they were empty."
  @type tables :: %{sums: :ets.tid(), slow: :ets.tid(), started: integer}

  @typedoc "The name of the searched server, or `nil` for trees, indexes and clusters."
  @type server :: term

  @typedoc "The sums of the searches of one server since the sampler was started."
  @type sum :: %{
          server: server,
          searches: pos_integer,
          errors: non_neg_integer,
          duration: non_neg_integer,
          fuel: non_neg_integer,
          matches: non_neg_integer
        }

  @typedoc "A search: the second in which it ended, in Unix time, its duration in microseconds, and its result or the kind of its error."
  @type slow :: %{
          server: server,
          second: integer,
          duration: non_neg_integer,
          fuel: non_neg_integer,
          slices: non_neg_integer,
          matches: non_neg_integer,
          result: atom
        }

  @doc """
  Returns the sums of the searches on this node since the sampler was started, and the microseconds since then. Starts it if it does not
  run; it runs until `viewer` and the other viewers have ended. Returns `{:error, :no_telemetry}` without the package `:telemetry`.
  """
  @spec sums(pid) :: {:ok, [sum], microseconds :: pos_integer} | {:error, :no_telemetry}
  def sums(viewer) do
    with {:ok, tables} <- tables(viewer) do
      rows = Enum.group_by(:ets.tab2list(tables.sums), fn {{server, _scheduler}, _, _, _, _, _} -> server end)
      {:ok, for({server, rows} <- rows, do: sum(server, rows)), max(now() - tables.started, 1)}
    end
  end

  defp sum(server, rows) do
    sum = fn position -> rows |> Enum.map(&elem(&1, position)) |> Enum.sum() end
    %{server: server, searches: sum.(1), errors: sum.(2), duration: sum.(3), fuel: sum.(4), matches: sum.(5)}
  end

  @doc "Returns the slowest search of each server in each of the last seconds, with the starts and errors of `sums/1`."
  @spec slow(pid) :: {:ok, [slow]} | {:error, :no_telemetry}
  def slow(viewer) do
    with {:ok, tables} <- tables(viewer) do
      {:ok,
       for {{second, server}, duration, fuel, slices, matches, result} <- :ets.tab2list(tables.slow) do
         %{
           server: server,
           second: second,
           duration: duration,
           fuel: fuel,
           slices: slices,
           matches: matches,
           result: result
         }
       end}
    end
  end

  defp tables(viewer) do
    if Telemetry.enabled?(), do: {:ok, view(viewer)}, else: {:error, :no_telemetry}
  end

  defp view(viewer) do
    case GenServer.start(__MODULE__, [], name: __MODULE__) do
      {:ok, _sampler} -> :started
      {:error, {:already_started, _sampler}} -> :ran
    end

    GenServer.call(__MODULE__, {:view, viewer}, :infinity)
  catch
    # The sampler ended because its last viewer had left.
    :exit, {reason, _call} when reason in [:normal, :noproc] -> view(viewer)
  end

  ## The process

  @impl GenServer
  def init([]) do
    Process.flag(:trap_exit, true)
    sink = Telemetry.sink()
    options = [:set, :public, write_concurrency: true, read_concurrency: true]
    tables = %{sums: :ets.new(__MODULE__, options), slow: :ets.new(__MODULE__, options), started: now()}
    :ok = sink.attach(handler(), [:be_tree, :search, :stop], &__MODULE__.handle/4, tables)
    Process.send_after(self(), :forget, @forget_every_ms)
    {:ok, %{sink: sink, tables: tables, viewers: %{}}}
  end

  # If this process is killed, the next event finds no table, and the package detaches a handler that fails.
  @impl GenServer
  def terminate(_reason, %{sink: sink}), do: sink.detach(handler())

  # A handler of a process that was killed may still be there.
  defp handler, do: {__MODULE__, self()}

  @impl GenServer
  def handle_call({:view, viewer}, _from, %{viewers: viewers} = state) do
    viewers = Map.put_new_lazy(viewers, viewer, fn -> Process.monitor(viewer) end)
    {:reply, state.tables, %{state | viewers: viewers}}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_info({:DOWN, _monitor, :process, viewer, _reason}, %{viewers: viewers} = state) do
    viewers = Map.delete(viewers, viewer)
    if viewers == %{}, do: {:stop, :normal, state}, else: {:noreply, %{state | viewers: viewers}}
  end

  def handle_info(:forget, state) do
    forget(state.tables.slow, System.system_time(:second), @kept_seconds)
    Process.send_after(self(), :forget, @forget_every_ms)
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)

  defp forget(slow, now, seconds) do
    row = {{:"$1", :_}, :_, :_, :_, :_, :_}
    :ets.select_delete(slow, [{row, [{:<, :"$1", now - seconds}], [true]}])
    if seconds > 1 and :ets.info(slow, :size) > @max_slow, do: forget(slow, now, div(seconds, 2)), else: :ok
  end

  ## Events

  @doc false
  # Handles an event in the process of the search.
  @spec handle([atom], map, map, tables) :: :ok
  def handle(_event, %{duration: duration} = measurements, metadata, tables) do
    server = Map.get(metadata, :server)
    search = Map.put(measurements, :duration, System.convert_time_unit(duration, :native, :microsecond))
    add(tables.sums, server, search, metadata)
    keep(tables.slow, {System.system_time(:second), server}, search, metadata)
  end

  defp add(sums, server, search, metadata) do
    # A row for each scheduler: searches on two schedulers would wait for each other to change one row.
    key = {server, :erlang.system_info(:scheduler_id)}

    if :ets.member(sums, key) or :ets.info(sums, :size) < @max_sums do
      errors = if metadata.result == :error, do: 1, else: 0
      more = [{2, 1}, {3, errors}, {4, search.duration}, {5, search.fuel}, {6, search.matches}]
      :ets.update_counter(sums, key, more, {key, 0, 0, 0, 0, 0})
    end
  end

  # Of two searches that end at once the faster one may be kept: a lock would cost each search more.
  defp keep(slow, key, search, metadata) do
    case :ets.lookup(slow, key) do
      [{_key, longest, _fuel, _slices, _matches, _result}] when longest >= search.duration ->
        :ok

      _faster ->
        result = Map.get(metadata, :error_kind, :ok)
        :ets.insert(slow, {key, search.duration, search.fuel, search.slices, search.matches, result})
        :ok
    end
  end

  defp now, do: System.monotonic_time(:microsecond)
end
