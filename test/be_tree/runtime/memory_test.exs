defmodule BeTree.Runtime.MemoryTest do
  # Nodes in which the system refuses memory or addresses to the host: the error names that, and not the module.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.Limits

  @moduletag runtime: BeTree.Runtime.Wasmtime

  if not File.exists?("/proc/self/status"), do: @moduletag(skip: "this system has no such limits")

  test "a limit of addresses that leaves no room for a memory is named" do
    # In KiB. The VM starts within it, and a memory reserves 4 GiB.
    assert %Error{kind: :out_of_memory, message: message} = Limits.in_limited_node("-v 4000000", :load, [])

    assert message =~
             "the built-in runtime cannot be used here: its engine cannot run on this machine: its self-test has no"

    assert message =~ "raise the limit of the process (ulimit -v)"
    refute message =~ "wasmex"
  end

  if System.find_executable("prlimit") == nil, do: @tag(skip: "prlimit is missing")

  test "memory that is refused while a module is compiled is named, and the same module is compiled later" do
    {error, later} = Limits.in_limited_node(nil, :load_without_memory, [])
    assert %Error{kind: :out_of_memory, message: message} = error
    assert message =~ "the host has no" and message =~ "(ulimit -v"
    refute message =~ "not a WebAssembly module"
    assert later == :ok
  end
end
