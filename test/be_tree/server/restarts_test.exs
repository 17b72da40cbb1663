defmodule BeTree.Server.RestartsTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.Server
  alias BeTree.Test.Servers

  setup :quiet

  defp name, do: :"server_#{System.unique_integer([:positive])}"

  # Kills the process of a server until its supervisor ends, or `most` times. Returns the number of kills.
  defp kill(name, supervisor, most, kills \\ 0) do
    if kills < most and Process.alive?(supervisor) do
      case Servers.process(name) do
        nil ->
          Process.sleep(1)
          kill(name, supervisor, most, kills)

        pid ->
          monitor = Process.monitor(pid)
          Process.exit(pid, :kill)
          assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, 30_000
          kill(name, supervisor, most, kills + 1)
      end
    else
      kills
    end
  end

  test "a process that ends too often ends the server, and the supervisor starts another" do
    name = name()
    options = [name: name, schema: [a: :integer], load: {__MODULE__, :load, []}, max_restarts: 3, max_seconds: 600]
    {:ok, above} = Supervisor.start_link([{Server, options}], strategy: :one_for_one, max_restarts: 2)
    supervisor = Process.whereis(name)
    monitor = Process.monitor(supervisor)
    Server.insert!(name, 2, "true")
    assert kill(name, supervisor, 3) == 3
    # The maximum number of restarts.
    eventually(fn -> Server.insert(name, 3, "true") == :ok end)
    assert BeTree.search(name, %{a: 1}) == {:ok, [1, 2, 3]}
    kill(name, supervisor, 1)
    assert_receive {:DOWN, ^monitor, :process, ^supervisor, :shutdown}, 30_000
    # The count starts again.
    eventually(fn -> BeTree.search(name, %{a: 1}) == {:ok, [1]} end)
    Supervisor.stop(above)
  end

  def load, do: [{1, "true"}]

  test "a transient server does not return, and its name is free" do
    name = name()
    options = [name: name, schema: [a: :integer], max_restarts: 1, max_seconds: 600]
    child = Supervisor.child_spec({Server, options}, restart: :transient)
    {:ok, above} = Supervisor.start_link([child], strategy: :one_for_one)
    supervisor = Process.whereis(name)
    monitor = Process.monitor(supervisor)
    kill(name, supervisor, 2)
    assert_receive {:DOWN, ^monitor, :process, ^supervisor, :shutdown}, 30_000
    assert {:error, %{kind: :no_server}} = BeTree.search(name, %{a: 1})
    assert [{{Server, ^name}, :undefined, :supervisor, _modules}] = Supervisor.which_children(above)
    Supervisor.stop(above)
    start_supervised!({Server, options})
    assert BeTree.search(name, %{a: 1}) == {:ok, []}
  end

  test "a server with a folder starts again with all changes" do
    folder = Path.join(System.tmp_dir!(), "be_tree_restarts_#{System.unique_integer([:positive])}")
    on_exit(fn -> File.rm_rf!(folder) end)
    name = name()
    options = [name: name, schema: [a: :integer], dir: folder, max_restarts: 1, max_seconds: 600]
    {:ok, above} = Supervisor.start_link([{Server, options}], strategy: :one_for_one)
    Server.insert_all!(name, for(id <- 1..50, do: {id, "a >= #{id}"}))
    supervisor = Process.whereis(name)
    monitor = Process.monitor(supervisor)
    kill(name, supervisor, 2)
    assert_receive {:DOWN, ^monitor, :process, ^supervisor, :shutdown}, 30_000
    eventually(fn -> BeTree.search(name, %{a: 50}) == {:ok, Enum.to_list(1..50)} end)
    Supervisor.stop(above)
  end

  # Loads subscriptions only when the test process allows it.
  def load_when_allowed(test, id) do
    send(test, {:loading, self(), id})
    receive(do: (:load -> [{id, "true"}]))
  end

  test "a process that outlives its supervisor does not reach the next server of that name" do
    name = name()

    options = fn id ->
      load = {__MODULE__, :load_when_allowed, [self(), id]}
      [name: name, schema: [a: :integer], load: load]
    end

    test = self()
    first = options.(1)
    starter = spawn(fn -> Server.start_link(first) end)
    assert_receive {:loading, orphan, 1}, 30_000
    supervisor = Process.whereis(name)
    # Killed processes ask no other to end, so the process of the server goes on with its start.
    end_all([starter, supervisor | linked(orphan)])
    assert Process.alive?(orphan)
    second = options.(2)

    spawn_link(fn ->
      {:ok, _pid} = Server.start_link(second)
      send(test, :started)
      Process.sleep(:infinity)
    end)

    assert_receive {:loading, loading, 2}, 30_000
    send(loading, :load)
    assert_receive :started, 30_000
    Server.insert!(name, 3, "true")
    monitor = Process.monitor(orphan)
    send(orphan, :load)
    assert_receive {:DOWN, ^monitor, :process, ^orphan, _reason}, 30_000
    assert Servers.process(name) == loading
    assert BeTree.search(name, %{a: 1}) == {:ok, [2, 3]}
  end

  defp linked(pid) do
    {:links, links} = Process.info(pid, :links)
    Enum.filter(links, &is_pid/1)
  end

  defp end_all(pids) do
    for pid <- pids do
      monitor = Process.monitor(pid)
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, 30_000
    end
  end
end
