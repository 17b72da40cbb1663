defmodule BeTree.Tenants.Match do
  @moduledoc false
  # Matches in the calling process: one look-up, the quota, a call of the shard, and the bill.
  #
  # A caller asks the partition only for a tenant that is not in memory, for the first match of a day, and after a trap. The row that it
  # read may be of a copy that has left its shard meanwhile. The shard then refuses the number as unknown, which counts nothing, and
  # the caller looks again.

  alias BeTree.{Error, Event, Telemetry}
  alias BeTree.Input.Describe
  alias BeTree.Processes.Deadline
  alias BeTree.Tenants.{Clock, Directory, Quota, Request, Shard, Usage}

  # How often a caller looks for a tenant that leaves memory again and again.
  @max_attempts 100

  # Events of one tenant in one call of a shard. The quota is compared before each.
  @max_batch 64

  @typedoc "The result for an event."
  @type result :: {:ok, [BeTree.id()]} | :skipped | {:error, Error.t()}

  @typedoc "The options of a match, all of them."
  @type options :: %{
          :fuel => BeTree.Fuel.budget(),
          :timeout => timeout,
          :strict => boolean,
          :on_mismatch => BeTree.Domain.on_mismatch(),
          :count => boolean,
          optional(atom) => term
        }

  @doc "Matches one event of a tenant, and counts it."
  @spec one(atom, term, Event.t(), options) :: result
  def one(name, tenant, event, options) do
    if Telemetry.enabled?() do
      started = System.monotonic_time()
      {result, fuel} = find(name, tenant, event, options)
      emit(name, tenant, started, [result], fuel)
      result
    else
      {result, _fuel} = find(name, tenant, event, options)
      result
    end
  end

  defp find(name, tenant, event, options) do
    with {:ok, format, bytes} <- Event.encode(event, options) do
      call = if options.count, do: &match/6, else: &search/6
      with_row(name, tenant, options, @max_attempts, &call.(&1, name, tenant, format, bytes, options))
    else
      {:error, error} -> {{:error, error}, 0}
    end
  end

  # Calls `fun` with the row of the tenant until it returns something else than `:gone`.
  defp with_row(name, tenant, options, attempts, fun) do
    case Directory.row(name, tenant) do
      {_key, _shard, _id, _number, day, _counters, _slots, _bucket, clock} = row ->
        today = Clock.day(clock)
        outcome = if today > day, do: later_row(name, tenant, today, options, fun), else: fun.(row)
        if outcome == :gone, do: again(name, tenant, options, attempts, fun), else: outcome

      nil ->
        outcome = later_row(name, tenant, nil, options, fun)
        if outcome == :gone, do: again(name, tenant, options, attempts, fun), else: outcome

      {:error, error} ->
        {{:error, error}, 0}
    end
  end

  defp later_row(name, tenant, today, options, fun) do
    with {:ok, directory} <- Directory.fetch(name),
         today = today || Clock.day(directory.options.clock),
         {:ok, row} <- Request.load(directory, tenant, today, options.timeout) do
      fun.(row)
    else
      {:error, error} -> {{:error, error}, 0}
    end
  end

  defp again(_name, tenant, _options, 1, _fun) do
    message =
      "the tenant #{Describe.value(tenant)} left memory #{@max_attempts} times before it was matched; raise :hot or :memory"

    {{:error, %Error{kind: :overloaded, message: message}}, 0}
  end

  defp again(name, tenant, options, attempts, fun), do: with_row(name, tenant, options, attempts - 1, fun)

  defp match({_key, shard, id, number, day, counters, slots, bucket, clock}, name, tenant, format, bytes, options) do
    now = Clock.now(clock)

    if bucket == nil or Quota.left(bucket, slots, now) > 0 do
      Quota.used(slots, now)

      case Shard.match(shard, number, day, format, bytes, options) do
        {:ok, ids, fuel} ->
          Usage.add(counters, :search, fuel)
          Usage.add(counters, :events, 1)
          if bucket, do: charge(bucket, slots, fuel, clock, name, tenant)
          {{:ok, ids}, fuel}

        {:error, error, fuel} ->
          failed(error, fuel, {counters, slots, bucket, clock, id}, name, tenant)
      end
    else
      {refuse(bucket, slots, counters, now, 1), 0}
    end
  end

  # Without `count` neither the statistics nor the bill nor the quota have the event.
  defp search({_key, shard, id, number, _day, _counters, slots, _bucket, clock}, name, tenant, format, bytes, options) do
    Quota.used(slots, Clock.now(clock))

    case Shard.search(shard, number, format, bytes, options) do
      {:ok, ids, fuel} -> {{:ok, ids}, fuel}
      {:error, error, fuel} -> if gone?(error, id, name, tenant), do: :gone, else: {{:error, error}, fuel}
    end
  end

  # The fuel of a call that found no copy of the tenant, or a damaged shard, is not the tenant's.
  defp failed(error, fuel, {counters, slots, bucket, clock, id}, name, tenant) do
    if gone?(error, id, name, tenant) do
      :gone
    else
      Usage.add(counters, :search, fuel)
      if bucket, do: charge(bucket, slots, fuel, clock, name, tenant)
      {{:error, error}, fuel}
    end
  end

  # Returns whether the tenant has to be looked up again: its copy left, or another call damaged its shard, which is replaced.
  defp gone?(%Error{kind: :not_found}, _id, _name, _tenant), do: true

  defp gone?(error, id, name, tenant) do
    with true <- Shard.damaged?(error), {:ok, directory} <- Directory.fetch(name) do
      Request.lost(directory, tenant, id, :infinity)
      true
    else
      _other -> false
    end
  end

  defp charge(bucket, slots, fuel, clock, name, tenant) do
    now = Clock.now(clock)

    with threshold when threshold != nil <- Quota.charge(bucket, slots, fuel, now), true <- Telemetry.enabled?() do
      {rate, burst, _overflow, _base} = bucket
      measurements = %{left: Quota.left(bucket, slots, now), burst: burst, rate: rate}
      Telemetry.event([:tenants, :quota], measurements, %{tenants: name, tenant: tenant, threshold: threshold})
    end
  end

  defp refuse({_rate, _burst, :sample, _base}, _slots, counters, _now, count) do
    Usage.add(counters, :skipped, count)
    :skipped
  end

  defp refuse(bucket, slots, counters, now, count) do
    Usage.add(counters, :refused, count)
    {:error, Quota.refusal(bucket, slots, now)}
  end

  ## Many events

  @doc "Matches events of many tenants, and counts them. Returns the results in the order of the events."
  @spec many(atom, [{term, Event.t()}], options) :: [result]
  def many(name, events, options) do
    started = System.monotonic_time()
    options = Map.put(options, :deadline, Deadline.new(options.timeout))

    {found, fuel} =
      Enum.reduce(by_tenant(events), {[], 0}, fn {tenant, events}, results ->
        of_tenant(name, tenant, Enum.reverse(events), options, results)
      end)

    results = found |> List.keysort(0) |> Enum.map(&elem(&1, 1))
    if Telemetry.enabled?(), do: emit(name, nil, started, results, fuel)
    results
  end

  # The events of each tenant with their positions, the last one first.
  defp by_tenant(events) do
    {by_tenant, _count} =
      Enum.reduce(events, {%{}, 0}, fn {tenant, event}, {by_tenant, position} ->
        entry = {position, event}

        by_tenant =
          case by_tenant do
            %{^tenant => entries} -> %{by_tenant | tenant => [entry | entries]}
            _first -> Map.put(by_tenant, tenant, [entry])
          end

        {by_tenant, position + 1}
      end)

    by_tenant
  end

  # A call for one event returns its ids alone, which takes less time than a batch of one. Batches count.
  defp of_tenant(name, tenant, events, %{count: count} = options, results) when count == false or tl(events) == [] do
    Enum.reduce(events, results, fn {position, event}, {found, fuel} ->
      {result, more} = find(name, tenant, event, %{options | timeout: Deadline.left(options.deadline)})
      {[{position, result} | found], fuel + more}
    end)
  end

  defp of_tenant(name, tenant, events, options, results) do
    events
    |> Enum.chunk_every(@max_batch)
    |> Enum.reduce(results, fn chunk, {found, fuel} ->
      {results, more} = batch(name, tenant, chunk, options)
      {results ++ found, fuel + more}
    end)
  end

  # Returns the results with their positions.
  defp batch(name, tenant, chunk, options) do
    {encoded, refused} =
      Enum.reduce(chunk, {[], []}, fn {position, event}, {encoded, refused} ->
        case Event.encode(event, options) do
          {:ok, format, bytes} -> {[{position, {format, bytes}} | encoded], refused}
          {:error, error} -> {encoded, [{position, {:error, error}} | refused]}
        end
      end)

    {results, fuel} = batch_encoded(name, tenant, Enum.reverse(encoded), options, @max_attempts)
    {results ++ refused, fuel}
  end

  defp batch_encoded(_name, _tenant, [], _options, _attempts), do: {[], 0}

  defp batch_encoded(name, tenant, encoded, options, attempts) do
    options = %{options | timeout: Deadline.left(options.deadline)}
    outcome = with_row(name, tenant, options, attempts, &match_batch(&1, name, tenant, encoded, options))

    case outcome do
      {{:ok, results}, fuel} ->
        # The copy of the tenant left between two parts of the batch.
        {left, results} = Enum.split_with(results, &match?({_position, :gone}, &1))
        left = Enum.filter(encoded, fn {position, _event} -> List.keymember?(left, position, 0) end)
        {others, more} = batch_encoded(name, tenant, left, options, attempts - 1)
        {others ++ results, fuel + more}

      {result, fuel} ->
        {for({position, _event} <- encoded, do: {position, result}), fuel}
    end
  end

  defp match_batch({_key, shard, id, number, day, counters, slots, bucket, clock}, name, tenant, encoded, options) do
    now = Clock.now(clock)

    if bucket == nil or Quota.left(bucket, slots, now) > 0 do
      Quota.used(slots, now)

      case Shard.match_many(shard, number, day, for({_position, event} <- encoded, do: event), options) do
        {:ok, results, fuel} ->
          Usage.add(counters, :search, fuel)
          Usage.add(counters, :events, Enum.count(results, &is_list/1))
          if bucket, do: charge(bucket, slots, fuel, clock, name, tenant)
          found = Enum.map(results, &result(&1, id, name, tenant))
          {{:ok, Enum.zip_with(encoded, found, fn {position, _event}, result -> {position, result} end)}, fuel}

        {:error, error, fuel} ->
          failed(error, fuel, {counters, slots, bucket, clock, id}, name, tenant)
      end
    else
      {refuse(bucket, slots, counters, now, length(encoded)), 0}
    end
  end

  defp result(ids, _id, _name, _tenant) when is_list(ids), do: {:ok, ids}
  defp result(error, id, name, tenant), do: if(gone?(error, id, name, tenant), do: :gone, else: {:error, error})

  ## Telemetry

  defp emit(name, tenant, started, results, fuel) do
    counts =
      Enum.reduce(results, %{matches: 0, skipped: 0, errors: 0}, fn
        {:ok, ids}, counts -> %{counts | matches: counts.matches + length(ids)}
        :skipped, counts -> %{counts | skipped: counts.skipped + 1}
        {:error, _error}, counts -> %{counts | errors: counts.errors + 1}
      end)

    measurements =
      Map.merge(counts, %{duration: System.monotonic_time() - started, events: length(results), fuel: fuel})

    Telemetry.event([:tenants, :match], measurements, %{tenants: name, tenant: tenant})
  end
end
