defmodule Catalogue do
  @moduledoc """
  A process that keeps a `BeTree.Server` up to date with a table in a database.

      children = [
        {BeTree.Server, name: MyApp.Ads, schema: schema, load: {MyApp.Catalogue, :load, []}, on_error: :collect},
        {Catalogue, server: MyApp.Ads, source: MyApp.Catalogue}
      ]

      Supervisor.start_link(children, strategy: :rest_for_one)

  It listens first, and then reads all rows, in `BeTree.Server.sync/3`. So a row that changes during the reading has a notification that is
  handled afterwards. A notification has an id. The process reads the row of that id as it is now, and puts or deletes it. So it does not
  matter in which order notifications come, nor whether one comes twice.

  Notifications that are sent while there is no connection are lost. When the connection ends, this process ends with it. Its supervisor
  starts it again, and it listens and reads all rows again. A server that has missed nothing is then not changed. While the database
  cannot be reached, the process tries again after each `:retry_after` milliseconds, and the server has the last state.
  """

  use GenServer

  require Logger

  # The notifications that are handled by one query and one change.
  @max_ids 500

  @doc """
  Connects, and sends `{:changed, id}` for each change from now on to the calling process, which traps exits. The connection is linked to
  that process, and ends when it is lost.
  """
  @callback listen() :: {:ok, connection :: term} | {:error, term}

  @doc "Calls the function with all rows, as a stream of `{id, expression}` whose query begins when it is read."
  @callback all(connection :: term, (Enumerable.t() -> result)) :: result when result: term

  @doc "Returns those of the rows that exist."
  @callback get(connection :: term, ids :: [integer]) :: [{integer, String.t()}]

  def start_link(options), do: GenServer.start_link(__MODULE__, Map.new(options))

  @impl GenServer
  def init(%{server: _, source: _} = options) do
    # A connection that cannot be made may end with a signal too.
    Process.flag(:trap_exit, true)
    {:ok, Map.merge(%{retry_after: 1_000, connection: nil}, options), {:continue, :listen}}
  end

  @impl GenServer
  def handle_continue(:listen, %{server: server, source: source} = state) do
    case source.listen() do
      {:ok, connection} ->
        counts = source.all(connection, &BeTree.Server.sync!(server, &1, on_error: :collect))
        report(counts.faults)
        {:noreply, %{state | connection: connection}}

      {:error, reason} ->
        Logger.warning("the catalogue cannot be reached: #{inspect(reason)}")
        Process.send_after(self(), :listen, state.retry_after)
        {:noreply, state}
    end
  end

  @impl GenServer
  def handle_info(:listen, state), do: {:noreply, state, {:continue, :listen}}

  def handle_info({:changed, id}, %{server: server, source: source, connection: connection} = state) do
    ids = Enum.uniq([id | others(@max_ids - 1)])
    rows = source.get(connection, ids)
    present = MapSet.new(rows, &elem(&1, 0))
    gone = Enum.reject(ids, &(&1 in present))
    counts = BeTree.Server.change!(server, put: rows, delete: gone, on_error: :collect)
    report(for {_id, %{kind: kind}} = fault when kind != :not_found <- counts.faults, do: fault)
    {:noreply, state}
  end

  def handle_info({:EXIT, _process, _reason}, %{connection: nil} = state), do: {:noreply, state}
  def handle_info({:EXIT, _process, reason}, state), do: {:stop, {:shutdown, reason}, state}

  # The ids of notifications that have come already.
  defp others(0), do: []

  defp others(most) do
    receive do
      {:changed, id} -> [id | others(most - 1)]
    after
      0 -> []
    end
  end

  # A row that is wrong leaves the subscription as it was.
  defp report(faults) do
    for {id, error} <- faults, do: Logger.warning("the row #{inspect(id)} is left out: #{error.message}")
  end
end
