defmodule BeTree.Rules.Server.Subscribers do
  @moduledoc false
  # The processes that receive the notices of servers, by the names of the servers. The table outlives the servers, so a process stays
  # subscribed when a server starts again. The process of this module removes subscribers that ended.
  #
  # The table also has a row for each server and each partition that runs. If the row exists when the server starts, its process before
  # has crashed or was killed. Another row has the number of the last notice of a server without a folder. It stays when the server is
  # stopped: a subscriber takes a number that it has seen for a repetition.

  use BeTree.Processes.Server

  alias BeTree.Rules.Server

  @typedoc "The number of a partition, or `:all`: the whole server."
  @type part :: non_neg_integer | :all

  @doc "Makes the table. The calling process owns it."
  @spec new() :: atom
  def new, do: :ets.new(__MODULE__, [:named_table, :public, :bag, read_concurrency: true])

  @spec start_link(term) :: GenServer.on_start()
  def start_link(_argument), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @doc "Subscribes a process to the server of a name, or to one of its partitions."
  @spec add(Server.name(), pid, part) :: :ok
  def add(name, pid, part) do
    :ets.insert(__MODULE__, {{:subscribers, name}, pid, part})
    GenServer.cast(__MODULE__, {:monitor, pid})
  end

  @doc "Ends the subscriptions of a process to a server and its partitions."
  @spec remove(Server.name(), pid) :: true
  def remove(name, pid), do: :ets.match_delete(__MODULE__, {{:subscribers, name}, pid, :_})

  @doc "Ends the subscriptions of a process to single partitions of a server."
  @spec remove_from_partitions(Server.name(), pid) :: non_neg_integer
  def remove_from_partitions(name, pid),
    do: :ets.select_delete(__MODULE__, [{{{:subscribers, name}, pid, :"$1"}, [{:is_integer, :"$1"}], [true]}])

  @doc "Returns the subscribers of a server, or, with a number, those of a partition."
  @spec of(Server.name(), non_neg_integer | nil) :: [pid]
  def of(name, number \\ nil) do
    Enum.uniq(
      for {_key, pid, part} <- :ets.lookup(__MODULE__, {:subscribers, name}), part == :all or part == number, do: pid
    )
  end

  @doc "Returns whether a server, or a partition of it, ended in another way than by being stopped."
  @spec crashed?(atom, non_neg_integer | nil) :: boolean
  def crashed?(name, number), do: :ets.member(__MODULE__, {:runs, name, number})

  @doc "Notes that a server or a partition runs."
  @spec started(Server.name(), non_neg_integer | nil) :: true
  def started(name, number), do: :ets.insert(__MODULE__, {{:runs, name, number}})

  @doc "Notes that a server or a partition was stopped."
  @spec stopped(Server.name(), non_neg_integer | nil) :: true
  def stopped(name, number), do: :ets.delete(__MODULE__, {:runs, name, number})

  @doc "Returns the names of the servers that run, or have crashed and will run again."
  @spec running() :: [Server.name()]
  def running do
    __MODULE__ |> :ets.select([{{{:runs, :"$1", :_}}, [], [:"$1"]}]) |> Enum.uniq()
  rescue
    # The application does not run.
    ArgumentError -> []
  end

  @doc "Returns the number of the last notice of a server or a partition without a folder, and 0 before the first."
  @spec last_notice(Server.name(), non_neg_integer | nil) :: non_neg_integer
  def last_notice(name, number) do
    case counter(name, number) do
      nil -> 0
      counter -> :atomics.get(counter, 1)
    end
  end

  @doc "Notes the number of the last notice. Only the process of the server or the partition calls it."
  @spec put_last_notice(Server.name(), non_neg_integer | nil, pos_integer) :: :ok
  def put_last_notice(name, number, last), do: :atomics.put(counter(name, number) || new_counter(name, number), 1, last)

  @doc "Forgets the number of the last notice."
  @spec forget_last_notice(Server.name(), non_neg_integer | nil) :: true
  def forget_last_notice(name, number), do: :ets.delete(__MODULE__, {:last_notice, name, number})

  defp counter(name, number) do
    case :ets.lookup(__MODULE__, {:last_notice, name, number}) do
      [{_key, counter}] -> counter
      [] -> nil
    end
  end

  # The rows of a bag cannot be replaced.
  defp new_counter(name, number) do
    counter = :atomics.new(1, signed: false)
    :ets.insert(__MODULE__, {{:last_notice, name, number}, counter})
    counter
  end

  @impl GenServer
  def init(_argument) do
    for {{:subscribers, _name}, pid, _part} <- :ets.tab2list(__MODULE__), do: Process.monitor(pid)
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
    :ets.match_delete(__MODULE__, {{:subscribers, :_}, pid, :_})
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)
end
