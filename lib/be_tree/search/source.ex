defmodule BeTree.Search.Source do
  @moduledoc false
  # A lazy source of events that a process of its own reads, so that results need not wait for the source.
  #
  # A process that is blocked in a source can do nothing else: neither search the events before, nor pass their results on. So three
  # processes share the work. The reader (BeTree.Search.Source.Reader) runs the source and sends each event to the buffer at once. The
  # buffer collects events into parts and is never blocked. The consumer requests a part and searches it.
  #
  # A part ends when it is full, when its first event has waited for `linger` milliseconds, or with the source. Its limit starts at one
  # event and doubles with each full part. After a pause of at least `linger` milliseconds it starts at one again, so the first event
  # after a pause waits for no other.
  #
  # Back-pressure: the reader has a number of events that it may read. When they are read, it asks the buffer for more. Until parts
  # reach their full size it may read only the part that was requested, and later two parts more than the consumer has taken.
  #
  # The buffer monitors the consumer and is linked to the reader. The consumer has one monitor, of the buffer, whose reference marks all
  # messages to the consumer.

  alias BeTree.Processes.{Failure, Log}
  alias BeTree.Search.Source.Reader

  # Milliseconds after which a source counts as blocked, if its consumer halts. A source whose after function is still running then
  # would be closed twice: from outside, that looks like a source that waits for an event.
  @max_wait_for_halt 100

  # Milliseconds for which the buffer waits for the death of a reader that it killed.
  @max_wait_for_exit 10

  @enforce_keys [:buffer, :monitor]
  defstruct @enforce_keys

  @type t :: %__MODULE__{buffer: pid, monitor: reference}

  @type reply :: {:part, [term, ...]} | {:ended, Reader.outcome()}

  @doc "Returns whether a source may block while it is read. A collection in memory does not."
  @spec lazy?(Enumerable.t()) :: boolean
  def lazy?(events) when is_list(events), do: false
  def lazy?(%module{}), do: module not in [Range, MapSet]
  def lazy?(events), do: not is_map(events)

  @doc "Starts to read `events`. Only the calling process may use the source."
  @spec open(Enumerable.t(), pos_integer) :: t
  def open(events, linger) do
    consumer = self()
    flag = :atomics.new(1, [])
    buffer = :erlang.spawn_opt(fn -> begin(consumer, flag, linger) end, message_queue_data: :off_heap)
    monitor = Process.monitor(buffer)
    callers = [consumer | Process.get(:"$callers", [])]
    # The consumer starts the reader, so the source is copied only once.
    reader = spawn(Reader, :run, [events, buffer, flag, callers])
    send(buffer, {:opened, monitor, reader})
    %__MODULE__{buffer: buffer, monitor: monitor}
  end

  @doc "Requests the next part, of at most `max` events. The reply comes as the message `{source.monitor, reply}`."
  @spec request(t, pos_integer) :: :ok
  def request(%__MODULE__{buffer: buffer, monitor: monitor}, max) do
    send(buffer, {monitor, {:next, max}})
    :ok
  end

  @doc "Closes the source, and raises what its after function raises. Nothing of it is left in the mailbox."
  @spec close(t) :: :ok
  def close(%__MODULE__{buffer: buffer, monitor: monitor}) do
    send(buffer, {monitor, :close})
    # The message of the other monitor may have been received already.
    closed = Process.monitor(buffer)

    receive do
      {:DOWN, ^closed, :process, _buffer, _reason} -> Process.demonitor(monitor, [:flush])
    end

    monitor |> last_reply(:done) |> raise_caught()
  end

  defp last_reply(monitor, last) do
    receive do
      {^monitor, {:closed, outcome}} -> last_reply(monitor, outcome)
      {^monitor, _reply} -> last_reply(monitor, last)
    after
      0 -> last
    end
  end

  @doc "Raises the failure of a source."
  @spec raise_caught(Reader.outcome()) :: :ok
  def raise_caught(:done), do: :ok
  def raise_caught({:caught, kind, reason, stacktrace}), do: :erlang.raise(kind, reason, stacktrace)

  # The buffer

  defp begin(consumer, flag, linger) do
    Process.flag(:trap_exit, true)
    down = Process.monitor(consumer)

    receive do
      {:opened, monitor, reader} ->
        Process.link(reader)

        loop(%{
          consumer: consumer,
          down: down,
          monitor: monitor,
          reader: reader,
          flag: flag,
          linger: linger,
          # Whether the consumer has requested a part, of at most `limit` events. `max` bounds the limit.
          requested?: false,
          limit: 1,
          max: 1,
          # The events that no part has, the last first. `since` is the time from which the first of them waits for others.
          events: [],
          count: 0,
          since: now(),
          timer: nil,
          # The time of the last part.
          last: now(),
          # Numbers of events: read or allowed to be read, and passed on.
          allowed: 0,
          taken: 0,
          # Whether the reader waits for an allowance, and whether it may read parts that were not requested.
          waiting?: false,
          ahead?: false,
          outcome: nil
        })

      # The reader may run already. It is linked then, and no normal exit ends it.
      {:DOWN, ^down, :process, _consumer, _reason} ->
        exit(:shutdown)
    end
  end

  defp loop(%{monitor: monitor, reader: reader, down: down, timer: timer} = state) do
    receive do
      {:event, event} ->
        state |> add(event) |> pass_on() |> loop()

      {^monitor, {:next, max}} ->
        %{state | requested?: true, max: max, limit: min(state.limit, max)} |> pass_on() |> allow() |> loop()

      :more ->
        %{state | waiting?: true} |> allow() |> loop()

      {:timeout, ^timer, :linger} ->
        %{state | timer: nil} |> pass_part(state.count, state.limit) |> loop()

      {:ended, outcome} ->
        %{state | outcome: outcome} |> pass_on() |> loop()

      {^monitor, :close} ->
        reply(state, {:closed, if(state.outcome, do: :done, else: halt(state))})

      # Another process killed the reader, or the source's link ended it.
      {:EXIT, ^reader, reason} ->
        %{state | outcome: state.outcome || {:caught, :exit, reason, []}} |> pass_on() |> loop()

      {:DOWN, ^down, :process, _consumer, _reason} ->
        Process.exit(reader, :kill)

      # The timer of a part that is already passed on.
      _other ->
        loop(state)
    end
  end

  defp add(%{count: 0, linger: linger} = state, event) do
    now = now()
    limit = if now - state.last >= linger, do: 1, else: state.limit
    %{state | events: [event], count: 1, since: now, limit: limit}
  end

  defp add(state, event), do: %{state | events: [event | state.events], count: state.count + 1}

  # Passes a part on if one is requested and complete.
  defp pass_on(%{requested?: false} = state), do: state

  defp pass_on(%{count: count, limit: limit} = state) when count >= limit,
    do: pass_part(state, limit, min(2 * limit, state.max))

  defp pass_on(%{count: 0, outcome: nil} = state), do: state
  defp pass_on(%{count: 0, outcome: outcome} = state), do: reply(%{state | requested?: false}, {:ended, outcome})

  defp pass_on(%{timer: nil, outcome: nil} = state) do
    case state.since + state.linger - now() do
      left when left > 0 -> %{state | timer: :erlang.start_timer(left, self(), :linger)}
      _passed -> pass_part(state, state.count, state.limit)
    end
  end

  defp pass_on(%{outcome: nil} = state), do: state
  defp pass_on(%{count: count, limit: limit} = state), do: pass_part(state, count, limit)

  defp pass_part(%{events: events, count: count} = state, size, limit) do
    if state.timer, do: :erlang.cancel_timer(state.timer)
    {later, part} = Enum.split(events, count - size)
    now = now()

    reply(
      %{
        state
        | requested?: false,
          events: later,
          count: count - size,
          taken: state.taken + size,
          limit: limit,
          ahead?: state.ahead? or limit == state.max,
          since: now,
          last: now,
          timer: nil
      },
      {:part, Enum.reverse(part)}
    )
  end

  defp reply(state, reply) do
    send(state.consumer, {state.monitor, reply})
    state
  end

  defp allow(%{waiting?: true} = state) do
    allowed =
      cond do
        state.ahead? -> state.taken + 2 * state.max
        state.requested? -> state.taken + state.limit
        true -> state.allowed
      end

    if allowed > state.allowed do
      Reader.allow(state.reader, state.flag, allowed - state.allowed)
      %{state | allowed: allowed, waiting?: false}
    else
      state
    end
  end

  defp allow(state), do: state

  # Ends the reader before its source has ended. A failure of the source is none of the consumer, which has halted before it; a failure
  # of the after function is.
  defp halt(%{reader: reader} = state) do
    Reader.request_halt(state.flag)
    if state.waiting?, do: Reader.wake(reader, state.flag)

    with nil <- ended(state, @max_wait_for_halt),
         do: if(Reader.take_over(state.flag), do: interrupt(state), else: ended(state, :infinity))
  end

  defp ended(%{reader: reader} = state, timeout) do
    receive do
      # The reader began to wait before the request.
      :more ->
        Reader.wake(reader, state.flag)
        ended(state, timeout)

      {:halted, outcome} ->
        outcome

      {:ended, _outcome} ->
        :done

      {:EXIT, ^reader, _reason} ->
        :done
    after
      timeout -> nil
    end
  end

  # The source is blocked. Its reader cannot run the after function, so the buffer does, while the reader still owns its files, ports
  # and tables. The consumer has all results that it wanted, so a failure here is logged.
  defp interrupt(%{reader: reader} = state) do
    continuation = Reader.suspend(reader)

    # The source may have ended before the reader was suspended.
    if ended(state, 0) == nil do
      if continuation, do: close_for_reader(continuation)
      Process.exit(reader, :kill)
      ended(state, @max_wait_for_exit)
    end

    :done
  end

  defp close_for_reader(continuation) do
    Reader.halt(continuation)
  catch
    kind, reason ->
      text =
        "the source of a stream was blocked when its consumer halted, and its after function failed in another process: it "

      trace = Exception.format_stacktrace(Failure.without_arguments(__STACKTRACE__))
      # Values of the reason may belong to events.
      Log.warning("#{text}#{Failure.describe(kind, reason, :private)}\n#{trace}")
  end

  defp now, do: System.monotonic_time(:millisecond)
end
