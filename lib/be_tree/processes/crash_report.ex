defmodule BeTree.Processes.CrashReport do
  @moduledoc false
  # Keeps the data of a process out of the reports of its crash.
  #
  # State and messages hold handles, texts of expressions, and snapshots of memories with the last events. They belong in no
  # log, and may be large. `use BeTree.Processes.CrashReport` in a GenServer replaces them by their kind in its report and in
  # `:sys.get_status/1`. It also guards the callbacks: the reason and the stack trace of a crash have values too, such as the
  # arguments of a function without a matching clause. A failure of the user's code, such as a runtime, keeps its message and place.

  alias BeTree.Input.Describe
  alias BeTree.Error
  alias BeTree.Processes.Failure

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
          BeTree.Processes.CrashReport.unquote(guard_of(name))(fn -> super(unquote_splicing(arguments)) end)
        end
      end
    end
  end

  defp guard_of(:init), do: :guard_init
  defp guard_of(_callback), do: :guard

  @doc "Returns the status of a process with the kinds of its state and messages in place of their values."
  @spec hide(map) :: map
  def hide(status), do: Map.new(status, fn {part, value} -> {part, hide(part, value)} end)

  defp hide(:reason, reason), do: reason
  defp hide(:log, _messages), do: []
  defp hide(_part, value), do: Describe.kind(value)

  @doc """
  Returns the result of `fun`. A failure leaves it with the name of its reason, and without other values. A failure of the user's code
  leaves it as an error of kind `:callback`.
  """
  @spec guard((... -> result)) :: result when result: var
  def guard(fun) do
    fun.()
  catch
    kind, reason ->
      stacktrace = __STACKTRACE__
      user = Failure.of_user(kind, reason, stacktrace)
      :erlang.raise(raised(kind, user), user || name(kind, reason), Failure.without_arguments(stacktrace))
  end

  @doc "Like `guard/1` for `init/1`: a failure of the user's code is logged with its stack trace, and is the reason of `{:stop, error}`."
  @spec guard_init((... -> result)) :: result | {:stop, Error.t()} when result: var
  def guard_init(fun) do
    guard(fun)
  rescue
    error in Error ->
      if error.kind != :callback, do: reraise(error, __STACKTRACE__)
      Failure.log(error.message, __STACKTRACE__)
      {:stop, error}
  end

  # GenServer takes a value that a callback throws for the result of the callback.
  defp raised(:exit, nil), do: :exit
  defp raised(_kind, _user), do: :error

  defp name(:throw, _value), do: :nocatch
  defp name(_kind, reason) when is_atom(reason), do: reason
  defp name(_kind, %Error{} = error), do: error
  defp name(_kind, {:shutdown, %Error{}} = reason), do: reason
  defp name(_kind, %exception{}), do: exception
  defp name(_kind, reason) when is_tuple(reason) and is_atom(elem(reason, 0)), do: elem(reason, 0)
  defp name(_kind, _other), do: :crash
end
