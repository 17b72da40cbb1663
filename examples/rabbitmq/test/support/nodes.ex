defmodule Workers.Test.Nodes do
  @moduledoc "Nodes of workers, each an OS process that can be killed."

  @doc "Starts a node with the code of the workers. It ends with the test."
  def start do
    options = %{name: :peer.random_name(), host: ~c"localhost", args: [~c"-setcookie", ~c"be_tree"], wait_boot: 300_000}
    {:ok, peer, node} = :peer.start(options)
    ExUnit.Callbacks.on_exit(fn -> if Process.alive?(peer), do: :peer.stop(peer) end)
    :ok = :erpc.call(node, :code, :add_paths, [:code.get_path()])

    for app <- [:logger, :amqp_client, :be_tree],
        do: {:ok, _apps} = :erpc.call(node, Application, :ensure_all_started, [app])

    :erpc.call(node, Logger, :configure, [[level: :critical]])
    node
  end

  @doc "Starts a process on a node. It ends with the node, or once."
  def run(node, module, options) do
    child = %{id: make_ref(), start: {module, :start_link, [options]}, restart: :temporary}
    {:ok, pid} = :erpc.call(node, Supervisor, :start_child, [:kernel_safe_sup, child])
    pid
  end

  @doc "Kills a node as `kill -9` does, and returns when its process is gone."
  def kill(node) do
    pid = :erpc.call(node, :os, :getpid, [])
    Node.monitor(node, true)
    {_output, 0} = System.cmd("kill", ["-9", to_string(pid)])
    receive(do: ({:nodedown, ^node} -> :ok))
  end
end
