defmodule BeTree.LeftBehindTest do
  @moduledoc "Trees, searches that were abandoned, and errors leave nothing in the VM."
  # Not async: the test counts resources of the whole VM.
  use ExUnit.Case, async: false

  test "the suite leaves no processes, files or memory" do
    leave = fn ->
      for _ <- 1..20 do
        tree = BeTree.new!([a: :integer], memory: 64_000_000)
        BeTree.insert_all!(tree, for(id <- 1..2_000, do: {id, "a > #{id} or a = 7"}))
        BeTree.search!(tree, %{a: 3})
        {:error, _} = BeTree.search(tree, %{a: 3}, fuel: 1_000)
        {:yield, _abandoned} = BeTree.Search.start(tree, %{a: 1_000}, slice: 1_000)
        {:error, _} = BeTree.insert(tree, 3_000, "a >")
        {:error, _} = BeTree.new([a: :integer], guest: "no module")
      end
    end

    Task.await(Task.async(leave), 60_000)
    settled = settle()
    for _ <- 1..5, do: Task.await(Task.async(leave), 60_000)
    later = settle()

    assert later.counts == settled.counts
    assert_in_delta later.memory, settled.memory, 2_000_000
  end

  # The VM's resources after garbage collection and all destructors.
  defp settle(tries \\ 50, before \\ nil) do
    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
    now = %{counts: BeTree.Runtime.Native.counts(), memory: :erlang.memory(:total)}

    if tries == 0 or (before != nil and before.counts == now.counts) do
      now
    else
      Process.sleep(50)
      settle(tries - 1, now)
    end
  end
end
