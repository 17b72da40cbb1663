defmodule BeTree.Tenants.Shard do
  @moduledoc false
  # A shard: one instance of the index module that holds the indexes and the statistics of many tenants. A tenant has a number, which
  # the caller chose. A shard has no process: calls run in the calling process, one at a time, in the order in which they came.
  #
  # An error of kind `:trap` says that the instance is damaged, now or since an earlier call. Every later call then fails too, and the
  # owner fills another shard from the bodies of the tenants.

  alias BeTree.{Domain, Error, Fuel, Guest}
  alias BeTree.Call.{Instance, Reply, Slices, Stoppable}
  alias BeTree.Input.Limits
  alias BeTree.Processes.Deadline

  @derive {Inspect, only: []}
  @enforce_keys [:guest, :instance, :fuel_per_reduction]
  defstruct @enforce_keys

  @type t :: %__MODULE__{guest: Guest.t(), instance: BeTree.Runtime.instance(), fuel_per_reduction: pos_integer}

  @typedoc "The number of a tenant, below 65,536."
  @type number_of_tenant :: non_neg_integer

  @typedoc "Days since 1970 in UTC."
  @type day :: integer

  @typedoc "The kind of a statistic."
  @type kind :: :uniques | :sum | :top | :quantiles | :members

  @typedoc "Statistics to keep, at most 16. The parameter is the number of values of `:top` and `:members`, and `nil` for other kinds."
  @type declaration :: [{name :: String.t(), kind, attribute :: String.t(), parameter :: pos_integer | nil}]

  @typedoc "An expression to insert. Without a declaration of its own the tenant's applies."
  @type put ::
          {BeTree.id(), expression :: String.t(), constants :: [{String.t(), integer}], declaration | nil}

  @typedoc "The fuel and the milliseconds that a call may take."
  @type limits :: Stoppable.limits()

  # Changes mostly write new memory, whose page faults cost time but no fuel.
  @fuel_of_change_slice 100_000

  @max_number 65_535

  # The most events of one call.
  @max_events 256

  @kinds [:uniques, :sum, :top, :quantiles, :members]

  @sizes [:expressions, :index_bytes, :statistics_bytes, :events, :sealed, :day]

  @doc "Returns a shard without tenants, whose memory takes at most `memory` bytes."
  @spec start(Guest.t(), [Domain.t()], pos_integer) :: {:ok, t} | {:error, Error.t()}
  def start(%Guest{runtime: runtime} = guest, schema, memory) do
    input = Domain.encode(schema)

    with :ok <- check_module(guest),
         {:ok, instance} <- Instance.instantiate(guest, memory),
         {:ok, output} <- Instance.call(runtime, instance, "be_tree_shard", [byte_size(input)], input),
         :ok <- Reply.nothing(output),
         do: {:ok, %__MODULE__{guest: guest, instance: instance, fuel_per_reduction: Fuel.per_reduction()}}
  end

  defp check_module(guest) do
    if Instance.exports?(guest, "be_tree_shard") do
      :ok
    else
      message = "this index module has no shards of tenants (the export be_tree_shard); use the built-in one"
      {:error, %Error{kind: :bad_module, message: message}}
    end
  end

  @doc """
  Deletes expressions of a tenant, then inserts or replaces others, all or nothing. A tenant without a change before is created.

  An error that concerns an expression has its position in `puts` and its text. Takes `limits` as options, `:infinity` by default.
  """
  @spec change(t, number_of_tenant, day, declaration | nil, [BeTree.id()], [put], keyword) ::
          {:ok, %{index_bytes: non_neg_integer, statistics_bytes: non_neg_integer, fuel: Fuel.t()}}
          | {:error, Error.t()}
  def change(shard, number, day, declaration, deleted, puts, options \\ []) do
    input = :erlang.term_to_binary({day, declaration, deleted, puts}, minor_version: 2)
    limits = Map.merge(%{fuel: Instance.max_fuel(input), timeout: :infinity}, Map.new(options))

    case change_call(shard, {"be_tree_tenant_change", [number, byte_size(input)], input, :u64s}, limits) do
      {:ok, [index, statistics], fuel} -> {:ok, %{index_bytes: index, statistics_bytes: statistics, fuel: fuel}}
      {:ok, _other, _fuel} -> {:error, Reply.bad("the sizes of a tenant in another form")}
      {:error, error, _fuel} -> {:error, with_text(error, puts)}
    end
  end

  defp with_text(%Error{position: nil} = error, _puts), do: error

  defp with_text(%Error{position: position} = error, puts) do
    case Enum.at(puts, position) do
      {_id, expression, _constants, _declaration} -> %{error | text: expression}
      nil -> Reply.bad("an error of subscription #{position}, and there are #{length(puts)}")
    end
  end

  @doc "Forgets a tenant."
  @spec drop(t, number_of_tenant) :: :ok | {:error, Error.t()}
  def drop(shard, number), do: change_nothing_else(shard, "be_tree_tenant_drop", [number])

  defp change_nothing_else(shard, export, arguments, input \\ nil) do
    limits = %{fuel: Instance.max_fuel(input), timeout: :infinity}

    with {:ok, output, _fuel} <- change_call(shard, {export, arguments, input, :binary}, limits) do
      Reply.nothing(output)
    else
      {:error, error, _fuel} -> {:error, error}
    end
  end

  defp change_call(shard, call, limits), do: run(shard, call, Map.put_new(limits, :slice, @fuel_of_change_slice))

  @doc """
  Searches a tenant's expressions for an event that `BeTree.Event.encode/2` encoded, and counts the event in the tenant's statistics.

  Returns the ids and the fuel, or an error and the fuel until then. An event with an error is not counted. A process that is killed
  leaves the event counted once or not at all.
  """
  @spec match(t, number_of_tenant, day, BeTree.Event.format(), binary, limits) ::
          {:ok, [BeTree.id()], Fuel.t()} | {:error, Error.t(), Fuel.t()}
  def match(shard, number, day, format, event, limits),
    do: ids(run(shard, {"be_tree_tenant_match", [number, day, format, byte_size(event), 0], event, :u64s}, limits))

  @doc "Searches as `match/6` does, and counts nothing."
  @spec search(t, number_of_tenant, BeTree.Event.format(), binary, limits) ::
          {:ok, [BeTree.id()], Fuel.t()} | {:error, Error.t(), Fuel.t()}
  def search(shard, number, format, event, limits),
    do: ids(run(shard, {"be_tree_tenant_search", [number, format, byte_size(event), 0], event, :u64s}, limits))

  defp ids({:ok, [_visited, _evaluated | ids], fuel}), do: {:ok, ids, fuel}
  defp ids({:ok, _other, fuel}), do: {:error, Reply.bad("a search without counts"), fuel}
  defp ids({:error, error, fuel}), do: {:error, error, fuel}

  @doc """
  Matches events, each a format and bytes, as `match/6` does. Their limits are for all of them.

  Returns a result for each event, in order, and the fuel: its ids, or the error of an event that is not counted. When the limits
  are used up, all further events have that error. Returns an error if no event could be matched at all.
  """
  @spec match_many(t, number_of_tenant, day, [{BeTree.Event.format(), binary}], limits) ::
          {:ok, [[BeTree.id()] | Error.t()], Fuel.t()} | {:error, Error.t(), Fuel.t()}
  def match_many(shard, number, day, events, limits) do
    events = for {format, bytes} <- events, do: [<<format::little-32, byte_size(bytes)::little-32>> | bytes]
    match_chunks(events, [], 0, Deadline.new(limits.timeout), limits, &match_chunk(shard, number, day, &1, &2))
  end

  defp match_chunks([], results, fuel, _deadline, _limits, _match), do: {:ok, Enum.reverse(results), fuel}

  defp match_chunks(events, results, used, deadline, limits, match) do
    left = %{limits | fuel: Slices.left(limits.fuel, used), timeout: Deadline.left(deadline)}

    with :ok <- Slices.check_left(left.fuel, deadline),
         {:ok, found, fuel} <- match.(Enum.take(events, @max_events), left) do
      results = Enum.reverse(found, results)
      match_chunks(Enum.drop(events, length(found)), results, used + fuel, deadline, limits, match)
    else
      # The error of the first event.
      {:error, %Error{position: 0, kind: kind} = error, fuel} when kind not in [:timeout, :out_of_fuel] ->
        match_chunks(tl(events), [%{error | position: nil} | results], used + fuel, deadline, limits, match)

      {:error, error, fuel} ->
        ended(events, results, %{error | position: nil}, used + fuel)

      {:error, error} ->
        ended(events, results, error, used)
    end
  end

  defp ended(_events, [], error, fuel), do: {:error, error, fuel}
  defp ended(events, results, error, fuel), do: {:ok, Enum.reverse(results, Enum.map(events, fn _ -> error end)), fuel}

  defp match_chunk(shard, number, day, events, limits) do
    input = IO.iodata_to_binary(events)
    arguments = [number, day, length(events), byte_size(input), 0]

    case run(shard, {"be_tree_tenant_match_many", arguments, input, :u64_lists}, limits) do
      {:ok, [], fuel} -> {:error, Reply.bad("a part without a result"), fuel}
      ended -> ended
    end
  end

  @doc "Returns whether an error says that an earlier call has damaged the instance, so that this call did nothing."
  @spec damaged?(Error.t()) :: boolean
  # The text is that of wasm/module/src/refusal.rs.
  def damaged?(%Error{kind: :trap, message: "an earlier change was cut off" <> _rest}), do: true
  def damaged?(_other), do: false

  @doc "Returns the statistics of a tenant's current day, as a blob."
  @spec statistics(t, number_of_tenant) :: {:ok, binary} | {:error, Error.t()}
  def statistics(shard, number), do: read(shard, "be_tree_tenant_statistics", [number])

  @doc "Returns the oldest day of a tenant that is over and its statistics, or `nil`."
  @spec sealed(t, number_of_tenant) :: {:ok, {day, binary} | nil} | {:error, Error.t()}
  def sealed(shard, number) do
    case read(shard, "be_tree_tenant_sealed", [number]) do
      {:ok, <<day::little-signed-32, blob::binary>>} -> {:ok, {day, blob}}
      {:ok, ""} -> {:ok, nil}
      {:ok, other} -> {:error, Reply.bad("a sealed day of #{byte_size(other)} bytes")}
      {:error, error} -> {:error, error}
    end
  end

  @doc "Forgets a sealed day of a tenant, once its statistics are stored."
  @spec release(t, number_of_tenant, day) :: :ok | {:error, Error.t()}
  def release(shard, number, day), do: change_nothing_else(shard, "be_tree_tenant_release", [number, day])

  @doc """
  Adds the statistics in a blob to those of a tenant. A blob of a later day than the tenant's begins that day, and one of an earlier day
  becomes a sealed day.
  """
  @spec restore(t, number_of_tenant, binary) :: :ok | {:error, Error.t()}
  def restore(shard, number, blob),
    do: change_nothing_else(shard, "be_tree_tenant_restore", [number, byte_size(blob)], blob)

  @doc "Refuses all later matches of a tenant as `:not_found`. Its statistics stay, and stay as they are, until it is dropped."
  @spec freeze(t, number_of_tenant) :: :ok | {:error, Error.t()}
  def freeze(shard, number), do: change_nothing_else(shard, "be_tree_tenant_freeze", [number])

  @typedoc """
  A query of statistics: the days, the ids of the expressions, the dimensions by which each section of the report groups, and the
  quantiles from 0 to 1.
  """
  @type query ::
          {days :: :all | {day, day} | [day], ids :: :all | [BeTree.id()], sections :: [[:day | :id | :tenant]],
           quantiles :: [float]}

  @typedoc "The sections of a report, each a list of entries (docs/contributing/abi.md)."
  @type report :: [
          [
            {key :: [integer], events :: non_neg_integer | nil, matched :: non_neg_integer | nil,
             matches :: non_neg_integer, statistics :: [{String.t(), kind, String.t(), tuple}]}
          ]
        ]

  @doc """
  Returns a report of blobs, each after a number below 2^32 by which the caller tells tenants apart. It is made in an instance of `guest`
  of its own, with at most `memory` bytes.
  """
  @spec report(Guest.t(), query, [{non_neg_integer, binary}], pos_integer) :: {:ok, report} | {:error, Error.t()}
  def report(guest, {days, ids, sections, quantiles}, blobs, memory \\ Limits.default_memory()) do
    with {:ok, output} <- compute(guest, "be_tree_report", {days, ids, sections, quantiles, blobs}, memory),
         {:ok, report} <- Reply.term(output) do
      if is_list(report) and length(report) == length(sections) and Enum.all?(report, &section?/1),
        do: {:ok, report},
        else: {:error, Reply.bad("a report of the wrong shape")}
    end
  end

  defp section?(entries) do
    is_list(entries) and
      Enum.all?(entries, fn
        {key, _events, _matched, matches, statistics} -> is_list(key) and is_integer(matches) and stats?(statistics)
        _other -> false
      end)
  end

  defp stats?(statistics) do
    is_list(statistics) and
      Enum.all?(statistics, fn
        {name, kind, attribute, value} ->
          is_binary(name) and kind in @kinds and is_binary(attribute) and is_tuple(value)

        _other ->
          false
      end)
  end

  @doc "Returns the blob with the sums of blobs of one day."
  @spec merge(Guest.t(), [binary], pos_integer) :: {:ok, binary} | {:error, Error.t()}
  def merge(guest, blobs, memory \\ Limits.default_memory()), do: compute(guest, "be_tree_merge", blobs, memory)

  defp compute(%Guest{runtime: runtime} = guest, export, term, memory) do
    input = :erlang.term_to_binary(term, minor_version: 2)

    with :ok <- check_module(guest),
         {:ok, instance} <- Instance.instantiate(guest, memory),
         do: Instance.call(runtime, instance, export, [byte_size(input)], input, scheduler: :slices)
  end

  @doc "Returns the number of a tenant's expressions, its sizes in bytes, its current day, and the number of its sealed days."
  @spec info(t, number_of_tenant) :: {:ok, %{atom => integer}} | {:error, Error.t()}
  def info(shard, number) do
    with {:ok, output} <- read(shard, "be_tree_tenant_info", [number]),
         {:ok, pairs} <- Reply.term(output) do
      if is_list(pairs) and Enum.all?(pairs, &size?/1) and length(pairs) == length(@sizes),
        do: {:ok, Map.new(pairs)},
        else: {:error, Reply.bad("sizes of a tenant of the wrong shape")}
    end
  end

  defp size?({name, size}), do: name in @sizes and is_integer(size)
  defp size?(_other), do: false

  @doc "Returns the bytes of a shard's memory."
  @spec memory(t) :: non_neg_integer
  def memory(%__MODULE__{guest: %Guest{runtime: runtime}, instance: instance}), do: runtime.info(instance).memory

  @doc "Returns the greatest number of a tenant."
  @spec max_number() :: number_of_tenant
  def max_number, do: @max_number

  defp read(%__MODULE__{guest: %Guest{runtime: runtime}, instance: instance}, export, arguments, input \\ nil),
    do: Instance.call(runtime, instance, export, arguments, input, scheduler: :slices)

  defp run(%__MODULE__{guest: %Guest{runtime: runtime}} = shard, call, limits),
    do: Stoppable.run(runtime, shard.instance, call, shard.fuel_per_reduction, limits)
end
