defmodule BeTree.Rules.Server.Front do
  @moduledoc false
  # The process of a server with partitions that makes its routes, swaps the rules of all partitions at once, and forgets subscribers
  # that ended. No other call passes through it.

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.Engine.Stray
  alias BeTree.Rules.Server.{Layout, Request, Routes, Shared, Subscribers}

  @spec start_link({map, keyword}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @impl GenServer
  def init({options, new}) do
    with :ok <- begin(options, new) do
      Shared.put_front(options.table, self())
      subscribers = options.table |> Shared.subscribers() |> Enum.reduce(%{}, &Subscribers.add(&2, &1))
      {:ok, %{options: options, new: new, subscribers: subscribers}}
    else
      {:error, error} -> {:stop, error}
    end
  end

  # The table has the routes already if this process starts again.
  defp begin(%{table: table} = options, new) do
    if Shared.routes(table) do
      :ok
    else
      with {:ok, routes} <- Routes.new(options.rules, options.partitions, options.partition_by, new),
           :ok <- Layout.keep(options.dir, routes) do
        Shared.put_rules(table, options.rules, routes)
        :ok
      end
    end
  end

  @impl GenServer
  def handle_call({:swap, text, by, deadline}, _from, %{options: %{table: table} = options} = state) do
    by = by || options.partition_by

    reply =
      with :ok <- Request.in_time(deadline),
           {:ok, routes} <- Routes.new(text, options.partitions, by, state.new),
           %Routes{} = before = Shared.routes(table),
           :ok <- Layout.check_keys(before, routes),
           do: swap(text, routes, options)

    state = if reply == :ok, do: put_in(state.options.partition_by, by), else: state
    {:reply, reply, state}
  end

  def handle_call({:subscribe, pid}, _from, state) do
    {:reply, :ok, put_subscribers(state, Subscribers.add(state.subscribers, pid))}
  end

  def handle_call({:unsubscribe, pid}, _from, state) do
    {:reply, :ok, put_subscribers(state, Subscribers.remove(state.subscribers, pid))}
  end

  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  @impl GenServer
  def handle_info({:DOWN, _monitor, :process, pid, _reason}, state),
    do: {:noreply, put_subscribers(state, Subscribers.remove(state.subscribers, pid))}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state}
  end

  defp put_subscribers(state, subscribers) do
    Shared.put_subscribers(state.options.table, Map.keys(subscribers))
    %{state | subscribers: subscribers}
  end

  # Each partition makes the new rules, and waits. When all have, the rules are those of the server, also for a partition that
  # starts again, and all partitions take them. If one has failed, none does.
  defp swap(text, routes, %{table: table, name: name} = options) do
    swap = make_ref()
    owners = for number <- 0..(options.partitions - 1), do: Shared.owner(table, number)
    replies = Request.all(Enum.map(owners, &{&1, {:prepare_swap, text, swap}}), name, :infinity)

    outcome = with nil <- Enum.find(replies, &match?({:error, _error}, &1)), do: Layout.keep(options.dir, routes)

    if outcome == :ok, do: Shared.put_rules(table, text, routes)
    decision = if outcome == :ok, do: :commit, else: :abort
    for owner <- owners, owner, do: send(owner, {swap, decision})
    if outcome == :ok, do: await(owners, text, options)
    outcome
  end

  # A partition that took the rules replies after that. One that ended instead has started again, maybe with the rules of before.
  defp await(owners, text, %{table: table, name: name}) do
    replies = Request.all(Enum.map(owners, &{&1, {:catch_up, :infinity}}), name, :infinity)

    for {{:error, _error}, number} <- Enum.with_index(replies),
        do: Request.call(Shared.owner(table, number), name, {:swap, text, :infinity}, :infinity)
  end
end
