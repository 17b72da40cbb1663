# Measures `BeTree.Output` beside the ways that it replaces: `io:format`, `file:write` one by one and with `delayed_write`,
# `gen_tcp:send`, and a process with a bounded mailbox. Ways of a table run in turns; each run checks what reached the sink. Prints
# tables in Markdown to standard error and to _build/bench/output/output.md, and at the end whether each bar holds.
#
#     mix run bench/output.exs [--quick] [--turns 5] [--only file]
#
# `--only` runs one section: noop, senders, file, tcp, user, busy, shedding, refused, memory, recovery, lateness or flight.

for file <- ~w(sinks mailbox loops measure throughput bounds), do: Code.require_file("output/#{file}.ex", __DIR__)

defmodule BeTree.Bench.Output do
  @moduledoc false

  import BeTree.Bench.Output.Measure

  alias BeTree.Bench.Output.{Bounds, Throughput}

  @sections [
    noop: &Throughput.noop/1,
    senders: &Throughput.senders/1,
    file: &Throughput.file/1,
    tcp: &Throughput.tcp/1,
    user: &__MODULE__.user/1,
    busy: &Throughput.busy/1,
    shedding: &Bounds.shedding/1,
    refused: &Bounds.refused/1,
    memory: &Bounds.memory/1,
    recovery: &Bounds.recovery/1,
    lateness: &Bounds.lateness/1,
    flight: &Bounds.flight/1
  ]

  def sections, do: for({name, _run} <- @sections, do: "#{name}")

  def run(options) do
    File.mkdir_p!(folder())
    File.rm(report())
    say("#{Date.utc_today()}: #{machine()}; load #{load()}; medians of #{options.turns} turns; microseconds a message")
    bars = for {name, run} <- @sections, options.only in [nil, "#{name}"], bar <- section(name, run, options), do: bar
    unless bars == [], do: table("Bars", ["bar", "measured", "limit", ""], Enum.map(bars, &row/1))
    say("\nload at the end: #{load()}")
  end

  # A section has a process of its own, so that it leaves no messages and links.
  defp section(name, run, options) do
    {time, bars} = :timer.tc(fn -> fn -> run.(options) end |> Task.async() |> Task.await(:infinity) end)
    IO.puts(:stderr, "(#{name}: #{div(time, 1_000_000)} s)")
    bars
  end

  defp machine do
    machine = BeTree.Tune.Machine.describe()
    "#{machine.cpu}, #{machine.schedulers} schedulers; OTP #{machine.otp}, Elixir #{machine.elixir}"
  end

  defp row({title, kind, measured, limit, unit}) do
    holds? = if kind == :at_least, do: measured >= limit, else: measured <= limit
    sign = if kind == :at_least, do: "at least", else: "at most"

    [
      title,
      "#{decimal(measured, 2)} #{unit}",
      "#{sign} #{decimal(limit, 2)} #{unit}",
      if(holds?, do: "holds", else: "DOES NOT HOLD")
    ]
  end

  # The standard output of a child VM is /dev/null. Its results come by a file.
  def user(options) do
    path = Path.join(folder(), "user")
    File.rm(path)
    quick = if options.quick, do: ["--quick"], else: []
    arguments = ["run", "--no-compile", "bench/output.exs", "--child", path, "--turns", "#{options.turns}"] ++ quick
    command = "exec mix \"$@\" </dev/null >/dev/null"
    {_output, 0} = System.cmd("sh", ["-c", command, "sh" | arguments], env: [{"MIX_ENV", "#{Mix.env()}"}])
    path |> File.read!() |> :erlang.binary_to_term() |> Throughput.print_user()
  end

  def child(path, options), do: File.write!(path, :erlang.term_to_binary(Throughput.user(options)))
end

alias BeTree.Bench.Output

{options, rest} =
  Mix.BeTree.Command.parse!(System.argv(), quick: :boolean, turns: :integer, only: :string, child: :string)

if rest != [] or (options[:only] && options[:only] not in Output.sections()),
  do: Mix.raise("Usage: mix run bench/output.exs [--quick] [--turns 5] [--only #{Enum.join(Output.sections(), "|")}]")

is_quick = options[:quick] || false
settings = %{quick: is_quick, turns: options[:turns] || if(is_quick, do: 1, else: 5), only: options[:only]}
if options[:child], do: Output.child(options[:child], settings), else: Output.run(settings)
