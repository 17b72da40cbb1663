defmodule BeTree.Test.Delegating do
  @moduledoc """
  Makes a module a runtime that delegates to `BeTree.Runtime.Wasmtime`. The module defines or omits the callbacks in
  `:except`.

      use BeTree.Test.Delegating, except: [append: 2]
  """

  alias BeTree.Runtime.Wasmtime

  defmacro __using__(options) do
    Code.ensure_compiled!(Wasmtime)

    for {name, arity} = callback <- BeTree.Runtime.behaviour_info(:callbacks),
        callback not in Keyword.get(options, :except, []),
        function_exported?(Wasmtime, name, arity) do
      arguments = Macro.generate_arguments(arity, __MODULE__)
      quote do: defdelegate(unquote(name)(unquote_splicing(arguments)), to: Wasmtime)
    end
  end
end
