defmodule Steiner do
  @moduledoc """
  Computes minimum Steiner trees in a sandbox. It shows how to call any WebAssembly module with `BeTree.Sandbox`.

      steiner = Steiner.new!()
      Steiner.cost!(steiner, 4, [{0, 1, 2}, {1, 2, 2}, {1, 3, 2}, {0, 2, 3}], [0, 2, 3])
      #=> 6
  """

  alias BeTree.Sandbox
  alias Mix.BeTree.{Crate, Toolchain}

  @crate %Crate{
    workspace: "examples/steiner",
    package: "steiner",
    profile: "release",
    target: "wasm32-unknown-unknown",
    # Exported so that the host can restore it after a call that was cut off.
    rustflags: ["-C", "link-arg=--export=__stack_pointer"],
    sources: ["src/**/*.rs"],
    product: "steiner.wasm",
    file: "_build/examples/steiner.wasm"
  }

  @doc "Returns the module's bytes. Compiles the crate if its sources changed."
  @spec wasm!() :: binary
  def wasm! do
    Crate.compile(@crate, &Toolchain.wasm32/0)
    File.read!(@crate.file)
  end

  @doc "Returns an instance of the module. `options` are those of `BeTree.Sandbox.new/2`; `:memory` defaults to 64 MiB."
  @spec new!([Sandbox.option()]) :: Sandbox.t()
  def new!(options \\ []), do: wasm!() |> Sandbox.load!() |> Sandbox.new!(Keyword.put_new(options, :memory, 0x400_0000))

  @doc """
  Returns the cost of a minimum tree that joins the `terminals` of a graph, or `nil` if they are not connected.

  `edges` are `{node, node, weight}` with nodes from 0 to `nodes - 1` and weights below 2^32 - 1. `options` are those of
  `BeTree.Sandbox.call/4`.
  """
  @spec cost!(
          Sandbox.t(),
          pos_integer,
          [{node, node, weight}],
          [node],
          [Sandbox.call_option()]
        ) :: non_neg_integer | nil
        when node: non_neg_integer, weight: non_neg_integer
  def cost!(steiner, nodes, edges, terminals, options \\ []) do
    [graph] = Sandbox.call!(steiner, "graph", [nodes])

    for {from, to, weight} <- edges,
        do: :ok = Sandbox.write(steiner, graph + 4 * (from * nodes + to), <<weight::little-32>>)

    bits = terminals |> Enum.map(&Bitwise.bsl(1, &1)) |> Enum.sum()

    case Sandbox.call!(steiner, "steiner", [graph, nodes, bits], options) do
      [-1] -> nil
      [cost] -> cost
    end
  end
end
