defmodule Mix.BeTree.Progress do
  @moduledoc false
  # Shows the progress of a long task: on a terminal as one line that is overwritten, otherwise as a new line every ten seconds. A separate
  # process writes the lines, so that they also appear during one long call, such as the insertion of all expressions.

  alias BeTree.Input.Describe
  alias Mix.BeTree.Command

  @terminal_milliseconds 200
  @milliseconds 10_000

  @typedoc "Takes the present step, and how much of it is done: a count, or a share from 0.0 to 1.0, or nil."
  @type show :: (String.t(), non_neg_integer | float | nil -> term)

  # Calls `fun` with a function that takes the progress. With the option `:quiet` nothing is written.
  @spec run(keyword, (show -> result)) :: result when result: term
  def run(options, fun) do
    cond do
      options[:quiet] -> fun.(fn _step, _done -> :ok end)
      Command.terminal?() -> run(:standard_error, true, @terminal_milliseconds, fun)
      true -> run(:standard_error, false, @milliseconds, fun)
    end
  end

  @spec run(IO.device(), boolean, pos_integer, (show -> result)) :: result when result: term
  def run(device, terminal, milliseconds, fun) do
    caller = self()
    {teller, monitor} = spawn_monitor(fn -> start(caller, device, terminal, milliseconds) end)

    try do
      fun.(fn step, done -> send(teller, {:progress, step, done}) end)
    after
      send(teller, :stop)

      receive do
        {:DOWN, ^monitor, :process, ^teller, _reason} -> :ok
      end
    end
  end

  defp start(caller, device, terminal, milliseconds) do
    state = %{
      caller: Process.monitor(caller),
      device: device,
      terminal: terminal,
      milliseconds: milliseconds,
      started: System.monotonic_time(:second),
      progress: nil,
      shown: false
    }

    state |> tick() |> loop()
  end

  defp tick(state) do
    Process.send_after(self(), :tick, state.milliseconds)
    state
  end

  defp loop(%{caller: caller} = state) do
    receive do
      {:progress, step, done} -> loop(%{state | progress: {step, done}})
      :tick -> state |> write() |> tick() |> loop()
      :stop -> if(state.shown and state.terminal, do: IO.write(state.device, "\r\e[K"))
      {:DOWN, ^caller, :process, _pid, _reason} -> :ok
    end
  end

  defp write(%{progress: nil} = state), do: state

  defp write(state) do
    seconds = System.monotonic_time(:second) - state.started
    text = "#{text(state.progress)}, #{seconds} s"
    IO.write(state.device, if(state.terminal, do: ["\r", text, "\e[K"], else: [text, "\n"]))
    %{state | shown: true}
  end

  defp text({step, nil}), do: step
  defp text({step, count}) when is_integer(count), do: "#{step}: #{Describe.grouped(count)}"
  defp text({step, share}), do: "#{step}: #{round(100 * share)} %"
end
