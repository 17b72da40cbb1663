defmodule BeTree.PubSub.Peers do
  @moduledoc false
  # Knows the other nodes on which a pubsub of this name runs, and bounds the events on their way to each.
  #
  # The routers of all nodes (BeTree.PubSub.Router) are members of groups of `:pg`. This process turns the members into a list, which
  # publishers read. A publisher sends an event to one router of each node, always the same one, so the events of a publisher arrive in
  # order. A router acknowledges the number of events that it has received from this process.

  use BeTree.Processes.Server

  alias BeTree.PubSub.Table

  # Events that may be on their way to one router. Others are dropped.
  @max_in_flight 10_000

  # The positions in the account of a router.
  @sent 1
  @handled 2

  @enforce_keys [:table, :reference, :members]
  defstruct @enforce_keys ++ [accounts: %{}, unsent: %{}]

  @typedoc """
  A node, the process to which its routers acknowledge, the number of dropped events as atomics, and the routers, each with its account. A
  router that is being started again is `nil`.
  """
  @type peer :: {node, pid, :atomics.atomics_ref(), routers :: tuple}

  @spec start_link(Table.t()) :: GenServer.on_start()
  def start_link(table), do: GenServer.start_link(__MODULE__, table)

  @doc "Sends events to all peers. Returns how many were dropped, the sum over the peers. Never waits."
  @spec send_all([peer], [BeTree.Event.t()]) :: non_neg_integer
  def send_all(peers, events) do
    count = length(events)

    for {_node, origin, unsent, routers} <- peers, reduce: 0 do
      sum ->
        router = elem(routers, :erlang.phash2(self(), tuple_size(routers)))

        if sent?(router, {:publish, origin, events}, count) do
          sum
        else
          :atomics.add(unsent, 1, count)
          sum + count
        end
    end
  end

  defp sent?(nil, _message, _count), do: false

  defp sent?({router, account}, message, count) do
    in_flight = :atomics.add_get(account, @sent, count) - :atomics.get(account, @handled)

    if in_flight <= @max_in_flight and :erlang.send(router, message, [:noconnect, :nosuspend]) == :ok do
      true
    else
      :atomics.sub(account, @sent, count)
      false
    end
  end

  @doc "Returns the events on their way to each node, and those that were dropped."
  @spec describe([peer]) :: %{node => %{in_flight: non_neg_integer, unsent: non_neg_integer}}
  def describe(peers) do
    Map.new(peers, fn {node, _origin, unsent, routers} ->
      in_flight = for {_router, account} <- Tuple.to_list(routers), do: in_flight(account)
      {node, %{in_flight: Enum.sum(in_flight), unsent: :atomics.get(unsent, 1)}}
    end)
  end

  # The router may have counted events that were sent before the account began.
  defp in_flight(account), do: max(:atomics.get(account, @sent) - :atomics.get(account, @handled), 0)

  @impl GenServer
  def init(table) do
    {reference, groups} = :pg.monitor_scope(table.scope)
    members = for {group, pids} <- groups, pid <- pids, into: %{}, do: {{node(pid), group}, pid}
    {:ok, show(%__MODULE__{table: table, reference: reference, members: members})}
  end

  @impl GenServer
  def handle_info({reference, :join, group, pids}, %{reference: reference} = state) do
    joined = for pid <- pids, into: %{}, do: {{node(pid), group}, pid}
    {:noreply, show(%{state | members: Map.merge(state.members, joined)})}
  end

  def handle_info({reference, :leave, group, pids}, %{reference: reference} = state) do
    members = Map.reject(state.members, fn {{_node, of}, pid} -> of == group and pid in pids end)
    {:noreply, show(%{state | members: members})}
  end

  def handle_info({:handled, router, count}, state) when is_integer(count) do
    with %{^router => account} <- state.accounts, do: :atomics.put(account, @handled, count)
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)

  # A router that left begins with a new account when it comes back, because events on their way were lost.
  defp show(%{members: members} = state) do
    others = for {{node, group}, pid} <- members, node != node(), do: {node, group, pid}
    accounts = Map.new(others, fn {_node, _group, pid} -> {pid, state.accounts[pid] || :atomics.new(2, [])} end)
    nodes = Enum.group_by(others, &elem(&1, 0))
    unsent = Map.new(nodes, fn {node, _members} -> {node, state.unsent[node] || :atomics.new(1, [])} end)
    peers = for {node, members} <- nodes, do: {node, self(), unsent[node], routers(members, accounts)}
    Table.put_peers(state.table, peers)
    %{state | accounts: accounts, unsent: unsent}
  end

  # The group of a router is its place, and the number of routers of its node.
  defp routers([{_node, {_place, count}, _pid} | _others] = members, accounts) do
    by_place = Map.new(members, fn {_node, {place, _count}, pid} -> {place, {pid, accounts[pid]}} end)
    List.to_tuple(for place <- 0..(count - 1), do: by_place[place])
  end
end
