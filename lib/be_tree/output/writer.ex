defmodule BeTree.Output.Writer do
  @moduledoc false
  # The process that moves pages from senders to the sink.
  #
  # A sender wakes it for the first open page and for the first full one. It sweeps open pages when they are due, gives the pages of the
  # queue to the runner of the sink, one job at a time, and wakes senders that wait for room. It never blocks, because the runner does.
  # When it is killed, the next writer finds all pages in the queue, except for those of the job in hand, which are lost.

  use BeTree.Processes.Server

  alias BeTree.{Error, Telemetry}
  alias BeTree.Input.Describe
  alias BeTree.Output.{Runner, Settings}
  alias BeTree.Processes.{Deadline, Failure, Stray}
  alias BeTree.Runtime.Native

  # The bytes of a job. Larger ones are not faster.
  @job_bytes 0x1_0000

  # How long a sink that fails rests before it is opened again, in milliseconds.
  @first_rest_ms 10
  @max_rest_ms 1_000

  # A supervisor gives a process 5 seconds to end.
  @drain_ms 4_000

  # A sink is open in this time, or opens in the background.
  @open_ms 5_000

  @enforce_keys [:name, :queue, :settings]
  defstruct @enforce_keys ++
              [
                runner: nil,
                form: :messages,
                job: nil,
                rest: @first_rest_ms,
                timer: nil,
                stuck?: false,
                waiting: :queue.new(),
                flushes: []
              ]

  @spec start_link(BeTree.Output.name()) :: GenServer.on_start()
  def start_link(name), do: GenServer.start_link(__MODULE__, name, spawn_opt: [message_queue_data: :off_heap])

  @impl true
  def init(name) do
    Process.flag(:trap_exit, true)
    {:ok, queue} = Settings.fetch(name, :queue)
    {:ok, settings} = Settings.fetch(name, :settings)
    await_former_runner(name)
    # The job of a writer that was killed.
    Native.output_settle(queue, false)
    Native.output_waiting(queue, false)
    state = %__MODULE__{name: name, queue: queue, settings: settings}
    restarted? = Settings.fetch(name, :writer) |> elem(0) == :ok
    if settings.closed == nil, do: Native.output_reopen(queue)
    if settings.closed, do: begin(state), else: open(state, restarted?)
  end

  # The runner of a killed writer may still write, and would write its messages after newer ones.
  defp await_former_runner(name) do
    with {:ok, runner} <- Settings.fetch(name, :runner) do
      monitor = Process.monitor(runner)
      Process.exit(runner, :kill)

      receive do
        {:DOWN, ^monitor, :process, _runner, _reason} -> :ok
      end
    end
  end

  # An output whose sink fails at once does not start. A restarted one tries again.
  defp open(state, restarted?) do
    state = start_runner(state)

    case await_opened(state) do
      {:ok, opened} -> begin(opened(state, opened))
      :timeout -> begin(state)
      {:closed, reason} when restarted? -> begin(close(%{state | runner: nil}, closed(reason), false))
      {:error, _reason} when restarted? -> begin(rest(%{state | runner: nil}))
      {_kind, reason} -> {:stop, unopened(state, reason)}
    end
  end

  defp await_opened(%{runner: {:opening, runner}}) do
    receive do
      {:opened, ^runner, result} -> result
      {:EXIT, ^runner, reason} -> {:error, reason}
    after
      @open_ms -> :timeout
    end
  end

  defp begin(state) do
    Settings.put_writer(state.name)
    for {pid, _sender} <- Settings.senders(state.name), do: Process.monitor(pid)
    {:ok, state |> sweep() |> pump()}
  end

  @impl true
  def handle_call(:sender, {pid, _tag}, state) do
    {age, sender} = Settings.sender(state.name, state.queue, pid)
    if age == :new, do: Process.monitor(pid)
    {:reply, sender, state}
  end

  def handle_call(:flush, _from, %{settings: %{closed: error}} = state) when error != nil,
    do: {:reply, {:error, error}, state}

  def handle_call(:flush, from, state) do
    flush = {Native.output_flush(state.queue), from}
    {:noreply, %{state | flushes: [flush | state.flushes]} |> pump() |> answer_flushes()}
  end

  def handle_call({:configure, changes}, _from, state) do
    settings = struct!(state.settings, changes)

    if Keyword.has_key?(changes, :sink),
      do: replace_sink(state, settings),
      else: {:reply, :ok, state |> put_settings(settings) |> advance()}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  # A sink that cannot be opened leaves everything as it is.
  defp replace_sink(state, settings) do
    fresh = start_runner(%{state | settings: settings})

    case await_opened(fresh) do
      {:ok, opened} ->
        retire(state.runner)
        Native.output_reopen(state.queue)
        state = fresh |> put_settings(%{settings | closed: nil}) |> opened(opened)
        {:reply, :ok, advance(state)}

      result ->
        {_kind, reason} = with :timeout <- result, do: {:error, :timeout}
        kill(fresh.runner)
        {:reply, {:error, unopened(fresh, reason)}, state}
    end
  end

  # A runner that does not end its job in time loses it.
  defp retire({_stage, runner}) do
    Runner.close(runner)
    Process.send_after(self(), {:retired, runner}, @drain_ms)
  end

  defp retire(nil), do: :ok

  defp kill({_stage, runner}), do: Process.exit(runner, :kill)
  defp kill(nil), do: :ok

  @impl true
  def handle_info(:wake, state), do: {:noreply, state |> sweep() |> pump()}
  def handle_info(:sweep, state), do: {:noreply, %{state | timer: nil} |> sweep() |> pump()}

  def handle_info({:wait, pid, reference, :last}, state) do
    Native.output_waiting(state.queue, true)
    {:noreply, admit(%{state | waiting: :queue.in({pid, reference}, state.waiting)})}
  end

  # A woken sender had no room. It waits for the end of a job, unless that came before this message.
  def handle_info({:wait, pid, reference, :first}, state) do
    Native.output_waiting(state.queue, true)
    state = %{state | waiting: :queue.in_r({pid, reference}, state.waiting)}
    {:noreply, if(Native.output_room(state.queue) == :empty, do: admit(state), else: state)}
  end

  # A sender gave up, perhaps just after it was woken.
  def handle_info({:leave, reference}, state),
    do: {:noreply, state |> forget_waiting(fn {_pid, other} -> other == reference end) |> admit()}

  def handle_info({:written, runner, result}, %{job: {runner, _since, _amount}} = state),
    do: {:noreply, state |> settle(result) |> advance()}

  def handle_info({:opened, runner, result}, %{runner: {:opening, runner}} = state) do
    case result do
      {:ok, opened} -> {:noreply, state |> opened(opened) |> pump()}
      {:error, _reason} -> {:noreply, rest(%{state | runner: nil})}
      {:closed, reason} -> {:noreply, close(%{state | runner: nil}, closed(reason), false)}
    end
  end

  def handle_info({:EXIT, runner, reason}, %{runner: {_stage, runner}} = state),
    do: {:noreply, %{state | runner: nil} |> lose_job(runner, reason) |> rest()}

  # A replaced sink.
  def handle_info({:EXIT, runner, reason}, state), do: {:noreply, state |> lose_job(runner, reason) |> advance()}

  def handle_info({:retired, runner}, state) do
    Process.exit(runner, :kill)
    {:noreply, state}
  end

  def handle_info(:open, %{runner: nil, settings: %{closed: nil}} = state), do: {:noreply, start_runner(state)}
  def handle_info(:open, state), do: {:noreply, state}

  def handle_info({:DOWN, _reference, :process, pid, _reason}, state) do
    Settings.end_sender(state.name, pid)
    {:noreply, state |> forget_waiting(fn {other, _reference} -> other == pid end) |> pump()}
  end

  def handle_info(:disconnect, %{settings: %{closed: nil, sink: sink}} = state) do
    kill(state.runner)
    Runner.disconnect(sink)
    message = "the output was disconnected, because its sink was too slow; give it another sink with configure/2"
    {:noreply, close(state, %Error{kind: :closed, message: message}, true)}
  end

  # Of a closed output.
  def handle_info(:disconnect, state), do: {:noreply, state}
  # Of a former runner.
  def handle_info({result, _runner, _value}, state) when result in [:opened, :written], do: {:noreply, state}
  def handle_info(message, state), do: super(message, state)

  # Messages that were accepted reach the sink before the output stops, if it takes them in time.
  @impl true
  def terminate(_reason, state) do
    Native.output_flush(state.queue)
    drain(state, Deadline.new(@drain_ms))
    Native.output_close(state.queue, false)
  end

  defp drain(%{runner: {:open, runner}, settings: %{closed: nil}} = state, deadline) do
    case pump(state) do
      %{job: nil} ->
        Runner.close(runner)
        await_exit(runner, deadline)

      state ->
        receive do
          {:written, ^runner, result} -> state |> settle(result) |> drain(deadline)
          {:EXIT, ^runner, _reason} -> :ok
        after
          Deadline.left(deadline) -> Process.exit(runner, :kill)
        end
    end
  end

  defp drain(_state, _deadline), do: :ok

  defp await_exit(runner, deadline) do
    receive do
      {:EXIT, ^runner, _reason} -> :ok
    after
      Deadline.left(deadline) -> Process.exit(runner, :kill)
    end
  end

  defp start_runner(state) do
    runner = Runner.start_link(state.settings.sink)
    Settings.put_runner(state.name, runner)
    %{state | runner: {:opening, runner}}
  end

  defp opened(%{runner: {_stage, runner}} = state, %{form: form, encoding: encoding}) do
    state = %{state | runner: {:open, runner}, form: form, rest: @first_rest_ms}
    if encoding == state.settings.encoding, do: state, else: put_settings(state, %{state.settings | encoding: encoding})
  end

  defp put_settings(state, settings), do: %{state | settings: Settings.put(state.queue, settings)}

  defp rest(state) do
    Process.send_after(self(), :open, state.rest)
    %{state | rest: min(2 * state.rest, @max_rest_ms)}
  end

  # Moves due pages into the queue, and sets the timer for the next ones.
  defp sweep(state) do
    {next, stuck?} = Native.output_sweep(state.queue, 1_000 * state.settings.linger)
    set_timer(%{state | stuck?: stuck?}, next)
  end

  defp set_timer(state, nil), do: state
  defp set_timer(%{timer: timer} = state, _next) when timer != nil, do: state
  defp set_timer(state, next), do: %{state | timer: Process.send_after(self(), :sweep, div(next + 999, 1_000))}

  # Gives the next pages to the sink.
  defp pump(%{job: nil, runner: {:open, runner}} = state) do
    {bytes, lengths?} = if state.form == :pages, do: {@job_bytes, false}, else: {1, true}

    case Native.output_next(state.queue, bytes, lengths?) do
      nil ->
        state

      {pages, bytes, messages, dropped} ->
        Runner.write(runner, {pages, dropped})
        if dropped > 0, do: event(state, :dropped, %{messages: dropped})
        %{state | job: {runner, System.monotonic_time(), {messages, bytes}}}
    end
  end

  defp pump(state), do: state

  defp settle(%{job: {_runner, since, {messages, bytes}}} = state, result) do
    lateness = Native.output_settle(state.queue, result == :ok)
    duration = System.monotonic_time() - since
    measurements = %{messages: messages, bytes: bytes, duration: duration, lateness: lateness}
    event(state, if(result == :ok, do: :write, else: :lost), measurements)
    with {:error, reason} <- result, do: warn(state, messages, reason)
    %{state | job: nil}
  end

  defp lose_job(%{job: {runner, _since, _amount}} = state, runner, reason), do: settle(state, {:error, reason})
  defp lose_job(state, _runner, _reason), do: state

  # After pages have left the queue.
  defp advance(state) do
    state = if state.stuck?, do: sweep(state), else: state
    state |> pump() |> answer_flushes() |> admit()
  end

  defp answer_flushes(%{flushes: []} = state), do: state

  defp answer_flushes(state) do
    left = Native.output_left(state.queue)
    {ended, flushes} = Enum.split_with(state.flushes, fn {target, _from} -> target <= left end)
    for {_target, from} <- ended, do: GenServer.reply(from, :ok)
    %{state | flushes: flushes}
  end

  # Wakes senders that wait, as many as have room for a page each, and at least one. A woken sender without room waits again, in
  # front of the others.
  defp admit(state) do
    if :queue.is_empty(state.waiting), do: state, else: admit(state, Native.output_room(state.queue))
  end

  defp admit(state, nil), do: state

  defp admit(state, :empty) do
    Native.output_waiting(state.queue, false)
    for {_pid, reference} <- :queue.to_list(state.waiting), do: send(reference, {:turn, reference})
    %{state | waiting: :queue.new()}
  end

  defp admit(state, {bytes, messages}) when bytes > 0 and messages > 0 do
    state = wake(state)
    {max_bytes, max_messages} = state.settings.buffer
    # As many messages as a page can have (wasm/host/src/output/limits.rs).
    room = {bytes - min(state.settings.page, max_bytes), messages - max(div(max_messages, 4), 1)}

    if :queue.is_empty(state.waiting) do
      Native.output_waiting(state.queue, false)
      state
    else
      admit(state, room)
    end
  end

  defp admit(state, _no_room), do: state

  defp wake(state) do
    {{:value, {_pid, reference}}, waiting} = :queue.out(state.waiting)
    send(reference, {:turn, reference})
    %{state | waiting: waiting}
  end

  # A sink may be blocked for ever, so senders that wait no longer must not stay.
  defp forget_waiting(state, forget?) do
    if :queue.is_empty(state.waiting) do
      state
    else
      waiting = :queue.filter(&(not forget?.(&1)), state.waiting)
      if :queue.is_empty(waiting), do: Native.output_waiting(state.queue, false)
      %{state | waiting: waiting}
    end
  end

  # Closes the queue for good: until another sink is configured.
  defp close(state, error, dropped?) do
    if state.job, do: Native.output_settle(state.queue, false)
    Native.output_close(state.queue, dropped?)
    state = put_settings(%{state | runner: nil, job: nil}, %{state.settings | closed: error})
    for {_target, from} <- state.flushes, do: GenServer.reply(from, {:error, error})
    event(state, :closed, %{})
    admit(%{state | flushes: []}, :empty)
  end

  defp closed(reason) do
    message = "the sink is gone: #{Failure.reason(reason)}; give the output another one with configure/2"
    %Error{kind: :closed, message: message}
  end

  defp unopened(state, reason) do
    message = "the sink of #{Describe.value(state.name)} cannot be opened: #{Failure.reason(reason)}"
    %Error{kind: :file, message: message}
  end

  defp event(state, name, measurements), do: Telemetry.event([:output, name], measurements, %{output: state.name})

  defp warn(state, messages, reason) do
    text = "#{Describe.value(state.name)} lost #{messages} messages, because its sink failed: #{Failure.reason(reason)}"

    Stray.warn(text)
  end
end
