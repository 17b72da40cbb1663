defmodule BeTree.Rules.Server.Operations do
  @moduledoc false
  # Makes the operations of a server of rules. The journal has an operation before the engine makes it, and a record of each that was
  # undone (BeTree.Rules.Server.History).

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Page
  alias BeTree.Rules.Server.{Change, Delivery, History, State, Subscribers}

  @doc "Writes an operation to the journal, makes it, and sends its notices. Returns the reply and the part that an error stopped."
  @spec operate(Change.operation(), State.t(), map) ::
          {{:ok, Page.t()} | {:error, Error.t()}, Change.stopped() | nil, State.t()}
  def operate(operation, state, options \\ Rules.default_options()) do
    with {:ok, state} <- append_undone(state),
         {:ok, journal} <- History.append(state.journal, operation) do
      # A late fact may be past its lifetime already. The next move of time drops it.
      state = %{state | journal: journal, moved_to: nil}

      case Change.make(state.rules, operation, state.max_firings, options) do
        {:ok, page, notices} ->
          send_notices(state, notices)
          {{:ok, page}, nil, state}

        {:error, error, stopped, saved} ->
          {error, state} = undo(error, saved, state)
          {{:error, error}, stopped, state}
      end
    else
      {:error, error, journal} -> {{:error, error}, :operation, %{state | journal: journal}}
    end
  end

  # If the journal does not take the record now, it is written before the next one.
  defp undo(error, saved, state) do
    state = %{state | undone: {:undone, saved}}

    case append_undone(state) do
      {:ok, state} -> {error, state}
      {:error, journal_error, journal} -> {journal_error, %{state | journal: journal}}
    end
  end

  defp append_undone(%{undone: nil} = state), do: {:ok, state}

  defp append_undone(state) do
    with {:ok, journal} <- History.append(state.journal, state.undone),
         do: {:ok, %{state | journal: journal, undone: nil}}
  end

  defp send_notices(_state, []), do: :ok
  defp send_notices(state, notices), do: Delivery.send_all(receivers(state.options), notices)

  @doc "Returns the processes, or their names, to which a server sends notices."
  @spec receivers(map) :: [Delivery.receiver()]
  def receivers(%{name: name, notify: notify}), do: Subscribers.of(name) ++ notify

  @doc "Writes other rules to the journal, and continues with them."
  @spec put_rules(State.t(), Rules.t(), String.t()) :: {:ok, State.t()} | {:error, Error.t(), State.t()}
  def put_rules(state, rules, text) do
    with {:ok, state} <- append_undone(state),
         {:ok, journal} <- History.append(state.journal, {:swap, text}) do
      {:ok, %{state | rules: rules, text: text, journal: journal}}
    else
      {:error, error, journal} -> {:error, error, %{state | journal: journal}}
    end
  end
end
