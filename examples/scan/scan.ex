defmodule Scan do
  @moduledoc """
  The index module of this directory: how a module of one's own takes the place of the built-in one.

      {:ok, tree} = BeTree.new([age: :integer], guest: Scan.wasm!())
  """

  alias Mix.BeTree.{Crate, Toolchain}

  @crate %Crate{
    workspace: "examples/scan",
    package: "scan",
    profile: "release",
    target: "wasm32-unknown-unknown",
    # The host puts the shadow stack's pointer back after a trap, so it has to be exported.
    rustflags: ["-C", "link-arg=--export=__stack_pointer"],
    sources: ["src/**/*.rs"],
    product: "scan.wasm",
    file: "_build/examples/scan.wasm"
  }

  @doc "The module's bytes; compiles the crate where that is not done."
  @spec wasm!() :: binary
  def wasm! do
    Crate.compile(@crate, &Toolchain.wasm32/0)
    File.read!(@crate.file)
  end
end
