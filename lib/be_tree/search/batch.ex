defmodule BeTree.Search.Batch do
  @moduledoc false
  # Searches many events in few calls. A chunk of events is encoded as one binary and searched by one call of
  # be_tree_search_many (docs/contributing/abi.md). Large results come in parts.

  alias BeTree.Target.{Ids, Shards, View}
  alias BeTree.{Error, Event, Search, Target, Telemetry}
  alias BeTree.Call.{Reply, Slices}
  alias BeTree.Input.Check
  alias BeTree.Processes.{Aside, Deadline, Heap}
  alias BeTree.Search.Source

  # Limits of a chunk. The event that reaches the limit of bytes still belongs to the chunk.
  @max_events 256
  @max_bytes 256 * 1024

  # The size of a chunk whose events are searched one by one, because each has its own budget or timeout.
  @max_plain_events 64

  # A stream searches this many events of a list one by one before it makes chunks, whose set-up costs more than these searches.
  @events_before_chunks 7

  @derive {Inspect, only: [:count]}
  @enforce_keys [:count, :input]
  defstruct @enforce_keys ++ [:refused, events: [], small?: false]

  @typedoc """
  A chunk of events.

    * `count` - the number of events;
    * `input` - each event, after its format and its length; `nil` if the events are searched one by one;
    * `refused` - the error of the next event if that cannot be encoded. The chunk then ends before it;
    * `events` - the events, and the refused one;
    * `small?` - whether the chunk precedes the first chunk of full size. The consumer searches small chunks itself.
  """
  @type t :: %__MODULE__{
          count: non_neg_integer,
          input: binary | nil,
          refused: Error.t() | nil,
          events: [Event.t()],
          small?: boolean
        }

  @typedoc """
  The result for an event as a list or a binary. If the results of the run are counted, it begins with the number of values that do not
  fit, a number or 8 bytes.
  """
  @type result :: Search.found()

  @typedoc "An error, with the results of the events before it, in order."
  @type failure :: {:error, Error.t(), [result]}

  @doc """
  Returns a stream of the events in chunks. The first chunk has at most `first` events, and each of the next at most twice as many
  as the one before, up to #{@max_events}.
  """
  @spec chunks(Enumerable.t(), Event.reading(), pos_integer) :: Enumerable.t()
  def chunks(events, reading, first \\ @max_events), do: chunks(events, first, @max_events, &Event.encode(&1, reading))

  # Chunks of at most `max` events. `encode` returns `:later` for an event that its own search encodes.
  defp chunks(events, first, max, encode),
    do: Stream.chunk_while(events, empty(first, max), &add(&1, &2, encode), &finish/1)

  # Frames are nil while no event is encoded.
  defp empty(limit, max), do: %{count: 0, bytes: 0, frames: nil, events: [], limit: min(limit, max), max: max}

  defp add(event, chunk, encode) do
    chunk = %{chunk | events: [event | chunk.events]}

    case encode.(event) do
      {:ok, format, encoded} ->
        length = byte_size(encoded)
        frames = [chunk.frames || [], <<format::little-32, length::little-32>> | encoded]
        emit_if_full(%{chunk | count: chunk.count + 1, bytes: chunk.bytes + length, frames: frames})

      :later ->
        emit_if_full(%{chunk | count: chunk.count + 1})

      {:error, error} ->
        refused = %{chunk(%{chunk | frames: chunk.frames || []}) | refused: error}
        {:cont, refused, empty(2 * chunk.limit, chunk.max)}
    end
  end

  defp emit_if_full(%{count: count, bytes: bytes, limit: limit} = chunk) when count == limit or bytes >= @max_bytes,
    do: {:cont, chunk(chunk), empty(2 * limit, chunk.max)}

  defp emit_if_full(chunk), do: {:cont, chunk}

  defp finish(%{count: 0} = none), do: {:cont, none}
  defp finish(last), do: {:cont, chunk(last), nil}

  defp chunk(%{count: count, frames: frames, events: events, limit: limit, max: max}) do
    input = if frames, do: IO.iodata_to_binary(frames)
    %__MODULE__{count: count, input: input, events: Enum.reverse(events), small?: limit < max}
  end

  @doc "Returns a result for each of `events`, or the first error, with its position if it concerns a single event."
  @spec search(BeTree.t() | BeTree.Index.t() | View.t(), Enumerable.t(), Slices.options()) ::
          {:ok, [Search.found()]} | {:error, Error.t()}
  def search(tree, events, options) do
    search = fn ->
      with {:ok, results} <- search_all(tree, events, options), do: {:ok, results, Search.counted?(tree, options)}
    end

    # The length of a stream is unknown before the search.
    :search_many
    |> Telemetry.span(Telemetry.target(tree), search, fn
      {:ok, results, counted} -> %{events: length(results), mismatches: mismatches(results, counted)}
      {:error, _error} -> %{events: 0, mismatches: 0}
    end)
    |> case do
      {:ok, results, counted} -> {:ok, without_counts(results, counted)}
      {:error, error} -> {:error, error}
    end
  end

  defp mismatches(_results, false), do: 0
  defp mismatches(results, true), do: Enum.reduce(results, 0, &(mismatches(&1) + &2))

  defp mismatches([mismatches | _ids]), do: mismatches
  defp mismatches(<<mismatches::little-64, _found::binary>>), do: mismatches

  defp without_counts(results, false), do: results
  defp without_counts(results, true), do: Enum.map(results, &without_count/1)

  defp without_count([_mismatches | ids]), do: ids
  defp without_count(<<_mismatches::little-64, found::binary>>), do: found

  # A single event skips the encoding of a batch.
  defp search_all(tree, [event], options) do
    with {:ok, run} <- run(tree, options, 0) do
      case Event.encode(event, options) do
        {:ok, format, bytes} -> search_one(format, bytes, run)
        {:error, error} -> {:error, %{error | position: 0}}
      end
    end
  end

  defp search_all(tree, events, options) do
    with :ok <- Check.events(events),
         # The length of a stream is unknown.
         ahead = if(is_list(events), do: length(events), else: 0),
         {:ok, run} <- run(tree, options, ahead) do
      events
      |> chunks(options)
      |> Enum.reduce_while({[], 0, run}, &search_next/2)
      |> case do
        {:error, error} -> {:error, error}
        {results, _count, _run} -> {:ok, results |> Enum.reverse() |> Enum.concat()}
      end
    end
  end

  defp search_one(format, bytes, %{options: options} = run) do
    arguments = [format, byte_size(bytes), run.ids_length, Search.number(options.as, run.counted)]
    output = if options.as == :list, do: :u64s, else: :binary

    run
    |> call("be_tree_search", arguments, Search.input(bytes, run.ids), output)
    |> found_by_one(run.counted)
    |> with_terms(run, &search_one(format, bytes, &1))
  end

  # Replaces the numbers in a result by terms, for a server with terms for ids.
  defp with_terms({:ok, found}, %{tree: %View{ids: %Ids{} = ids}} = run, search) do
    with :gone <- named(found, ids, run, []), {:ok, run} <- restart(run), do: search.(run)
  end

  defp with_terms(result, _run, _search), do: result

  # A deleted subscription made the result stale. The search restarts on the current replicas.
  defp restart(%{tree: %View{name: name}} = run) do
    with %View{} = view <- Target.handle(name), do: enter(%{run | tree: view})
  end

  defp named([], _ids, _run, lists), do: {:ok, Enum.reverse(lists)}

  defp named([[mismatches | numbers] | rest], ids, %{counted: true} = run, lists) do
    with {:ok, list} <- Search.named(ids, numbers, run.ids, run.options),
         do: named(rest, ids, run, [[mismatches | list] | lists])
  end

  defp named([numbers | rest], ids, run, lists) do
    with {:ok, list} <- Search.named(ids, numbers, run.ids, run.options), do: named(rest, ids, run, [list | lists])
  end

  defp found_by_one({:error, error}, _counted), do: {:error, error}

  defp found_by_one(ended, counted) do
    case Search.finished(ended, counted) do
      {:done, found, %{mismatches: mismatches}} when counted -> {:ok, [with_count(found, mismatches)]}
      {:done, found, _stats} -> {:ok, [found]}
      # A damaged tree or a faulty module is independent of the event, so the error has no position.
      {:error, %{kind: kind} = error} when kind in [:trap, :bad_module] -> {:error, error}
      {:error, error} -> {:error, %{error | position: 0}}
    end
  end

  defp with_count(ids, mismatches) when is_list(ids), do: [mismatches | ids]
  defp with_count(found, mismatches), do: <<mismatches::little-64, found::binary>>

  defp search_next(chunk, {results, count, run}) do
    case search_chunk(chunk, run) do
      {:ok, found, _run} when chunk.refused != nil ->
        {:halt, {:error, %{chunk.refused | position: count + length(found)}}}

      {:ok, found, run} ->
        {:cont, {[found | results], count + chunk.count, %{run | ahead: max(run.ahead - chunk.count, 0)}}}

      {:error, error, _found} ->
        {:halt, {:error, %{error | position: error.position && count + error.position}}}
    end
  end

  @doc """
  Returns a stream of pairs of an event and its result, `{:ok, found}` or `{:error, error}`.

  The first events are searched by the consumer, those of a list one by one and others in small chunks, so a consumer of a few events
  does not pay for many. Then up to `concurrency` processes search.

  `linger` is the number of milliseconds for which an event of a lazy source waits for others, while another process reads the source.
  With 0 or `:infinity` the consumer reads it.
  """
  @spec stream(BeTree.target(), Enumerable.t(), Slices.options(), pos_integer, timeout) :: Enumerable.t()
  def stream(target, events, options, concurrency, linger) do
    cond do
      linger != :infinity and Source.lazy?(events) -> of_lazy(target, events, options, concurrency, linger)
      # A cluster asks all its shards for each event or chunk.
      is_list(events) and not is_struct(target, Shards) -> of_list(target, events, options, concurrency)
      true -> in_chunks(target, events, 1, options, concurrency)
    end
  end

  defp of_lazy(target, events, options, _concurrency, 0), do: Stream.map(events, &{&1, result(&1, target, options)})

  defp of_lazy(target, events, options, concurrency, linger) do
    max = if alone?(options), do: @max_plain_events, else: @max_events
    search = %{target: target, options: options, concurrency: concurrency, max: max}
    Stream.resource(fn -> open(events, linger, max) end, &next_of_source(&1, search), &close/1)
  end

  # `requested?`: the source will send a part. `max`: the size of the next part. `chunks`: those of the last part that no process
  # searches yet. `outcome`: of the source, once it has ended.
  defp open(events, linger, max) do
    {queue, count} = no_tasks()
    source = Source.open(events, linger)
    %{source: source, requested?: false, max: max, chunks: [], queue: queue, count: count, outcome: nil}
  end

  defp close(state) do
    shut_down({state.queue, state.count})
    Source.close(state.source)
  end

  defp next_of_source(%{count: concurrency} = state, %{concurrency: concurrency}), do: await_first(state)

  defp next_of_source(%{chunks: [chunk | chunks], count: count} = state, search) do
    state = %{state | chunks: chunks}

    if count == 0 and (chunk.small? or search.concurrency == 1) do
      {pairs(chunk, results(chunk, search.target, search.options)), state}
    else
      {[], %{state | queue: :queue.in(start(chunk, search.target, search.options), state.queue), count: count + 1}}
    end
  end

  defp next_of_source(%{outcome: nil, requested?: false} = state, search) do
    Source.request(state.source, state.max)
    next_of_source(%{state | requested?: true}, search)
  end

  defp next_of_source(%{outcome: nil, source: %{monitor: monitor}} = state, search) do
    task = first_reference(state.queue)

    receive do
      {^monitor, {:part, events}} -> {[], with_chunks(%{state | requested?: false}, events, search)}
      {^monitor, {:ended, outcome}} -> {[], %{state | requested?: false, outcome: outcome}}
      {^task, outcome} when task != nil -> take_first(state, outcome)
      {:DOWN, ^monitor, :process, _buffer, reason} -> exit(reason)
      {:DOWN, ^task, :process, _pid, reason} when task != nil -> exit(reason)
    end
  end

  defp next_of_source(%{count: 0, outcome: outcome} = state, _search) do
    Source.raise_caught(outcome)
    {:halt, state}
  end

  defp next_of_source(state, _search), do: await_first(state)

  defp with_chunks(state, events, search) do
    chunks = events |> chunks_for(search.options, length(events)) |> Enum.to_list()
    %{state | chunks: chunks, max: size_of_part(chunks, search.max)}
  end

  # Events that are larger than those of a full chunk come in smaller parts, so that memory stays bounded.
  defp size_of_part(chunks, max) do
    bytes = for %{input: input} when is_binary(input) <- chunks, reduce: 0, do: (sum -> sum + byte_size(input))
    count = chunks |> Enum.map(& &1.count) |> Enum.sum()
    if bytes == 0, do: max, else: (@max_bytes * count) |> div(bytes) |> max(1) |> min(max)
  end

  defp first_reference(queue) do
    case :queue.peek(queue) do
      {:value, {%Task{ref: reference}, _chunk}} -> reference
      :empty -> nil
    end
  end

  defp take_first(state, outcome) do
    {{:value, {task, chunk}}, queue} = :queue.out(state.queue)
    {pairs(chunk, Aside.returned(task, outcome)), %{state | queue: queue, count: state.count - 1}}
  end

  defp await_first(state) do
    {{:value, first}, queue} = :queue.out(state.queue)
    {found(first), %{state | queue: queue, count: state.count - 1}}
  end

  defp of_list(target, events, options, concurrency),
    do: &one_by_one(events, @events_before_chunks, &1, &2, {target, options, concurrency})

  # Searches one event in the calling process.
  defp result(event, target, options) do
    [result] = results(%__MODULE__{count: 1, input: nil, events: [event]}, target, options)
    result
  end

  # Reduces the results of the first `left` events, one search each, and then those of the chunks.
  defp one_by_one(_events, _left, {:halt, acc}, _fun, _search), do: {:halted, acc}

  defp one_by_one(events, left, {:suspend, acc}, fun, search),
    do: {:suspended, acc, &one_by_one(events, left, &1, fun, search)}

  defp one_by_one([], _left, {:cont, acc}, _fun, _search), do: {:done, acc}

  defp one_by_one(events, 0, {:cont, acc}, fun, {target, options, concurrency}),
    do:
      target
      |> in_chunks(events, @events_before_chunks + 1, options, concurrency)
      |> Enumerable.reduce({:cont, acc}, fun)

  defp one_by_one([event | rest], left, {:cont, acc}, fun, {target, options, _concurrency} = search) do
    one_by_one(rest, left - 1, fun.({event, result(event, target, options)}, acc), fun, search)
  end

  # The first chunk has `first` events.
  defp in_chunks(target, events, first, options, concurrency) do
    chunks = chunks_for(events, options, first)

    if concurrency == 1,
      do: Stream.flat_map(chunks, &pairs(&1, results(&1, target, options))),
      else: Stream.transform(chunks, &no_tasks/0, &next(&1, &2, target, options, concurrency), &rest/1, &shut_down/1)
  end

  defp chunks_for(events, options, first) do
    if alone?(options),
      do: chunks(events, first, @max_plain_events, fn _event -> :later end),
      else: chunks(events, options, first)
  end

  defp pairs(chunk, results), do: Enum.zip(chunk.events, results)

  # Budget and timeout apply to each event of a stream, so such events cannot share a call.
  defp alone?(%{fuel: fuel, timeout: timeout}), do: fuel != :infinity or timeout != :infinity

  # The queue of searching tasks with their chunks, and its length.
  defp no_tasks, do: {:queue.new(), 0}

  defp next(%{small?: true} = chunk, tasks, target, options, _concurrency),
    do: {pairs(chunk, results(chunk, target, options)), tasks}

  defp next(chunk, {queue, concurrency}, target, options, concurrency) do
    {{:value, first}, queue} = :queue.out(queue)
    {found(first), {:queue.in(start(chunk, target, options), queue), concurrency}}
  end

  defp next(chunk, {queue, count}, target, options, _concurrency) do
    {[], {:queue.in(start(chunk, target, options), queue), count + 1}}
  end

  # Encoded events are not copied to the task.
  defp start(chunk, target, options) do
    encoded = if chunk.input, do: %{chunk | events: []}, else: chunk
    {Aside.start(fn -> results(encoded, target, options) end), chunk}
  end

  defp found({task, chunk}), do: pairs(chunk, Aside.await(task))

  defp rest({queue, _count}), do: {queue |> :queue.to_list() |> Enum.flat_map(&found/1), no_tasks()}

  defp shut_down({queue, _count}) do
    for {task, _chunk} <- :queue.to_list(queue), do: Aside.shut_down(task)
  end

  # Returns a result for each event of a chunk.
  @spec results(t, BeTree.target(), Slices.options()) :: [{:ok, Search.found()} | {:error, Error.t()}]
  defp results(chunk, target, options) do
    {results, counted} =
      Telemetry.span(:stream, Telemetry.target(target), fn -> search_each(chunk, target, options) end, fn
        {results, counted} ->
          found = for {:ok, found} <- results, do: found
          errors = length(results) - length(found)
          %{events: length(results), errors: errors, mismatches: mismatches(found, counted)}
      end)

    if counted, do: Enum.map(results, &without_count_if_found/1), else: results
  end

  defp without_count_if_found({:ok, found}), do: {:ok, without_count(found)}
  defp without_count_if_found(error), do: error

  # Returns the results of a chunk, and whether each begins with its count of mismatched values. Those of a cluster have no counts.
  defp search_each(chunk, %Shards{} = cluster, options),
    do: {Target.search_each(cluster, chunk.events, options), false}

  defp search_each(chunk, target, options) do
    refused = if chunk.refused, do: [{:error, chunk.refused}], else: []

    with %_handle{} = tree <- Target.handle(target),
         {:ok, run} <- run(tree, options, 0) do
      results =
        if chunk.input, do: each_result(chunk, run, refused), else: Enum.map(chunk.events, &search_alone(&1, run))

      {results, run.counted}
    else
      {:error, error} -> {List.duplicate({:error, error}, chunk.count) ++ refused, false}
    end
  end

  @doc "Returns the results of `events` in a list, as `stream/4` does."
  @spec each(BeTree.target(), [Event.t()], Slices.options()) :: [{:ok, Search.found()} | {:error, Error.t()}]
  def each(target, events, options) do
    first = if alone?(options), do: 1, else: @max_events
    Enum.flat_map(chunks_for(events, options, first), &results(&1, target, options))
  end

  # Searches for one event in one call, with a fresh budget and timeout.
  defp search_alone(event, run) do
    with {:ok, format, bytes} <- Event.encode(event, run.options),
         {:ok, [found]} <- search_one(format, bytes, %{run | deadline: Deadline.new(run.options.timeout)}) do
      {:ok, found}
    else
      {:error, error} -> {:error, %{error | position: nil}}
    end
  end

  # Returns the state of a search over chunks: the handle, the options and the remaining budget. `ahead` is the number of pending
  # results that the caller holds at once, 0 if unknown.
  defp run(tree, options, ahead) do
    # With several chunks, or an unknown number, an immediate collection would copy the results of earlier chunks.
    room = if ahead in 1..@max_events, do: &Heap.with_room/2, else: &Heap.with_room_in_time/2

    run = %{
      tree: tree,
      options: options,
      fuel: options.fuel,
      deadline: Deadline.new(options.timeout),
      ahead: ahead,
      room: room,
      counted: Search.counted?(tree, options)
    }

    enter(run)
  end

  # Adds the packed option `:ids`.
  defp enter(%{tree: tree, options: options} = run) do
    with {:ok, ids, length} <- Search.pack_ids(tree, options),
         do: {:ok, Map.merge(run, %{ids: ids, ids_length: length})}
  end

  # Returns the results of a chunk, followed by `rest`.
  defp each_result(%{count: count} = chunk, run, rest) do
    case search_chunk(chunk, run) do
      {:ok, found, _run} ->
        prepend(found, rest)

      # An error without a position is the result of every remaining event.
      {:error, %{position: nil} = error, found} ->
        prepend(found, List.duplicate({:error, error}, count - length(found)) ++ rest)

      {:error, %{position: position} = error, found} ->
        done = length(found)
        {before, from_error} = chunk |> drop(done) |> split(position - done)
        behind = [{:error, %{error | position: nil}} | each_result(drop(from_error, 1), run, rest)]
        prepend(found, each_result(before, run, behind))
    end
  end

  defp prepend(found, rest), do: List.foldr(found, rest, &[{:ok, &1} | &2])

  # Returns the results of a chunk, and the state with the rest of the budget.
  @spec search_chunk(t, map) :: {:ok, [result], map} | failure
  defp search_chunk(chunk, %{tree: %View{ids: %Ids{} = ids}} = run) do
    {outcome, numbers, rest} =
      case submit(chunk, [], run) do
        {:ok, numbers, rest} -> {:ok, numbers, rest}
        {:error, error, numbers} -> {{:error, error}, numbers, run}
      end

    case {named(numbers, ids, run, []), outcome} do
      {{:ok, lists}, :ok} -> {:ok, lists, rest}
      {{:ok, lists}, {:error, error}} -> {:error, error, lists}
      {:gone, _outcome} -> search_chunk_again(chunk, restart(rest))
    end
  end

  defp search_chunk(chunk, run), do: submit(chunk, [], run)

  defp search_chunk_again(chunk, {:ok, run}), do: search_chunk(chunk, run)
  defp search_chunk_again(_chunk, {:error, error}), do: {:error, error, []}

  # `found` holds the parts of the results so far, the last part first.
  defp submit(%{count: 0}, found, run), do: {:ok, in_order(found), run}

  defp submit(%{count: count, input: input} = chunk, found, run) do
    # be_tree_more continues the batch with this number.
    number = System.os_time() + System.unique_integer([:positive])
    arguments = [number, count, byte_size(input), run.ids_length, Search.number(run.options.as, run.counted)]
    outcome = call(run, "be_tree_search_many", arguments, IO.iodata_to_binary([input | run.ids]))
    take_part(outcome, %{chunk: chunk, number: number, done: 0}, found, run)
  end

  defp take_part({:done, 0, results, slices}, batch, found, run) when is_list(results) do
    run = %{run | fuel: Slices.left(run.fuel, slices.fuel)}
    count = length(results)
    done = batch.done + count

    cond do
      run.counted and not Enum.all?(results, &has_count?/1) ->
        {:error, Reply.bad("a result without the number of values that do not fit"), in_order(found)}

      done == batch.chunk.count ->
        {:ok, in_order([results | found]), run}

      count == 0 or done > batch.chunk.count ->
        {:error, Reply.bad("#{count} events"), in_order(found)}

      found == [] ->
        words = estimate(results, max(batch.chunk.count, run.ahead))
        run.room.(words, fn -> more(%{batch | done: done}, [results], run) end)

      true ->
        more(%{batch | done: done}, [results | found], run)
    end
  end

  defp take_part({:done, 1, refusal, _slices}, batch, found, _run) when is_binary(refusal) do
    {:error, refusal |> Reply.refusal() |> check_position(batch), in_order(found)}
  end

  defp take_part({:done, status, _output, _slices}, _batch, found, _run) do
    {:error, Reply.bad("a batch with status #{status} and no lists of ids"), in_order(found)}
  end

  defp take_part({:error, error}, _batch, found, _run), do: {:error, error, in_order(found)}

  defp has_count?(result),
    do: match?([_mismatches | _ids], result) or match?(<<_mismatches::64, _found::binary>>, result)

  # Extrapolates the words of `count` results from the first part, plus a quarter: a low estimate costs a garbage collection of all
  # results, while unused room is never touched.
  defp estimate(results, count) do
    words = Enum.reduce(results, 0, &(words(&1) + &2))
    div(count * words * 5, length(results) * 4)
  end

  defp words(ids) when is_list(ids), do: 2 * length(ids)
  # Binaries lie outside the heap.
  defp words(ids) when is_binary(ids), do: 0

  defp more(batch, found, run) do
    case call(run, "be_tree_more", [batch.number], nil) do
      {:done, 1, refusal, slices} when is_binary(refusal) ->
        case Reply.refusal(refusal) do
          # Another call intervened, and the module dropped the batch.
          %{kind: :not_found, position: nil} ->
            submit_rest(batch, found, %{run | fuel: Slices.left(run.fuel, slices.fuel)})

          error ->
            {:error, check_position(error, batch), in_order(found)}
        end

      outcome ->
        take_part(outcome, batch, found, run)
    end
  end

  defp submit_rest(batch, found, run) do
    case batch.chunk |> drop(batch.done) |> submit(found, run) do
      {:error, %{position: position} = error, found} when position != nil ->
        {:error, %{error | position: position + batch.done}, found}

      outcome ->
        outcome
    end
  end

  # A position outside the chunk comes from a faulty module and is dropped.
  defp check_position(%{position: position} = error, %{chunk: %{count: count}})
       when is_integer(position) and position < count,
       do: error

  defp check_position(error, _batch), do: %{error | position: nil}

  defp call(%{options: options} = run, function, arguments, input) do
    call(run, function, arguments, input, if(options.as == :list, do: :u64_lists, else: :u64_binaries))
  end

  defp call(%{tree: tree, options: options} = run, function, arguments, input, output) do
    with :ok <- Slices.check_left(run.fuel, run.deadline) do
      budget = %{options | fuel: run.fuel, timeout: Deadline.left(run.deadline)}

      request = %{
        input: input,
        output: output,
        fuel: run.fuel,
        slice: Slices.fuel_of_slice(options, tree.runtime),
        scheduler: :normal,
        timeout: budget.timeout,
        waited: Telemetry.waited(tree)
      }

      runtime = tree.runtime
      slices = Slices.new(runtime, &runtime.resume/1, tree.fuel_per_reduction, budget)
      tree.instance |> runtime.call(function, arguments, request) |> Slices.settle(slices) |> to_end()
    end
  end

  defp to_end({:yield, slices}), do: slices |> Slices.resume() |> to_end()
  defp to_end(ended), do: ended

  # Returns the chunk without its first `some` events.
  defp drop(chunk, 0), do: chunk

  defp drop(%{count: count, input: input} = chunk, some) do
    <<_format::little-32, length::little-32, _bytes::binary-size(length), rest::binary>> = input
    drop(%{chunk | count: count - 1, input: rest}, some - 1)
  end

  # Returns a chunk of the first `some` events, and one of the others.
  defp split(%{count: count, input: input} = chunk, some) do
    rest = drop(chunk, some)

    {%{chunk | count: some, input: binary_part(input, 0, byte_size(input) - byte_size(rest.input))},
     %{rest | count: count - some}}
  end

  defp in_order(parts), do: parts |> Enum.reverse() |> Enum.concat()
end
