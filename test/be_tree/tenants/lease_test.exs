defmodule BeTree.Tenants.LeaseTest do
  @moduledoc "The folder of tenants goes from one operating-system process to another, which waits for it: everything arrives, once."
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.Quiet

  alias BeTree.Tenants
  alias BeTree.Test.OsNode

  setup [:quiet, :folder]

  setup do
    Process.flag(:trap_exit, true)
    :ok
  end

  # A node that waits for the folder, prints what the tenant has counted, counts ten events, and stops when it reads a line.
  defp start_node(folder) do
    OsNode.start("""
    alias BeTree.Tenants
    {:ok, _started} = Application.ensure_all_started(:be_tree)
    IO.puts("waiting " <> System.pid())
    options = [name: Leased, schema: [a: :integer], stats: [users: {:uniques, :a}], dir: #{inspect(folder)}]
    {:ok, pid} = Tenants.start_link([lock_timeout: :infinity] ++ options)
    Process.unlink(pid)
    {:ok, _counts} = Tenants.change(Leased, "t", put: [{1, "a > 0"}])
    [[total]] = Tenants.report!(Leased, tenants: ["t"])
    {:ok, %{days: days}} = Tenants.usage(Leased, "t")
    billed = days |> Map.values() |> Enum.map(& &1.events) |> Enum.sum()
    IO.puts("has \#{total.events} \#{total.matches} \#{billed}")
    for a <- 1..10, do: [1] = Tenants.match!(Leased, "t", %{a: a})
    :ok = Tenants.snapshot(Leased, "t")
    IO.puts("counted")
    _line = IO.gets("")
    :ok = Supervisor.stop(pid)
    """)
  end

  defp counted(node, count) do
    assert OsNode.line(node, "has ") == "#{count} #{count} #{count}"
    OsNode.line(node, "counted")
  end

  defp stop(node) do
    Port.command(node, "\n")
    assert OsNode.await_end(node) == []
  end

  test "a folder is handed over when its process is killed, and when it stops", %{folder: folder} do
    one = start_node(folder)
    os_pid = OsNode.line(one, "waiting ")
    counted(one, 0)
    other = start_node(folder)
    OsNode.line(other, "waiting ")

    # The first node has it.
    assert {:error, %{kind: :locked}} =
             Tenants.start_link(name: __MODULE__, schema: [a: :integer], dir: folder, lock_timeout: 0)

    OsNode.kill(one, os_pid)
    counted(other, 10)
    third = start_node(folder)
    OsNode.line(third, "waiting ")
    stop(other)
    counted(third, 20)
    stop(third)
  end
end
