defmodule BeTreeExchange.Test.Broker do
  @moduledoc """
  Nodes of Debian's RabbitMQ, each a process of its own on the loopback interface, with ports and a data folder of its own.

  `make test PART=broker` sets the environment: the folder of the archives, a folder for data, and the port of an epmd.
  """

  import ExUnit.Assertions

  @server Path.wildcard("/usr/lib/rabbitmq/lib/rabbitmq_server-*") |> List.first() || ""

  @doc "Returns the folder of the broker's own plugins."
  def plugins, do: Path.join(@server, "plugins")

  @doc "Returns the path of a header of the broker, for `Record.extract/2`."
  def header(name), do: plugins() |> Path.join("rabbit_common-*/include/#{name}") |> Path.wildcard() |> hd()

  def node_name(number), do: :"rabbit#{number}@localhost"
  def port(number), do: first_port() + number
  def management_port(number), do: first_port() + 100 + number
  def metrics_port(number), do: first_port() + 200 + number
  defp distribution_port(number), do: first_port() + 10_010 + number

  # Tests that run at once have ports of their own.
  defp first_port, do: String.to_integer(System.get_env("BE_TREE_BROKER_PORTS", "15670"))

  @doc "Starts a node, and returns its name when it takes connections. `join: other` adds it to the cluster of another node."
  def start(number, options \\ []) do
    launch(number, options)
    await(number)
    if other = options[:join], do: join(number, other), else: choose_store(number)
    node_name(number)
  end

  @doc "Gives the first node of a cluster its store. A node that joins has the store of the cluster."
  def choose_store(number) do
    if khepri?(), do: :ok = rpc(number, :rabbit_feature_flags, :enable, [:khepri_db])
  end

  @doc "Returns whether the tests use Khepri: BE_TREE_BROKER_KHEPRI=1 chooses it in version 4."
  def khepri?, do: System.get_env("BE_TREE_BROKER_KHEPRI") != nil

  @doc """
  Starts the process of a node. `await/1` waits until it takes connections.

  `partition_handling:` is `:ignore`, `:pause_minority`, `:autoheal` or `{:pause_if_all_down, number}` with the number of the one
  node without which the others pause.
  """
  def launch(number, options \\ []) do
    folder = folder(number)
    File.mkdir_p!(folder)
    File.write!(Path.join(folder, "enabled_plugins"), "[#{Enum.join(options[:plugins] || default_plugins(), ", ")}].\n")
    write_configuration(number, options[:partition_handling] || :ignore)

    environment =
      for {name, value} <- environment(number, inside(folder)),
          do: {String.to_charlist(name), String.to_charlist(value)}

    command = "exec #{chroot()} /usr/lib/rabbitmq/bin/rabbitmq-server >> #{folder}/output 2>&1"
    Port.open({:spawn_executable, ~c"/bin/sh"}, [:nouse_stdio, args: ["-c", command], env: environment])
  end

  defp write_configuration(number, mode) do
    File.write!(Path.join(folder(number), "rabbitmq.conf"), """
    listeners.tcp.1 = 127.0.0.1:#{port(number)}
    loopback_users = none
    log.file.level = info
    management.tcp.ip = 127.0.0.1
    management.tcp.port = #{management_port(number)}
    prometheus.tcp.ip = 127.0.0.1
    prometheus.tcp.port = #{metrics_port(number)}
    vm_memory_calculation_strategy = allocated
    vm_memory_high_watermark.absolute = 4GB
    #{partition_lines(mode)}
    """)
  end

  defp partition_lines({:pause_if_all_down, number}) do
    """
    cluster_partition_handling = pause_if_all_down
    cluster_partition_handling.pause_if_all_down.recover = autoheal
    cluster_partition_handling.pause_if_all_down.nodes.1 = #{node_name(number)}
    """
  end

  defp partition_lines(mode), do: "cluster_partition_handling = #{mode}"

  @doc "Gives a node that runs another mode of `cluster_partition_handling`, which lasts when it starts again."
  def handle_partitions(number, mode) do
    write_configuration(number, mode)
    value = with {:pause_if_all_down, other} <- mode, do: {:pause_if_all_down, [node_name(other)], :autoheal}
    :ok = rpc(number, :application, :set_env, [:rabbit, :cluster_partition_handling, value])
  end

  def default_plugins, do: ["rabbitmq_be_tree_exchange"]

  defp environment(number, folder) do
    [
      {"HOME", folder},
      {"ERL_EPMD_ADDRESS", "127.0.0.1"},
      {"RABBITMQ_NODENAME", "#{node_name(number)}"},
      {"RABBITMQ_DIST_PORT", "#{distribution_port(number)}"},
      {"RABBITMQ_BASE", folder},
      {"RABBITMQ_LOG_BASE", Path.join(folder, "log")},
      {"RABBITMQ_MNESIA_BASE", Path.join(folder, "mnesia")},
      {"RABBITMQ_CONFIG_FILE", Path.join(folder, "rabbitmq")},
      {"RABBITMQ_CONF_ENV_FILE", Path.join(folder, "none")},
      {"RABBITMQ_ENABLED_PLUGINS_FILE", Path.join(folder, "enabled_plugins")},
      {"RABBITMQ_PLUGINS_EXPAND_DIR", Path.join(folder, "expanded")},
      {"RABBITMQ_PLUGINS_DIR", "#{inside(own_plugins())}:#{inside(System.fetch_env!("BE_TREE_BROKER_PLUGINS"))}"},
      {"RABBITMQ_PID_FILE", Path.join(folder, "pid")},
      {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
       "-setcookie be_tree -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"}
    ]
  end

  # Another Debian whose broker is tested, with the data and the archives in its folder.
  defp root, do: System.get_env("BE_TREE_BROKER_ROOT", "")
  defp chroot, do: if(root() == "", do: "", else: "chroot #{root()}")
  defp inside(path), do: String.replace_prefix(path, root(), "")

  defp own_plugins do
    Path.join(root(), "usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins") |> Path.expand("/") |> Path.wildcard() |> hd()
  end

  @doc "Returns whether the broker has version 4."
  def four?(number), do: match?(~c"4" ++ _, rpc(number, :rabbit_misc, :version, []))

  @doc "Returns the folder of a node's data and log."
  def folder(number), do: Path.join(System.fetch_env!("BE_TREE_BROKER_DATA"), "#{number}")

  @doc "Returns the log of a node."
  def log(number), do: number |> folder() |> Path.join("log/#{node_name(number)}.log") |> File.read!()

  @doc "Waits until a node takes connections."
  def await(number) do
    node = node_name(number)
    eventually(fn -> Node.connect(node) == true and rpc(number, :rabbit, :is_running, []) == true end)
    eventually(fn -> match?({:ok, _}, connect(number)) end)
    # The file tells which process is to end, if the tests are killed.
    File.write!(Path.join(folder(number), "pid"), rpc(number, :os, :getpid, []))
  end

  defp connect(number) do
    with {:ok, socket} <- :gen_tcp.connect({127, 0, 0, 1}, port(number), []), do: {:ok, :gen_tcp.close(socket)}
  end

  @doc "Adds a node to the cluster of another one."
  def join(number, other) do
    if four?(number) do
      :ok = rpc(number, :rabbit_db_cluster, :join, [node_name(other), :disc])
    else
      :ok = rpc(number, :rabbit, :stop, [])
      :ok = rpc(number, :rabbit_mnesia, :reset, [])
      :ok = rpc(number, :rabbit_mnesia, :join_cluster, [node_name(other), :disc])
      :ok = rpc(number, :rabbit, :start, [])
    end

    await(number)
  end

  @doc "Tells a node that another one, which does not run, has left the cluster for good."
  def forget(number, gone) do
    if four?(number),
      do: :ok = rpc(number, :rabbit_db_cluster, :forget_member, [node_name(gone), false]),
      else: :ok = rpc(number, :rabbit_mnesia, :forget_cluster_node, [node_name(gone), false])
  end

  @doc "Kills a node as `kill -9` does."
  def kill(number) do
    {_output, 0} = System.cmd("kill", ["-9", File.read!(Path.join(folder(number), "pid"))])
    await_end(number)
  end

  @doc "Stops a node as `rabbitmqctl stop` does."
  def stop(number) do
    :rpc.cast(node_name(number), :rabbit, :stop_and_halt, [])
    await_end(number)
  end

  defp await_end(number) do
    node = node_name(number)
    pid = File.read!(Path.join(folder(number), "pid"))
    eventually(fn -> node not in Node.list() end)
    eventually(fn -> not File.dir?("/proc/#{pid}") end)
  end

  @doc """
  Cuts the connections of a node with others, as a failed network does. The tests reach all of them.

  Each of two nodes gets another cookie for the other one, so that neither can connect. All connections end at once: were the node
  still connected to one of the others, the broker would see a partial partition.
  """
  def cut(number, others) do
    for other <- others do
      set_cookie(number, other, :cut)
      set_cookie(other, number, :off)
    end

    :ok = rpc(number, :lists, :foreach, [&:erlang.disconnect_node/1, Enum.map(others, &node_name/1)])
    for other <- others, do: eventually(fn -> not connected?(number, other) and not connected?(other, number) end)
    :ok
  end

  @doc """
  Connects nodes that `cut/2` has separated. All connections come back at once: the broker itself tries each once a second, and sees
  other partitions while some are missing.
  """
  def heal(number, others) do
    # Both nodes of a connection must have the cookie, so none comes back before the last step.
    for other <- others, do: set_cookie(other, number, :be_tree)
    for other <- others, do: set_cookie(number, other, :be_tree)
    :ok = rpc(number, :lists, :foreach, [&:net_kernel.connect_node/1, Enum.map(others, &node_name/1)])
    for other <- others, do: eventually(fn -> connected?(number, other) and connected?(other, number) end)
    :ok
  end

  defp set_cookie(number, other, cookie), do: true = rpc(number, :erlang, :set_cookie, [node_name(other), cookie])
  defp connected?(number, other), do: node_name(other) in rpc(number, :erlang, :nodes, [])

  @doc "Returns whether a node takes part in the cluster: `rabbit` runs, and its store has exactly these nodes."
  def whole?(number, numbers) do
    rpc(number, :rabbit, :is_running, []) == true and running(number) == Enum.sort(Enum.map(numbers, &node_name/1))
  end

  @doc "Returns the nodes whose changes a node has not merged with its own after a partition."
  def partitions(number), do: rpc(number, :rabbit_node_monitor, :partitions, [])

  defp running(number) do
    nodes =
      if khepri?(),
        do: rpc(number, :rabbit_nodes, :list_running, []),
        else: rpc(number, :mnesia, :system_info, [:running_db_nodes])

    with nodes when is_list(nodes) <- nodes, do: Enum.sort(nodes)
  end

  @doc "Kills a node if it runs, and deletes its data."
  def remove(number) do
    if node_name(number) in Node.list(), do: kill(number)
    File.rm_rf!(folder(number))
  end

  @doc "Runs `rabbitmqctl` for a node. Returns its output and its status."
  def ctl(number, arguments) do
    command =
      ~s(exec #{chroot()} /usr/lib/rabbitmq/bin/rabbitmqctl --node #{node_name(number)} --erlang-cookie be_tree "$@")

    environment = environment(number, inside(folder(number)))
    System.cmd("/bin/sh", ["-c", command, "rabbitmqctl" | arguments], env: environment, stderr_to_stdout: true)
  end

  def rpc(number, module, function, arguments), do: :rpc.call(node_name(number), module, function, arguments)

  @doc "Calls `check` until it returns true."
  def eventually(check, attempts \\ 30_000) do
    cond do
      check.() -> :ok
      attempts == 0 -> flunk("did not come true within minutes")
      true -> Process.sleep(10) && eventually(check, attempts - 1)
    end
  end
end
