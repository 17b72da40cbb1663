defmodule BeTree.Runtime.Absent do
  @moduledoc false
  # Errors of a runtime that cannot be used on this node, each with the reason and the remedies.

  alias BeTree.Error

  @wasmex "{:wasmex, \"~> 0.15.1\"}"

  @doc "Returns the error of the built-in runtime."
  @spec built_in(module, String.t()) :: {:error, Error.t()}
  def built_in(runtime, reason) do
    error(
      runtime,
      "the built-in runtime cannot be used here: #{reason}",
      "compile BeTree again with Rust (mix deps.compile be_tree --force), or add #{@wasmex} to your dependencies"
    )
  end

  @doc "Returns the error of the runtime of wasmex."
  @spec wasmex(module, String.t()) :: {:error, Error.t()}
  def wasmex(runtime, reason) do
    error(
      runtime,
      "the runtime wasmex cannot be used here: #{reason}",
      "add #{@wasmex} to your dependencies (Elixir 1.18 or newer), or compile BeTree with Rust, for the built-in runtime " <>
        "(mix deps.compile be_tree --force)"
    )
  end

  defp error(runtime, fault, mend) do
    message =
      if Application.get_env(:be_tree, :runtime) == runtime,
        do: "#{fault}; config :be_tree, runtime: #{inspect(runtime)} asks for it: remove that setting, or #{mend}",
        else: "#{fault}; #{mend}"

    {:error, %Error{kind: :bad_module, message: message}}
  end
end
