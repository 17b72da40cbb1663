defmodule BeTree.Server.Follower do
  @moduledoc false
  # The process of a server that follows another one. It fetches that server's views and shows them as its own. A view stays
  # until a newer one arrives, also when the other server, its node or the connection is lost.

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.{Error, Image}
  alias BeTree.Engine.{Describe, Stray}
  alias BeTree.Server.{Courier, Deleted, Table, View}

  # The milliseconds until the follower starts another courier.
  @again 1_000

  @enforce_keys [:table, :options]
  defstruct [
    :table,
    :options,
    :courier,
    # The images that are arriving, with the last piece first.
    pieces: %{base: [], delta: []},
    base: nil,
    view: nil,
    connected: false,
    error: nil,
    counts: %{views: 0, bases: 0}
  ]

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options}, name: table.name)

  @impl GenServer
  def init({table, options}) do
    Process.flag(:trap_exit, true)
    send_for(options)
    {:ok, %__MODULE__{table: table, options: options}}
  end

  @impl GenServer
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}

  def handle_call(_change, _from, %{options: %{follow: {name, node}}, table: table} = state) do
    {:reply, {:raise, "#{Describe.value(table.name)} follows #{Describe.value(name)} of #{node}; change that server"},
     state}
  end

  @impl GenServer
  def handle_info({:part, courier, part, content}, %{courier: courier} = state) when is_pid(courier) do
    {:noreply, take(%{state | connected: true}, part, content)}
  end

  def handle_info({:view, courier, view}, %{courier: courier} = state) when is_pid(courier) do
    {:noreply, state |> put(view) |> request_next()}
  end

  def handle_info({:next, courier}, %{courier: courier} = state) when is_pid(courier) do
    send(courier, {:next, self()})
    {:noreply, state}
  end

  def handle_info({:EXIT, courier, reason}, %{courier: courier} = state) when is_pid(courier),
    do: {:noreply, lost(state, reason)}

  def handle_info(:unreachable, state), do: {:noreply, lost(state, :noconnection)}

  def handle_info(:reachable, state) do
    pieces = %{base: [], delta: []}
    {:noreply, %{state | courier: Courier.send_for(state.options.follow), pieces: pieces}}
  end

  def handle_info(:send_for, state) do
    send_for(state.options)
    {:noreply, state}
  end

  # Messages of a courier that was abandoned.
  def handle_info({:part, courier, _part, _content}, state) when is_pid(courier), do: {:noreply, state}
  def handle_info({step, pid, _content}, state) when step in [:view, :EXIT] and is_pid(pid), do: {:noreply, state}
  def handle_info({:next, courier}, state) when is_pid(courier), do: {:noreply, state}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state}
  end

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  # Connecting may take seconds, and a failed spawn on the other node is reported.
  defp send_for(%{follow: {_name, node}}) do
    follower = self()

    spawn_link(fn ->
      reachable = node == node() or Node.connect(node) == true
      send(follower, if(reachable, do: :reachable, else: :unreachable))
    end)
  end

  defp lost(state, reason) do
    Process.send_after(self(), :send_for, @again)
    %{state | courier: nil, connected: false, error: error(reason, state)}
  end

  defp take(state, part, :none), do: put_in(state.pieces[part], :none)

  defp take(state, part, {:piece, piece}) do
    send(state.courier, {:more, self()})
    update_in(state.pieces[part], &[piece | &1])
  end

  defp take(state, part, {:last, piece}), do: update_in(state.pieces[part], &[piece | &1])

  defp put(%{pieces: pieces, options: options} = state, view) do
    state = %{state | pieces: %{base: [], delta: []}}

    with {:ok, base} <- read(pieces.base, state.base, options),
         {:ok, delta} <- read(pieces.delta, nil, options) do
      deleted = deleted(view.deleted)
      view = %View{base: base, delta: delta, deleted: deleted, version: view.version, expressions: view.expressions}
      View.show(view, state.table.name)
      counts = Map.update!(state.counts, :views, &(&1 + 1))
      counts = if pieces.base == [], do: counts, else: Map.update!(counts, :bases, &(&1 + 1))
      %{state | base: base, view: view, counts: counts, error: nil}
    else
      # The next courier sends all of it again.
      {:error, error} ->
        Process.exit(state.courier, :kill)
        %{state | error: error}
    end
  end

  # An image that was not sent is unchanged.
  defp read([], present, _options), do: {:ok, present}
  defp read(:none, _present, _options), do: {:ok, nil}

  defp read(pieces, _present, options) do
    Image.read({:binary, pieces |> Enum.reverse() |> IO.iodata_to_binary()}, options.read)
  end

  defp deleted([]), do: nil

  defp deleted(ids) do
    Enum.reduce(ids, Deleted.new(length(ids)), fn {id, version}, set -> Deleted.put(set, id, version) end)
  end

  defp request_next(state) do
    Process.send_after(self(), {:next, state.courier}, state.options.interval)
    state
  end

  # A courier that was abandoned here has already left its error.
  defp error(:killed, state), do: state.error
  defp error({:shutdown, %Error{} = error}, _state), do: error

  defp error(reason, %{options: %{follow: {name, node}}}) do
    %Error{
      kind: :not_found,
      message: "#{Describe.value(name)} of #{node} cannot be followed now: #{Describe.reason(reason)}"
    }
  end

  defp info(%{view: view, options: options} = state) do
    memory = fn index -> if index, do: index.info.memory_bytes, else: 0 end

    Map.merge(state.counts, %{
      follows: options.follow,
      connected: state.connected,
      expressions: if(view, do: view.expressions, else: 0),
      shown: if(view, do: view.version),
      memory: if(view, do: memory.(view.base) + memory.(view.delta), else: 0),
      error: state.error
    })
  end
end
