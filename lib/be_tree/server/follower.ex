defmodule BeTree.Server.Follower do
  @moduledoc false
  # The process of a server that follows another one. It makes the changes of that server in a tree of its own, as they come, and
  # appends those that the tree accepts to its log and to that of its replicas. It builds bases itself, so a base travels only when
  # the log does not lead to it. Searches continue with the last version when the other server, its node or the connection is lost.
  #
  # A row that the tree cannot make, because it is malformed or memory is short, is not shown. The follower then requests an index,
  # at growing intervals, until one fits.
  #
  # A courier beside the other server sends the changes. The follower requests each next message. When a courier ends, the follower
  # starts another one after a pause.

  use BeTree.Processes.Server

  import BeTree.Input.Limits, only: [is_i64: 1, is_u64: 1]

  alias BeTree.{Error, Image, Index, Telemetry}
  alias BeTree.Input.{Check, Describe}
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Processes.Stray
  alias BeTree.Server.{Bases, Builder, Changes, Courier, Lineage, Lookup, Queue, Table}
  alias BeTree.Target.{Ids, View}

  # The milliseconds until the follower starts another courier. The pause doubles while the index of the other server is refused,
  # because a whole index travels each time.
  @first_pause 1_000
  @max_pause 30_000

  @enforce_keys [:table, :options, :bases, :waiting]
  defstruct @enforce_keys ++
              [
                :courier,
                # The tree that accepts changes, or nil if it failed to make one. An index is needed then.
                :tree,
                # The last version, or -1 without a base.
                version: -1,
                pause: @first_pause,
                # The image that is arriving, with the last piece first, and its texts.
                pieces: [],
                texts: [],
                connected: false,
                error: nil,
                # Whether a message is on its way by which rows of deleted ids are dropped.
                dropping: false
              ]

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options})

  @impl GenServer
  def init({table, options}) do
    Process.flag(:trap_exit, true)
    Table.claim(table)
    state = %__MODULE__{table: table, options: options, bases: Bases.new(table, options), waiting: Queue.new()}
    state = recover(state, Table.recover(table))
    if Table.started?(table), do: Ids.sweep(table.ids, table.texts)
    Table.put_process(table, self())
    connect(options)
    {:ok, state}
  end

  defp recover(state, nil), do: state

  defp recover(%{options: options} = state, {%{index: index} = base, rows}) do
    if Changes.log?(index.runtime), do: :ok = Builder.complete_log(base, rows)
    Table.complete_texts(state.table, base, :infinity)
    state = %{state | bases: Bases.continue(state.bases, base), version: base.version + length(rows)}

    case Changes.tree(index, rows, memory(options)) do
      {:ok, tree} -> %{state | tree: tree}
      {:error, error} -> %{state | error: error}
    end
  end

  # The leader's index may have grown to the limit of its replicas, so the tree may take more than `:memory`. Its limit is below
  # that of a replica, because searches in a replica need memory too.
  defp memory(options), do: div(3 * Builder.limits(options)[:memory], 4)

  @impl GenServer
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}
  def handle_call(:version, _from, state), do: {:reply, {:ok, max(state.version, 0)}, state}

  def handle_call(:position, _from, %{bases: %{base: nil}, table: table} = state) do
    {:reply, {:error, Lookup.not_ready(table.server)}, state}
  end

  def handle_call(:position, _from, state), do: {:reply, {:ok, position(state)}, state}

  def handle_call({:await, wanted, timeout}, from, state) do
    {:noreply, %{state | waiting: Queue.add(state.waiting, from, wanted, timeout, present(state))}}
  end

  def handle_call(_change, _from, %{options: %{follow: {name, node}}, table: table} = state) do
    {:reply, {:raise, "#{Describe.value(table.server)} follows #{Describe.value(name)} of #{node}; change that server"},
     state}
  end

  @impl GenServer
  def handle_info({:rows, courier, rows}, %{courier: courier, tree: tree} = state)
      when is_pid(courier) and tree != nil do
    {:noreply, add(state, rows)}
  end

  def handle_info({:followed, courier, history}, %{courier: courier, tree: tree} = state)
      when is_pid(courier) and tree != nil do
    # The error of an index that did not fit stays until one does.
    error = if match?(%Error{kind: :no_server}, state.error), do: nil, else: state.error
    {:noreply, continue(%{state | connected: true, error: error}, history)}
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
    do: {:noreply, lost(state, error(reason, state))}

  def handle_info(:collect, state) do
    :erlang.garbage_collect()
    {:noreply, state}
  end

  def handle_info(:unreachable, state), do: {:noreply, lost(state, error(:noconnection, state))}

  def handle_info(:reachable, %{courier: nil} = state) do
    {:noreply, %{state | courier: Courier.send_for(state.options.follow, state.tree && position(state))}}
  end

  def handle_info(:connect, state) do
    connect(state.options)
    {:noreply, state}
  end

  def handle_info(:drop, state), do: {:noreply, drop(%{state | dropping: false}, Ids.max_dropped())}

  def handle_info(message, state) do
    with false <- Queue.info(state.waiting, message),
         :unknown <- Bases.info(state.bases, message) do
      ignore(message)
      {:noreply, state}
    else
      true -> {:noreply, state}
      {:ok, bases} -> {:noreply, %{state | bases: bases}}
      {:due, bases} -> {:noreply, build_if_due(%{state | bases: bases})}
      {:built, outcome, _from, bases} -> {:noreply, built(%{state | bases: bases}, outcome)}
      {:unfit, _error, bases} -> {:noreply, publish(%{state | bases: bases})}
    end
  end

  # A late message of an abandoned courier or of a finished process.
  defp ignore({step, pid, _content}) when step in [:followed, :rows, :piece, :texts, :base, :EXIT] and is_pid(pid),
    do: :ok

  defp ignore(message), do: Stray.ignore(:message, message)

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

  # Starts another courier after a pause.
  defp lost(state, error) do
    Process.send_after(self(), :connect, state.pause)
    state = %{state | courier: nil, connected: false, pieces: [], texts: [], error: error}
    event(:lost, %{version: max(state.version, 0)}, %{error: error}, state)
    state
  end

  # Ends a courier whose message cannot be used. The next one starts after a pause, also if this one has ended.
  defp refuse(%{courier: nil} = state, error), do: %{state | error: error}

  defp refuse(%{courier: courier} = state, error) do
    Process.unlink(courier)
    Process.exit(courier, :kill)
    lost(state, error)
  end

  defp request_next(%{courier: nil} = state), do: state

  defp request_next(%{courier: courier} = state) do
    send(courier, {:next, self()})
    state
  end

  defp error({:shutdown, %Error{} = error}, state), do: not_followed(error.message, state)

  defp error({:undef, [{Courier, _function, _arguments, _location} | _]}, state),
    do: not_followed("its node runs another version of BeTree; run the same version on both", state)

  defp error(reason, state), do: not_followed(Describe.reason(reason), state)

  defp not_followed(reason, %{options: %{follow: {name, node}}}) do
    %Error{kind: :no_server, message: "#{Describe.value(name)} of #{node} cannot be followed now: #{reason}"}
  end

  ## Changes

  defp add(state, rows) do
    case make_each(rows, state, []) do
      {:ok, made, state} -> state |> show_rows(made) |> request_next()
      # The rows before it are made. The tree may have a part of this one.
      {:error, error, made, state} -> refuse(%{show_rows(state, made) | tree: nil}, error)
    end
  end

  defp make_each([], state, made), do: {:ok, Enum.reverse(made), state}

  defp make_each([row | rows], %{tree: tree, table: table, version: version} = state, made) do
    with :ok <- check_row(row, version + 1),
         {:ok, {version, deleted, wires} = row} <- Changes.repeat(tree, row) do
      Table.append(table, version, deleted, wires)
      make_each(rows, %{state | version: version}, [row | made])
    else
      {:error, error} -> {:error, error, Enum.reverse(made), state}
    end
  end

  defp make_each(_no_list, state, made), do: {:error, malformed(), Enum.reverse(made), state}

  # The other node may be damaged, or run other code.
  defp check_row({version, deleted, wires}, version) do
    if Check.proper_list?(deleted) and Check.proper_list?(wires) and Enum.all?(deleted, &key?/1) and
         Enum.all?(wires, &wire?/1),
       do: :ok,
       else: {:error, malformed()}
  end

  defp check_row(_other, _version), do: {:error, malformed()}

  defp key?({number, _term}), do: is_u64(number)
  defp key?(id), do: is_u64(id)

  defp wire?({key, text, constants}) do
    key?(key) and is_binary(text) and Check.proper_list?(constants) and Enum.all?(constants, &constant?/1)
  end

  defp wire?(_other), do: false

  defp constant?({name, value}), do: is_binary(name) and is_i64(value)
  defp constant?(_other), do: false

  defp malformed, do: %Error{kind: :damaged, message: "a change arrived that is malformed, or is not the next one"}

  defp show_rows(state, []), do: state

  defp show_rows(state, rows) do
    state = put_into_replicas(%{state | connected: true, error: nil}, rows)
    # Searches see the rows by now.
    for row <- rows, do: Table.put_texts(state.table, row)
    event(:change, %{changes: length(rows), version: state.version}, %{}, state)
    state |> advance() |> build_if_due() |> drop(0)
  end

  defp put_into_replicas(%{bases: %{log: true}} = state, rows), do: %{state | bases: Bases.append(state.bases, rows)}
  defp put_into_replicas(state, _rows), do: publish(state)

  defp drop(%{table: %{ids: ids, texts: texts}, dropping: dropping} = state, most),
    do: %{state | dropping: Ids.drop(ids, texts, most, dropping)}

  defp present(%{bases: %{base: nil}}), do: {[], -1}
  defp present(%{bases: %{base: %{history: history}}, version: version}), do: {history, version}

  defp position(%{bases: %{base: %{history: history}}, version: version}), do: {Lineage.id(history), version}

  defp advance(%{waiting: waiting, version: version} = state), do: %{state | waiting: Queue.advance(waiting, version)}
  defp renew(%{waiting: waiting} = state), do: %{state | waiting: Queue.renew(waiting, present(state))}

  # The other server has started again, and continues the history that this one knows.
  defp continue(%{bases: %{base: %{history: history}}} = state, history), do: state
  defp continue(state, history), do: renew(%{state | bases: Bases.put_history(state.bases, history)})

  ## Bases

  # Takes the base that has arrived.
  defp put(%{pieces: pieces, texts: texts, options: options} = state, sent) do
    state = %{state | pieces: [], texts: []}
    image = pieces |> Enum.reverse() |> IO.iodata_to_binary()

    with {:ok, index, tree} <- read(image, texts, sent, options) do
      state = state |> stop_building() |> replace(index, tree, texts, sent)
      event(:base, %{bytes: byte_size(image), version: sent.version}, %{lineage: Lineage.id(sent.history)}, state)
      state |> renew() |> request_next() |> drop(0)
    else
      # The next courier sends all of it again.
      {:error, error} -> refuse(%{state | pause: min(2 * state.pause, @max_pause)}, error)
    end
  end

  defp replace(%{table: table} = state, index, tree, texts, sent) do
    %{history: history, version: version, complete: complete, ids: kind} = sent
    base = %{history: history, index: index, version: version, origin: version, complete: complete}
    ids = if kind != :integer, do: table.ids

    # The log and the texts may have rows of another lineage.
    Table.replace_texts(table, texts, fn ->
      Table.put_ids(table, ids)
      Table.put_base(table, base, View.new(index, table.server, ids), :infinity)
    end)

    Ids.sweep(table.ids, table.texts)
    bases = Bases.continue(state.bases, base)
    %{state | bases: bases, tree: tree, version: version, connected: true, error: nil, pause: @first_pause}
  end

  # The memory of an index never shrinks. One that had more subscriptions than now may fit if it is made from its texts.
  defp read(image, texts, sent, options) do
    with {:ok, index} <- Image.read({:binary, image}, read_options(options)),
         {:ok, tree} <- Index.to_tree(index, memory(options)) do
      {:ok, index, tree}
    else
      {:error, %Error{kind: :out_of_memory} = error} -> insert_texts(texts, sent, error, options)
      {:error, error} -> {:error, error}
    end
  end

  defp insert_texts(texts, sent, error, options) do
    wires = for rows <- texts, {key, _version, text, constants} <- rows, do: {key, text, constants}

    case empty(sent, options) do
      {:ok, tree} -> with {:ok, index} <- insert_all(tree, wires, options), do: {:ok, index, tree}
      :other_module -> {:error, error}
      {:error, error} -> {:error, error}
    end
  end

  defp insert_all(tree, wires, options),
    do: with({:ok, _row} <- Changes.repeat(tree, {0, [], wires}), do: Builder.publish(tree, options))

  # The texts of an index that was swapped in are unknown, and another module may read them in another way.
  defp empty(%{complete: true, schema: schema, module: digest}, %{read: read} = options) do
    new = read |> Keyword.take([:fuel_per_reduction, :runtime]) |> Keyword.put(:memory, memory(options))

    with {:ok, tree} <- BeTree.new(schema, new),
         do: if(:erlang.md5(Instance.wasm(tree.guest)) == digest, do: {:ok, tree}, else: :other_module)
  end

  defp empty(_incomplete, _options), do: :other_module

  # The memory is that of the replicas.
  defp read_options(%{read: read} = options), do: Keyword.put(read, :memory, Builder.limits(options)[:memory])

  # Publishes the tree as the base. Without it, the other server has to send its index.
  defp publish(%{tree: tree, options: options, version: version} = state) when tree != nil do
    %{bases: %{base: base}} = state = stop_building(state)

    with {:ok, index} <- Builder.publish(tree, options),
         {:ok, tree} <- Index.to_tree(index, memory(options)) do
      next = %{base | index: index, version: version, origin: version}
      %{state | bases: Bases.show(state.bases, next, base.version), tree: tree}
    else
      {:error, error} -> refuse(%{state | tree: nil}, error)
    end
  end

  defp publish(state), do: state

  # The tree of a follower has no part in the next base.
  defp build_if_due(%{bases: %{base: nil}} = state), do: state
  defp build_if_due(state), do: %{state | bases: Bases.build_if_due(state.bases, state.version, nil)}

  defp built(state, {:ok, {:renewed, index, version}}) do
    case Bases.renew(state.bases, index, version) do
      {:ok, bases} ->
        # The courier of another follower may lack the rows since the base before.
        Bases.forget(bases, :infinity)
        build_if_due(%{state | bases: bases, error: nil})

      {:error, error, bases} ->
        built(%{state | bases: bases}, {:error, error})
    end
  end

  defp built(state, {:error, error}), do: %{state | bases: Bases.retry(state.bases), error: error}
  defp stop_building(state), do: %{state | bases: Bases.stop_building(state.bases)}

  defp info(%{options: options, version: version} = state) do
    state
    |> counts()
    |> Map.merge(Bases.describe(state.bases, version))
    |> Map.merge(%{
      follows: options.follow,
      connected: state.connected,
      version: max(version, 0),
      ids: state.table.tid |> Table.ids_of() |> Ids.info(),
      error: state.error
    })
  end

  defp counts(%{bases: %{base: nil}}), do: Map.new(Reply.counts(), &{&1, 0})

  # This process waits for no replica. While all are in use, the counts are those of the base.
  defp counts(%{bases: %{base: %{index: index, complete: complete}}, table: table}) do
    %{runtime: runtime, instance: instance, info: info} = index

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
