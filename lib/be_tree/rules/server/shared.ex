defmodule BeTree.Rules.Server.Shared do
  @moduledoc false
  # The table of a server with partitions: its processes, its rules, and the times of the partitions. The server's supervisor owns
  # it, so it outlives its processes. It has the server's name if that is an atom. Otherwise BeTree.Server.Names finds it by the
  # supervisor, so each function takes a table or a name.

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Server.Routes
  alias BeTree.Server.Names

  @type table :: Names.table() | Rules.Server.name()

  # The first of the atomic integers is the time of all partitions, the others are the times at which their windows close next.
  @no_time -0x8000_0000_0000_0000
  @never 0x7FFF_FFFF_FFFF_FFFF

  @doc "Makes the table. The calling process owns it."
  @spec new(Rules.Server.name(), pos_integer) :: {:ok, Names.table()} | {:error, Error.t()}
  def new(name, partitions) do
    times = :atomics.new(partitions + 1, signed: true)
    :atomics.put(times, 1, @no_time)
    for number <- 1..partitions, do: :atomics.put(times, number + 1, @never)
    table = make(name)
    :ets.insert(table, [{:be_tree_rules, partitions}, {:times, times}])
    {:ok, table}
  rescue
    ArgumentError ->
      message = "a table with the name #{inspect(name)} exists already; give the server another name"
      {:error, %Error{kind: :not_ready, message: message}}
  end

  defp make(name) when is_atom(name), do: :ets.new(name, [:named_table, :public, read_concurrency: true])

  defp make(_via) do
    table = :ets.new(__MODULE__, [:public, read_concurrency: true])
    Names.register(table)
    table
  end

  defp table(name) do
    case Names.table(name) do
      {:ok, table} -> table
      :error -> raise ArgumentError, "no server with partitions has the name #{inspect(name)}"
    end
  end

  @doc "Returns the number of partitions of the server `name`, or `nil` if there is no server with partitions of this name."
  @spec partitions(table) :: pos_integer | nil
  def partitions(name), do: value(name, :be_tree_rules)

  @doc "Makes the rules, with the keys of their facts, those of all partitions. This decides a swap."
  @spec put_rules(table, String.t(), term, Routes.t()) :: true
  def put_rules(table, text, by, routes), do: :ets.insert(table(table), [{:text, text}, {:by, by}, {:routes, routes}])

  @doc "Returns the keys of the rules, as the option `:partition_by` gave them."
  @spec by(table) :: term
  def by(table), do: :ets.lookup_element(table(table), :by, 2)

  @spec text(table) :: String.t()
  def text(table), do: :ets.lookup_element(table(table), :text, 2)

  @spec routes(table) :: Routes.t() | nil
  def routes(table), do: value(table, :routes)

  @doc "Notes the process that swaps the rules of all partitions."
  @spec put_front(table, pid) :: true
  def put_front(table, pid), do: :ets.insert(table(table), {:front, pid})

  @spec front(table) :: pid | nil
  def front(table), do: value(table, :front)

  @doc "Notes a partition that is ready, and raises the time of all and the event times of the sources to those that it has."
  @spec started(table, non_neg_integer, pid, Rules.time() | nil, %{(String.t() | nil) => Rules.time()}) :: true
  def started(table, number, pid, time, event_times) do
    if time, do: raise_time(table, time)
    for {source, time} <- event_times, do: raise_event_time(table, source, time)
    :ets.insert(table(table), {{:owner, number}, pid})
  end

  @doc "Returns the process of a partition, or `nil` if it is not ready."
  @spec owner(table, non_neg_integer) :: pid | nil
  def owner(table, number), do: value(table, {:owner, number})

  ## Times

  @doc "Returns the latest time of the facts of all partitions, or `nil`."
  @spec time(table) :: Rules.time() | nil
  def time(table) do
    case :atomics.get(times(table), 1) do
      @no_time -> nil
      time -> time
    end
  end

  @doc "Raises the time of all partitions."
  @spec raise_time(table, Rules.time()) :: :ok
  def raise_time(table, time) do
    times = times(table)
    raise_time(times, :atomics.get(times, 1), time)
  end

  defp raise_time(_times, now, time) when now >= time, do: :ok

  defp raise_time(times, now, time) do
    case :atomics.compare_exchange(times, 1, now, time) do
      :ok -> :ok
      later -> raise_time(times, later, time)
    end
  end

  @doc "Returns whether a named source was seen. Since then the facts without a source are those of one more source."
  @spec sources?(table) :: boolean
  def sources?(table), do: :ets.member(table(table), :sources)

  @doc "Returns the event time of a source, or `nil` before its first call."
  @spec event_time(table, String.t() | nil) :: Rules.time() | nil
  def event_time(table, source), do: value(table, source_key(source))

  @doc "Raises the event time of a source."
  @spec raise_event_time(table, String.t() | nil, Rules.time()) :: :ok
  def raise_event_time(table, source, time) do
    key = source_key(source)
    table = table(table)

    if not :ets.insert_new(table, {key, time}),
      do: :ets.select_replace(table, [{{key, :"$1"}, [{:<, :"$1", time}], [{{key, time}}]}])

    if source, do: :ets.insert_new(table, {:sources, true})
    :ok
  end

  @spec forget_source(table, String.t()) :: true
  def forget_source(table, source), do: :ets.delete(table(table), source_key(source))

  # No other key is a binary.
  defp source_key(nil), do: :no_source
  defp source_key(source), do: source

  @spec put_due(table, non_neg_integer, Rules.time() | nil) :: :ok
  def put_due(table, number, next_due), do: :atomics.put(times(table), number + 2, next_due || @never)

  @doc "Returns the times at which the windows of each partition close next, or `nil`, in the order of the partitions."
  @spec dues(table, pos_integer) :: [Rules.time() | nil]
  def dues(table, partitions) do
    times = times(table)
    for number <- 1..partitions, do: with(@never <- :atomics.get(times, number + 1), do: nil)
  end

  defp times(table), do: :ets.lookup_element(table(table), :times, 2)

  # Returns nil without the key, or without the table.
  defp value(name, key) do
    with {:ok, table} <- Names.table(name), [{_key, value}] <- Names.lookup(table, key), do: value, else: (_none -> nil)
  end

  ## The clock

  @doc "Gives the server a clock, from which all partitions read the time."
  @spec put_clock(table, term) :: true
  def put_clock(table, clock), do: :ets.insert(table(table), {:clock, 0, clock})

  @doc "Returns the clock, or `nil` if time moves by facts alone."
  @spec clock(table) :: term
  def clock(table) do
    case :ets.lookup(table(table), :clock) do
      [{:clock, _version, clock}] -> clock
      [] -> nil
    end
  end

  @doc """
  Replaces the clock by its next state, which `next` returns with a result and events. Returns these three, or `nil` if there is no clock.
  Only the process whose state is taken gets the events.
  """
  @spec update_clock(table, (clock -> {result, clock, [term]})) :: {result, clock, [term]} | nil
        when result: term, clock: term
  def update_clock(table, next) do
    table = table(table)

    with [{:clock, version, clock}] <- :ets.lookup(table, :clock) do
      case next.(clock) do
        {_result, ^clock, []} = same ->
          same

        {_result, clock, _events} = next_state ->
          changed = [{{:clock, version, :_}, [], [{{:clock, version + 1, {:const, clock}}}]}]

          if :ets.select_replace(table, changed) == 1, do: next_state, else: update_clock(table, next)
      end
    else
      [] -> nil
    end
  end

  ## Folders

  @doc "Returns the folder of a partition."
  @spec folder(Path.t(), non_neg_integer) :: Path.t()
  def folder(dir, number), do: Path.join(IO.chardata_to_string(dir), "partition-#{number}")
end
