# Measures `BeTree.Output` beside the ways that it replaces: `io:format`, `file:write` one by one and with `delayed_write`,
# `gen_tcp:send`, and a process with a bounded mailbox. Ways of a table run in turns; each run checks what reached the sink. Prints
# tables in Markdown to standard error and to _build/bench/output/output.md, and at the end whether each bar holds.
#
#     mix run bench/output.exs [--quick] [--turns 5] [--only file]
#
# `--only` runs one section: noop, senders, file, tcp, user, busy, shedding, refused, memory, recovery, lateness or flight.

Code.require_file("shared/run.ex", __DIR__)
for file <- ~w(sinks mailbox loops measure throughput bounds), do: Code.require_file("output/#{file}.ex", __DIR__)

defmodule BeTree.Bench.Output do
  @moduledoc false

  import BeTree.Bench.Run, only: [folder: 0, open: 1]

  alias BeTree.Bench.Output.{Bounds, Throughput}
  alias BeTree.Bench.Run

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

  def run(options), do: Run.sections("output", "microseconds a message", @sections, options)

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

  def child(path, options) do
    open("output")
    File.write!(path, :erlang.term_to_binary(Throughput.user(options)))
  end
end

alias BeTree.Bench.Output

{options, rest} =
  Mix.BeTree.Command.parse!(System.argv(), quick: :boolean, turns: :integer, only: :string, child: :string)

if rest != [] or (options[:only] && options[:only] not in Output.sections()),
  do: Mix.raise("Usage: mix run bench/output.exs [--quick] [--turns 5] [--only #{Enum.join(Output.sections(), "|")}]")

is_quick = options[:quick] || false
settings = %{quick: is_quick, turns: options[:turns] || if(is_quick, do: 1, else: 5), only: options[:only]}
if options[:child], do: Output.child(options[:child], settings), else: Output.run(settings)
