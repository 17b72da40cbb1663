# Runs the tests of this example with a broker of their own: `scripts/test-broker workers`. `scripts/test-broker workers bench` measures.
root = Path.expand("../../..", __DIR__)

server =
  "/usr/lib/rabbitmq/lib/rabbitmq_server-*" |> Path.wildcard() |> List.first() ||
    raise "rabbitmq-server is not installed"

for path <- Path.wildcard(server <> "/plugins/*/ebin"), do: Code.append_path(path)

# The modules are on disk, so that other nodes load them too.
build = Path.join(System.fetch_env!("BE_TREE_BROKER_DATA"), "workers")
File.mkdir_p!(build)

{:ok, _modules, _warnings} =
  Kernel.ParallelCompiler.compile_to_path(Path.wildcard(root <> "/examples/rabbitmq/lib/*.ex"), build)

Code.append_path(build)
Code.require_file(root <> "/plugins/rabbitmq_be_tree_exchange/test/support/broker.ex")
Code.require_file("support/nodes.ex", __DIR__)

{:ok, _apps} = Application.ensure_all_started(:amqp_client)
{:ok, _apps} = Application.ensure_all_started(:be_tree)
{:ok, _node} = Node.start(:workers@localhost, :shortnames)
Node.set_cookie(:be_tree)
# A worker that is killed takes its connection with it, which the client logs.
Logger.configure(level: :critical)

ExUnit.start(timeout: 900_000, autorun: false)
files = if System.argv() == ["bench"], do: ~w(bench), else: ~w(workers_test partitions_test)
for file <- files, do: Code.require_file("#{file}.exs", __DIR__)
BeTreeExchange.Test.Broker.start(31, plugins: ["rabbitmq_consistent_hash_exchange"])
%{failures: failures} = ExUnit.run()
BeTreeExchange.Test.Broker.remove(31)
if failures > 0, do: System.halt(1)
