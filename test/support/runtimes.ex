defmodule BeTree.Test.Runtimes do
  @moduledoc false
  # The runtimes that every suite about them runs on. A case has the tag `runtime: module`, and is left out where that
  # runtime is not here: see test_helper.exs.

  @all [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]

  def all, do: @all

  def missing, do: @all -- BeTree.Runtime.available()

  @doc "As the titles of tests have it."
  def name(runtime), do: runtime |> Module.split() |> List.last()
end
