defmodule BeTree.Runtime.MemoryTest do
  # Nodes in which the system refuses memory or addresses. The error names that cause, not the module.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.Limits

  @moduletag runtime: BeTree.Runtime.Wasmtime

  if not File.exists?("/proc/self/status"), do: @moduletag(skip: "this system has no such limits")

  test "the error names a limit of addresses that leaves no room for a memory" do
    # In KiB. The VM starts within it, and a memory reserves 4 GiB.
    assert %Error{kind: :out_of_memory, message: message} = Limits.in_limited_node("-v 4000000", :load, [])

    assert message =~
             "the built-in runtime cannot be used here: its engine cannot run on this machine: its self-test has no"

    assert message =~ "raise the limit of the process (ulimit -v)"
    refute message =~ "wasmex"
  end

  if System.find_executable("prlimit") == nil, do: @tag(skip: "prlimit is missing")

  test "the error names memory refused to the compiler, and the same module compiles later" do
    {error, later} = Limits.in_limited_node(nil, :load_without_memory, [])
    assert %Error{kind: :out_of_memory, message: message} = error
    assert message =~ "the host has no" and message =~ "(ulimit -v"
    refute message =~ "not a WebAssembly module"
    assert later == :ok
  end
end
