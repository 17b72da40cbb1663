defmodule BeTree.Engine.Batch do
  @moduledoc false
  # Searches many events in few calls. A chunk of events is encoded as one binary and searched by one call of
  # be_tree_search_many (docs/abi.md). Large results come in parts.

  alias BeTree.{Error, Event, Search}
  alias BeTree.Engine.{Answer, Check, Deadline, Heap, Slices, Target}
  alias BeTree.Server.View

  # A chunk has so many events, or so many bytes and the event that made them so many.
  @events 256
  @bytes 256 * 1024

  @enforce_keys [:count, :input]
  defstruct @enforce_keys ++ [:refused]

  @typedoc """
  Events on their way into the sandbox: how many, and their bytes, each behind its format and its length. `refused` is why
  the event behind them is none.
  """
  @type t :: %__MODULE__{count: non_neg_integer, input: binary, refused: Error.t() | nil}

  @typedoc "What an error left answered: the answers before it, in order."
  @type refusal :: {:error, Error.t(), [Search.found()]}

  @doc "The events in chunks, lazily."
  @spec chunks(Enumerable.t()) :: Enumerable.t()
  def chunks(events), do: Stream.chunk_while(events, {0, 0, []}, &add/2, &finish/1)

  defp add(event, {count, bytes, frames}) do
    case Event.encode(event) do
      {:ok, format, encoded} ->
        length = byte_size(encoded)
        frames = [frames, <<format::little-32, length::little-32>> | encoded]
        next = {count + 1, bytes + length, frames}
        if full?(next), do: {:cont, chunk(next), {0, 0, []}}, else: {:cont, next}

      {:error, error} ->
        {:cont, %{chunk({count, bytes, frames}) | refused: error}, {0, 0, []}}
    end
  end

  defp full?({count, bytes, _frames}), do: count == @events or bytes >= @bytes

  defp finish({0, 0, []}), do: {:cont, {0, 0, []}}
  defp finish(last), do: {:cont, chunk(last), {0, 0, []}}

  defp chunk({count, _bytes, frames}), do: %__MODULE__{count: count, input: IO.iodata_to_binary(frames)}

  @doc "One answer for each of `events`, or the error of the first that has none, with its position where it is an event's."
  @spec search(BeTree.t() | BeTree.Index.t() | View.t(), Enumerable.t(), Slices.options()) ::
          {:ok, [Search.found()]} | {:error, Error.t()}
  def search(tree, events, options) do
    with :ok <- Check.enumerable(events, "events"),
         # Of a stream it is not known how many there are.
         ahead = if(is_list(events), do: length(events), else: 0),
         {:ok, run} <- run(tree, options, ahead) do
      events
      |> chunks()
      |> Enum.reduce_while({[], 0, run}, &search_next/2)
      |> case do
        {:error, error} -> {:error, error}
        {answers, _count, _run} -> {:ok, answers |> Enum.reverse() |> Enum.concat()}
      end
    end
  end

  defp search_next(chunk, {answers, count, run}) do
    case search_chunk(chunk, run) do
      {:ok, found, _run} when chunk.refused != nil ->
        {:halt, {:error, %{chunk.refused | position: count + length(found)}}}

      {:ok, found, run} ->
        {:cont, {[found | answers], count + chunk.count, %{run | ahead: max(run.ahead - chunk.count, 0)}}}

      {:error, error, _found} ->
        {:halt, {:error, %{error | position: error.position && count + error.position}}}
    end
  end

  @doc "A stream of answers to `events`, `{:ok, found}` or `{:error, error}`, by so many processes at the same time."
  @spec stream(BeTree.target(), Enumerable.t(), Slices.options(), pos_integer) :: Enumerable.t()
  def stream(target, events, options, 1), do: events |> chunks() |> Stream.flat_map(&answers(&1, target, options))

  def stream(target, events, options, concurrency) do
    events
    |> chunks()
    |> Task.async_stream(&answers(&1, target, options), max_concurrency: concurrency, timeout: :infinity)
    |> Stream.flat_map(fn {:ok, answers} -> answers end)
  end

  # One answer for each event of a chunk.
  @spec answers(t, BeTree.target(), Slices.options()) :: [{:ok, Search.found()} | {:error, Error.t()}]
  defp answers(chunk, target, options) do
    refused = if chunk.refused, do: [{:error, chunk.refused}], else: []

    with {:ok, tree} <- resolve(target),
         {:ok, run} <- run(tree, options, 0) do
      each_answer(chunk, run, refused)
    else
      {:error, error} -> List.duplicate({:error, error}, chunk.count) ++ refused
    end
  end

  # What is left to use. `ahead` is how many answers are still to come that are held at the same time, as far as that is known.
  # Of more than a chunk, those before would be copied if room were made at once.
  defp run(tree, options, ahead) do
    room = if ahead > @events, do: &Heap.with_room_in_time/2, else: &Heap.with_room/2

    run = %{
      tree: tree,
      options: options,
      fuel: options.fuel,
      deadline: Deadline.new(options.timeout),
      ahead: ahead,
      room: room
    }

    with {:ok, ids, length} <- Search.append_ids("", options.ids) do
      {:ok, Map.merge(run, %{ids: ids, ids_length: length})}
    end
  end

  defp resolve(target) do
    with %_handle{} = handle <- Target.resolve(target), do: {:ok, handle}
  end

  defp each_answer(%{count: count} = chunk, run, rest) do
    case search_chunk(chunk, run) do
      {:ok, found, _run} ->
        prepend(found, rest)

      # Not one event's: what is not answered shares it.
      {:error, %{position: nil} = error, found} ->
        prepend(found, List.duplicate({:error, error}, count - length(found)) ++ rest)

      {:error, %{position: position} = error, found} ->
        answered = length(found)
        {before, from_error} = chunk |> drop(answered) |> split(position - answered)
        behind = [{:error, %{error | position: nil}} | each_answer(drop(from_error, 1), run, rest)]
        prepend(found, each_answer(before, run, behind))
    end
  end

  defp prepend(found, rest), do: List.foldr(found, rest, &[{:ok, &1} | &2])

  # The answers to a chunk, and what is left of the budget.
  @spec search_chunk(t, map) :: {:ok, [Search.found()], map} | refusal
  defp search_chunk(chunk, %{tree: %View{} = view, options: options} = run) do
    # An error leaves all unanswered: of an answer both indexes have a part.
    with {:ok, found, after_base} <- submit(chunk, [], %{run | tree: view.base, options: %{options | as: :list}}),
         {:ok, more, after_delta} <- search_delta(chunk, %{after_base | tree: view.delta}),
         {:ok, found} <- joined(found, more, view, options.as) do
      {:ok, found, %{after_delta | tree: view, options: options}}
    else
      {:error, error, _found} -> {:error, error, []}
    end
  end

  defp search_chunk(chunk, run), do: submit(chunk, [], run)

  defp search_delta(chunk, %{tree: nil} = run), do: {:ok, List.duplicate([], chunk.count), run}
  defp search_delta(chunk, run), do: submit(chunk, [], run)

  # For each event what the base has found and still has, with what the delta has found.
  defp joined(found, more, view, form) do
    found
    |> Enum.zip(more)
    |> Enum.with_index()
    |> Enum.reduce_while([], fn {{of_base, of_delta}, position}, joined ->
      case view |> View.alive(of_base) |> View.merge(of_delta) |> View.pack(view, form) do
        {:ok, found} -> {:cont, [found | joined]}
        {:error, error} -> {:halt, {:error, %{error | position: position}, []}}
      end
    end)
    |> case do
      {:error, error, []} -> {:error, error, []}
      joined -> {:ok, Enum.reverse(joined)}
    end
  end

  # The parts of the answers so far are `found`, the last first.
  defp submit(%{count: 0}, found, run), do: {:ok, joined(found), run}

  defp submit(%{count: count, input: input} = chunk, found, run) do
    # By this the module knows which batch it is asked to go on with.
    number = System.os_time() + System.unique_integer([:positive])
    arguments = [number, count, byte_size(input), run.ids_length, Search.number(run.options.as)]
    answer = call(run, "be_tree_search_many", arguments, IO.iodata_to_binary([input | run.ids]))
    part(answer, %{chunk: chunk, number: number, answered: 0}, found, run)
  end

  defp part({:done, 0, answers, slices}, batch, found, run) when is_list(answers) do
    run = %{run | fuel: left(run.fuel, slices.fuel)}
    count = length(answers)
    answered = batch.answered + count

    cond do
      answered == batch.chunk.count ->
        {:ok, joined([answers | found]), run}

      count == 0 or answered > batch.chunk.count ->
        {:error, Answer.bad("#{count} events"), joined(found)}

      found == [] ->
        words = estimate(answers, max(batch.chunk.count, run.ahead))
        run.room.(words, fn -> more(%{batch | answered: answered}, [answers], run) end)

      true ->
        more(%{batch | answered: answered}, [answers | found], run)
    end
  end

  defp part({:done, 1, refusal, _slices}, batch, found, _run) when is_binary(refusal) do
    {:error, blame(Answer.refusal(refusal), batch), joined(found)}
  end

  defp part({:done, status, _output, _slices}, _batch, found, _run) do
    {:error, Answer.bad("a batch with status #{status} and no lists of ids"), joined(found)}
  end

  defp part({:error, error}, _batch, found, _run), do: {:error, error, joined(found)}

  # About how many words so many answers will take as lists, by those of the first part, and a quarter more: what an estimate
  # lacks costs a collection of all that came, what it has too much is never touched.
  defp estimate(answers, count) do
    words = Enum.reduce(answers, 0, &(words(&1) + &2))
    div(count * words * 5, length(answers) * 4)
  end

  defp words(ids) when is_list(ids), do: 2 * length(ids)
  # Outside of the heap.
  defp words(ids) when is_binary(ids), do: 0

  # Another call may have come in between, and made the module forget the batch.
  defp more(batch, found, run) do
    case call(run, "be_tree_more", [batch.number], nil) do
      {:done, 1, refusal, slices} when is_binary(refusal) ->
        case Answer.refusal(refusal) do
          %{kind: :not_found, position: nil} ->
            submit_rest(batch, found, %{run | fuel: left(run.fuel, slices.fuel)})

          error ->
            {:error, blame(error, batch), joined(found)}
        end

      answer ->
        part(answer, batch, found, run)
    end
  end

  defp submit_rest(batch, found, run) do
    case batch.chunk |> drop(batch.answered) |> submit(found, run) do
      {:error, %{position: position} = error, found} when position != nil ->
        {:error, %{error | position: position + batch.answered}, found}

      answer ->
        answer
    end
  end

  defp blame(%{position: position} = error, %{chunk: %{count: count} = chunk})
       when is_integer(position) and position < count do
    %{input: <<format::little-32, length::little-32, bytes::binary-size(length), _rest::binary>>} =
      drop(chunk, position)

    %{error | text: Event.text(format, bytes)}
  end

  defp blame(error, _batch), do: %{error | position: nil}

  defp call(%{tree: tree, options: options} = run, function, arguments, input) do
    with :ok <- check_left(run) do
      output = if options.as == :list, do: :u64_lists, else: :u64_binaries
      budget = %{options | fuel: run.fuel, timeout: Deadline.left(run.deadline)}

      request = %{
        input: input,
        output: output,
        fuel: run.fuel,
        slice: options.slice,
        scheduler: :normal,
        timeout: budget.timeout
      }

      runtime = tree.runtime
      slices = Slices.new(runtime, &runtime.resume/1, tree.fuel_per_reduction, budget)
      tree.instance |> runtime.call(function, arguments, request) |> Slices.settle(slices) |> to_end()
    end
  end

  defp to_end({:yield, slices}), do: slices |> Slices.resume() |> to_end()
  defp to_end(ended), do: ended

  defp check_left(%{fuel: 0}) do
    {:error, %Error{kind: :out_of_fuel, message: "the call used all of its fuel; give it a larger budget"}}
  end

  defp check_left(%{deadline: deadline}) do
    if Deadline.passed?(deadline),
      do: {:error, %Error{kind: :timeout, message: "the call passed its timeout"}},
      else: :ok
  end

  defp left(:infinity, _used), do: :infinity
  defp left(fuel, used), do: max(fuel - used, 0)

  defp drop(chunk, 0), do: chunk

  defp drop(%{count: count, input: input} = chunk, some) do
    <<_format::little-32, length::little-32, _bytes::binary-size(length), rest::binary>> = input
    drop(%{chunk | count: count - 1, input: rest}, some - 1)
  end

  # The first `some` events, and the others.
  defp split(%{count: count, input: input} = chunk, some) do
    rest = drop(chunk, some)

    {%{chunk | count: some, input: binary_part(input, 0, byte_size(input) - byte_size(rest.input))},
     %{rest | count: count - some}}
  end

  defp joined(found), do: found |> Enum.reverse() |> Enum.concat()
end
