defmodule BeTree.Tenants.Store.Table do
  @moduledoc false
  # The tables of a store. The supervisor makes them, so they survive the store's process, and readers use them without it.
  #
  #     rows    {key, sequence, body, body sequence, statistics, days, bytes of the tail}: a tenant, below 1 KB without its tail;
  #             also pairs of an atom or a tuple and a value, which describe the store
  #     tails   {{key, sequence}, record}: the changes after a tenant's body, in order
  #     queue   {{key, number}, request, from, caller, sequence}: requests that the store's process has not finished
  #     blobs   {number, blob}: without a folder, the bodies, statistics and days
  #
  # A key is the external term of a tenant. The process of the store numbers committed requests: the sequence of a request is greater
  # than that of each request before it. A row has the sequence of its last request, so that a repeated request changes nothing. Only
  # the process of the store writes rows and tails. It writes the changes of a tail first, then the row, and then removes the changes
  # that a body replaced, so that a reader that finds the same row twice has read its tail.

  alias BeTree.Tenants.Store.Place

  # The positions of the counters.
  @sequence 1
  @segment 2

  @enforce_keys [:rows, :tails, :queue, :blobs, :counters]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          rows: :ets.tid(),
          tails: :ets.tid(),
          queue: :ets.tid(),
          blobs: :ets.tid(),
          counters: :atomics.atomics_ref()
        }

  # Less than all integers that the VM numbers requests with.
  @before_numbers -0x1_0000_0000_0000_0000

  @type key :: binary
  @type sequence :: non_neg_integer

  @typedoc """
    * `body` - the place of the body, or `nil`, and the sequence of its request;
    * `statistics` - the day and the place of the statistics that are newer than the body, or `nil`;
    * `days` - the places of sealed days;
    * the bytes of the changes after the body.
  """
  @type row ::
          {key, sequence, body :: Place.t() | nil, sequence, statistics :: {integer, Place.t()} | nil, Place.days(),
           non_neg_integer}

  @typedoc "A committed request, as the journal has it."
  @type operation ::
          {:change, key, sequence, record :: binary}
          | {:body, key, sequence, Place.t()}
          | {:statistics, key, sequence, day :: integer, Place.t()}
          | {:day, key, sequence, day :: integer, Place.t()}
          | {:drop, key, sequence}
          | {:expire, sequence, first :: integer}
          | {:move, key, kind, from :: Place.t(), to :: Place.t()}

  @typedoc "The kind of a record: a body, statistics, or a sealed day."
  @type kind :: :body | :statistics | {:day, integer}

  @doc "Makes the tables of a store. The calling process owns them."
  @spec new() :: t
  def new do
    read = [:public, read_concurrency: true]

    %__MODULE__{
      rows: :ets.new(__MODULE__, [:set | read]),
      tails: :ets.new(__MODULE__, [:ordered_set | read]),
      queue: :ets.new(__MODULE__, [:ordered_set, :public, write_concurrency: true]),
      blobs: :ets.new(__MODULE__, [:set | read]),
      counters: :atomics.new(2, signed: false)
    }
  end

  @doc "Returns the key of a tenant."
  @spec key(term) :: key
  def key(tenant), do: :erlang.term_to_binary(tenant, [:deterministic, minor_version: 2])

  @doc "Returns the tenant of a key."
  @spec tenant(key) :: term
  def tenant(key), do: :erlang.binary_to_term(key)

  ## The store itself

  @doc "Sets a value that describes the store."
  @spec put(t, atom | tuple, term) :: :ok
  def put(%__MODULE__{rows: rows}, name, value) do
    true = :ets.insert(rows, {name, value})
    :ok
  end

  @doc "Returns a value that describes the store, or `nil`."
  @spec get(t, atom | tuple) :: term
  def get(%__MODULE__{rows: rows}, name) do
    case :ets.lookup(rows, name) do
      [{_name, value}] -> value
      [] -> nil
    end
  end

  @doc "Forgets a value that describes the store."
  @spec forget(t, atom | tuple) :: :ok
  def forget(%__MODULE__{rows: rows}, name) do
    true = :ets.delete(rows, name)
    :ok
  end

  @doc "Returns the last sequence."
  @spec sequence(t) :: sequence
  def sequence(%__MODULE__{counters: counters}), do: :atomics.get(counters, @sequence)

  @doc "Returns the next sequence."
  @spec next_sequence(t) :: sequence
  def next_sequence(%__MODULE__{counters: counters}), do: :atomics.add_get(counters, @sequence, 1)

  @doc "Lets all later sequences be greater than `sequence`. Only the process of the store calls this."
  @spec follow(t, sequence) :: :ok
  def follow(%__MODULE__{counters: counters}, sequence), do: raise_to(counters, @sequence, sequence)

  @doc "Returns the number of the next segment. No number returns while the tables exist."
  @spec next_segment(t) :: pos_integer
  def next_segment(%__MODULE__{counters: counters}), do: :atomics.add_get(counters, @segment, 1)

  @doc "Lets all later segments have greater numbers than `number`. Only the process of the store calls this."
  @spec follow_segment(t, non_neg_integer) :: :ok
  def follow_segment(%__MODULE__{counters: counters}, number), do: raise_to(counters, @segment, number)

  defp raise_to(counters, position, value),
    do: :atomics.put(counters, position, max(value, :atomics.get(counters, position)))

  @doc "Removes all tenants."
  @spec clear(t) :: :ok
  def clear(%__MODULE__{rows: rows, tails: tails}) do
    _count = :ets.select_delete(rows, [{{:_, :_, :_, :_, :_, :_, :_}, [], [true]}])
    true = :ets.delete_all_objects(tails)
    :ok
  end

  ## Reading

  @doc "Returns the row of a tenant, or `nil`."
  @spec row(t, key) :: row | nil
  def row(%__MODULE__{rows: rows}, key) do
    case :ets.lookup(rows, key) do
      [row] -> row
      [] -> nil
    end
  end

  @doc "Returns the row of a tenant and the changes after its body, in order, or `nil`."
  @spec fetch(t, key) :: {row, [{sequence, binary}]} | nil
  def fetch(%__MODULE__{} = table, key) do
    case row(table, key) do
      nil ->
        nil

      row ->
        tail = tail(table, row)
        if row(table, key) == row, do: {row, tail}, else: fetch(table, key)
    end
  end

  # A change after the row's last request is not committed yet.
  defp tail(_table, {_key, _sequence, _body, _from, _statistics, _days, 0}), do: []

  defp tail(%{tails: tails}, {key, sequence, _body, from, _statistics, _days, _bytes}) do
    pattern = {{key, :"$1"}, :"$2"}
    :ets.select(tails, [{pattern, [{:>, :"$1", from}, {:"=<", :"$1", sequence}], [{{:"$1", :"$2"}}]}])
  end

  @doc "Returns a stream of the keys of all tenants. A tenant that is made or dropped meanwhile may be missing."
  @spec keys(t) :: Enumerable.t()
  def keys(%__MODULE__{} = table), do: select(table, [{{:"$1", :_, :_, :_, :_, :_, :_}, [], [:"$1"]}])

  @doc "Returns a stream of the rows of all tenants."
  @spec rows(t) :: Enumerable.t()
  def rows(%__MODULE__{} = table), do: select(table, [{{:_, :_, :_, :_, :_, :_, :_}, [], [:"$_"]}])

  @select_size 500

  defp select(%{rows: rows}, spec) do
    Stream.resource(
      fn ->
        true = :ets.safe_fixtable(rows, true)
        :start
      end,
      fn
        :start -> selected(:ets.select(rows, spec, @select_size))
        :"$end_of_table" -> {:halt, :end}
        continuation -> selected(:ets.select(continuation))
      end,
      fn _continuation -> :ets.safe_fixtable(rows, false) end
    )
  end

  defp selected(:"$end_of_table"), do: {:halt, :end}
  defp selected({found, continuation}), do: {found, continuation}

  @doc "Returns the number of tenants."
  @spec count(t) :: non_neg_integer
  def count(%__MODULE__{rows: rows}), do: :ets.select_count(rows, [{{:_, :_, :_, :_, :_, :_, :_}, [], [true]}])

  ## Changes

  @doc "Returns the sequence of an operation. A move has none."
  @spec sequence_of(operation) :: sequence | nil
  def sequence_of({:move, _key, _kind, _from, _to}), do: nil
  def sequence_of({:expire, sequence, _first}), do: sequence
  def sequence_of(operation), do: elem(operation, 2)

  @doc "Returns whether the table has a request already."
  @spec done?(t, operation) :: boolean
  def done?(_table, {:move, _key, _kind, _from, _to}), do: false
  def done?(table, {:expire, _sequence, first}), do: first_day(table) >= first
  def done?(table, operation), do: done(row(table, elem(operation, 1)), elem(operation, 2))

  defp done(nil, _sequence), do: false
  defp done(row, sequence), do: elem(row, 1) >= sequence

  @doc "Makes a committed request, unless the table has it already. Returns the places of records that nothing refers to any more."
  @spec apply(t, operation) :: [{kind, Place.t()}]
  def apply(%__MODULE__{} = table, {:move, key, kind, from, to}) do
    move(table, kind, from, to, row(table, key))
    []
  end

  def apply(%__MODULE__{} = table, {:expire, _sequence, first}) do
    if first > first_day(table), do: put(table, :first_day, first)
    []
  end

  def apply(%__MODULE__{} = table, operation) do
    row = row(table, elem(operation, 1))
    if done(row, elem(operation, 2)), do: [], else: change(table, operation, row || empty(elem(operation, 1)))
  end

  defp change(table, {:change, key, sequence, record}, row) do
    true = :ets.insert(table.tails, {{key, sequence}, record})
    insert(table, row |> put_elem(1, sequence) |> put_elem(6, elem(row, 6) + byte_size(record)))
    []
  end

  defp change(table, {:body, key, sequence, place}, {_key, _sequence, body, _from, statistics, days, bytes}) do
    insert(table, {key, sequence, place, sequence, nil, days, 0})
    if bytes > 0, do: delete_tail(table, key, sequence)
    freed(:body, body) ++ freed_statistics(statistics)
  end

  defp change(table, {:statistics, _key, sequence, day, place}, row) do
    insert(table, row |> put_elem(1, sequence) |> put_elem(4, {day, place}))
    freed_statistics(elem(row, 4))
  end

  defp change(table, {:day, _key, sequence, day, place}, row) do
    kept = Place.from(elem(row, 5), first_day(table))
    insert(table, row |> put_elem(1, sequence) |> put_elem(5, Place.put(kept, day, place)))
    freed({:day, day}, Place.get(kept, day))
  end

  defp change(table, {:drop, key, sequence}, {_key, _sequence, body, _from, statistics, days, _bytes}) do
    true = :ets.delete(table.rows, key)
    delete_tail(table, key, sequence)
    first = first_day(table)
    days = for {day, place} <- Place.list(days), day >= first, do: {{:day, day}, place}
    freed(:body, body) ++ freed_statistics(statistics) ++ days
  end

  # Compaction moves a record only if the tenant still has it there.
  defp move(table, :body, from, to, {_key, _sequence, from, _body, _statistics, _days, _bytes} = row),
    do: insert(table, put_elem(row, 2, to))

  defp move(table, :statistics, from, to, {_key, _sequence, _place, _body, {day, from}, _days, _bytes} = row),
    do: insert(table, put_elem(row, 4, {day, to}))

  defp move(table, {:day, day}, from, to, {_key, _sequence, _place, _body, _statistics, days, _bytes} = row),
    do: if(Place.get(days, day) == from, do: insert(table, put_elem(row, 5, Place.put(days, day, to))))

  defp move(_table, _kind, _from, _to, _replaced_or_dropped), do: :ok

  defp empty(key), do: {key, 0, nil, 0, nil, "", 0}

  defp insert(table, row) do
    true = :ets.insert(table.rows, row)
    :ok
  end

  defp delete_tail(%{tails: tails}, key, sequence) do
    _count = :ets.select_delete(tails, [{{{key, :"$1"}, :_}, [{:"=<", :"$1", sequence}], [true]}])
    :ok
  end

  defp freed(_kind, nil), do: []
  defp freed(kind, place), do: [{kind, place}]

  defp freed_statistics(nil), do: []
  defp freed_statistics({_day, place}), do: [{:statistics, place}]

  @doc "Returns the first day that is kept."
  @spec first_day(t) :: integer
  def first_day(table), do: get(table, :first_day) || first_of_all()

  defp first_of_all, do: -0x80_0000

  @doc "Returns the latest sealed day of all tenants, or `nil`."
  @spec last_day(t) :: integer | nil
  def last_day(%__MODULE__{} = table) do
    table
    |> rows()
    |> Stream.map(fn row -> Place.last(elem(row, 5)) end)
    |> Enum.reduce(nil, fn
      nil, last -> last
      day, nil -> day
      day, last -> max(day, last)
    end)
  end

  @doc "Inserts rows and tails of a base."
  @spec load(t, [{row, [{sequence, binary}]}]) :: :ok
  def load(%__MODULE__{rows: rows, tails: tails} = table, part) do
    true = :ets.insert(rows, for({row, _tail} <- part, do: row))

    true =
      :ets.insert(tails, for({row, tail} <- part, {sequence, record} <- tail, do: {{elem(row, 0), sequence}, record}))

    follow(table, part |> Enum.map(fn {row, _tail} -> elem(row, 1) end) |> Enum.max(fn -> 0 end))
  end

  ## The queue

  @typedoc "A request that waits: its place in the queue, the request, for whom, its caller, and its sequence once it has one."
  @type waiting :: {{key, integer}, request, GenServer.from() | nil, caller, sequence | nil}

  @typedoc "The process that receives a message about a refused change, and the tag of that message."
  @type caller :: {pid, module} | nil

  @type request ::
          {:change, binary}
          | {:body, binary}
          | {:statistics, integer, binary}
          | {:day, integer, binary}
          | {:all, [{:body, binary} | {:day, integer, binary}]}
          | :drop
          | :resume
          | :settle

  @doc "Adds a request."
  @spec enqueue(t, key, request, GenServer.from() | nil, caller) :: :ok
  def enqueue(%__MODULE__{queue: queue}, key, request, from, caller) do
    true = :ets.insert(queue, {{key, :erlang.unique_integer([:monotonic])}, request, from, caller, nil})
    :ok
  end

  @doc "Returns whether requests of a tenant wait."
  @spec waits?(t, key) :: boolean
  def waits?(%__MODULE__{queue: queue}, key),
    do: match?({^key, _number}, :ets.next(queue, {key, @before_numbers}))

  @doc """
  Returns waiting requests after the cursor, up to a number and up to bytes, and the next cursor. At the end of the queue that is
  `nil`, the start.
  """
  @spec take(t, {key, integer} | nil, pos_integer, pos_integer) :: {[waiting], {key, integer} | nil}
  def take(%__MODULE__{queue: queue}, cursor, count, bytes) do
    first = if cursor, do: :ets.next(queue, cursor), else: :ets.first(queue)
    take(queue, first, cursor, count, bytes, [])
  end

  defp take(_queue, :"$end_of_table", _last, _count, _bytes, taken), do: {Enum.reverse(taken), nil}

  defp take(_queue, _next, last, count, bytes, taken) when count == 0 or bytes <= 0,
    do: {Enum.reverse(taken), last}

  defp take(queue, key, _last, count, bytes, taken) do
    [waiting] = :ets.lookup(queue, key)
    take(queue, :ets.next(queue, key), key, count - 1, bytes - size(elem(waiting, 1)), [waiting | taken])
  end

  defp size({:change, record}), do: byte_size(record)
  defp size({:body, blob}), do: byte_size(blob)
  defp size({:all, parts}), do: parts |> Enum.map(&size/1) |> Enum.sum()
  defp size({_kind, _day, blob}), do: byte_size(blob)
  defp size(_request), do: 0

  @doc "Notes the sequence of a waiting request before it is committed."
  @spec number(t, waiting, sequence) :: :ok
  def number(%__MODULE__{queue: queue}, waiting, sequence) do
    true = :ets.update_element(queue, elem(waiting, 0), {5, sequence})
    :ok
  end

  @doc "Removes a finished request."
  @spec finish(t, waiting) :: :ok
  def finish(%__MODULE__{queue: queue}, waiting) do
    true = :ets.delete(queue, elem(waiting, 0))
    :ok
  end

  @doc "Returns whether no request waits."
  @spec idle?(t) :: boolean
  def idle?(%__MODULE__{queue: queue}), do: :ets.first(queue) == :"$end_of_table"
end
