# Measures `BeTree.Tenants` beside a re-creation of LDB's published design on ETS: a process and three tables a customer and day.
# Ways of a table run in turns. Counts must be exact and unique values within the error of their sketch; a wrong figure ends the
# run with status 1. Prints tables in Markdown to standard error and to _build/bench/tenants/tenants.md, and at the end whether
# each bar holds.
#
#     make bench CASE=tenants ARGS="--quick --only hot"
#     ELIXIR_ERL_OPTIONS="+MEas aobf" mix run bench/tenants.exs [--quick] [--turns 5] [--only hot]
#
# `--only` runs one section: hot, one, zipf, turn, statistics, fuel, memory, cold, restart, pause, neighbours, churn or kill.

Code.require_file("shared/run.ex", __DIR__)

for file <- ~w(workload peer child turns ours speed shards storage isolation),
    do: Code.require_file("tenants/#{file}.ex", __DIR__)

defmodule BeTree.Bench.Tenants do
  @moduledoc false

  alias BeTree.Bench.Run
  alias BeTree.Bench.Tenants.{Child, Isolation, Shards, Speed, Storage}

  @sections [
    hot: &Speed.hot/1,
    one: &Speed.one/1,
    zipf: &Speed.zipf/1,
    turn: &Shards.turn/1,
    statistics: &Shards.statistics/1,
    fuel: &Shards.fuel/1,
    memory: &Storage.memory/1,
    cold: &Storage.cold/1,
    restart: &Storage.restart/1,
    pause: &Storage.pause/1,
    neighbours: &Isolation.neighbours/1,
    churn: &Isolation.churn/1,
    kill: &Isolation.kill/1
  ]

  def sections, do: for({name, _run} <- @sections, do: "#{name}")

  def run(options) do
    Child.check_flags!()
    Run.sections("tenants", "microseconds an event", @sections, options)
  end

  def child(name, path, arguments, options) do
    Run.open("tenants")
    File.write!(path, :erlang.term_to_binary(child(name, arguments, options)))
  end

  defp child("memory_ours", [], options), do: Storage.memory_of(:ours, options)
  defp child("memory_peer", [], options), do: Storage.memory_of(:peer, options)
  defp child("restart", arguments, options), do: Storage.restart_of(arguments, options)
  defp child("kill", arguments, options), do: Isolation.kill_of(arguments, options)
end

alias BeTree.Bench.Tenants

switches = [quick: :boolean, turns: :integer, only: :string, child: :string, result: :string]
{options, rest} = Mix.BeTree.Command.parse!(System.argv(), switches)

if (rest != [] and options[:child] == nil) or (options[:only] && options[:only] not in Tenants.sections()),
  do: Mix.raise("Usage: mix run bench/tenants.exs [--quick] [--turns 5] [--only #{Enum.join(Tenants.sections(), "|")}]")

is_quick = options[:quick] || false
settings = %{quick: is_quick, turns: options[:turns] || if(is_quick, do: 1, else: 5), only: options[:only]}

if options[:child],
  do: Tenants.child(options[:child], options[:result], rest, settings),
  else: Tenants.run(settings)
