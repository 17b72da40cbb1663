defmodule BeTree.Rules.Server.Front do
  @moduledoc false
  # The process of a server with partitions that makes its routes, subscribes processes, and swaps the rules of all partitions at
  # once. No other call passes through it.

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Rules.Server.{Clock, Layout, Request, Routes, Shared, Subscribers}

  @spec start_link({map, keyword}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @impl GenServer
  def init({options, new}) do
    with :ok <- begin(options, new) do
      Shared.put_front(options.table, self())
      {:ok, %{options: options, new: new}, {:continue, :take_rules}}
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
        Shared.put_rules(table, options.rules, options.partition_by, routes)
        :ok
      end
    end
  end

  # The previous front process may have ended during a swap, after the decision and before each partition had taken the rules.
  @impl GenServer
  def handle_continue(:take_rules, state) do
    take_rules(state.options)
    {:noreply, state}
  end

  @impl GenServer
  def handle_call({:swap, text, by, deadline}, _from, %{options: %{table: table} = options} = state) do
    by = by || Shared.by(table)

    reply =
      with :ok <- Request.in_time(deadline),
           {:ok, routes} <- Routes.new(text, options.partitions, by, state.new),
           %Routes{} = before = Shared.routes(table),
           :ok <- Layout.check_keys(before, routes),
           do: swap(text, by, routes, options)

    {:reply, reply, state}
  end

  # All partitions read the clock of the table.
  def handle_call({:go_live, deadline}, _from, %{options: %{table: table} = options} = state) do
    reply =
      with :ok <- Request.in_time(deadline),
           nil <- Shared.clock(table),
           :ok <- Layout.go_live(options.dir) do
        Shared.put_clock(table, Clock.new(options))
        Clock.move_to({:shared, table}, Shared.time(table))
        :ok
      else
        %Clock{} -> :ok
        {:error, error} -> {:error, error}
      end

    {:reply, reply, state}
  end

  def handle_call({:subscribe, pid, nil}, _from, state) do
    Subscribers.add(state.options.name, pid, :all)
    {:reply, :ok, state}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  # Each partition makes the new rules, and waits. If all succeed, the table gets the rules, which decides the swap: they now hold
  # for every partition, also for one that restarts or outlives this process. If one fails, no partition takes the rules.
  defp swap(text, by, routes, %{table: table, name: name} = options) do
    swap = make_ref()
    owners = owners(options)
    replies = Request.all(Enum.map(owners, &{&1, {:prepare_swap, text, swap}}), name, :infinity)
    outcome = with nil <- Enum.find_value(replies, &refusal/1), do: Layout.keep(options.dir, routes)

    if outcome == :ok, do: Shared.put_rules(table, text, by, routes)
    decision = if outcome == :ok, do: :commit, else: :abort
    for owner <- owners, owner, do: send(owner, {swap, decision})
    if outcome == :ok, do: take_rules(options)
    outcome
  end

  defp refusal({:ok, :prepared}), do: nil

  defp refusal({:error, %Error{kind: :no_server} = error}) do
    {:error,
     %{error | message: "a partition ended before it had made the new rules, so nothing has changed; swap again"}}
  end

  defp refusal({:error, error}), do: {:error, error}

  # Waits until the partitions that run have the rules of the table. One that starts later reads them there.
  defp take_rules(%{name: name} = options) do
    running = for owner <- owners(options), owner, do: {owner, :take_rules}
    _ended_or_taken = Request.all(running, name, :infinity)
    :ok
  end

  defp owners(%{table: table, partitions: partitions}),
    do: for(number <- 0..(partitions - 1), do: Shared.owner(table, number))
end
