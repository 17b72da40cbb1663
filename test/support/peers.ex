defmodule BeTree.Test.Peers do
  @moduledoc "Starts other nodes on this machine that run the same code."

  @doc "Makes this node a distributed one. A callback for `setup_all`."
  def distribute(_context) do
    unless Node.alive?() do
      # A node without a shell may have started no epmd.
      {_output, 0} = System.cmd(epmd(), ["-daemon"])
      await_epmd()
      name = :"be_tree_#{System.pid()}_#{System.unique_integer([:positive])}@127.0.0.1"
      {:ok, _pid} = Node.start(name, :longnames)
    end

    :ok
  end

  # The daemon detaches before it listens.
  defp await_epmd do
    with {:error, _not_yet} <- :net_adm.names({127, 0, 0, 1}) do
      Process.sleep(10)
      await_epmd()
    end
  end

  defp epmd do
    System.find_executable("epmd") || Path.join(:code.root_dir(), "erts-#{:erlang.system_info(:version)}/bin/epmd")
  end

  @doc "Starts a node that ends with the test. Returns its process, for `stop/1`, and its name."
  def start(name \\ :peer.random_name(), more \\ %{}) do
    {peer, node} = start_bare(name, more)
    :ok = :erpc.call(node, :code, :add_paths, [:code.get_path()])
    {:ok, _started} = :erpc.call(node, Application, :ensure_all_started, [:be_tree])
    {peer, node}
  end

  @doc "Starts a node that survives a disconnection from this one, unlike the others."
  def start_apart, do: start(:peer.random_name(), %{connection: :standard_io})

  @doc "Starts a node without the code of this library and of Elixir. It ends with the test."
  def start_bare(name \\ :peer.random_name(), more \\ %{}) do
    options = %{
      wait_boot: 120_000,
      name: name,
      host: ~c"127.0.0.1",
      longnames: true,
      # A node stays connected when another one is killed.
      args: [~c"-setcookie", Atom.to_charlist(Node.get_cookie()), ~c"-connect_all", ~c"false"]
    }

    {:ok, peer, node} = :peer.start(Map.merge(options, more))
    ExUnit.Callbacks.on_exit(fn -> stop(peer) end)
    {peer, node}
  end

  @doc "Kills a node, like a loss of power of its machine."
  def kill(node) do
    Node.monitor(node, true)
    :erpc.cast(node, :erlang, :halt, [])
    receive(do: ({:nodedown, ^node} -> :ok))
  end

  @doc "Ends a node."
  def stop(peer) do
    :peer.stop(peer)
  catch
    :exit, _already_gone -> :ok
  end

  @doc "Makes an index on the node, and swaps it into the server there."
  def swap(node, name, domains, subscriptions) do
    :erpc.call(node, __MODULE__, :swap_here, [name, domains, subscriptions])
  end

  @doc false
  def swap_here(name, domains, subscriptions) do
    tree = BeTree.new!(domains)
    BeTree.insert_all!(tree, subscriptions)
    BeTree.Server.swap!(name, BeTree.publish!(tree))
  end

  @doc false
  # Runs on the other node: disconnects `node`, and inserts 20 subscriptions with ids after `id`.
  def disconnect_and_put(node, name, id) do
    Node.disconnect(node)
    for number <- 1..20, do: :ok = BeTree.Server.put(name, id + number, "age >= 1")
  end

  @doc "Starts a server under a new name on the node, as `start_server/2` does. Returns it as a shard of a cluster."
  def start_shard(node, options) do
    name = BeTree.Test.Servers.new_name()
    start_server(node, Keyword.merge([name: name], options))
    {name, node}
  end

  @doc "Starts tenants on the node, which live as long as the node."
  def start_tenants(node, options) do
    :erpc.call(node, fn ->
      {:ok, pid} = BeTree.Tenants.start_link(options)
      Process.unlink(pid)
      pid
    end)
  end

  @doc "Starts a server on the node, which lives as long as the node."
  def start_server(node, options) do
    :erpc.call(node, fn ->
      {:ok, pid} = BeTree.Server.start_link(options)
      Process.unlink(pid)
      pid
    end)
  end
end
