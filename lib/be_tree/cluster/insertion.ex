defmodule BeTree.Cluster.Insertion do
  @moduledoc false
  # Inserts a list into several shards: all of it or nothing, by two phases.
  #
  # A process of this call, the coordinator, starts an agent on the node of each shard. The agent inserts the shard's part, reports
  # it, and waits for the decision. It deletes its part again when the coordinator says so, or when the coordinator or the
  # connection to it ends. So a part whose agent lives is never left behind, also if the shard replies long after the timeout.
  #
  # A part is in doubt only if its node ends, or the connection is lost between the decision and its confirmation. The error then names
  # the shard.

  alias BeTree.Cluster.Call
  alias BeTree.Input.Subscription
  alias BeTree.Processes.{CrashReport, Deadline}
  alias BeTree.Error
  alias BeTree.Server.{Request, Table}
  alias BeTree.Target.Shards

  # An agent retries a request while the process of its server restarts: the number of attempts, and the milliseconds between them.
  @attempts 200
  @pause 50

  @typedoc "Subscriptions, each with its position in the list of the caller."
  @type part :: [{Subscription.wire(), non_neg_integer}]

  @doc "Inserts each part into its shard. Raises an `ArgumentError` if a shard does, because it follows another server."
  @spec run([{Shards.shard(), part}], timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def run(parts, timeout) do
    caller = self()
    coordinate = fn -> coordinate(parts, timeout, caller) end
    {_pid, monitor} = spawn_monitor(fn -> exit({:shutdown, CrashReport.guard(coordinate)}) end)

    receive do
      {:DOWN, ^monitor, :process, _pid, {:shutdown, {:raise, message}}} ->
        raise ArgumentError, message

      {:DOWN, ^monitor, :process, _pid, {:shutdown, result}} ->
        result

      {:DOWN, ^monitor, :process, _pid, reason} ->
        {:error, Call.unreachable(:exit, reason)}
    end
  end

  ## The coordinator

  defp coordinate(parts, timeout, caller) do
    guard = Process.monitor(caller)
    agents = for {shard, part} <- parts, into: %{}, do: start(shard, part, timeout)
    replies = collect(agents, agents, %{}, guard)

    if Enum.all?(replies, &match?({_key, {:inserted, _pid}}, &1)),
      do: commit(agents, replies, timeout, guard),
      else: abort(agents, replies, timeout, guard)
  end

  # The monitor reference of an agent identifies it.
  defp start({name, node} = shard, part, timeout) do
    wires = for {wire, _position} <- part, do: wire
    key = make_ref()

    request =
      :erlang.spawn_request(node, __MODULE__, :serve, [name, self(), key, wires], [:monitor, reply: :error_only])

    deadline = Deadline.new(Call.patience(node, timeout))
    {key, %{shard: shard, part: part, request: request, deadline: deadline}}
  end

  # Waits for a reply of each agent of `pending`, until its deadline. An agent that ends after it has inserted counts as lost.
  defp collect(_agents, pending, replies, _guard) when pending == %{}, do: replies

  defp collect(agents, pending, replies, guard) do
    next = pending |> Enum.map(fn {_key, %{deadline: deadline}} -> Deadline.left(deadline) end) |> Enum.min()

    receive do
      {:reply, key, reply} when is_map_key(pending, key) ->
        collect(agents, Map.delete(pending, key), Map.put(replies, key, reply), guard)

      # The agents monitor this process.
      {:DOWN, ^guard, :process, _caller, _reason} ->
        exit(:normal)

      {:DOWN, request, :process, _pid, reason} ->
        {pending, replies} = lost(agents, request, reason, pending, replies)
        collect(agents, pending, replies, guard)

      {:spawn_reply, request, :error, reason} ->
        {pending, replies} = lost(agents, request, reason, pending, replies)
        collect(agents, pending, replies, guard)
    after
      next ->
        {late, pending} = Enum.split_with(pending, fn {_key, %{deadline: deadline}} -> Deadline.passed?(deadline) end)
        replies = Map.merge(replies, Map.new(late, fn {key, _agent} -> {key, :late} end))
        collect(agents, Map.new(pending), replies, guard)
    end
  end

  defp lost(agents, request, reason, pending, replies) do
    {key, _agent} = Enum.find(agents, fn {_key, agent} -> agent.request == request end)

    case replies do
      # An agent ends after its last reply.
      %{^key => reply} when not is_tuple(reply) or elem(reply, 0) != :inserted -> {pending, replies}
      _not_decided -> {Map.delete(pending, key), Map.put(replies, key, {:lost, reason})}
    end
  end

  defp commit(agents, replies, timeout, guard) do
    confirmed = decide(:commit, agents, replies, timeout, guard)

    case for {key, agent} <- agents, confirmed[key] != :committed, do: agent do
      [] ->
        {:ok, agents |> Enum.map(fn {_key, %{part: part}} -> length(part) end) |> Enum.sum()}

      [%{shard: shard} | _] = doubtful ->
        message =
          "it was lost before it confirmed the insertion, which is made elsewhere; when it is back, insert the rest of its " <>
            "part: #{parts(doubtful)}"

        {:error, Call.named(%Error{kind: :no_server, message: message}, shard)}
    end
  end

  defp abort(agents, replies, timeout, guard) do
    # An agent without a reply of its shard cannot reply either. It deletes its part when this process ends.
    aborted = decide(:abort, agents, replies, timeout, guard)

    case replies |> Map.values() |> Enum.find(&match?({:raise, _message}, &1)) do
      {:raise, message} -> {:raise, message}
      nil -> {:error, error(agents, replies, aborted)}
    end
  end

  # Sends the decision to all agents whose parts are inserted, and waits for their confirmations.
  defp decide(decision, agents, replies, timeout, guard) do
    told =
      for {key, {:inserted, pid}} <- replies, into: %{} do
        send(pid, decision)
        %{shard: {_name, node}} = agent = agents[key]
        {key, %{agent | deadline: Deadline.new(Call.patience(node, timeout))}}
      end

    collect(agents, told, %{}, guard)
  end

  # Returns the error with the lowest position, and names the shards that may still have their parts.
  defp error(agents, replies, aborted) do
    {_position, error} =
      for({key, reply} <- replies, error = refusal(reply, agents[key]), do: {error.position, error})
      |> Enum.min_by(fn {position, _error} -> position || :last end)

    replies = Map.merge(replies, aborted)
    late = for {key, :late} <- replies, do: agents[key]
    lost = for {key, reply} <- replies, doubtful?(reply), do: agents[key]

    notes =
      note(late, "a shard that replies late deletes its part then") ++
        note(lost, "when a lost shard is back, check that it has none of its part")

    %{error | message: Enum.join([error.message | notes], "; ")}
  end

  defp note([], _state), do: []
  defp note(agents, state), do: ["#{state}: #{parts(agents)}"]

  defp parts(agents) do
    Enum.map_join(agents, ", ", fn %{shard: shard, part: part} ->
      "#{Call.text(shard)} (#{length(part)} subscriptions)"
    end)
  end

  # The node lacks this module, so it inserted nothing.
  defp doubtful?({:lost, {:undef, _stacktrace}}), do: false
  defp doubtful?({:lost, _reason}), do: true
  defp doubtful?({:left, _error}), do: true
  defp doubtful?(_reply), do: false

  defp refusal({:refused, %Error{position: position} = error}, %{shard: shard, part: part}) do
    position = position && part |> Enum.at(position) |> elem(1)
    Call.named(%{error | position: position}, shard)
  end

  defp refusal({:lost, reason}, %{shard: shard}), do: :exit |> Call.unreachable(reason) |> Call.named(shard)

  defp refusal(:late, %{shard: shard}),
    do: Call.named(%Error{kind: :timeout, message: "it did not reply in time"}, shard)

  defp refusal(_inserted, _agent), do: nil

  ## An agent

  @doc false
  @spec serve(BeTree.Server.name(), pid, reference, [Subscription.wire()]) :: :ok
  def serve(name, coordinator, key, wires) do
    CrashReport.guard(fn ->
      guard = Process.monitor(coordinator)
      inserted = insert(name, wires)
      send(coordinator, {:reply, key, report(inserted)})

      receive do
        :commit -> send(coordinator, {:reply, key, :committed})
        :abort -> send(coordinator, {:reply, key, revoke(name, wires, inserted)})
        {:DOWN, ^guard, :process, _pid, _reason} -> revoke(name, wires, inserted)
      end

      :ok
    end)
  end

  defp report({:ok, _version}), do: {:inserted, self()}
  defp report({:error, error}), do: {:refused, error}
  defp report({:raise, message}), do: {:raise, message}

  # Returns the version of the insertion. The coordinator enforces the timeout.
  defp insert(name, wires) do
    with {:ok, kind} <- Request.kind(name),
         {:ok, ids} <- Subscription.ids(Enum.map(wires, &elem(&1, 0)), kind),
         {:ok, before} <- Request.call(name, :version, :infinity) do
      case Request.change(name, {:insert, wires, :version}, :infinity) do
        {:ok, version} -> {:ok, version}
        {:error, %Error{kind: :no_server} = error} -> inserted(name, ids, before, error)
        {:error, error} -> {:error, error}
      end
    end
  rescue
    # The server follows another one.
    error in ArgumentError -> {:raise, Exception.message(error)}
  end

  # The server's process ended during the call. A completed insertion gave all ids one version, above `before`.
  defp inserted(name, ids, before, error) do
    with {:ok, _version} <- repeat(fn -> Request.call(name, :version, :infinity) end, @attempts),
         {:ok, table} <- Request.table(name),
         {:ok, table} <- Table.fetch(table),
         [version] when is_integer(version) and version > before <-
           ids |> Enum.map(&Table.version(table, &1)) |> Enum.uniq() do
      {:ok, version}
    else
      _not_made -> {:error, error}
    end
  end

  # Deletes the part except subscriptions that another change has replaced.
  defp revoke(name, wires, {:ok, version}) do
    ids = for {id, _text, _constants} <- wires, do: id

    case repeat(fn -> Request.change(name, {:revoke, version, ids}, :infinity) end, @attempts) do
      {:ok, _counts} -> :revoked
      {:error, error} -> {:left, error}
    end
  end

  defp revoke(_name, _wires, _not_inserted), do: :revoked

  defp repeat(request, attempts) do
    with {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] and attempts > 1 <- request.() do
      Process.sleep(@pause)
      repeat(request, attempts - 1)
    end
  end
end
