defmodule BeTree.Tenants.Dashboard.Overview do
  @moduledoc false
  # The process that knows the figures of all tenants.
  #
  # A scan reads them tenant by tenant in a process beside this one, and sends the figures of some tenants at a time. The first scan of a day
  # reads all days that the page shows, later ones only the present day, because matches no longer change the figures of other days. A scan begins
  # with a request, and only after a pause that is longer than the scan before took, so the dashboard takes a bounded share of a processor.
  # A restored dump adds to earlier days, so the scan after it reads all days too.
  #
  # The table has a row for each tenant: `{key, tenant, name, scan, today, days}` with the totals of today, and those of the earlier days
  # of each range. The key stands for the tenant in addresses; it is a digest, so no text of a request becomes a term.

  use BeTree.Processes.Server

  alias BeTree.{Error, Tenants}
  alias BeTree.Tenants.Dashboard.{Label, Totals}
  alias BeTree.Tenants.{Clock, Directory, Store}

  # Days of the longest range.
  @max_days 30
  # Tenants of one report.
  @chunk 64
  # Milliseconds between scans, and how many times as long as the last one.
  @min_pause_ms 1_000
  @pause_factor 5
  # Bytes of a digest in a key.
  @key_bytes 18

  @enforce_keys [:name, :table]
  defstruct @enforce_keys ++
              [
                by_day: %{},
                day: nil,
                scan: 0,
                restores: 0,
                scanner: nil,
                done: 0,
                total: 0,
                started: 0,
                rest_until: nil,
                complete?: false,
                error: nil
              ]

  @type summary :: %{
          tenants: [row],
          by_day: %{Clock.day() => Totals.t()},
          progress: {done :: non_neg_integer, total :: non_neg_integer} | nil,
          error: Error.t() | nil
        }

  @typedoc "A tenant with its totals of the range. Of a tenant that was dropped, `:by_day` keeps the days before the present one."
  @type row :: {key :: String.t(), tenant :: term, name :: String.t(), Totals.t()}

  @doc "Starts the process for the tenants with this name, linked to the calling process."
  @spec start_link(atom) :: GenServer.on_start()
  def start_link(name), do: GenServer.start_link(__MODULE__, name)

  @doc """
  Returns the figures of all tenants of this many days, `1..#{@max_days}`, the present one included, and begins a scan if those are old.
  """
  @spec fetch(pid, pos_integer) :: {:ok, summary} | {:error, Error.t()}
  def fetch(overview, days), do: call(overview, {:fetch, days})

  @doc "Returns the tenant with this key."
  @spec find(pid, String.t()) :: {:ok, term} | {:error, Error.t()}
  def find(overview, key), do: call(overview, {:find, key})

  defp call(overview, request) do
    GenServer.call(overview, request, :infinity)
  catch
    :exit, _reason -> {:error, %Error{kind: :no_server, message: "the dashboard ended"}}
  end

  @doc "Returns the key of a tenant."
  @spec key(term) :: String.t()
  def key(tenant) do
    bytes = :erlang.term_to_binary(tenant, minor_version: 2)
    :sha256 |> :crypto.hash(bytes) |> binary_part(0, @key_bytes) |> Base.url_encode64(padding: false)
  end

  @impl GenServer
  def init(name) do
    Process.flag(:trap_exit, true)
    {:ok, %__MODULE__{name: name, table: :ets.new(:overview, [:private])}}
  end

  @impl GenServer
  def handle_call({:fetch, days}, _from, state) do
    state = begin_scan(state)
    {:reply, {:ok, summary(state, days)}, state}
  end

  def handle_call({:find, key}, _from, %{table: table} = state) do
    state = if :ets.member(table, key), do: state, else: begin_scan(state)

    reply =
      case :ets.lookup(table, key) do
        [row] -> {:ok, elem(row, 1)}
        [] -> {:error, %Error{kind: :not_found, message: "there is no tenant with this key"}}
      end

    {:reply, reply, state}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_info({:figures, scanner, figures}, %{scanner: scanner} = state) do
    state = Enum.reduce(figures, state, &put/2)
    {:noreply, %{state | done: state.done + length(figures)}}
  end

  def handle_info({:figures, _earlier, _figures}, state), do: {:noreply, state}

  def handle_info({:EXIT, scanner, reason}, %{scanner: scanner} = state) do
    now = System.monotonic_time(:millisecond)
    pause = max(@pause_factor * (now - state.started), @min_pause_ms)
    state = %{state | scanner: nil, rest_until: now + pause}

    case reason do
      :normal -> {:noreply, %{remove_dropped(state) | complete?: true, error: nil}}
      {:shutdown, %Error{} = error} -> {:noreply, %{state | error: error}}
      # The next request begins another scan. The crash was logged.
      _crash -> {:noreply, %{state | error: %Error{kind: :no_server, message: "reading the tenants failed"}}}
    end
  end

  # The process that started this one.
  def handle_info({:EXIT, _other, reason}, state), do: {:stop, reason, state}
  def handle_info(message, state), do: super(message, state)

  ## Summaries

  defp summary(%{table: table, by_day: by_day, complete?: complete?} = state, days) do
    range = range(days)

    {tenants, of_today} =
      :ets.foldl(
        fn {key, tenant, name, _scan, today, earlier}, {rows, sum} ->
          {[{key, tenant, name, Totals.sum(today, Map.fetch!(earlier, range))} | rows], Totals.sum(sum, today)}
        end,
        {[], Totals.zero()},
        table
      )

    %{
      tenants: tenants,
      by_day: if(state.day, do: Map.put(by_day, state.day, of_today), else: by_day),
      progress: if(not complete? and state.error == nil, do: {state.done, state.total}),
      error: state.error
    }
  end

  # The ranges whose totals a row has, in days.
  @ranges [1, 7, @max_days]
  defp range(days), do: Enum.find(@ranges, &(days <= &1))

  @doc "Returns the numbers of days that a summary may have."
  @spec ranges() :: [pos_integer]
  def ranges, do: @ranges

  ## Scans

  defp begin_scan(%{scanner: nil, name: name} = state) do
    now = System.monotonic_time(:millisecond)

    with true <- state.rest_until == nil or now >= state.rest_until,
         {:ok, directory} <- Directory.fetch(name) do
      today = Clock.day(directory.options.clock)
      restores = Directory.total(directory, :restores)
      same? = {today, restores} == {state.day, state.restores}
      state = if same?, do: state, else: %{state | day: today, restores: restores, by_day: %{}, complete?: false}
      # What an interrupted scan added to the earlier days.
      state = if state.complete?, do: state, else: %{state | by_day: %{}}
      # Figures of today may still change. Those of earlier days are read once.
      first = if state.complete?, do: today, else: today - @max_days + 1
      tenants = Enum.to_list(Store.tenants(directory.store))
      overview = self()
      scanner = spawn_link(fn -> scan(overview, name, tenants, first, today) end)
      %{state | scanner: scanner, scan: state.scan + 1, done: 0, total: length(tenants), started: now}
    else
      false -> state
      {:error, error} -> %{state | error: error}
    end
  end

  defp begin_scan(state), do: state

  # Runs in the scanner.
  defp scan(overview, name, tenants, first, today) do
    for chunk <- Enum.chunk_every(tenants, @chunk) do
      days = Date.range(Clock.date(first), Clock.date(today))

      case figures(name, chunk, days) do
        {:ok, figures} -> send(overview, {:figures, self(), figures})
        {:error, error} -> exit({:shutdown, error})
      end
    end
  end

  defp figures(name, chunk, days) do
    with {:ok, entries} <- entries(name, chunk, days) do
      {:ok, Enum.flat_map(chunk, &figures_of(name, &1, entries, days))}
    end
  end

  defp entries(name, chunk, days) do
    case Tenants.report(name, tenants: chunk, days: days, sections: [[:tenant, :day]]) do
      {:ok, [entries]} ->
        {:ok, Map.new(entries, &{{&1.tenant, &1.day}, &1})}

      # One of them was dropped, or is damaged. The others have their figures all the same.
      {:error, %Error{kind: kind}} when kind in [:not_found, :damaged] and tl(chunk) != [] ->
        entries_of_each(name, chunk, days)

      {:error, %Error{kind: kind}} when kind in [:not_found, :damaged] ->
        {:ok, %{}}

      {:error, error} ->
        {:error, error}
    end
  end

  defp entries_of_each(name, chunk, days) do
    BeTree.Error.Attempt.reduce(chunk, %{}, fn tenant, all ->
      with {:ok, entries} <- entries(name, [tenant], days), do: {:ok, Map.merge(all, entries)}
    end)
  end

  # A tenant that was dropped meanwhile has none.
  defp figures_of(name, tenant, entries, days) do
    case Tenants.usage(name, tenant) do
      {:ok, usage} ->
        totals =
          for date <- days, bill = usage.days[date], entry = entries[{tenant, date}], bill != nil or entry != nil do
            {Clock.number(date), Totals.new(bill, entry)}
          end

        [{tenant, totals}]

      {:error, _error} ->
        []
    end
  end

  # Puts the figures of a tenant.
  defp put({tenant, totals}, %{table: table, day: today} = state) do
    key = key(tenant)
    sum = fn totals -> totals |> Enum.map(&elem(&1, 1)) |> Enum.reduce(Totals.zero(), &Totals.sum/2) end
    of_today = sum.(for {^today, _totals} = one <- totals, do: one)

    earlier =
      case state.complete? and :ets.lookup(table, key) do
        [row] ->
          elem(row, 5)

        _new ->
          for range <- @ranges,
              into: %{},
              do: {range, sum.(for({day, _} = one <- totals, day < today and day > today - range, do: one))}
      end

    :ets.insert(table, {key, tenant, Label.tenant(tenant), state.scan, of_today, earlier})

    by_day =
      for {day, totals} <- totals, day < today, reduce: state.by_day do
        by_day -> Map.update(by_day, day, totals, &Totals.sum(&1, totals))
      end

    %{state | by_day: by_day}
  end

  defp remove_dropped(%{table: table, scan: scan} = state) do
    :ets.select_delete(table, [{{:_, :_, :_, :"$1", :_, :_}, [{:"=/=", :"$1", scan}], [true]}])
    state
  end
end
