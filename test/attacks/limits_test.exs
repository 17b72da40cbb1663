defmodule BeTree.Attacks.LimitsTest do
  # Nodes that exhaust the system's mappings or descriptors. The excess is refused, existing values keep working, and
  # everything is released.
  use ExUnit.Case, async: false

  alias BeTree.Error
  alias BeTree.Test.{Attack, Limits}

  @moduletag timeout: :infinity

  @max_mappings with {:ok, text} <- File.read("/proc/sys/vm/max_map_count"), do: String.to_integer(String.trim(text))

  cond do
    not is_integer(@max_mappings) -> @moduletag skip: "this system has no such limits"
    @max_mappings > 70_000 -> @moduletag skip: "vm.max_map_count is so high that memory would run out first"
    true -> :ok
  end

  defp refused({made, error}, limit) do
    assert %Error{kind: :overloaded, message: message} = error
    assert message =~ limit
    made
  end

  test "calls are suspended until the mappings run out" do
    assert refused(Limits.in_node(:calls, []), "vm.max_map_count, which is #{@max_mappings};") > 0.18 * @max_mappings
  end

  test "indexes are published until the descriptors run out" do
    # Code that was compiled ahead takes one of the 128 descriptors.
    assert refused(Limits.in_node(:indexes, [], 256), "RLIMIT_NOFILE, which is 256;") in [127, 128]
  end

  test "servers of small indexes take no descriptors" do
    count = Attack.size(300, 1_000)
    assert Limits.in_node(:servers, [count], Attack.size(256, 1_024)) == count
  end

  if Attack.full?() do
    test "sandboxes are made until the mappings run out" do
      assert refused(Limits.in_node(:sandboxes, []), "vm.max_map_count") > 0.4 * @max_mappings
    end

    test "searches of one index are suspended until the mappings run out" do
      assert refused(Limits.in_node(:searches, []), "vm.max_map_count") > 0.18 * @max_mappings
    end

    test "trees are made until the mappings run out" do
      {made, error, mappings} = Limits.in_node(:trees, [])
      assert refused({made, error}, "vm.max_map_count") > 0.4 * @max_mappings
      assert mappings < @max_mappings
      # Linux's default.
      if @max_mappings == 65_530, do: assert(made >= 30_000)
    end
  end
end
