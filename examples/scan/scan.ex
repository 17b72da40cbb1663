defmodule Scan do
  @moduledoc """
  Compiles the index module of this directory, which takes the place of the built-in one.

      {:ok, tree} = BeTree.new([age: :integer], guest: Scan.wasm!())
  """

  alias Mix.BeTree.{Crate, Toolchain}

  @crate %Crate{
    workspace: "examples/scan",
    package: "scan",
    profile: "release",
    target: "wasm32-unknown-unknown",
    # The host restores the shadow stack's pointer after a trap, so it must be exported.
    rustflags: ["-C", "link-arg=--export=__stack_pointer"],
    sources: ["src/**/*.rs"],
    product: "scan.wasm",
    file: "_build/examples/scan.wasm"
  }

  @doc "Returns the module's bytes. Compiles the crate if its sources changed."
  @spec wasm!() :: binary
  def wasm! do
    Crate.compile(@crate, &Toolchain.wasm32/0)
    File.read!(@crate.file)
  end
end
