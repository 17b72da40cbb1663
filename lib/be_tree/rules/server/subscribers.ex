defmodule BeTree.Rules.Server.Subscribers do
  @moduledoc false
  # The processes that receive the notices of servers, by the names of the servers. The table outlives the servers, so a process stays
  # subscribed when a server starts again. The process of this module removes subscribers that ended.
  #
  # The table also has a row for each server and each partition that runs. If the row exists when the server starts, its process before
  # has crashed or was killed.

  use BeTree.Processes.Server

  @doc "Makes the table. The calling process owns it."
  @spec new() :: atom
  def new, do: :ets.new(__MODULE__, [:named_table, :public, :bag, read_concurrency: true])

  @spec start_link(term) :: GenServer.on_start()
  def start_link(_argument), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @doc "Subscribes a process to the server of a name."
  @spec add(atom, pid) :: :ok
  def add(name, pid) do
    :ets.insert(__MODULE__, {{:subscribers, name}, pid})
    GenServer.cast(__MODULE__, {:monitor, pid})
  end

  @spec remove(atom, pid) :: true
  def remove(name, pid), do: :ets.delete_object(__MODULE__, {{:subscribers, name}, pid})

  @doc "Returns the subscribers of a server."
  @spec of(atom) :: [pid]
  def of(name), do: for({_key, pid} <- :ets.lookup(__MODULE__, {:subscribers, name}), do: pid)

  @doc "Returns whether a server, or a partition of it, ended in another way than by being stopped."
  @spec crashed?(atom, non_neg_integer | nil) :: boolean
  def crashed?(name, number), do: :ets.member(__MODULE__, {:runs, name, number})

  @doc "Notes that a server or a partition runs."
  @spec started(atom, non_neg_integer | nil) :: true
  def started(name, number), do: :ets.insert(__MODULE__, {{:runs, name, number}})

  @doc "Notes that a server or a partition was stopped."
  @spec stopped(atom, non_neg_integer | nil) :: true
  def stopped(name, number), do: :ets.delete(__MODULE__, {:runs, name, number})

  @impl GenServer
  def init(_argument) do
    for {{:subscribers, _name}, pid} <- :ets.tab2list(__MODULE__), do: Process.monitor(pid)
    {:ok, nil}
  end

  @impl GenServer
  def handle_cast({:monitor, pid}, state) when is_pid(pid) do
    Process.monitor(pid)
    {:noreply, state}
  end

  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info({:DOWN, _monitor, :process, pid, _reason}, state) do
    :ets.match_delete(__MODULE__, {{:subscribers, :_}, pid})
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)
end
