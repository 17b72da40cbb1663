defmodule BeTreeExchange.GuideTest do
  @moduledoc "Runs the code of docs/guides/rabbitmq.md, as it stands there, with a broker."
  use ExUnit.Case

  alias BeTreeExchange.Test.{Broker, Client}

  @guide Path.expand("../../../docs/guides/rabbitmq.md", __DIR__)
  # Debian's Python has Debian's pika.
  @python "/usr/bin/python3"
  @pika match?({_output, 0}, System.cmd("sh", ["-c", "#{@python} -c 'import pika' 2>&1"]))

  setup_all do
    Broker.start(51, plugins: ["rabbitmq_be_tree_exchange", "rabbitmq_prometheus"])
    on_exit(fn -> Broker.remove(51) end)
  end

  setup do
    client = Client.open(51)
    on_exit(fn -> Client.close(client) end)
    # The names are those of the guide, so another test may have left them.
    :ok = Client.delete_exchange(client, "orders")
    :ok = Client.delete_queue(client, "dear")
    [client: client]
  end

  # The blocks of the guide in a language, in their order.
  defp blocks(language) do
    ~r/^```#{language}\n(.*?)^```$/ms |> Regex.scan(File.read!(@guide), capture: :all_but_first) |> Enum.concat()
  end

  @tag skip: if(!@pika, do: "#{@python} has no pika: apt-get install python3-pika")
  test "the Python of the guide declares, binds and publishes", %{client: client} do
    [program] = blocks("python")
    assert program =~ ~s("localhost")
    program = String.replace(program, ~s("localhost"), ~s("127.0.0.1", #{Broker.port(51)}))
    assert System.cmd(@python, ["-c", program <> "\nconnection.close()"], stderr_to_stdout: true) == {"", 0}
    assert Client.purge(client, "dear") == 1
  end

  @tag :tmp_dir
  test "the Erlang of the guide declares, binds and publishes", %{client: client, tmp_dir: folder} do
    :ok = Client.declare_queue(client, "dear", durable: true)
    [program] = blocks("erlang")
    assert ["-include_lib" <> _header = include, body] = String.split(program, "\n\n", parts: 2)
    path = Path.join(folder, "guide.erl")
    File.write!(path, "-module(guide).\n-export([run/1]).\n#{include}\nrun(Channel) ->\n#{body}")
    assert {:ok, :guide, binary} = :compile.file(String.to_charlist(path), [:binary, :report])
    {:module, :guide} = :code.load_binary(:guide, String.to_charlist(path), binary)
    # The module is there at run time only.
    assert apply(:guide, :run, [client.channel]) == :ok
    assert :amqp_channel.wait_for_confirms(client.channel, 300)
    assert Client.purge(client, "dear") == 1
  end

  test "the status and the metrics of the guide", %{client: client} do
    :ok = Client.declare_exchange(client, "orders", [{"x-schema", ~s({"price": "float"})}])
    refute Client.publish(client, "orders", headers: [price: 1])
    [command] = for block <- blocks("text"), block =~ "rabbitmqctl eval 'rabbit_exchange_type_be_tree", do: block
    assert ["rabbitmqctl", "eval", expression] = OptionParser.split(command)
    {output, 0} = Broker.ctl(51, ["eval", expression])
    assert output =~ "orders"
    assert output =~ "{unroutable,1}"

    address = ~c"http://127.0.0.1:#{Broker.metrics_port(51)}/metrics"
    {:ok, {{_version, 200, _reason}, _headers, metrics}} = :httpc.request(address)
    guide = File.read!(@guide)
    names = ~r/^rabbitmq_be_tree_\w+/m |> Regex.scan(to_string(metrics)) |> List.flatten() |> Enum.uniq()
    assert length(names) == 10

    # The table leaves out the beginning that names have in common.
    for name <- names,
        do: assert(guide =~ "`#{name}`" or guide =~ "`#{String.replace_prefix(name, "rabbitmq_be_tree", "")}`")
  end
end
