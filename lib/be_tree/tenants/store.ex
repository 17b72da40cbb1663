defmodule BeTree.Tenants.Store do
  @moduledoc false
  # The store of tenants: their bodies, the changes after these, and their sealed days, in a folder or in memory.
  #
  #     journal/    changes of tenants, places of bodies and days (store/history.ex)
  #     bodies/     segments with bodies and statistics (store/segments.ex)
  #     days/       a segment or more for each sealed day
  #
  # A *body* is a tenant's compact form, opaque bytes. Its *tail* has the changes after it, any terms. A body replaces the tail.
  # *Statistics* are newer than the body and belong to a day that is not sealed. A *day* is the sealed statistics of a day, an integer,
  # and is kept for `:retention` days.
  #
  # The supervisor makes the tables (`table/0`), which are the first argument of all functions, and starts the process. A request goes
  # into a table, and the process takes all waiting ones as a group with one sync. Reads run in their caller, without the process. A
  # read sees all earlier requests of its caller.
  #
  # The process may be killed at any time: the next one finishes what waits. A node may be killed at any time: the folder has all that
  # was acknowledged. After a loss of power it has what the durability says: `:sync`, or `{:interval, ms}` for changes and for the
  # newest bodies, statistics and days.
  #
  # A tenant is any term with a meaning in another node (`BeTree.Input.Subscription.Id`, `:portable`).

  import BeTree.Tenants.Store.Place, only: [is_day: 1]

  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Journal
  alias BeTree.Tenants.Store.{Blobs, Place, Segments, Table, Writer}

  @type t :: Table.t()
  @type tenant :: term
  @type day :: integer

  @typedoc """
    * `:table` - the tables of `table/0`;
    * `:dir` - the folder, or `nil` to keep everything in memory;
    * `:durability` - when a request of a folder is acknowledged;
    * `:retention` - the number of sealed days before the present one;
    * `:name` - the name of the process, or `nil`;
    * `:identity` - what the tenants are for, such as their schema. A folder with another identity is refused.
  """
  @type options :: %{
          required(:table) => t,
          required(:dir) => Path.t() | nil,
          required(:durability) => Journal.durability(),
          required(:retention) => pos_integer,
          optional(:name) => GenServer.name() | nil,
          optional(:identity) => binary,
          optional(atom) => term
        }

  @typedoc "What the store has of a tenant: `:statistics` are those after the body, and `:tail` has the changes after it, in order."
  @type found :: %{body: binary | nil, statistics: {day, binary} | nil, tail: [term]}

  @typedoc "A blob to be stored: a body replaces the tail and the statistics before it."
  @type blob :: {:body, tenant, binary} | {:statistics, tenant, day, binary} | {:day, tenant, day, binary}

  # A change stays in memory until the next body, and expressions resemble each other.
  @level 1

  @first_pause 1
  @max_pause 50

  @doc "Makes the tables of a store. The calling process owns them."
  @spec table() :: t
  defdelegate table, to: Table, as: :new

  @doc """
  Starts the process of a store. All tenants of the folder are known when this returns; no body is read.
  """
  @spec start_link(options) :: GenServer.on_start()
  defdelegate start_link(options), to: Writer

  @doc "Returns the child specification of the process."
  @spec child_spec(options) :: Supervisor.child_spec()
  def child_spec(options), do: %{id: __MODULE__, start: {__MODULE__, :start_link, [options]}, shutdown: :infinity}

  ## Changes

  @doc """
  Adds a change, any term, to the tail of a tenant. `from` gets `:ok` or an error when the change is stored; `nil` is for nobody.

  After a refused change the calling process receives `{BeTree.Tenants.Store, :refused, tenant, error}`, and all later changes, bodies and
  statistics of the tenant are refused, because they build on that change, until `resume/2`.
  """
  @spec append(t, tenant, term, GenServer.from() | nil) :: :ok | {:error, Error.t()}
  def append(store, tenant, change, from),
    do:
      request(store, tenant, {:change, :erlang.term_to_binary(change, [{:compressed, @level}, minor_version: 2])}, from)

  @doc "Forgets a tenant with its days. `from` gets `:ok` or an error when that is stored; `nil` is for nobody."
  @spec drop(t, tenant, GenServer.from() | nil) :: :ok | {:error, Error.t()}
  def drop(store, tenant, from), do: request(store, tenant, :drop, from)

  @doc "Accepts changes of a tenant once more after a refused one. The caller has forgotten that change, and reads the tenant next."
  @spec resume(t, tenant) :: :ok | {:error, Error.t()}
  def resume(store, tenant), do: wait(store, [{Table.key(tenant), :resume}]) |> hd()

  @doc "Stores a body, which has all changes of the tenant so far. Waits until it is on the disk. Returns its place."
  @spec put_body(t, tenant, binary) :: {:ok, Place.t()} | {:error, Error.t()}
  def put_body(store, tenant, body), do: put(store, [{:body, tenant, body}]) |> hd()

  @doc "Stores statistics that are newer than the body, in place of earlier ones. Waits for that."
  @spec put_statistics(t, tenant, day, binary) :: :ok | {:error, Error.t()}
  def put_statistics(store, tenant, day, blob), do: put(store, [{:statistics, tenant, day, blob}]) |> hd()

  @doc "Stores statistics as `put_statistics/4` does, and does not wait: `from` gets the result."
  @spec put_statistics(t, tenant, day, binary, GenServer.from()) :: :ok | {:error, Error.t()}
  def put_statistics(store, tenant, day, blob, from) do
    with {:ok, {_key, request}} <- pack({:statistics, tenant, day, blob}), do: request(store, tenant, request, from)
  end

  @doc "Stores a sealed day, in place of an earlier blob of that day. Waits for that. A day before the retention is not kept."
  @spec put_day(t, tenant, day, binary) :: :ok | {:error, Error.t()}
  def put_day(store, tenant, day, blob), do: put(store, [{:day, tenant, day, blob}]) |> hd()

  @doc """
  Stores a body, or `nil`, and days of a tenant, all or none of them also if the node is killed meanwhile. Does not wait: `from` gets `:ok` or
  an error.
  """
  @spec put_all(t, tenant, binary | nil, [{day, binary}], GenServer.from()) :: :ok | {:error, Error.t()}
  def put_all(store, tenant, body, days, from) do
    blobs = if(body, do: [{:body, tenant, body}], else: []) ++ for({day, blob} <- days, do: {:day, tenant, day, blob})

    with {:ok, requests} <- Attempt.map(blobs, &pack/1),
         do: request(store, tenant, {:all, for({_key, request} <- requests, do: request)}, from)
  end

  @doc "Stores blobs of any tenants with few syncs. Waits for all. Returns the result of each, in order."
  @spec put(t, [blob]) :: [:ok | {:ok, Place.t()} | {:error, Error.t()}]
  def put(store, blobs) do
    case Attempt.map(blobs, &pack/1) do
      {:ok, requests} -> wait(store, requests)
      {:error, error} -> Enum.map(blobs, fn _blob -> {:error, error} end)
    end
  end

  defp pack({:body, tenant, blob}),
    do: with({:ok, packed} <- Blobs.pack(blob), do: {:ok, {Table.key(tenant), {:body, packed}}})

  defp pack({kind, tenant, day, blob}) when kind in [:statistics, :day] and is_day(day),
    do: with({:ok, packed} <- Blobs.pack(blob), do: {:ok, {Table.key(tenant), {kind, day, packed}}})

  ## Reading

  @doc "Returns whether the store has a tenant. Its first change was stored, and no drop since."
  @spec known?(t, tenant) :: boolean
  def known?(store, tenant), do: Table.row(store, Table.key(tenant)) != nil

  @doc """
  Returns what the store has of a tenant, read by the calling process, or an error of kind `:not_found`. An error of kind `:damaged`
  names the file and the place.
  """
  @spec read(t, tenant) :: {:ok, found} | {:error, Error.t()}
  def read(store, tenant) do
    key = Table.key(tenant)
    with :ok <- settle(store, key), do: read_row(store, key)
  end

  defp read_row(store, key) do
    case Table.fetch(store, key) do
      nil ->
        {:error, %Error{kind: :not_found, message: "the store has no such tenant"}}

      {{_key, _sequence, body, _from, statistics, _days, _bytes} = row, tail} ->
        with {:ok, body} <- blob(store, :body, key, body, row),
             {:ok, statistics} <- statistics(store, key, statistics, row) do
          tail = for {_sequence, record} <- tail, do: :erlang.binary_to_term(record)
          {:ok, %{body: body, statistics: statistics, tail: tail}}
        else
          :changed -> read_row(store, key)
          {:error, error} -> {:error, error}
        end
    end
  end

  defp statistics(_store, _key, nil, _row), do: {:ok, nil}

  defp statistics(store, key, {day, place}, row),
    do: with({:ok, blob} <- blob(store, :statistics, key, place, row), do: {:ok, {day, blob}})

  # A record that is gone was replaced or moved, if the row has changed too.
  defp blob(_store, _kind, _key, nil, _row), do: {:ok, nil}

  defp blob(store, kind, key, place, row) do
    with :gone <- Blobs.read(store, kind, key, place),
         do: if(Table.row(store, key) == row, do: missing(store, kind, place), else: :changed)
  end

  defp missing(store, kind, {number, at, _size}) do
    case Table.get(store, :location) do
      nil -> {:error, %Error{kind: :not_found, message: "the tables of the store are gone"}}
      location -> location |> Segments.path(Segments.space(kind), number) |> then(&Segments.missing(kind, &1, at))
    end
  end

  @doc "Returns the bytes of the changes after the body of a tenant. A body is due when they are many."
  @spec tail_bytes(t, tenant) :: non_neg_integer
  def tail_bytes(store, tenant) do
    case Table.row(store, Table.key(tenant)) do
      nil -> 0
      row -> elem(row, 6)
    end
  end

  @doc "Returns the sealed days of a tenant in a range, in order, read by the calling process. An unknown tenant has none."
  @spec days(t, tenant, Range.t()) :: {:ok, [{day, binary}]} | {:error, Error.t()}
  def days(store, tenant, first..last//_step) do
    key = Table.key(tenant)
    with :ok <- settle(store, key), do: read_days(store, key, first, last)
  end

  defp read_days(store, key, first, last) do
    row = Table.row(store, key)
    first = max(first, Table.first_day(store))
    days = if row, do: for({day, place} <- Place.list(elem(row, 5)), day in first..last//1, do: {day, place}), else: []

    read =
      Attempt.map(days, fn {day, place} ->
        with {:ok, blob} <- blob(store, {:day, day}, key, place, row), do: {:ok, {day, blob}}
      end)

    cond do
      read == :changed -> read_days(store, key, first, last)
      # The retention has ended meanwhile.
      match?({:error, _error}, read) and Table.first_day(store) > first -> read_days(store, key, first, last)
      true -> read
    end
  end

  @doc "Returns a stream of all tenants. One that is made or dropped meanwhile may be missing."
  @spec tenants(t) :: Enumerable.t()
  def tenants(store), do: store |> Table.keys() |> Stream.map(&Table.tenant/1)

  ## The store

  @doc "Removes all days before the retention of `today`, at most up to the retention of the last sealed day."
  @spec expire(t, day) :: :ok | {:error, Error.t()}
  def expire(store, today) when is_day(today), do: call(store, {:expire, today}, @first_pause)

  @doc "Waits until all acknowledged requests are on the disk."
  @spec flush(t) :: :ok | {:error, Error.t()}
  def flush(store), do: call(store, :flush, @first_pause)

  @doc """
  Returns the bytes of the journal's changes after its newest base, and the microseconds since the oldest of them was appended. Returns an
  empty map without a folder. Reads a table, so it does not wait for the process.
  """
  @spec journal(t) :: %{optional(:journal_bytes) => non_neg_integer, optional(:journal_age) => non_neg_integer}
  def journal(store) do
    case Table.get(store, :journal) do
      nil -> %{}
      %{bytes: bytes, oldest: oldest} -> %{journal_bytes: bytes, journal_age: Journal.Owner.age(oldest)}
    end
  end

  @doc """
  Returns the number of tenants, of requests that wait, the bytes of the tables, of the journal, of the segments with bodies and with
  days, and the last error of the disk.
  """
  @spec info(t) :: {:ok, map} | {:error, Error.t()}
  def info(store) do
    with %{} = info <- call(store, :info, @first_pause), {:ok, segments} <- segments(store) do
      tables = for table <- [store.rows, store.tails, store.blobs, store.queue], do: :ets.info(table, :memory)
      memory = Enum.sum(tables) * :erlang.system_info(:wordsize)

      {:ok,
       Map.merge(
         info,
         Map.merge(segments, %{tenants: Table.count(store), waiting: :ets.info(store.queue, :size), memory: memory})
       )}
    end
  end

  defp segments(store) do
    case Table.get(store, :location) do
      nil ->
        {:ok, %{bodies_bytes: 0, days_bytes: 0}}

      location ->
        with {:ok, found} <- Segments.list(location) do
          bytes = fn segments ->
            segments |> Enum.map(fn {space, number} -> Segments.bytes(location, space, number) end) |> Enum.sum()
          end

          {bodies, days} = Enum.split_with(found, &match?({:bodies, _number}, &1))
          {:ok, %{bodies_bytes: bytes.(bodies), days_bytes: bytes.(days)}}
        end
    end
  end

  ## Requests

  defp request(store, tenant, request, from) do
    Table.enqueue(store, Table.key(tenant), request, from, {self(), __MODULE__})
    wake(store)
  rescue
    ArgumentError -> gone()
  end

  defp wake(store) do
    if process = Table.get(store, :process), do: send(process, :wake)
    :ok
  end

  defp gone, do: {:error, %Error{kind: :no_server, message: "the store of the tenants has ended"}}

  # Waits for requests that are in the queue, also when the process of the store is killed meanwhile.
  defp wait(store, requests) do
    tags = for {key, request} <- requests, do: enqueue(store, key, request)
    :ok = wake(store)
    await(store, tags, [])
  rescue
    ArgumentError -> Enum.map(requests, fn _request -> gone() end)
  end

  # Each reply comes by an alias that takes one message, because a killed process may have replied already.
  defp enqueue(store, key, request) do
    tag = [:alias | :erlang.alias([:reply])]
    Table.enqueue(store, key, request, {self(), tag}, nil)
    tag
  end

  defp await(_store, [], results), do: Enum.reverse(results)

  defp await(store, tags, results) do
    process = Table.get(store, :process)
    monitor = if process, do: Process.monitor(process)
    {tags, results} = receive_replies(tags, results, monitor)
    if monitor, do: Process.demonitor(monitor, [:flush])
    if tags != [] and Table.get(store, :process) == process, do: Process.sleep(@first_pause)
    await(store, tags, results)
  end

  defp receive_replies([], results, _monitor), do: {[], results}

  defp receive_replies([tag | tags], results, monitor) do
    receive do
      {^tag, result} -> receive_replies(tags, [result | results], monitor)
      {:DOWN, ^monitor, :process, _process, _reason} -> {[tag | tags], results}
    end
  end

  defp settle(store, key) do
    if Table.waits?(store, key), do: wait(store, [{key, :settle}]) |> hd(), else: :ok
  rescue
    ArgumentError -> gone()
  end

  defp call(store, call, pause) do
    GenServer.call(Table.get(store, :process), call, :infinity)
  rescue
    ArgumentError -> gone()
  catch
    :exit, {_reason, {GenServer, :call, _arguments}} ->
      Process.sleep(pause)
      call(store, call, min(2 * pause, @max_pause))
  end
end
