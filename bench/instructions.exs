# Measures how long a default slice of fuel takes in a loop of each instruction: the median of some slices, and the slowest
# instruction of each class. The bar: 0.3 milliseconds.
#
#     mix run bench/instructions.exs [--all] [NAME ...]

for file <- ~w(wasm_module instructions), do: Code.require_file("../test/support/#{file}.ex", __DIR__)

defmodule BeTree.Bench.Instructions do
  @moduledoc false

  alias BeTree.Sandbox
  alias BeTree.Test.Instructions

  @slices 100
  @bar 300

  def run(arguments) do
    {options, names, []} = OptionParser.parse(arguments, strict: [all: :boolean])

    measured =
      for {class, name, _before, _code, _later} = case <- Instructions.all(),
          names == [] or Enum.any?(names, &String.contains?(name, &1)),
          do: {class, name, microseconds(case)}

    shown = if options[:all] || names != [], do: measured, else: slowest(measured)
    for {class, name, microseconds} <- shown, do: IO.puts("| #{class} | #{name} | #{format(microseconds)} |")
    {_class, name, longest} = Enum.max_by(measured, &elem(&1, 2))
    verdict = if longest <= @bar, do: "holds", else: "DOES NOT HOLD"

    IO.puts(
      "\n#{length(measured)} instructions, the slowest one is #{name}: #{format(longest)} ms (bar: 0.3 ms, #{verdict})"
    )
  end

  defp slowest(measured) do
    for {_class, instructions} <- Enum.group_by(measured, &elem(&1, 0)), do: Enum.max_by(instructions, &elem(&1, 2))
  end

  defp microseconds(case) do
    sandbox = case |> Instructions.module() |> Sandbox.load!() |> Sandbox.new!()
    times = sandbox |> Sandbox.start("run", [-1], fuel: :infinity) |> times(@slices, [])
    times |> Enum.sort() |> Enum.at(div(@slices, 2)) |> Kernel./(1_000)
  end

  defp times({:yield, call}, 0, times) do
    :ok = Sandbox.cancel(call)
    times
  end

  defp times({:yield, call}, left, times) do
    started = System.monotonic_time(:nanosecond)
    outcome = Sandbox.resume(call)
    times(outcome, left - 1, [System.monotonic_time(:nanosecond) - started | times])
  end

  defp format(microseconds), do: :erlang.float_to_binary(microseconds / 1_000, decimals: 3)
end

BeTree.Bench.Instructions.run(System.argv())
