defmodule BeTree.Search.Source.Reader do
  @moduledoc false
  # The process that runs the source of a stream (BeTree.Search.Source).
  #
  # The source may receive any message of this process. So the buffer sends messages only while the reader waits for them, and otherwise
  # sets a flag. The flag also decides which process calls the source's after function if the consumer halts: the reader, or the buffer
  # if the source is blocked.

  # Values of the flag.
  @reading 0
  @halt_requested 1
  @halting 2
  @taken_over 3

  # The key of the continuation in the process dictionary, from which the buffer reads it while the source is blocked.
  @continuation {__MODULE__, :continuation}

  @typedoc "The end of a source: it was done or halted, or failed."
  @type outcome :: :done | {:caught, :error | :exit | :throw, term, Exception.stacktrace()}

  @type continuation :: (Enumerable.acc() -> Enumerable.result())

  @doc "Reads `events` and sends them to the buffer."
  @spec run(Enumerable.t(), pid, :atomics.atomics_ref(), [pid]) :: :ok
  def run(events, buffer, flag, callers) do
    # If the consumer was killed meanwhile, the buffer is gone, and this ends the reader.
    Process.link(buffer)
    Process.put(:"$callers", callers)
    send(buffer, read(events, %{buffer: buffer, flag: flag}))
    :ok
  end

  @spec read(Enumerable.t(), map) :: {:ended | :halted, outcome}
  defp read(events, process) do
    # Suspended before the first event, the source has run its start function.
    events |> Enumerable.reduce({:suspend, []}, &{:suspend, [&1 | &2]}) |> go_on(0, process)
  catch
    kind, reason -> {:ended, {:caught, kind, reason, __STACKTRACE__}}
  end

  # A source suspends after each event. Its last event may come with its end.
  defp go_on({:suspended, events, continuation}, left, process) do
    left = send_all(events, left, process.buffer)
    Process.put(@continuation, continuation)

    cond do
      :atomics.get(process.flag, 1) != @reading -> halt_if_requested(continuation, process)
      left > 0 -> go_on(continuation.({:cont, []}), left, process)
      true -> wait(continuation, process)
    end
  end

  defp go_on({_done, events}, left, process) do
    send_all(events, left, process.buffer)
    {:ended, :done}
  end

  defp send_all([], left, _buffer), do: left

  defp send_all([event], left, buffer) do
    send(buffer, {:event, event})
    left - 1
  end

  defp send_all(events, left, buffer), do: events |> Enum.reverse() |> Enum.reduce(left, &send_all([&1], &2, buffer))

  defp wait(continuation, %{flag: flag} = process) do
    send(process.buffer, :more)

    receive do
      {^flag, :halt} -> halt_if_requested(continuation, process)
      {^flag, left} -> go_on(continuation.({:cont, []}), left, process)
    end
  end

  defp halt_if_requested(continuation, %{flag: flag}) do
    case :atomics.compare_exchange(flag, 1, @halt_requested, @halting) do
      :ok -> {:halted, halted(continuation)}
      @taken_over -> Process.sleep(:infinity)
    end
  end

  defp halted(continuation) do
    halt(continuation)
    :done
  catch
    kind, reason -> {:caught, kind, reason, __STACKTRACE__}
  end

  @doc "Halts a source, which calls its after function."
  @spec halt(continuation) :: :ok
  def halt(continuation) do
    continuation.({:halt, []})
    :ok
  end

  # Functions of the buffer

  @doc "Lets a reader that waits read `count` events more."
  @spec allow(pid, :atomics.atomics_ref(), pos_integer) :: :ok
  def allow(reader, flag, count) do
    send(reader, {flag, count})
    :ok
  end

  @doc "Requests that the reader halts its source, after the event that it is reading. If it waits, `wake/2` follows."
  @spec request_halt(:atomics.atomics_ref()) :: :ok
  def request_halt(flag), do: :atomics.put(flag, 1, @halt_requested)

  @doc "Lets a reader that waits halt its source."
  @spec wake(pid, :atomics.atomics_ref()) :: :ok
  def wake(reader, flag) do
    send(reader, {flag, :halt})
    :ok
  end

  @doc "Returns whether the caller halts the source in place of the reader, which has not begun to."
  @spec take_over(:atomics.atomics_ref()) :: boolean
  def take_over(flag), do: :atomics.compare_exchange(flag, 1, @halt_requested, @taken_over) == :ok

  @doc "Suspends the reader, and returns the continuation of its source, or nil if the source has not started."
  @spec suspend(pid) :: continuation | nil
  def suspend(reader) do
    # Asynchronous, because a reader in a blocked NIF is suspended only after that.
    :erlang.suspend_process(reader, [:asynchronous])

    with {:dictionary, dictionary} <- Process.info(reader, :dictionary),
         {@continuation, continuation} <- List.keyfind(dictionary, @continuation, 0),
         do: continuation
  rescue
    # The reader has ended.
    ArgumentError -> nil
  end
end
