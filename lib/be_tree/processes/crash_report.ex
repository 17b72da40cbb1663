defmodule BeTree.Processes.CrashReport do
  @moduledoc false
  # Keeps the data of a process out of the reports of its crash.
  #
  # State and messages hold handles, texts of expressions, and snapshots of memories with the last events. They belong in no
  # log, and may be large. `use BeTree.Processes.CrashReport` in a GenServer replaces them by their kind in its report and in
  # `:sys.get_status/1`. It also guards the callbacks: the reason and the stack trace of a crash have values too, such as the
  # arguments of a function without a matching clause.

  alias BeTree.Input.Describe
  alias BeTree.Error

  @callbacks [init: 1, handle_call: 3, handle_cast: 2, handle_continue: 2, handle_info: 2]

  defmacro __using__(_options) do
    quote do
      @before_compile BeTree.Processes.CrashReport

      # A callback of GenServer since Elixir 1.17. OTP calls it since version 25.
      if {:format_status, 1} in GenServer.behaviour_info(:callbacks), do: @impl(GenServer)
      @doc false
      def format_status(status), do: BeTree.Processes.CrashReport.hide(status)
    end
  end

  defmacro __before_compile__(env) do
    for {name, arity} = callback <- @callbacks, Module.defines?(env.module, callback, :def) do
      arguments = Macro.generate_arguments(arity, __MODULE__)

      quote do
        defoverridable [{unquote(name), unquote(arity)}]

        @impl GenServer
        def unquote(name)(unquote_splicing(arguments)) do
          BeTree.Processes.CrashReport.guard(fn -> super(unquote_splicing(arguments)) end)
        end
      end
    end
  end

  @doc "Returns the status of a process with the kinds of its state and messages in place of their values."
  @spec hide(map) :: map
  def hide(status), do: Map.new(status, fn {part, value} -> {part, hide(part, value)} end)

  defp hide(:reason, reason), do: reason
  defp hide(:log, _messages), do: []
  defp hide(_part, value), do: Describe.kind(value)

  @doc "Returns the result of `fun`. An error or an exit leaves it with the name of its reason, and without other values."
  @spec guard((... -> result)) :: result when result: var
  def guard(fun) do
    fun.()
  catch
    kind, reason when kind in [:error, :exit] ->
      :erlang.raise(kind, name(reason), without_arguments(__STACKTRACE__))
  end

  defp name(reason) when is_atom(reason), do: reason
  defp name(%Error{} = error), do: error
  defp name({:shutdown, %Error{}} = reason), do: reason
  defp name(%exception{}), do: exception
  defp name(reason) when is_tuple(reason) and is_atom(elem(reason, 0)), do: elem(reason, 0)
  defp name(_other), do: :crash

  @doc "Returns a stack trace without the arguments of its first function, if it has them."
  @spec without_arguments(Exception.stacktrace()) :: Exception.stacktrace()
  def without_arguments([{module, function, arguments, location} | rest]) when is_list(arguments) do
    [{module, function, length(arguments), location} | rest]
  end

  def without_arguments(stacktrace), do: stacktrace
end
