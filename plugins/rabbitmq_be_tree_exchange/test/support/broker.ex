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

  # BE_TREE_BROKER_KHEPRI=1 chooses Khepri in version 4. A node that joins has the store of the cluster.
  defp choose_store(number) do
    if System.get_env("BE_TREE_BROKER_KHEPRI"), do: :ok = rpc(number, :rabbit_feature_flags, :enable, [:khepri_db])
  end

  @doc "Starts the process of a node. `await/1` waits until it takes connections."
  def launch(number, options \\ []) do
    folder = folder(number)
    File.mkdir_p!(folder)
    File.write!(Path.join(folder, "enabled_plugins"), "[#{Enum.join(options[:plugins] || default_plugins(), ", ")}].\n")

    File.write!(Path.join(folder, "rabbitmq.conf"), """
    listeners.tcp.1 = 127.0.0.1:#{port(number)}
    loopback_users = none
    log.file.level = info
    management.tcp.ip = 127.0.0.1
    management.tcp.port = #{management_port(number)}
    prometheus.tcp.ip = 127.0.0.1
    prometheus.tcp.port = #{metrics_port(number)}
    cluster_partition_handling = ignore
    vm_memory_calculation_strategy = allocated
    vm_memory_high_watermark.absolute = 4GB
    """)

    environment =
      for {name, value} <- environment(number, inside(folder)),
          do: {String.to_charlist(name), String.to_charlist(value)}

    command = "exec #{chroot()} /usr/lib/rabbitmq/bin/rabbitmq-server >> #{folder}/output 2>&1"
    Port.open({:spawn_executable, ~c"/bin/sh"}, [:nouse_stdio, args: ["-c", command], env: environment])
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

  @doc "Kills a node as `kill -9` does."
  def kill(number) do
    node = node_name(number)
    pid = File.read!(Path.join(folder(number), "pid"))
    {_output, 0} = System.cmd("kill", ["-9", pid])
    eventually(fn -> node not in Node.list() end)
    eventually(fn -> not File.dir?("/proc/#{pid}") end)
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
