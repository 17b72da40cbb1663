defmodule BeTreeExchange.Test.Footprint do
  @moduledoc """
  The memory of a node, after a garbage collection of all its processes: atoms, tables of ets, processes, bytes of the plugin's
  indexes, and megabytes of resident memory.
  """

  import ExUnit.Assertions

  alias BeTreeExchange.Test.Broker

  # A footprint may exceed an earlier one with as many bindings by this many. The broker's own tables and processes vary by a few; the
  # allocators of the VM keep some free memory.
  @room [atoms: 100, tables: 10, processes: 20, plugin_bytes: 4_000_000, resident_mb: 64]

  def measure(number) do
    Broker.rpc(number, :lists, :foreach, [&:erlang.garbage_collect/1, Broker.rpc(number, :erlang, :processes, [])])

    %{
      atoms: Broker.rpc(number, :erlang, :system_info, [:atom_count]),
      tables: length(Broker.rpc(number, :ets, :all, [])),
      processes: Broker.rpc(number, :erlang, :system_info, [:process_count]),
      plugin_bytes: plugin_bytes(number),
      resident_mb: resident_mb(number)
    }
  end

  defp plugin_bytes(number) do
    for({_exchange, numbers} <- Broker.rpc(number, BeTreeExchange.Status, :all, []), do: numbers[:memory]) |> Enum.sum()
  end

  defp resident_mb(number) do
    status = File.read!("/proc/#{Broker.rpc(number, :os, :getpid, [])}/status")
    [_line, kilobytes] = Regex.run(~r/^VmRSS:\s+(\d+) kB/m, status)
    div(String.to_integer(kilobytes), 1024)
  end

  @doc "Asserts that a footprint is not larger than an earlier one."
  def assert_flat(early, late) do
    for {name, room} <- @room do
      assert late[name] <= early[name] + room, "#{name}: #{early[name]} became #{late[name]}"
    end
  end
end
