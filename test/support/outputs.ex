defmodule BeTree.Test.Outputs do
  @moduledoc "Starts outputs for tests, and reads their counts."

  import ExUnit.Assertions

  alias BeTree.Output

  @doc "Starts an output of this name under the supervisor of the test."
  def start_output(name, options) do
    {:ok, _pid} = ExUnit.Callbacks.start_supervised({Output, [name: name] ++ options}, id: name)
    name
  end

  @doc "Returns the counts, whose sum is exact."
  def stats(name) do
    {:ok, stats} = Output.stats(name)
    assert stats.accepted == stats.delivered + stats.dropped + stats.lost + stats.pending
    stats
  end
end
