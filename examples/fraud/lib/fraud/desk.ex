defmodule Fraud.Desk do
  @moduledoc """
  Keeps the cases that the rules report, each exactly once.

  The file has the cases together with the number of the last notice, and is replaced as a whole. After a crash the desk asks for the notices
  after that number, so none is missing, and none is there twice.
  """

  use GenServer

  require Logger

  alias BeTree.Rules.Server
  alias Fraud.Rules

  @type case_of_fraud :: %{number: pos_integer, kind: String.t(), user: String.t(), device: String.t()}

  def start_link(path), do: GenServer.start_link(__MODULE__, path, name: __MODULE__)

  @doc "Returns the cases, the oldest first."
  @spec cases() :: [case_of_fraud]
  def cases, do: GenServer.call(__MODULE__, :cases, :infinity)

  @impl GenServer
  def init(path) do
    {last, cases} =
      case File.read(path) do
        {:ok, bytes} -> :erlang.binary_to_term(bytes)
        {:error, :enoent} -> {0, []}
      end

    {:ok, subscribe(%{path: path, last: last, cases: cases})}
  end

  @impl GenServer
  def handle_call(:cases, _from, state), do: {:reply, Enum.reverse(state.cases), state}

  @impl GenServer
  def handle_info({Server, Rules, notices}, state) when is_list(notices), do: {:noreply, take(notices, state)}
  # Notices are missing: the desk was too slow, or the rules had crashed.
  def handle_info({Server, Rules, _dropped_or_restarted}, state), do: {:noreply, subscribe(state)}
  def handle_info(:subscribe, state), do: {:noreply, subscribe(state)}

  defp subscribe(state) do
    case Server.subscribe(Rules, since: state.last) do
      :ok ->
        state

      {:error, %{kind: :no_server}} ->
        Process.send_after(self(), :subscribe, 100)
        state

      {:error, error} ->
        # The folder of the rules is another one, or older notices are gone. What comes from now on is kept.
        Logger.error("cases are missing: #{Exception.message(error)}")
        {:ok, info} = Server.info(Rules)
        subscribe(%{state | last: info.last_notice})
    end
  end

  defp take(notices, state) do
    case Enum.reduce(notices, state, &add/2) do
      ^state -> state
      state -> store(state)
    end
  end

  # An earlier number is a repetition. Before a later one notices are missing, which `subscribe/1` brings.
  defp add(%{number: number} = notice, %{last: last} = state) when number == last + 1 do
    case_of_fraud = %{number: number, kind: notice.name, user: notice.values["user"], device: notice.values["device"]}
    Logger.warning("#{notice.name}: #{case_of_fraud.user} by #{case_of_fraud.device}")
    %{state | last: number, cases: [case_of_fraud | state.cases]}
  end

  defp add(_repeated, state), do: state

  defp store(state) do
    new = state.path <> ".new"
    File.write!(new, :erlang.term_to_binary({state.last, state.cases}), [:sync])
    File.rename!(new, state.path)
    state
  end
end
