defmodule BeTree.Tenants.Copy do
  @moduledoc false
  # The copy of a tenant in a shard: how it enters, how its days and its statistics reach the store, and how it leaves.
  #
  # A copy becomes visible to matches when its row is in the directory. It leaves in this order: no row, so that new callers wait for the
  # partition; frozen, so that callers with the old row no longer count; statistics in the store; out of the shard. So each
  # event that a match counted is in the statistics that the store has.
  #
  # A day is settled when the store has its statistics and its bill, in the entry of this copy's origin (BeTree.Tenants.Day). The shard seals a day with the first match or change of a later one,
  # and keeps it until the store has it.

  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Tenants.{Body, Clock, Day, Declaration, Directory, Quota, Shard, Shards, Store, Usage}

  # Expressions that enter a shard in one call. Matches of other tenants run between two calls.
  @max_put 256

  # Changes after a body before the next body.
  @max_tail 64

  # Days before the present one whose counters stay, for calls that began before midnight.
  @kept_days 1

  @enforce_keys [:tenant, :shard, :shard_id, :number, :slots]
  defstruct @enforce_keys ++ [:stats, :quota, :origin, :bucket, place: :shared, bytes: 0, tail: 0, mark: nil]

  @typedoc """
    * `:stats`, `:quota` - those of the tenant, or `:default`;
    * `:origin` - that of the tenant's figures that are counted here;
    * `:place` - whether the shard is for this tenant alone;
    * `:slots`, `:bucket` - the atomics and the bucket of the quota;
    * `:bytes` - those of its index and statistics;
    * `:tail` - the changes that the store has after the body;
    * `:mark` - the day and the mark of the bill (`BeTree.Tenants.Usage.mark/1`) when the store last got the statistics.
  """
  @type t :: %__MODULE__{
          tenant: term,
          shard: Shard.t(),
          shard_id: Shards.id(),
          number: non_neg_integer,
          slots: :atomics.atomics_ref(),
          stats: Declaration.t() | nil | :default,
          quota: Quota.t() | nil | :default,
          origin: Day.origin() | nil,
          bucket: Quota.bucket(),
          place: :shared | :own,
          bytes: non_neg_integer,
          tail: non_neg_integer,
          mark: {Clock.day(), non_neg_integer} | nil
        }

  ## Entering

  @doc "Brings a tenant into a shard. It has no row yet. Its fuel is of this kind. After an error nothing of it is left."
  @spec enter(Directory.t(), term, Body.t(), {Shards.id(), Shard.t(), non_neg_integer}, :load | :change) ::
          {:ok, t} | {:error, Error.t()}
  def enter(directory, tenant, body, {id, shard, number}, kind) do
    clock = directory.options.clock
    today = Clock.day(clock)

    copy =
      with_settings(
        %__MODULE__{tenant: tenant, shard: shard, shard_id: id, number: number, slots: Quota.new_slots()},
        body
      )

    with {:ok, {statistics, usage}} <- open_days(directory, tenant, body, today),
         {day, blob} = statistics || {today, nil},
         {:ok, fuel} <- put_all(copy, directory, day, Map.to_list(body.expressions)),
         :ok <- if(blob, do: Shard.restore(shard, number, blob), else: :ok),
         {:ok, copy} <- measure(copy) do
      bill(directory, tenant, usage, today, kind, fuel)
      now = Clock.now(clock)
      Quota.used(copy.slots, now)
      {debt, since} = body.debt
      {:ok, put_bucket(copy, directory, unpaid(debt, Clock.seconds(clock) - since, quota(copy, directory)))}
    else
      {:error, error} ->
        # Unknown if the shard refused the first call.
        _ = Shard.drop(shard, number)
        {:error, error}
    end
  end

  @doc "Returns the copy with the settings of a body."
  @spec with_settings(t, Body.t()) :: t
  def with_settings(copy, body),
    do: %{copy | stats: body.stats, quota: body.quota, origin: body.origin, place: Body.place(body)}

  # Returns the statistics of the latest day, and the days of the bill. The store may have settled a day after the body or its tail was
  # written.
  defp open_days(directory, tenant, body, today) do
    present = Directory.usage(directory, tenant)
    earlier = for {day, _totals} <- body.usage, day < today, do: day
    unsettled = for {day, _blob} <- List.wrap(body.statistics), day < today, do: day

    with {:ok, settled} <- settled(directory, tenant, body.origin, Enum.uniq(unsettled ++ earlier)) do
      statistics =
        with {day, _blob} <- body.statistics,
             {:ok, {blob, _totals, _digest}} when blob != nil <- Map.fetch(settled, day) do
          nil
        else
          _not_settled -> body.statistics
        end

      usage =
        for {day, totals} <- body.usage do
          case settled do
            %{^day => {_blob, stored, _digest}} -> {day, Usage.later(totals, stored)}
            _not_settled -> {day, totals}
          end
        end

      # Counters in memory are never behind those of the store.
      {:ok, {statistics, if(present == [], do: Usage.days(usage), else: present)}}
    end
  end

  # The entries of an origin on these days.
  defp settled(_directory, _tenant, _origin, []), do: {:ok, %{}}

  defp settled(directory, tenant, origin, days) do
    with {:ok, records} <- days(directory, tenant, Enum.min(days)..Enum.max(days)),
         do: {:ok, for({day, %{^origin => entry}} <- records, into: %{}, do: {day, entry})}
  end

  @doc "Reads the records of days of a tenant in a range."
  @spec days(Directory.t(), term, Range.t()) :: {:ok, %{Clock.day() => Day.t()}} | {:error, Error.t()}
  def days(directory, tenant, range) do
    with {:ok, stored} <- Store.days(directory.store, tenant, range),
         {:ok, records} <- Attempt.map(stored, &decode_day/1),
         do: {:ok, Map.new(records)}
  end

  defp decode_day({day, bytes}), do: with({:ok, record} <- Day.decode(bytes), do: {:ok, {day, record}})

  defp put_all(copy, directory, day, expressions) do
    # A tenant without expressions is made too.
    chunks = if expressions == [], do: [[]], else: Enum.chunk_every(expressions, @max_put)

    Attempt.reduce(chunks, 0, fn puts, fuel ->
      with {:ok, %{fuel: more}} <- Shard.change(copy.shard, copy.number, day, stats(copy, directory), [], wires(puts)),
           do: {:ok, fuel + more}
    end)
  end

  @doc "Returns expressions in the form of a shard."
  @spec wires([{BeTree.id(), Body.expression()}]) :: [tuple]
  def wires(puts), do: for({id, {text, constants, declaration}} <- puts, do: {id, text, constants, declaration})

  @doc "Returns the declaration that holds for the tenant, empty for counts only."
  @spec stats(t, Directory.t()) :: Declaration.t()
  def stats(%__MODULE__{stats: :default}, %{options: %{stats: stats}}), do: stats || []
  def stats(%__MODULE__{stats: stats}, _directory), do: stats || []

  @doc "Returns the quota that holds for the tenant."
  @spec quota(t, Directory.t()) :: Quota.t() | nil
  def quota(%__MODULE__{quota: :default}, %{options: %{quota: quota}}), do: quota
  def quota(%__MODULE__{quota: quota}, _directory), do: quota

  @doc "Returns an error if the tenant takes more memory than its quota allows."
  @spec check_memory(t, Directory.t()) :: :ok | {:error, Error.t()}
  def check_memory(%__MODULE__{bytes: bytes} = copy, directory) do
    case quota(copy, directory) do
      %Quota{memory: memory} = quota when memory != nil and bytes > memory ->
        {:error, Quota.memory_refusal(quota, bytes)}

      _fits ->
        :ok
    end
  end

  defp unpaid(debt, seconds, %Quota{rate: rate}) when rate != nil, do: max(debt - max(seconds, 0) * rate, 0)
  defp unpaid(_debt, _seconds, _no_rate), do: 0

  @doc "Makes the bucket of the quota that holds now, with a debt."
  @spec put_bucket(t, Directory.t(), non_neg_integer) :: t
  def put_bucket(copy, directory, debt) do
    now = Clock.now(directory.options.clock)
    %{copy | bucket: Quota.bucket(quota(copy, directory), copy.slots, debt, now)}
  end

  defp bill(directory, tenant, usage, today, kind, fuel) do
    {_day, counters, usage} = Usage.open(usage, today)
    Usage.add(counters, kind, fuel)
    Directory.put_usage(directory, tenant, usage)
  end

  @doc "Shows the copy to matches, on the present day."
  @spec show(t, Directory.t()) :: Directory.row()
  def show(copy, directory) do
    %{options: %{clock: clock}} = directory
    {day, counters, usage} = Usage.open(Directory.usage(directory, copy.tenant), Clock.day(clock))
    Directory.put_usage(directory, copy.tenant, usage)

    row = {{copy.tenant}, copy.shard, copy.shard_id, copy.number, day, counters, copy.slots, copy.bucket, clock}

    :ets.insert(directory.name, row)
    row
  end

  @doc "Hides the copy from matches that have no row yet."
  @spec hide(t, Directory.t()) :: true
  def hide(copy, directory), do: :ets.delete(directory.name, {copy.tenant})

  @doc "Returns the copy with its present bytes."
  @spec measure(t) :: {:ok, t} | {:error, Error.t()}
  def measure(copy) do
    with {:ok, info} <- Shard.info(copy.shard, copy.number),
         do: {:ok, %{copy | bytes: info.index_bytes + info.statistics_bytes}}
  end

  ## Days

  @doc "Brings the days that have ended to the store, and frees them in the shard."
  @spec settle(t, Directory.t()) :: :ok | {:error, Error.t()}
  def settle(copy, directory) do
    with :ok <- settle_sealed(copy, directory), do: settle_bills(copy.tenant, copy.origin, directory)
  end

  defp settle_sealed(%{shard: shard, number: number} = copy, directory) do
    case Shard.sealed(shard, number) do
      {:ok, nil} ->
        :ok

      {:ok, {day, blob}} ->
        with :ok <- put_day(directory, copy.tenant, copy.origin, day, blob),
             :ok <- Shard.release(shard, number, day),
             do: settle_sealed(copy, directory)

      {:error, error} ->
        {:error, error}
    end
  end

  # A day whose statistics or bill were stored before has them in its entry.
  defp put_day(directory, tenant, origin, day, blob) do
    days = Directory.usage(directory, tenant)

    with {:ok, records} <- days(directory, tenant, day..day),
         record = Map.get(records, day, %{}),
         {stored_blob, stored_totals, _digest} = Map.get(record, origin, {nil, Usage.zero(), nil}),
         totals = present_totals(Usage.find(days, day), stored_totals),
         record = Map.put(record, origin, {blob || stored_blob, totals, directory.digest}),
         :ok <- Store.put_day(directory.store, tenant, day, Day.encode(record)) do
      stored = for {of, counters, stored} <- days, do: {of, counters, if(of == day, do: totals, else: stored)}
      Directory.put_usage(directory, tenant, stored)
      :ok
    end
  end

  defp present_totals(nil, stored), do: stored
  defp present_totals(counters, _stored), do: Usage.totals(counters)

  @doc """
  Stores the bills of earlier days again that have grown since, and those of days without statistics. Forgets old counters.
  """
  @spec settle_bills(term, Day.origin(), Directory.t()) :: :ok | {:error, Error.t()}
  def settle_bills(tenant, origin, directory) do
    case Directory.usage(directory, tenant) do
      [{present, _counters, _stored} | [_earlier | _rest] = earlier] ->
        with :ok <- Attempt.each(earlier, &settle_bill(&1, tenant, origin, directory)) do
          # put_day/5 has changed the stored totals.
          days = Directory.usage(directory, tenant)
          kept = for {day, _c, stored} = entry <- days, day >= present - @kept_days or stored == nil, do: entry
          Directory.put_usage(directory, tenant, kept)
          :ok
        end

      _present ->
        :ok
    end
  end

  defp settle_bill({day, counters, stored}, tenant, origin, directory) do
    if Usage.totals(counters) == stored, do: :ok, else: put_day(directory, tenant, origin, day, nil)
  end

  @doc "Stores what calls that ended since the tenant left memory have added to its bill."
  @spec write_bill(Directory.t(), term) :: :ok | {:error, Error.t()}
  def write_bill(directory, tenant) do
    with {:ok, body} <- read(directory, tenant),
         :ok <- settle_bills(tenant, body.origin, directory),
         [_present | _earlier] = days <- Directory.usage(directory, tenant),
         usage = Usage.not_stored(days),
         true <- usage != body.usage,
         {:ok, _place} <- Store.put_body(directory.store, tenant, Body.encode(%{body | usage: usage})) do
      :ok
    else
      {:error, error} -> {:error, error}
      # Nothing was added.
      _same -> :ok
    end
  end

  ## Statistics

  @doc "Returns the day of a row or of the counters and the mark of the bill, which change with each call."
  @spec mark(t, Directory.t()) :: {Clock.day(), non_neg_integer}
  def mark(copy, directory) do
    [{day, counters, _stored} | _earlier] = Directory.usage(directory, copy.tenant)
    {day, Usage.mark(counters)}
  end

  @doc "Returns whether the store lacks something of the copy, or its tail is full."
  @spec changed?(t, Directory.t()) :: boolean
  def changed?(copy, directory), do: tail_full?(copy) or copy.mark != mark(copy, directory)

  @doc "Returns whether the tail is long enough for a new body."
  @spec tail_full?(t) :: boolean
  def tail_full?(%__MODULE__{tail: tail}), do: tail >= @max_tail

  @doc "Returns the present statistics with their day, and what else the store keeps with them."
  @spec statistics(t, Directory.t()) :: {:ok, map} | {:error, Error.t()}
  def statistics(%{shard: shard, number: number} = copy, directory) do
    with {:ok, %{day: day}} <- Shard.info(shard, number),
         {:ok, blob} <- Shard.statistics(shard, number),
         {:ok, info} <- Shard.info(shard, number) do
      # A match of a later day came between.
      if info.day == day do
        clock = directory.options.clock

        {:ok,
         %{
           statistics: {day, blob},
           usage: Usage.not_stored(Directory.usage(directory, copy.tenant)),
           debt: {Quota.debt(copy.bucket, copy.slots, Clock.now(clock)), Clock.seconds(clock)}
         }}
      else
        statistics(copy, directory)
      end
    end
  end

  @doc "Writes statistics to the store, and does not wait: `from` gets the result."
  @spec write(t, Directory.t(), map, GenServer.from()) :: :ok | {:error, Error.t()}
  def write(copy, directory, %{statistics: {day, _blob}} = fields, from),
    do: Store.put_statistics(directory.store, copy.tenant, day, Body.encode_statistics(fields), from)

  @doc "Writes a body with all changes and the present statistics."
  @spec save(t, Directory.t()) :: {:ok, t} | {:error, Error.t()}
  def save(copy, directory) do
    mark = mark(copy, directory)

    with :ok <- settle(copy, directory),
         {:ok, fields} <- statistics(copy, directory),
         {:ok, body} <- read(directory, copy.tenant),
         bytes = Body.encode(struct!(body, fields)),
         {:ok, _place} <- Store.put_body(directory.store, copy.tenant, bytes),
         do: {:ok, %{copy | tail: 0, mark: mark}}
  end

  @doc "Reads a tenant from the store."
  @spec read(Directory.t(), term) :: {:ok, Body.t()} | {:error, Error.t()}
  def read(directory, tenant) do
    case Store.read(directory.store, tenant) do
      {:ok, found} -> Body.read(found)
      {:error, %Error{kind: :not_found}} -> Directory.unknown(tenant)
      {:error, error} -> {:error, error}
    end
  end
end
