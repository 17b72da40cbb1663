defmodule BeTree.Server.Follower do
  @moduledoc false
  # The process of a server that follows another one. It appends the changes of that server to its own log and to that of its
  # replicas, as they come. It builds bases itself, so a base travels only when the log does not lead to it. Searches continue
  # with the last version when the other server, its node or the connection is lost.
  #
  # A courier beside the other server sends the changes. Each of its messages is answered by a request for the next one, and its
  # end by another courier, after a pause.

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.{Error, Image, Telemetry}
  alias BeTree.Engine.{Describe, Heap, Instance, Reply, Stray}
  alias BeTree.Server.{Builder, Courier, Ids, Maintainer, Queue, Table, View}

  # The milliseconds until the follower starts another courier, or builds again after a failure.
  @again 1_000
  # The changes since the base before another one is built.
  @share 16
  @least 512
  @most 4_096

  @enforce_keys [:table, :options]
  defstruct [
    :table,
    :options,
    :courier,
    :maintainer,
    :builder,
    :retry,
    :base,
    # The last version, or -1 without a base.
    version: -1,
    # The image that is arriving, with the last piece first, and its texts.
    pieces: [],
    texts: [],
    connected: false,
    error: nil,
    waiting: Queue.new(),
    # Whether a message is on its way by which rows of deleted ids are dropped.
    dropping: false,
    bases: 0
  ]

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options})

  @impl GenServer
  def init({table, options}) do
    Process.flag(:trap_exit, true)
    Table.claim(table)
    state = %__MODULE__{table: table, options: options, maintainer: Maintainer.start_link(table.server)}
    state = recover(state, Table.recover(table))
    if Table.started?(table), do: Ids.sweep(table.ids, table.texts)
    Table.put_process(table, self())
    connect(options)
    {:ok, state}
  end

  defp recover(state, nil), do: state

  defp recover(state, {base, rows}) do
    :ok = Builder.complete_log(base, rows)
    Table.complete_texts(state.table, base, :infinity)
    %{state | base: base, version: base.version + length(rows)}
  end

  @impl GenServer
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}
  def handle_call(:version, _from, state), do: {:reply, {:ok, max(state.version, 0)}, state}

  def handle_call({:await, version, timeout}, from, state) when is_integer(version) do
    {:noreply, notify(%{state | waiting: Queue.add(state.waiting, from, version, timeout)})}
  end

  def handle_call(_change, _from, %{options: %{follow: {name, node}}, table: table} = state) do
    {:reply, {:raise, "#{Describe.value(table.server)} follows #{Describe.value(name)} of #{node}; change that server"},
     state}
  end

  @impl GenServer
  def handle_info({:rows, courier, rows}, %{courier: courier} = state) when is_pid(courier) do
    {:noreply, state |> add(rows) |> request_next()}
  end

  def handle_info({:followed, courier}, %{courier: courier} = state) when is_pid(courier) do
    {:noreply, %{state | connected: true, error: nil}}
  end

  def handle_info({:piece, courier, piece}, %{courier: courier} = state) when is_pid(courier) do
    send(courier, {:more, self()})
    {:noreply, %{state | pieces: [piece | state.pieces], connected: true}}
  end

  def handle_info({:texts, courier, rows}, %{courier: courier} = state) when is_pid(courier) do
    send(courier, {:more, self()})
    {:noreply, %{state | texts: [rows | state.texts]}}
  end

  def handle_info({:base, courier, base}, %{courier: courier} = state) when is_pid(courier) do
    {:noreply, put(state, base)}
  end

  def handle_info({:EXIT, courier, reason}, %{courier: courier} = state) when is_pid(courier),
    do: {:noreply, lost(state, reason)}

  def handle_info({:built, pid, outcome}, %{builder: pid} = state) when is_pid(pid) do
    {:noreply, built(%{state | builder: nil}, outcome)}
  end

  def handle_info({:EXIT, pid, reason}, %{builder: pid} = state) when is_pid(pid) do
    error = %Error{kind: :trap, message: "building the next base ended with #{Describe.reason(reason)}"}
    {:noreply, built(%{state | builder: nil}, {:error, error})}
  end

  def handle_info({:EXIT, pid, _reason}, %{maintainer: pid, table: table} = state) when is_pid(pid) do
    {:noreply, %{state | maintainer: Maintainer.start_link(table.server)}}
  end

  # A replica could not apply the log. The other server sends its index again.
  def handle_info({:unfit, pid, instance, error}, %{maintainer: pid, base: %{index: %{instance: instance}}} = state) do
    if state.courier, do: Process.exit(state.courier, :kill)
    {:noreply, %{state | base: %{state.base | id: nil}, error: error}}
  end

  def handle_info(:collect, state) do
    :erlang.garbage_collect()
    {:noreply, state}
  end

  def handle_info(:unreachable, state), do: {:noreply, lost(state, :noconnection)}

  def handle_info(:reachable, %{courier: nil} = state) do
    id = state.base && state.base.id
    courier = Courier.send_for(state.options.follow, id, if(id, do: state.version, else: -1))
    {:noreply, %{state | courier: courier, pieces: []}}
  end

  def handle_info(:connect, state) do
    connect(state.options)
    {:noreply, state}
  end

  def handle_info(:drop, state), do: {:noreply, drop(%{state | dropping: false}, Ids.most())}
  def handle_info({:build, timer}, %{retry: timer} = state), do: {:noreply, build_if_due(%{state | retry: nil})}

  def handle_info({:expired, _from} = expired, state),
    do: {:noreply, %{state | waiting: Queue.expire(state.waiting, expired)}}

  # Messages of a courier that was abandoned, or of a process that has finished.
  def handle_info({:unfit, pid, _instance, _error}, state) when is_pid(pid), do: {:noreply, state}

  def handle_info({:followed, pid}, state) when is_pid(pid), do: {:noreply, state}

  def handle_info({step, pid, _content}, state)
      when step in [:rows, :piece, :texts, :base, :built, :EXIT] and is_pid(pid),
      do: {:noreply, state}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state}
  end

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  ## The courier

  # Connecting may take seconds, and a failed spawn on the other node is reported. This process sends its message also when
  # connecting fails.
  defp connect(%{follow: {_name, node}}) do
    follower = self()

    spawn_link(fn ->
      reachable = node == node() or Node.connect(node) == true
      send(follower, if(reachable, do: :reachable, else: :unreachable))
    end)
  end

  defp lost(state, reason) do
    Process.send_after(self(), :connect, @again)
    state = %{state | courier: nil, connected: false, pieces: [], texts: [], error: error(reason, state)}
    event(:lost, %{version: max(state.version, 0)}, %{error: state.error}, state)
    state
  end

  defp request_next(state) do
    send(state.courier, {:next, self()})
    state
  end

  # A courier that was abandoned here has already left its error.
  defp error(:killed, state), do: state.error
  defp error({:shutdown, %Error{} = error}, state), do: not_followed(error.message, state)
  defp error(reason, state), do: not_followed(Describe.reason(reason), state)

  defp not_followed(reason, %{options: %{follow: {name, node}}}) do
    %Error{kind: :no_server, message: "#{Describe.value(name)} of #{node} cannot be followed now: #{reason}"}
  end

  ## Changes

  defp add(%{base: %{index: %{runtime: runtime, instance: instance}}, table: table} = state, rows) do
    for {version, deleted, wires} = row <- rows do
      Table.append(table, version, deleted, wires)
      Table.put_texts(table, row)
    end

    :ok = Builder.append(runtime, instance, rows)
    for {version, _deleted, _wires} <- rows, do: Maintainer.wake(state.maintainer, version)
    {version, _deleted, _wires} = List.last(rows)
    event(:change, %{changes: length(rows), version: version}, %{}, state)
    %{state | version: version, connected: true, error: nil} |> notify() |> build_if_due() |> drop(0)
  end

  defp drop(%{table: %{ids: ids, texts: texts}, dropping: dropping} = state, most),
    do: %{state | dropping: Ids.drop(ids, texts, most, dropping)}

  defp notify(%{waiting: waiting, version: version} = state), do: %{state | waiting: Queue.reply(waiting, version)}

  ## Bases

  # Takes the base that has arrived.
  defp put(%{pieces: pieces, texts: texts, options: options} = state, sent) do
    %{id: id, version: version, complete: complete, ids: kind} = sent
    state = %{state | pieces: [], texts: []}
    image = pieces |> Enum.reverse() |> IO.iodata_to_binary()

    case Image.read({:binary, image}, read_options(options)) do
      {:ok, index} ->
        state = stop_building(state)
        base = %{id: id, index: index, version: version, origin: version, complete: complete}
        ids = if kind != :integer, do: state.table.ids

        # The log and the texts may have rows of another lineage.
        Table.replace_texts(state.table, texts, fn ->
          Table.put_ids(state.table, ids)
          Table.put_base(state.table, base, View.new(index, state.table.server, ids), :infinity)
        end)

        Ids.sweep(state.table.ids, state.table.texts)

        event(:base, %{bytes: byte_size(image), version: version}, %{}, state)
        Heap.collect_later()
        state = %{state | base: base, version: version, bases: state.bases + 1, connected: true, error: nil}
        state |> notify() |> request_next() |> drop(0)

      # The next courier sends all of it again.
      {:error, error} ->
        Process.exit(state.courier, :kill)
        %{state | error: error}
    end
  end

  defp read_options(%{read: read} = options), do: Keyword.put(read, :memory, Builder.limits(options)[:memory])

  defp build_if_due(%{builder: nil, retry: nil, base: base} = state) when base != nil do
    if state.version - base.version > base.index.info.expressions |> div(@share) |> max(@least) |> min(@most),
      do: %{state | builder: Builder.next(state.table, base, nil, state.options)},
      else: state
  end

  defp build_if_due(state), do: state

  defp built(%{table: table} = state, {:ok, {:renewed, index, version}}) do
    base = %{state.base | index: index, version: version}
    Table.renew_base(table, base)
    # The courier of another follower may lack the rows since the base before.
    Table.forget(table, state.base.version, :infinity)
    Heap.collect_later()

    case index.runtime.rebase(index.instance, index.snapshot) do
      :ok -> build_if_due(%{state | base: base, bases: state.bases + 1, error: nil})
      error -> built(%{state | base: base}, error)
    end
  end

  defp built(state, {:error, error}) do
    timer = make_ref()
    Process.send_after(self(), {:build, timer}, @again)
    %{state | error: error, retry: timer}
  end

  defp stop_building(%{builder: nil} = state), do: state

  defp stop_building(%{builder: pid} = state) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
    %{state | builder: nil}
  end

  defp info(%{base: base, options: options} = state) do
    {_length, lag} = if base, do: base.index.runtime.lag(base.index.instance), else: {0, 0}

    Map.merge(counts(state), %{
      follows: options.follow,
      connected: state.connected,
      version: max(state.version, 0),
      base: if(base, do: base.version, else: 0),
      log: if(base, do: state.version - base.version, else: 0),
      lag: lag,
      bases: state.bases,
      building: state.builder != nil,
      memory: if(base, do: base.index.info.memory_bytes, else: 0),
      ids: state.table.name |> Table.ids_of() |> Ids.info(),
      error: state.error
    })
  end

  defp counts(%{base: nil}), do: Map.new(Reply.counts(), &{&1, 0})

  # This process waits for no replica. While all are in use, the counts are those of the base.
  defp counts(%{base: %{index: %{runtime: runtime, instance: instance, info: info}, complete: complete}, table: table}) do
    case Instance.info(runtime, instance, 0) do
      {:ok, counts} -> counts
      {:error, _error} when complete -> %{info | expressions: Table.count(table)}
      {:error, _error} -> info
    end
  end

  defp event(name, measurements, metadata, %{table: table, options: %{follow: follow}}) do
    Telemetry.event([:follower, name], measurements, Map.merge(metadata, %{server: table.server, follows: follow}))
  end
end
