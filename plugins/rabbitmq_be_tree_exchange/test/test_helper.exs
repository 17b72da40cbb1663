# The client is that of the broker's package.
server =
  Path.wildcard("/usr/lib/rabbitmq/lib/rabbitmq_server-*") |> List.first() || raise "rabbitmq-server is not installed"

for path <- Path.wildcard(server <> "/plugins/*/ebin"), do: Code.append_path(path)

# The tests run on the build of the archives, so their support is not compiled with the project.
for file <- ~w(broker client audit cluster footprint), do: Code.require_file("support/#{file}.ex", __DIR__)

{:ok, _apps} = Application.ensure_all_started(:amqp_client)
{:ok, _apps} = Application.ensure_all_started(:inets)
{:ok, _node} = Node.start(:tests@localhost, :shortnames)
Node.set_cookie(:be_tree)
# The client logs each channel that a test makes the broker close.
Logger.configure(level: :error)
ExUnit.start(timeout: 900_000)
