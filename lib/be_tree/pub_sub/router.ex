defmodule BeTree.PubSub.Router do
  @moduledoc false
  # Delivers events of other nodes to the subscribers of this one, and acknowledges them.

  use BeTree.Processes.Server

  alias BeTree.PubSub.{Publication, Table}

  # Events of an origin between two acknowledgements while more arrive.
  @acknowledged_at_once 64

  @enforce_keys [:name]
  defstruct @enforce_keys ++ [origins: %{}]

  @typedoc """
  `:origins` has, for each process that wants acknowledgements, its monitor, the number of its events, and the number that it was told.
  """
  @type t :: %__MODULE__{}

  @doc "Starts a router at a place among those of this node."
  @spec start_link({Table.t(), place :: non_neg_integer, count :: pos_integer}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @impl GenServer
  def init({%Table{name: name, scope: scope}, place, count}) do
    :ok = :pg.join(scope, {place, count}, self())
    {:ok, %__MODULE__{name: name}}
  end

  @impl GenServer
  def handle_info({:publish, origin, events}, state) when is_pid(origin) and is_list(events) do
    # The table of this pubsub outlives the process.
    :ok = Publication.deliver_here(state.name, events)
    {monitor, handled, told} = Map.get_lazy(state.origins, origin, fn -> {Process.monitor(origin), 0, 0} end)
    account = acknowledge(origin, {monitor, handled + length(events), told}, @acknowledged_at_once)
    {:noreply, put_in(state.origins[origin], account), 0}
  end

  # The mailbox is empty.
  def handle_info(:timeout, state) do
    origins = Map.new(state.origins, fn {origin, account} -> {origin, acknowledge(origin, account, 1)} end)
    {:noreply, %{state | origins: origins}}
  end

  def handle_info({:DOWN, _monitor, :process, origin, _reason}, state),
    do: {:noreply, %{state | origins: Map.delete(state.origins, origin)}, 0}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state, 0}
  end

  @impl GenServer
  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state, 0}

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state, 0}
  end

  defp acknowledge(origin, {monitor, handled, told}, least) when handled - told >= least do
    :erlang.send(origin, {:handled, self(), handled}, [:noconnect])
    {monitor, handled, handled}
  end

  defp acknowledge(_origin, account, _least), do: account
end
