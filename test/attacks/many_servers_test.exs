defmodule BeTree.Attacks.ManyServersTest do
  # One server for each tenant, on a node with the system's default limits: 1,024 open files and 65,530 mappings. Processes
  # start servers on demand, several the same one at once.
  use ExUnit.Case, async: false

  alias BeTree.Test.{Attack, OsNode}

  @moduletag timeout: :infinity

  test "concurrent callers start servers on demand" do
    servers = Attack.size(200, 5_000)
    port = OsNode.start(code(servers), limits: "ulimit -n 1024")
    lines = OsNode.await_end(port)
    assert [result] = for("result " <> result <- lines, do: result), Enum.join(lines, "\n")
    {result, _bindings} = Code.eval_string(result)
    # Each tenant's rule was found by its server, and each server was started once.
    assert result.wrong == []
    assert result.started == servers
    assert result.already > 0
    # Stopped servers leave nothing.
    assert result.left == 0

    if Attack.full?() do
      IO.puts(
        "#{servers} servers: #{div(result.memory, servers)} bytes of memory of the node and #{div(result.vm, servers)} of the VM " <>
          "each, #{div(result.microseconds, servers)} microseconds each, #{result.maps} mappings, #{result.files} open files"
      )
    end
  end

  # The code of the other node.
  defp code(servers) do
    """
    {:ok, _started} = Application.ensure_all_started(:be_tree)
    {:ok, _registry} = Registry.start_link(keys: :unique, name: Tenants)
    {:ok, supervisor} = DynamicSupervisor.start_link(strategy: :one_for_one, max_restarts: 0)
    name = fn tenant -> {:via, Registry, {Tenants, tenant}} end

    count = fn path ->
      case path do
        :maps -> "/proc/self/maps" |> File.read() |> then(fn {:ok, text} -> length(String.split(text, "\\n")); _none -> 0 end)
        :files -> "/proc/self/fd" |> File.ls() |> then(fn {:ok, names} -> length(names); _none -> 0 end)
        :memory ->
          case File.read("/proc/self/statm") do
            {:ok, text} -> 4_096 * (text |> String.split() |> Enum.at(1) |> String.to_integer())
            _none -> 0
          end
      end
    end

    on_demand = fn tenant ->
      child = {BeTree.Server, name: name.(tenant), schema: [age: :integer, country: {:string, optional: true}]}

      case DynamicSupervisor.start_child(supervisor, child) do
        {:ok, _pid} -> :started
        {:error, {:already_started, _pid}} -> :already
      end
    end

    # The module was compiled in advance.
    BeTree.new!(age: :integer)
    :erlang.garbage_collect()
    [memory, vm] = [count.(:memory), :erlang.memory(:total)]
    started = System.monotonic_time(:microsecond)

    # Different processes request each tenant, twice.
    outcomes =
      1..#{servers}
      |> Enum.flat_map(&[&1, &1])
      |> Task.async_stream(fn tenant ->
        # The test waits for each line up to this long.
        if rem(tenant, 100) == 0, do: IO.puts("tenant \#{tenant}")
        outcome = on_demand.(tenant)
        :ok = BeTree.put(name.(tenant), tenant, "age = \#{tenant} and country <> 'x'")
        outcome
      end, max_concurrency: 50, timeout: :infinity)
      |> Enum.frequencies()

    microseconds = System.monotonic_time(:microsecond) - started

    wrong =
      1..#{servers}
      |> Task.async_stream(fn tenant ->
        if rem(tenant, 100) == 0, do: IO.puts("searched \#{tenant}")
        {tenant, BeTree.search(name.(tenant), %{age: tenant, country: "CA"}), BeTree.search(name.(tenant), %{age: 0, country: "CA"})}
      end, max_concurrency: 50, timeout: :infinity)
      |> Enum.reject(fn {:ok, {tenant, found, none}} -> found == {:ok, [tenant]} and none == {:ok, []} end)

    result = %{
      started: outcomes[{:ok, :started}],
      already: outcomes[{:ok, :already}],
      wrong: Enum.take(wrong, 5),
      microseconds: microseconds,
      memory: count.(:memory) - memory,
      vm: :erlang.memory(:total) - vm,
      maps: count.(:maps),
      files: count.(:files)
    }

    for {{_id, pid, _type, _modules}, number} <- Enum.with_index(DynamicSupervisor.which_children(supervisor)) do
      if rem(number, 100) == 0, do: IO.puts("stopped \#{number}")
      DynamicSupervisor.terminate_child(supervisor, pid)
    end

    left = fn left, tries ->
      case :ets.info(BeTree.Server.Names, :size) do
        0 -> 0
        size when tries == 0 -> size
        _size -> Process.sleep(10) && left.(left, tries - 1)
      end
    end

    IO.puts("result " <> inspect(Map.put(result, :left, left.(left, 3_000)), limit: :infinity))
    System.halt(0)
    """
  end
end
