defmodule BeTree.Test.Runtimes do
  @moduledoc false
  # The runtimes for tests of all runtimes. A case with the tag `runtime: module` is skipped if that runtime is missing
  # (test_helper.exs).

  @all [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]

  def all, do: @all

  def missing, do: @all -- BeTree.Runtime.available()

  @doc "Returns the name of a runtime in the titles of tests."
  def name(runtime), do: runtime |> Module.split() |> List.last()
end
