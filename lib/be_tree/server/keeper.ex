defmodule BeTree.Server.Keeper do
  @moduledoc false
  # Starts a server's process, and restarts it whenever it ends: at once if it had run for a while, and after growing
  # pauses if it ends repeatedly. So a few crashes do not end the supervisor, which owns the tables with the data, and a process
  # that cannot start does not keep a scheduler busy. When it ends more often than `:max_restarts` allows, this process ends, and
  # the supervisor with it, so that the supervisor of the server can begin anew.

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.Log
  alias BeTree.Server.Table

  # Milliseconds: the first and the longest pause, and the run time after which the next pause is the first again.
  # The option `:max_restarts` limits how often the process may end in `:max_seconds`.
  @first_pause_ms 5
  @max_pause_ms 500
  @settled_after_ms 1_000

  @enforce_keys [:module, :table, :options]
  defstruct [:module, :table, :options, :pid, :started, pause: 0, timer: nil, ends: :queue.new()]

  @spec start_link({module, Table.t(), map}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  # The first start reports its outcome to the caller of `BeTree.Server.start_link/1`. Later there is data to keep, and no
  # error ends this process.
  @impl GenServer
  def init({module, table, options}) do
    Process.flag(:trap_exit, true)
    state = %__MODULE__{module: module, table: table, options: options}

    if Table.started?(table) do
      {:ok, state, {:continue, :start}}
    else
      with {:ok, state} <- start(state) do
        Table.put_started(table)
        {:ok, state}
      else
        {:error, reason} -> {:stop, reason}
      end
    end
  end

  @impl GenServer
  def handle_continue(:start, state), do: continue(start_again(state))

  @impl GenServer
  def handle_info({:start, timer}, %{timer: timer, pid: nil} = state),
    do: continue(start_again(%{state | timer: nil}))

  def handle_info({:EXIT, pid, reason}, %{pid: pid} = state) when is_pid(pid) do
    continue(ended(%{state | pid: nil}, reason))
  end

  # The exit of a process that did not start, whose error is known.
  def handle_info({:EXIT, _pid, _reason}, state), do: {:noreply, state}

  def handle_info(message, state), do: super(message, state)

  # The name is free again when this process has ended.
  @impl GenServer
  def terminate(_reason, %{pid: nil}), do: :ok

  def terminate(reason, %{pid: pid}) do
    monitor = Process.monitor(pid)
    Process.exit(pid, reason)

    receive do
      {:DOWN, ^monitor, :process, ^pid, _reason} -> :ok
    after
      @settled_after_ms -> Process.exit(pid, :kill)
    end
  end

  # Ends this process when the server's process ended too often.
  defp continue(%{options: %{restarts: {most, seconds}}} = state) do
    now = System.monotonic_time(:millisecond)
    ends = drop_before(state.ends, now - 1_000 * seconds)

    if :queue.len(ends) > most do
      name = Describe.value(state.table.server)
      text = "the process of the server #{name} ended more than #{most} times in #{seconds} seconds; the server ends"
      Log.error(text)
      {:stop, {:shutdown, :max_restarts}, state}
    else
      {:noreply, %{state | ends: ends}}
    end
  end

  defp drop_before(ends, time) do
    case :queue.peek(ends) do
      {:value, at} when at < time -> drop_before(:queue.drop(ends), time)
      _recent -> ends
    end
  end

  defp start(%{module: module, table: table, options: options} = state) do
    with {:ok, pid} <- module.start_link({table, options}),
         do: {:ok, %{state | pid: pid, started: System.monotonic_time(:millisecond)}}
  end

  defp start_again(state) do
    case start(state) do
      {:ok, state} -> state
      {:error, reason} -> later(count_end(state), reason)
    end
  end

  defp ended(state, reason) do
    state = count_end(state)

    if System.monotonic_time(:millisecond) - state.started >= @settled_after_ms do
      report(state, reason, 0)
      start_again(%{state | pause: 0})
    else
      later(state, reason)
    end
  end

  defp later(%{pause: pause} = state, reason) do
    pause = min(max(2 * pause, @first_pause_ms), @max_pause_ms)
    report(state, reason, pause)
    timer = make_ref()
    Process.send_after(self(), {:start, timer}, pause)
    %{state | pause: pause, timer: timer}
  end

  defp count_end(state), do: %{state | ends: :queue.in(System.monotonic_time(:millisecond), state.ends)}

  defp report(%{table: table}, reason, pause) do
    name = Describe.value(table.server)
    text = "the process of the server #{name} ended (#{text(reason)}); it starts again in #{pause} ms"
    Log.warning(text)
  end

  defp text(%Error{message: message}), do: message
  defp text(reason), do: Describe.reason(reason)
end
