defmodule BeTree.Test.Runtimes do
  @moduledoc false
  # The runtimes on which the suites about runtimes run. A case with the tag `runtime: module` is left out if that runtime is
  # missing (test_helper.exs).

  @all [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]

  def all, do: @all

  def missing, do: @all -- BeTree.Runtime.available()

  @doc "Returns the name of a runtime in the titles of tests."
  def name(runtime), do: runtime |> Module.split() |> List.last()
end
