defmodule BeTree.Server.AwaitTest do
  # Callers that wait for a version.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Server.Queue
  alias BeTree.Test.{Attack, Servers}

  @many Attack.size(10_000, 100_000)

  setup :quiet

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: [age: :integer]], options))

  defp waiting(server), do: Queue.count(:sys.get_state(Servers.process(server)).waiting)

  defp wait(server, wanted, options \\ []), do: Task.async(fn -> Server.await(server, wanted, options) end)

  # Returns the reductions of the server's process for some changes, as a measure of work that a busy machine does not
  # affect.
  defp work(server) do
    process = Servers.process(server)
    {:reductions, before} = Process.info(process, :reductions)
    for age <- 1..50, do: :ok = Server.put(server, 1, "age >= #{age}")
    {:reductions, later} = Process.info(process, :reductions)
    later - before
  end

  describe "await/3" do
    test "does not slow changes down with many waiting callers" do
      server = server()
      work(server)
      alone = work(server)
      tasks = for n <- 1..@many, do: wait(server, 1_000_000 + n, timeout: :infinity)
      eventually(fn -> waiting(server) == @many end)
      # Visiting each caller would take several times as many.
      assert work(server) < 4 * alone
      for task <- tasks, do: Task.shutdown(task, :brutal_kill)
      eventually(fn -> waiting(server) == 0 end)
    end

    test "returns to each caller when its version is reached" do
      server = server()
      tasks = for version <- Enum.shuffle(Enum.to_list(1..40)), do: {version, wait(server, version)}
      eventually(fn -> waiting(server) == 40 end)

      for version <- 1..40 do
        :ok = Server.put(server, 1, "age >= #{version}")
        {^version, task} = List.keyfind(tasks, version, 0)
        assert Task.await(task) == {:ok, version}
        assert waiting(server) == 40 - version
      end
    end

    test "forgets callers after their timeout or exit" do
      server = server()
      task = wait(server, 5, timeout: 1)
      assert {:error, %Error{kind: :timeout}} = Task.await(task)
      eventually(fn -> waiting(server) == 0 end)
      task = wait(server, 5)
      eventually(fn -> waiting(server) == 1 end)
      Task.shutdown(task, :brutal_kill)
      eventually(fn -> waiting(server) == 0 end)
      follower = server(schema: nil, follow: {server, node()})
      task = wait(follower, 5)
      eventually(fn -> waiting(follower) == 1 end)
      Task.shutdown(task, :brutal_kill)
      eventually(fn -> waiting(follower) == 0 end)
    end

    test "takes a position and refuses other terms" do
      server = server()
      {lineage, 0} = position = Server.position!(server)
      assert Server.await(server, position) == {:ok, 0}
      task = wait(server, {lineage, 1})
      :ok = Server.insert(server, 1, "age >= 1")
      assert Task.await(task) == {:ok, 1}
      assert {:error, %Error{kind: :timeout}} = Server.await(server, {"another", 0}, timeout: 1)

      for wrong <- [-1, {lineage, -1}, {:a, 1}, "1", {lineage, 1, 2}],
          do: assert_raise(ArgumentError, fn -> Server.await(server, wrong) end)
    end
  end
end
