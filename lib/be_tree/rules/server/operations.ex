defmodule BeTree.Rules.Server.Operations do
  @moduledoc false
  # Makes the operations of a server of rules. The journal has an operation before the engine makes it, and a record of each that was
  # undone (BeTree.Rules.Server.History).

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Page
  alias BeTree.Rules.Server.{Change, Delivery, History, Kept, State, Subscribers}

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
          {{:ok, page}, nil, send_notices(%{state | fired: state.fired + page.firings}, notices)}

        {:error, error, stopped, saved} ->
          {error, state} = undo(error, saved, state)
          {{:error, error}, stopped, state}
      end
    else
      {:error, error, journal} -> {{:error, error}, :operation, %{state | journal: journal}}
    end
  end

  # If the journal does not take the record now, it is written before the next one. The notices of a long advance up to its saved time are
  # sent after the record: a recovery with it makes the advance up to there, one without it does not.
  defp undo(error, nil, state), do: write_undone(error, %{state | undone: {{:undone, nil}, []}})

  defp undo(error, saved, state) do
    notices = Change.notices_to(saved, state.fired)
    write_undone(error, %{state | undone: {{:undone, saved.time}, notices}, fired: saved.firings})
  end

  defp write_undone(error, state) do
    case append_undone(state) do
      {:ok, state} -> {error, state}
      {:error, journal_error, journal} -> {journal_error, %{state | journal: journal}}
    end
  end

  defp append_undone(%{undone: nil} = state), do: {:ok, state}

  defp append_undone(%{undone: {record, notices}} = state) do
    with {:ok, journal} <- History.append(state.journal, record),
         do: {:ok, send_notices(%{state | journal: journal, undone: nil}, notices)}
  end

  defp send_notices(state, []), do: state

  defp send_notices(%{options: options, number: number} = state, notices) do
    {notices, kept} = Kept.add(state.kept, notices)
    # A folder has the calls, and thereby the numbers of their notices.
    if options.dir == nil, do: Subscribers.put_last_notice(options.name, number, kept.last)
    Delivery.send_all(receivers(options, number), notices)
    %{state | kept: kept}
  end

  @doc "Returns the processes, or their names, to which a server or a partition sends notices: each process once."
  @spec receivers(map, non_neg_integer | nil) :: [Delivery.receiver()]
  def receivers(%{name: name, notify: []}, number), do: Subscribers.of(name, number)

  def receivers(%{name: name, notify: notify}, number) do
    notify = Enum.uniq_by(notify, &(Delivery.pid(&1) || &1))
    Enum.reject(Subscribers.of(name, number), &notified(&1, notify)) ++ notify
  end

  @doc "Returns the receiver that a process is: an element of `:notify`, or its pid."
  @spec receiver(map, pid) :: Delivery.receiver()
  def receiver(%{notify: notify}, pid), do: notified(pid, notify) || pid

  defp notified(pid, notify), do: Enum.find(notify, &(Delivery.pid(&1) == pid))

  @doc "Returns the number of firings of rules."
  @spec fired(Rules.t()) :: non_neg_integer
  def fired(rules) do
    {:ok, %{firings: fired}} = Rules.info(rules)
    fired
  end

  @doc "Writes other rules to the journal, and continues with them."
  @spec put_rules(State.t(), Rules.t(), String.t()) :: {:ok, State.t()} | {:error, Error.t(), State.t()}
  def put_rules(state, rules, text) do
    with {:ok, state} <- append_undone(state),
         {:ok, journal} <- History.append(state.journal, {:swap, text}) do
      {:ok, %{state | rules: rules, text: text, journal: journal, fired: fired(rules)}}
    else
      {:error, error, journal} -> {:error, error, %{state | journal: journal}}
    end
  end
end
