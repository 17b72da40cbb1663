defmodule BeTree.Server.Keeper do
  @moduledoc false
  # Starts a server's process, and restarts it whenever it ends: at once if it had run for a while, and after growing
  # pauses if it ends repeatedly. So no number of kills ends the supervisor, which owns the tables with the data, and a
  # process that cannot start does not keep a scheduler busy.

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.Error
  alias BeTree.Engine.{Describe, Stray}
  alias BeTree.Server.Table

  # Milliseconds: the first and the longest pause, and the run time after which the next pause is the first again.
  @first 5
  @longest 500
  @settled 1_000

  @enforce_keys [:module, :table, :options]
  defstruct [:module, :table, :options, :pid, :started, pause: 0, timer: nil]

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
  def handle_continue(:start, state), do: {:noreply, start_again(state)}

  @impl GenServer
  def handle_info({:start, timer}, %{timer: timer, pid: nil} = state),
    do: {:noreply, start_again(%{state | timer: nil})}

  def handle_info({:EXIT, pid, reason}, %{pid: pid} = state) when is_pid(pid) do
    {:noreply, ended(%{state | pid: nil}, reason)}
  end

  # The exit of a process that did not start, whose error is known.
  def handle_info({:EXIT, _pid, _reason}, state), do: {:noreply, state}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state}
  end

  @impl GenServer
  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  # The name is free again when this process has ended.
  @impl GenServer
  def terminate(_reason, %{pid: nil}), do: :ok

  def terminate(reason, %{pid: pid}) do
    monitor = Process.monitor(pid)
    Process.exit(pid, reason)

    receive do
      {:DOWN, ^monitor, :process, ^pid, _reason} -> :ok
    after
      @settled -> Process.exit(pid, :kill)
    end
  end

  defp start(%{module: module, table: table, options: options} = state) do
    with {:ok, pid} <- module.start_link({table, options}),
         do: {:ok, %{state | pid: pid, started: System.monotonic_time(:millisecond)}}
  end

  defp start_again(state) do
    case start(state) do
      {:ok, state} -> state
      {:error, reason} -> later(state, reason)
    end
  end

  defp ended(state, reason) do
    if System.monotonic_time(:millisecond) - state.started >= @settled do
      report(state, reason, 0)
      start_again(%{state | pause: 0})
    else
      later(state, reason)
    end
  end

  defp later(%{pause: pause} = state, reason) do
    pause = min(max(2 * pause, @first), @longest)
    report(state, reason, pause)
    timer = make_ref()
    Process.send_after(self(), {:start, timer}, pause)
    %{state | pause: pause, timer: timer}
  end

  defp report(%{table: table}, reason, pause) do
    name = Describe.value(table.name)
    text = "the process of the server #{name} ended (#{text(reason)}); it starts again in #{pause} ms"
    :logger.warning(text, %{domain: [:be_tree]})
  end

  defp text(%Error{message: message}), do: message
  defp text(reason), do: Describe.reason(reason)
end
