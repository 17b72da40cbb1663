defmodule BeTree.Tenants.Store.KillsTest do
  # Ends of the store's process between any two steps, losses of power, and a node that gets SIGKILL.
  #
  # Clients make random requests of their own tenants and compare the store with a map, the model, after each acknowledged one.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet, Stores}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Journal
  alias BeTree.Tenants.Store
  alias BeTree.Test.{Attack, Disk, OsNode}

  @moduletag timeout: :infinity

  @wait_ms 300_000
  @folders ["journal", "bodies", "days"]

  setup [:quiet, :folder]

  setup do
    Process.flag(:trap_exit, true)
    :ok
  end

  # The system's disk. The store's process, or one that it started, ends at one of its operations.
  defmodule Steps do
    @behaviour Journal.Files

    # Tasks have callers: they are clients, which read.
    def crash_after(count), do: :persistent_term.get(__MODULE__) |> :atomics.put(1, count)

    for {name, arity} <- Journal.Files.behaviour_info(:callbacks) do
      arguments = Macro.generate_arguments(arity, __MODULE__)

      @impl true
      def unquote(name)(unquote_splicing(arguments)) do
        if Process.get(:"$callers") == nil and :atomics.sub_get(:persistent_term.get(__MODULE__), 1, 1) == 0,
          do: exit(:crash)

        apply(Journal.Disk, unquote(name), [unquote_splicing(arguments)])
      end
    end
  end

  ## Requests and their model

  defp random_request(tenants) do
    tenant = Enum.random(tenants)
    # Some do not compress, some do.
    bytes =
      if :rand.uniform(2) == 1, do: :rand.bytes(:rand.uniform(300)), else: String.duplicate("abc ", :rand.uniform(200))

    case :rand.uniform(12) do
      kind when kind <= 4 -> {:append, tenant, {:change, bytes}}
      kind when kind <= 7 -> {:body, tenant, bytes}
      8 -> {:statistics, tenant, 20_000 + :rand.uniform(5), bytes}
      kind when kind <= 10 -> {:day, tenant, 20_000 + :rand.uniform(5), bytes}
      11 -> {:drop, tenant}
      12 -> {:many, for(tenant <- tenants, do: {:body, tenant, bytes})}
    end
  end

  defp make(store, {:append, tenant, change}), do: append(store, tenant, change)
  defp make(store, {:drop, tenant}), do: drop(store, tenant)

  defp make(store, {:many, blobs}) do
    for {:ok, _place} <- Store.put(store, blobs), do: :ok
    :ok
  end

  defp make(store, blob) do
    with [{:ok, _place}] <- Store.put(store, [blob]), do: :ok, else: ([result] -> result)
  end

  @new %{body: nil, statistics: nil, tail: [], days: []}

  defp change(model, {:append, tenant, change}), do: update(model, tenant, &%{&1 | tail: &1.tail ++ [change]})
  defp change(model, {:drop, tenant}), do: Map.delete(model, tenant)
  defp change(model, {:many, blobs}), do: Enum.reduce(blobs, model, &change(&2, &1))
  defp change(model, {:body, tenant, body}), do: update(model, tenant, &%{&1 | body: body, statistics: nil, tail: []})
  defp change(model, {:statistics, tenant, day, blob}), do: update(model, tenant, &%{&1 | statistics: {day, blob}})

  defp change(model, {:day, tenant, day, blob}),
    do: update(model, tenant, &%{&1 | days: Enum.sort([{day, blob} | List.keydelete(&1.days, day, 0)])})

  defp update(model, tenant, function), do: Map.put(model, tenant, function.(Map.get(model, tenant, @new)))

  ## Ends of the process

  # Runs clients, and starts the process of the store again whenever it ends. Returns the model of all tenants.
  defp run_clients(store, options, requests, disturb) do
    test = self()

    clients =
      for client <- 1..4 do
        seed = :rand.uniform(1_000_000)

        Task.async(fn ->
          :rand.seed(:exsss, {seed, client, 0})
          tenants = for number <- 1..3, do: {client, number}

          Enum.reduce(1..requests, %{}, fn _number, model ->
            request = random_request(tenants)
            assert make(store, request) == :ok
            model = change(model, request)
            tenant = Enum.random(tenants)
            found = found(store, tenant)
            assert found == (model[tenant] && Map.delete(model[tenant], :days))
            send(test, :one_more)
            model
          end)
        end)
      end

    {pid, models} = supervise(store, options, disturb, clients, %{}, nil)
    {pid, models |> Map.values() |> Enum.reduce(%{}, &Map.merge/2)}
  end

  defp supervise(store, options, disturb, clients, models, pid) do
    pid = pid || restart(store, options)

    if map_size(models) == length(clients) do
      {pid, models}
    else
      receive do
        {:EXIT, ^pid, _reason} ->
          supervise(store, options, disturb, clients, models, nil)

        {ref, model} when is_reference(ref) and is_map(model) ->
          supervise(store, options, disturb, clients, Map.put(models, ref, model), pid)

        {:DOWN, _ref, :process, client, reason} when reason != :normal ->
          flunk("client #{inspect(client)} ended with #{inspect(reason)}")

        :one_more ->
          disturb.(pid)
          supervise(store, options, disturb, clients, models, pid)

        _end_of_a_client ->
          supervise(store, options, disturb, clients, models, pid)
      after
        @wait_ms -> flunk("no client makes progress")
      end
    end
  end

  # A start may crash too.
  defp restart(store, options) do
    case Store.start_link(Map.put(options, :table, store)) do
      {:ok, pid} -> pid
      {:error, _crash} -> restart(store, options)
    end
  end

  test "a process that is killed at any time loses nothing, in memory and in a folder", %{folder: folder} do
    Attack.each(Attack.size(6, 300), fn number ->
      for dir <- [nil, Path.join(folder, "#{number}")] do
        store = Store.table()
        options = %{dir: dir, durability: Enum.random([:sync, {:interval, 1}]), retention: 30}
        options = Map.merge(options, %{segment_bytes: 3_000, garbage_bytes: 5_000, base_bytes: 5_000})
        kill = fn pid -> if :rand.uniform(20) == 1, do: Process.exit(pid, :kill) end
        {pid, model} = run_clients(store, options, Attack.size(100, 300), kill)
        assert content(store) == model

        if dir do
          kill(pid)
          check_folder(dir, model)
        else
          # No blob is left over.
          kill(pid)
          pid = restart(store, options)
          assert :ets.info(store.blobs, :size) == count_blobs(model)
          assert content(store) == model
          GenServer.stop(pid)
        end
      end
    end)
  end

  defp count_blobs(model) do
    model
    |> Map.values()
    |> Enum.map(fn tenant -> length(tenant.days) + Enum.count([tenant.body, tenant.statistics], & &1) end)
    |> Enum.sum()
  end

  defp check_folder(dir, model) do
    {store, pid} = start(dir, [])
    assert content(store) == model
    settle(pid)
    assert content(store) == model
    GenServer.stop(pid)
  end

  test "a process that ends at any operation of the disk loses nothing", %{folder: folder} do
    :persistent_term.put(Steps, :atomics.new(1, signed: true))

    Attack.each(Attack.size(6, 300), fn number ->
      dir = Path.join(folder, "#{number}")
      store = Store.table()
      options = %{dir: dir, durability: Enum.random([:sync, {:interval, 1}]), retention: 30, files: Steps}
      options = Map.merge(options, %{segment_bytes: 3_000, garbage_bytes: 5_000, base_bytes: 5_000})
      crash = fn _pid -> if :rand.uniform(10) == 1, do: Steps.crash_after(:rand.uniform(20)) end
      {pid, model} = run_clients(store, options, Attack.size(100, 300), crash)
      Steps.crash_after(0)
      assert Task.await(Task.async(fn -> content(store) end), :infinity) == model
      kill(pid)
      check_folder(dir, model)
    end)
  end

  ## Losses of power

  test "a loss of power takes what the durability allows, and what is left can be read", %{folder: folder} do
    Attack.each(Attack.size(15, 1_000), fn number ->
      dir = Path.join(folder, "#{number}")
      for name <- @folders, do: Disk.watch(Path.join(dir, name))
      durability = Enum.random([:sync, {:interval, 1}])

      Enum.reduce(1..4, %{}, fn _life, model ->
        models = live(dir, durability, model)
        for name <- @folders, do: Disk.lose_power(Path.join(dir, name))
        {store, pid} = start(dir, simulated(durability))
        content = content(store)
        assert content in models
        settle(pid)
        assert content(store) == content
        kill(pid)
        content
      end)

      File.rm_rf!(dir)
    end)
  end

  # The simulated disk takes one writer at a time, so the store is idle between two requests. Under an interval nothing syncs changes but
  # a base, a compaction and the end of a segment.
  defp simulated(durability) do
    [
      durability: durability,
      files: Disk,
      background: Disk,
      segment_bytes: 2_000,
      garbage_bytes: 3_000,
      base_bytes: 4_000
    ]
  end

  # Returns the models that the folder may have after a loss of power.
  defp live(dir, durability, model) do
    {store, pid} = start(dir, simulated(durability))
    settle(pid)
    assert content(store) == model
    for name <- @folders, :rand.uniform(2) == 1, do: Disk.crash_after(Path.join(dir, name), :rand.uniform(40))
    models = live(store, pid, [model], :rand.uniform(40))
    kill_if_alive(pid)
    if durability == :sync, do: Enum.take(models, 2), else: models
  end

  defp live(_store, _pid, models, 0), do: models

  defp live(store, pid, [model | _older] = models, count) do
    request = random_request([:a, :b, :c])
    next = change(model, request)
    client = Task.async(fn -> make(store, request) end)

    case await(client, pid) do
      {:ok, :ok} ->
        if idle?(pid), do: live(store, pid, [next | models], count - 1), else: [next | models]

      :ended ->
        Task.shutdown(client, :brutal_kill)
        [next | models]
    end
  end

  defp await(%Task{ref: ref}, pid) do
    receive do
      {^ref, result} ->
        Process.demonitor(ref, [:flush])
        {:ok, result}

      {:EXIT, ^pid, _reason} ->
        :ended
    after
      @wait_ms -> flunk("no reply")
    end
  end

  # Waits until nothing is written, or the process has ended.
  defp idle?(pid) do
    eventually(fn ->
      try do
        state = :sys.get_state(pid, :infinity)
        state.compactor == nil and state.journal.writer == nil
      catch
        :exit, _ended -> true
      end
    end)

    Process.alive?(pid)
  end

  defp kill_if_alive(pid) do
    if Process.alive?(pid), do: Process.exit(pid, :kill)
    eventually(fn -> not Process.alive?(pid) end)
  end

  ## SIGKILL

  test "a killed node keeps every acknowledged request", %{folder: folder} do
    :rand.seed(:exsss, {Attack.seed(), 53, 0})
    dir = Path.join(folder, "store")

    for number <- 1..Attack.size(3, 200), reduce: %{} do
      known -> kill_node(dir, Path.join(folder, "requests_#{number}"), number, known)
    end
  end

  # The node writes to a file when a request begins and when it is acknowledged. The operating system keeps written bytes.
  defp kill_node(dir, file, number, known) do
    port =
      OsNode.start("""
      alias BeTree.Tenants.Store
      store = Store.table()
      options = %{table: store, dir: #{inspect(dir)}, durability: {:interval, 5}, retention: 30}
      options = Map.merge(options, %{segment_bytes: 10_000, garbage_bytes: 20_000, base_bytes: 10_000})
      {:ok, _pid} = Store.start_link(options)
      IO.puts("pid " <> System.pid())
      content =
        for tenant <- Store.tenants(store), into: %{} do
          {:ok, found} = Store.read(store, tenant)
          {:ok, days} = Store.days(store, tenant, 0..100_000)
          {tenant, {found.body, found.tail, days}}
        end
      IO.puts("content " <> Base.encode64(:erlang.term_to_binary(content)))
      for client <- 1..4 do
        spawn(fn ->
          :rand.seed(:exsss, {#{number}, client, 0})
          {:ok, file} = :file.open(#{inspect(file)}, [:raw, :append])
          write = fn line -> :ok = :file.write(file, line <> "\\n") end
          for change <- 1..1_000_000 do
            tenant = client * 100 + :rand.uniform(5)
            id = #{number} * 1_000_000 + change
            kind = Enum.random(["change", "body", "day", "all"])
            write.("begin \#{client} \#{tenant} \#{kind} \#{id}")
            IO.puts("one more")
            case kind do
              "change" ->
                tag = make_ref()
                :ok = Store.append(store, tenant, id, {self(), tag})
                receive(do: ({^tag, :ok} -> :ok))
              "body" -> {:ok, _place} = Store.put_body(store, tenant, Integer.to_string(id))
              "day" -> :ok = Store.put_day(store, tenant, 20_000, Integer.to_string(id))
              "all" ->
                tag = make_ref()
                bytes = Integer.to_string(id)
                :ok = Store.put_all(store, tenant, bytes, [{20_000, bytes}], {self(), tag})
                receive(do: ({^tag, :ok} -> :ok))
            end
            write.("made \#{client}")
          end
        end)
      end
      Process.sleep(:infinity)
      """)

    os_pid = OsNode.line(port, "pid ")
    found = port |> OsNode.line("content ") |> Base.decode64!() |> :erlang.binary_to_term()
    assert agree?(known, found)
    # Waits for a number of requests instead of a time.
    for _ <- 1..(10 + :rand.uniform(500)), do: OsNode.line(port, "one more")
    OsNode.kill(port, os_pid)
    lines = file |> File.read!() |> String.split("\n")
    File.rm!(file)
    requests(lines, Map.new(found, fn {tenant, state} -> {tenant, [state]} end))
  end

  # Returns for each tenant its last acknowledged state and the one of a request in progress, if any.
  defp requests(lines, known) do
    {known, _begun} =
      Enum.reduce(lines, {known, %{}}, fn line, {known, begun} ->
        case String.split(line, " ") do
          ["begin", client, tenant, kind, id] ->
            tenant = String.to_integer(tenant)
            [state] = Map.get(known, tenant, [{nil, [], []}])
            next = next(state, kind, id)
            {Map.put(known, tenant, [state, next]), Map.put(begun, client, {tenant, next})}

          ["made", client] when is_map_key(begun, client) ->
            {tenant, state} = Map.fetch!(begun, client)
            {Map.put(known, tenant, [state]), begun}

          _cut ->
            {known, begun}
        end
      end)

    known
  end

  defp next({body, tail, days}, "change", id), do: {body, tail ++ [String.to_integer(id)], days}
  defp next({_body, _tail, days}, "body", id), do: {id, [], days}
  defp next(_state, "all", id), do: {id, [], [{20_000, id}]}
  defp next({body, tail, _days}, "day", id), do: {body, tail, [{20_000, id}]}

  defp agree?(known, found) do
    Enum.all?(known, fn {tenant, states} -> Map.get(found, tenant, {nil, [], []}) in states end) and
      Enum.all?(Map.keys(found), &is_map_key(known, &1))
  end
end
