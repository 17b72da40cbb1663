defmodule BeTree.Rules.Server.Partitions do
  @moduledoc false
  # A server with partitions: its supervisor, and its calls, which run in the calling process. A call divides its facts, calls the
  # partitions that they belong to at once, and joins the results.
  #
  # A fact of partition `p` of `n` with the number `f` there has the number `(f - 1) * n + p + 1` of the server. A fact that is in every
  # partition has the number of its copy in the first.

  use Supervisor

  alias BeTree.Processes.Deadline
  alias BeTree.{Error, Rules}
  alias BeTree.Error.Attempt
  alias BeTree.Rules.{Explanation, Fact, Page, Server}
  alias BeTree.Rules.Server.{Clock, Front, Owner, Request, Routes, Shared, Subscribers}

  @typedoc "The options of a call that fires rules."
  @type call_options :: %{required(:fuel) => term, required(:timeout) => timeout, optional(atom) => term}

  # The latest time that the module takes, a hundred million days.
  @latest 100_000_000 * 86_400_000

  @doc "Starts a server with partitions."
  @spec start_link(map, keyword) :: Supervisor.on_start()
  def start_link(options, new) do
    case Supervisor.start_link(__MODULE__, {options, new}, name: options.name) do
      {:error, {:shutdown, {:failed_to_start_child, _child, reason}}} -> {:error, reason}
      outcome -> outcome
    end
  end

  @impl Supervisor
  def init({%{name: name, partitions: partitions} = options, new}) do
    case Shared.new(name, partitions) do
      {:ok, table} ->
        options = Map.put(options, :table, table)
        if options.clock == :system, do: Shared.put_clock(table, Clock.new(options))
        owners = for number <- 0..(partitions - 1), do: {Owner, {number, options, new}}
        Supervisor.init([{Front, {options, new}} | owners], strategy: :one_for_one)

      {:error, error} ->
        exit(error)
    end
  end

  ## Calls that fire rules

  @doc "Inserts facts, which are encoded as the input of the module."
  @spec insert(Server.name(), pos_integer, binary, call_options) :: {:ok, Page.t()} | {:error, Error.t()}
  def insert(name, partitions, input, options) do
    {deadline, options} = begun(options)
    {source, options} = Map.get_and_update!(options, :source, &{&1, nil})

    by_source? = source != nil or Shared.sources?(name)
    {_now, latest, _clock} = Clock.read({:shared, name})

    with {:ok, routes} <- routes(name),
         {:ok, packed} <- Routes.pack(routes, input, latest, Deadline.left(deadline)),
         {:ok, now} <- watermark(name, partitions, by_source? and not Routes.timed?(packed), deadline) do
      event_time = if by_source?, do: Shared.event_time(name, source), else: Shared.time(name)
      {parts, time} = Routes.divide(routes, packed, input, event_time, now)

      if by_source?,
        do: insert_from(source, name, partitions, parts, time, options, deadline),
        else: insert_parts(name, partitions, parts, time, options, deadline)
    end
  end

  defp insert_parts(name, partitions, parts, time, options, deadline) do
    # From here on the windows of all partitions close by that time.
    if time, do: Shared.raise_time(name, time)

    touched =
      for {number, part} <- parts,
          do: {number, part.positions, {:operate, one(part.operations), options, deadline}}

    closing =
      for {number, due} <- Enum.with_index(Shared.dues(name, partitions), &{&2, &1}),
          due != nil and time != nil and due <= time and not is_map_key(parts, number),
          do: {number, [], {:catch_up, deadline}}

    run(name, partitions, Enum.sort(touched) ++ closing, deadline)
  end

  # A partition's watermark is the least event time of the sources that it knows. So each call sends every partition the source's
  # event time, and all partitions have the same watermark.
  defp insert_from(_source, name, partitions, _parts, nil, _options, deadline), do: run(name, partitions, [], deadline)

  defp insert_from(source, name, partitions, parts, time, options, deadline) do
    calls =
      for number <- 0..(partitions - 1) do
        part = Map.get(parts, number, %{operations: [], positions: []})
        operations = Enum.map(part.operations, &from(&1, source)) ++ [{:advance, time, source}]
        {number, part.positions, {:operate, one(operations), options, deadline}}
      end

    reach(name, partitions, source, time, calls, deadline)
  end

  defp from({:advance, time}, source), do: {:advance, time, source}
  defp from({:assert, input}, nil), do: {:assert, input}
  defp from({:assert, input}, source), do: {:assert, input, source}

  defp reach(name, partitions, source, time, calls, deadline) do
    with {:ok, page} <- run(name, partitions, calls, deadline) do
      Shared.raise_event_time(name, source, time)
      {:ok, page}
    end
  end

  # Returns the lower bound of the time for facts without one, if sources have event times.
  defp watermark(_name, _partitions, false, _deadline), do: {:ok, nil}

  defp watermark(name, partitions, true, deadline) do
    with {:ok, [{rules, _counts} | _]} <- read(name, partitions, deadline),
         {:ok, info} <- Rules.info(rules, in_time(deadline)),
         do: {:ok, later(info.now, Shared.time(name))}
  end

  defp later(nil, time), do: time
  defp later(time, nil), do: time
  defp later(time, other), do: max(time, other)

  # Turns the timeout into a deadline for the wait: a call that has begun runs to its end.
  defp begun(options), do: {Deadline.new(options.timeout), %{options | timeout: :infinity}}

  defp one([operation]), do: operation
  defp one(operations), do: {:steps, operations}

  @doc "Retracts a fact by its number."
  @spec retract(Server.name(), pos_integer, Rules.id(), call_options) :: {:ok, Page.t()} | {:error, Error.t()}
  def retract(name, partitions, id, options) do
    {deadline, options} = begun(options)
    {number, local} = local_id(id, partitions)

    with {:ok, routes} <- routes(name),
         {:ok, copied} <- copied(name, partitions, routes, number, local, deadline) do
      time = Shared.time(name)
      steps = if time, do: [{:advance, time}, {:retract, local}], else: [{:retract, local}]
      first = {number, [], {:operate, one(steps), options, deadline}}

      others =
        with {fact, position} <- copied do
          for other <- 1..(partitions - 1)//1, do: {other, [], {:retract_copy, fact, position, options, deadline}}
        else
          nil -> []
        end

      run(name, partitions, [first | others], deadline)
    end
  end

  # Returns a fact that is in every partition, and its position among equal ones, or `nil` for a fact of one partition.
  defp copied(name, partitions, %{keys: keys}, 0, local, deadline) do
    types = for {type, :all} <- keys, do: type

    with [_ | _] <- types, {:ok, [{rules, _counts} | _]} <- read(name, partitions, deadline) do
      Enum.reduce_while(types, {:ok, nil}, fn type, {:ok, nil} ->
        case Rules.facts(rules, type, in_time(deadline)) do
          {:ok, facts} -> found(facts, local)
          {:error, error} -> {:halt, {:error, error}}
        end
      end)
    else
      [] -> {:ok, nil}
      {:error, error} -> {:error, error}
    end
  end

  defp copied(_name, _partitions, _routes, _number, _own, _deadline), do: {:ok, nil}

  defp found(facts, local) do
    case Enum.find(facts, &(&1.id == local)) do
      nil ->
        {:cont, {:ok, nil}}

      fact ->
        {:halt, {:ok, {fact, facts |> Fact.equal(fact) |> Enum.find_index(&(&1 == local))}}}
    end
  end

  @doc "Moves time in every partition."
  @spec advance(Server.name(), pos_integer, Rules.time(), call_options) :: {:ok, Page.t()} | {:error, Error.t()}
  def advance(name, partitions, now, options) do
    {deadline, options} = begun(options)
    {source, options} = Map.get_and_update!(options, :source, &{&1, nil})
    {_now, latest, _clock} = Clock.read({:shared, name})

    with :ok <- Request.check_time({:advance, now}, latest),
         do: advance(name, partitions, now, source, options, deadline)
  end

  defp advance(name, partitions, now, nil, options, deadline) do
    if abs(now) <= @latest, do: Shared.raise_time(name, now)
    # The time of all partitions never goes back.
    time = if abs(now) <= @latest, do: Shared.time(name), else: now
    calls = in_all(partitions, {:advance, time}, options, deadline)
    run(name, partitions, calls, deadline)
  end

  defp advance(name, partitions, now, source, options, deadline) do
    calls = in_all(partitions, {:advance, now, source}, options, deadline)
    reach(name, partitions, source, now, calls, deadline)
  end

  defp in_all(partitions, operation, options, deadline),
    do: for(number <- 0..(partitions - 1), do: {number, [], {:operate, operation, options, deadline}})

  @doc "Forgets a source in every partition."
  @spec end_source(Server.name(), pos_integer, String.t(), call_options) :: {:ok, Page.t()} | {:error, Error.t()}
  def end_source(name, partitions, source, options) do
    {deadline, options} = begun(options)

    with {:ok, page} <- run(name, partitions, in_all(partitions, {:end_source, source}, options, deadline), deadline) do
      Shared.forget_source(name, source)
      {:ok, page}
    end
  end

  @doc "Makes the clock of all partitions the system's, and moves time there."
  @spec go_live(Server.name(), pos_integer, call_options) :: {:ok, Page.t()} | {:error, Error.t()}
  def go_live(name, partitions, options) do
    deadline = Deadline.new(options.timeout)

    with :ok <- Request.call(Shared.front(name), name, {:go_live, deadline}, deadline) do
      {now, _latest, _clock} = Clock.read({:shared, name})
      advance(name, partitions, now, %{options | timeout: Deadline.left(deadline)})
    end
  end

  # Makes the calls `{partition, positions of the inserted facts, request}`, and joins their results.
  defp run(name, partitions, calls, deadline) do
    requests = for {number, _positions, request} <- calls, do: {Shared.owner(name, number), request}
    replies = calls |> Enum.zip(Request.all(requests, name, deadline))

    case for {{_number, positions, _request}, {:error, error}} <- replies, do: placed(error, positions) do
      [] -> {:ok, joined(replies, name, partitions)}
      errors -> {:error, Enum.min_by(errors, &(&1.position || :infinity))}
    end
  end

  # Returns the error of a partition with the position in the whole list.
  defp placed(%Error{position: position} = error, positions) when is_integer(position),
    do: %{error | position: Enum.at(positions, position)}

  defp placed(error, _positions), do: error

  defp joined(replies, name, partitions) do
    pages = for {_call, {:ok, page}} <- replies, do: page

    numbers =
      for {{number, positions, _request}, {:ok, page}} <- replies, do: numbered(number, positions, page.ids, partitions)

    %Page{
      operation: nil,
      ids: ids(numbers),
      firings: pages |> Enum.map(& &1.firings) |> Enum.sum(),
      mismatches: pages |> Enum.map(& &1.mismatches) |> Enum.sum(),
      late: pages |> Enum.map(& &1.late) |> Enum.sum(),
      last_rule: last_rule(for(%{last_rule: rule} when rule != nil <- pages, do: rule)),
      next_due: next_due(name, partitions),
      fuel: pages |> Enum.map(& &1.fuel) |> Enum.sum(),
      slices: pages |> Enum.map(& &1.slices) |> Enum.sum()
    }
  end

  # Returns the positions of facts with their numbers.
  defp numbered(number, positions, ids, partitions),
    do: Enum.zip_with(positions, ids, fn position, id -> {position, public(number, id, partitions)} end)

  # A fact that is in every partition has the number of its copy in the first partition, which sorts first.
  defp ids([one]), do: Enum.map(one, &elem(&1, 1))

  defp ids(several) do
    several |> Enum.concat() |> List.keysort(0) |> Enum.dedup_by(&elem(&1, 0)) |> Enum.map(&elem(&1, 1))
  end

  defp last_rule([rule]), do: rule
  defp last_rule(_none_or_several), do: nil

  defp next_due(name, partitions) do
    case for due when due != nil <- Shared.dues(name, partitions), do: due do
      [] -> nil
      dues -> Enum.min(dues)
    end
  end

  ## Notices

  @doc """
  Sends a process the notices of each partition after a number, 0 for a partition without one in `since`, and subscribes it. If a
  partition no longer has them, the process is subscribed as before.
  """
  @spec subscribe(Server.name(), pos_integer, pid, %{non_neg_integer => non_neg_integer}) :: :ok | {:error, Error.t()}
  def subscribe(name, partitions, pid, since) do
    # Each partition begins by itself: it sends what it has, and then what comes.
    requests =
      for number <- 0..(partitions - 1),
          do: {Shared.owner(name, number), {:subscribe, pid, Map.get(since, number, 0)}}

    outcome = Enum.find(Request.all(requests, name, :infinity), :ok, &match?({:error, _error}, &1))
    if outcome == :ok, do: Subscribers.add(name, pid, :all)
    Subscribers.remove_from_partitions(name, pid)
    outcome
  end

  ## Reads

  @doc "Returns the facts of a type."
  @spec facts(Server.name(), pos_integer, String.t(), keyword) :: {:ok, [Fact.t()]} | {:error, Error.t()}
  def facts(name, partitions, type, options) do
    deadline = Deadline.new(options[:timeout])

    with {:ok, routes} <- routes(name),
         {:ok, read} <- read(name, partitions, deadline),
         {:ok, facts} <- facts_of(read, routes.keys[type], partitions, type, {options, deadline}) do
      facts = facts |> Enum.concat() |> Enum.sort_by(& &1.id, :desc)
      {:ok, if(limit = options[:limit], do: Enum.take(facts, limit), else: facts)}
    end
  end

  # A fact that is in every partition is read from the first. A type without a key is unknown, which its error says.
  defp facts_of([first | _others], key, partitions, type, options) when key in [:all, nil],
    do: collect([{first, 0}], partitions, type, options)

  defp facts_of(read, _field, partitions, type, options),
    do: read |> Enum.with_index() |> collect(partitions, type, options)

  defp collect(read, partitions, type, {options, deadline}) do
    Attempt.reduce(read, [], fn {{rules, _counts}, number}, all ->
      with {:ok, facts} <- Rules.facts(rules, type, options |> before(number, partitions) |> in_time(deadline)),
           do: {:ok, [Enum.map(facts, &renumbered(&1, number, partitions)) | all]}
    end)
  end

  # Converts the option `:before` from a number of the server to one of the partition. Both select the same facts of the partition.
  defp before(options, number, partitions) do
    case options[:before] do
      nil -> options
      id -> Keyword.put(options, :before, max(div(id - 2 - number + partitions, partitions) + 1, 1))
    end
  end

  # All partitions share the time of the call.
  defp in_time(options \\ [], deadline), do: Keyword.put(options, :timeout, Deadline.left(deadline))

  @doc "Returns the event times of the sources, which are the same in each partition unless one of them was not reached."
  @spec sources(Server.name(), pos_integer, keyword) ::
          {:ok, %{(String.t() | nil) => Rules.time()}} | {:error, Error.t()}
  def sources(name, partitions, options) do
    deadline = Deadline.new(options[:timeout])

    with {:ok, read} <- read(name, partitions, deadline) do
      Attempt.reduce(read, %{}, fn {rules, _counts}, all ->
        with {:ok, sources} <- Rules.sources(rules, in_time(deadline)),
             do: {:ok, Map.merge(all, sources, fn _source, one, other -> max(one, other) end)}
      end)
    end
  end

  @doc "Explains a rule by the partition whose facts come farthest."
  @spec explain(Server.name(), pos_integer, atom | String.t(), keyword) ::
          {:ok, [Explanation.t()]} | {:error, Error.t()}
  def explain(name, partitions, rule, options) do
    deadline = Deadline.new(options[:timeout])

    with {:ok, read} <- read(name, partitions, deadline) do
      read
      |> Enum.with_index()
      |> Attempt.reduce(nil, fn {{rules, _counts}, number}, best ->
        with {:ok, explanations} <- Rules.explain(rules, rule, in_time(deadline)),
             do: {:ok, farther(best, Enum.map(explanations, &renumber_all(&1, number, partitions)))}
      end)
    end
  end

  defp farther(nil, explanations), do: explanations

  defp farther(best, explanations) do
    Enum.zip_with(best, explanations, fn one, other -> if progress(other) > progress(one), do: other, else: one end)
  end

  @verdicts %{fired: 4, due: 3, waits: 2, blocked: 1, unknown: 0}

  defp progress(explanation), do: {@verdicts[explanation.verdict], length(explanation.facts)}

  defp renumber_all(explanation, number, partitions) do
    renumber = &renumbered(&1, number, partitions)
    %{explanation | facts: Enum.map(explanation.facts, renumber), by: explanation.by && renumber.(explanation.by)}
  end

  @doc "Returns counts and sizes of all partitions."
  @spec info(Server.name(), pos_integer, keyword) :: {:ok, map} | {:error, Error.t()}
  def info(name, partitions, options) do
    deadline = Deadline.new(options[:timeout])

    with {:ok, routes} <- routes(name),
         {:ok, read} <- read(name, partitions, deadline),
         {:ok, infos} <- Attempt.map(read, fn {rules, _counts} -> Rules.info(rules, in_time(deadline)) end),
         do: {:ok, summed(infos, for({_rules, counts} <- read, do: counts), routes.keys)}
  end

  defp summed([first | _others] = infos, counts, keys) do
    sum = fn key -> infos |> Enum.map(& &1[key]) |> Enum.sum() end

    types =
      Map.new(first.types, fn {type, count} ->
        {type, if(keys[type] == :all, do: count, else: infos |> Enum.map(& &1.types[type]) |> Enum.sum())}
      end)

    %{
      rules: first.rules,
      warnings: first.warnings,
      facts: types |> Map.values() |> Enum.sum(),
      types: types,
      asserted: sum.(:asserted),
      firings: sum.(:firings),
      notices: sum.(:notices),
      due: Enum.any?(infos, & &1.due),
      late: sum.(:late),
      waiting: sum.(:waiting),
      lateness: first.lateness,
      now: infos |> Enum.map(& &1.now) |> latest(),
      latest: infos |> Enum.map(& &1.latest) |> latest(),
      next_due: infos |> Enum.map(& &1.next_due) |> Enum.reject(&is_nil/1) |> Enum.min(fn -> nil end),
      lives: first.lives,
      facts_bytes: sum.(:facts_bytes),
      memory_bytes: sum.(:memory_bytes),
      journal_bytes: counts |> Enum.map(& &1.journal_bytes) |> Enum.sum(),
      journal_age: counts |> Enum.map(& &1.journal_age) |> Enum.max(),
      dropped: counts |> Enum.map(& &1.dropped) |> Enum.sum(),
      first_notice: by_partition(counts, :first_notice),
      last_notice: by_partition(counts, :last_notice),
      held: Enum.find_value(counts, & &1.held),
      partitions: for(info <- infos, do: Map.take(info, [:facts, :firings, :memory_bytes]))
    }
  end

  defp by_partition(counts, key),
    do: for({counts, number} <- Enum.with_index(counts), into: %{}, do: {number, counts[key]})

  defp latest(times), do: times |> Enum.reject(&is_nil/1) |> Enum.max(fn -> nil end)

  # Returns the rules of each partition, once all have the time of all, and the counts of their processes.
  defp read(name, partitions, deadline) do
    requests = for number <- 0..(partitions - 1), do: {Shared.owner(name, number), {:read, deadline}}
    replies = Request.all(requests, name, deadline)

    case Enum.find(replies, &match?({:error, _error}, &1)) do
      nil -> {:ok, for({:ok, read} <- replies, do: read)}
      error -> error
    end
  end

  defp routes(name) do
    case Shared.routes(name) do
      nil -> Request.call(nil, name, :none, :infinity)
      routes -> {:ok, routes}
    end
  end

  ## Numbers

  defp public(number, local, partitions), do: (local - 1) * partitions + number + 1

  defp local_id(0, _partitions), do: {0, 0}
  defp local_id(id, partitions), do: {rem(id - 1, partitions), div(id - 1, partitions) + 1}

  defp renumbered(%Fact{id: id} = fact, number, partitions), do: %{fact | id: public(number, id, partitions)}
end
