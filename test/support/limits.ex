defmodule BeTree.Test.Limits do
  @moduledoc """
  Exhausts the mappings or descriptors of a separate node.

  `in_node/3` starts the node and runs another function there. Each function makes values of one kind until a refusal, drops
  them, waits until all are freed, and returns their number and the refusal.
  """

  import BeTree.Test.Eventually

  alias BeTree.{Error, Sandbox, Search, Server, WasmModule}
  alias BeTree.Runtime.Native

  @doc "Calls `function` in a new node with this limit of descriptors, or this node's limit."
  def in_node(function, arguments, descriptors \\ nil) do
    in_limited_node(if(descriptors, do: "-n #{descriptors}"), function, arguments)
  end

  @doc "Calls `function` in a new node after `ulimit` with these arguments."
  def in_limited_node(ulimit, function, arguments) do
    limit = if ulimit, do: "ulimit #{ulimit} && ", else: ""
    shell = [~c"-c", String.to_charlist(limit <> ~S(exec erl "$@")), ~c"sh"]
    {:ok, peer, _node} = :peer.start(%{wait_boot: 120_000, connection: :standard_io, exec: {~c"/bin/sh", shell}})

    try do
      :ok = :peer.call(peer, :code, :add_paths, [:code.get_path()], :infinity)
      {:ok, _started} = :peer.call(peer, Application, :ensure_all_started, [:be_tree], :infinity)
      :peer.call(peer, __MODULE__, function, arguments, :infinity)
    after
      :peer.stop(peer)
    end
  end

  @doc "Makes sandboxes that no process calls."
  def sandboxes do
    exhaust(
      fn -> Sandbox.load!(spinning()) end,
      fn module -> Sandbox.new(module) end,
      fn sandbox -> {:ok, _bytes} = Sandbox.read(sandbox, 0, 1) end
    )
  end

  @doc "Suspends calls, each in a sandbox of its own."
  def calls do
    make = fn module ->
      with {:ok, sandbox} <- Sandbox.new(module) do
        case Sandbox.start(sandbox, "spin", [], slice: 1_000) do
          {:yield, call} -> {:ok, call}
          error -> error
        end
      end
    end

    exhaust(fn -> Sandbox.load!(spinning()) end, make, fn call -> {:yield, _call} = Sandbox.resume(call) end)
  end

  @doc "Suspends searches of one index."
  def searches do
    make = fn index ->
      case Search.start(index, %{a: 50}, slice: 1) do
        {:yield, search} -> {:ok, search}
        error -> error
      end
    end

    exhaust(fn -> BeTree.publish!(tree(100), replicas: 65_535) end, make, fn search ->
      {:yield, _search} = Search.resume(search)
    end)
  end

  @doc """
  Makes and searches trees, then makes the VM allocate. Also returns the number of mappings at that moment.
  """
  def trees do
    make = fn nil ->
      with {:ok, tree} <- BeTree.new(a: :integer),
           :ok <- BeTree.insert(tree, 7, "a > 7"),
           do: {:ok, tree}
    end

    releasing(fn ->
      {made, error} = make_all(nil, make, [])
      for tree <- made, do: {:ok, [7]} = BeTree.search(tree, %{a: 8})
      mappings = allocate()
      # The host closes idle stacks of searches before it refuses a tree, so some more trees may fit.
      {more, %Error{kind: :overloaded}} = make_all(nil, make, [])
      {length(made) + length(more), error, mappings}
    end)
  end

  # Makes the VM allocate like a busy one: 10,000 processes, 500 binaries with mappings of their own, 1,000 tables. Returns
  # the number of mappings.
  defp allocate do
    processes = for number <- 1..10_000, do: spawn_link(fn -> hold(Enum.to_list(1..number//10)) end)
    binaries = for number <- 1..500, do: :binary.copy(<<number>>, 600_000)
    tables = for _ <- 1..1_000, do: :ets.new(:table, [])
    for table <- tables, number <- 1..100, do: true = :ets.insert(table, {number, number})
    mappings = "/proc/self/maps" |> File.stream!() |> Enum.count()
    300_000_000 = Enum.sum(Enum.map(binaries, &byte_size/1))
    for table <- tables, do: 100 = :ets.info(table, :size)
    for process <- processes, do: send(process, {:sum, self()})
    for process <- processes, do: receive(do: ({^process, _sum} -> :ok))
    mappings
  end

  defp hold(list) do
    receive do
      {:sum, asking} -> send(asking, {self(), Enum.sum(list)})
    end
  end

  @doc "Publishes indexes of many expressions."
  def indexes do
    exhaust(
      fn -> tree(20_000) end,
      fn tree -> BeTree.publish(tree) end,
      fn index -> {:ok, [1]} = BeTree.search(index, %{a: 2}) end
    )
  end

  @doc "Returns the error of a first load."
  def load do
    {:error, error} = Sandbox.load(spinning())
    error
  end

  @doc """
  Returns the error of a load without free addresses, and `:ok` or `:error` for the same load afterwards.
  """
  def load_without_memory do
    # The second compilation reuses the stack of the first one's thread.
    {:ok, _module} = Sandbox.load(spinning())
    module = WasmModule.assemble(functions: for(number <- 1..400, do: arithmetic(number)))
    # Half of the present size, because the process may free some meanwhile.
    limit_addresses(div(size(), 2))
    loaded = Sandbox.load(module)
    limit_addresses("unlimited")
    {:error, error} = loaded
    {error, module |> Sandbox.load() |> elem(0)}
  end

  defp limit_addresses(limit) do
    # The soft limit, which can be raised again.
    {"", 0} = System.cmd("prlimit", ["--pid", System.pid(), "--as=#{limit}:"], stderr_to_stdout: true)
  end

  # Returns the addresses of this process, in bytes.
  defp size do
    [_all, kilobytes] = Regex.run(~r/^VmSize:\s+(\d+) kB$/m, File.read!("/proc/self/status"))
    1_024 * String.to_integer(kilobytes)
  end

  defp arithmetic(number) do
    step = [WasmModule.local_get(0), WasmModule.i32_const(number), WasmModule.i32_add(), WasmModule.drop()]
    WasmModule.function("f#{number}", [:i32], [:i32], [List.duplicate(step, 20), WasmModule.local_get(0)])
  end

  @doc "Starts `count` servers."
  def servers(count) do
    releasing(fn ->
      servers =
        for number <- 1..count do
          name = :"limits_#{number}"
          {:ok, pid} = Server.start_link(name: name, schema: [a: :integer])
          :ok = Server.insert(name, 7, "a > 7")
          {:ok, [7]} = BeTree.search(name, %{a: 8})
          pid
        end

      for pid <- servers, do: Supervisor.stop(pid)
      count
    end)
  end

  defp tree(count) do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..count, do: {id, "a > #{id}"}))
    tree
  end

  # Returns a module with a memory of one page, and a function that never ends.
  defp spinning do
    WasmModule.assemble(
      memory: {1, 1},
      functions: [WasmModule.function("spin", [], [], [WasmModule.loop([WasmModule.branch(0)])])]
    )
  end

  # Checks that existing values work after a refusal.
  defp exhaust(begin, make, check) do
    releasing(fn ->
      from = begin.()
      {made, error} = make_all(from, make, [])
      for one <- Enum.take_random(made, 100), do: check.(one)
      for _ <- 1..10, do: {:error, %Error{kind: :overloaded}} = make.(from)
      {length(made), error}
    end)
  end

  defp make_all(from, make, made) do
    case make.(from) do
      {:ok, one} -> make_all(from, make, [one | made])
      {:error, error} -> {made, error}
    end
  end

  # Works in a process, whose end frees everything, and then makes a tree.
  defp releasing(work) do
    :ok = Native.load()
    result = work |> Task.async() |> Task.await(:infinity)
    eventually(fn -> released?() end)
    {:ok, [1]} = BeTree.search(tree(1), %{a: 2})
    result
  end

  # The index's module stays loaded. Its code takes mappings, and a descriptor if it was compiled ahead.
  defp released? do
    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
    {modules, instances, suspended} = Native.counts()
    {mappings, descriptors} = Native.taken()
    {instances, suspended, mappings} == {0, 0, 4 * modules} and descriptors <= modules
  end
end
