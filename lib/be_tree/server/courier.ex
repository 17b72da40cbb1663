defmodule BeTree.Server.Courier do
  @moduledoc false
  # Carries the changes of a server to a follower, usually on another node. It runs beside the followed server, linked to the
  # follower. When either of them or the connection ends, the follower starts another courier.
  #
  # It sends the rows of the log as they come, at most @max_rows at a time. If the history of the server does not lead through the
  # follower's position, or the log lacks the rows after it, it sends an image of the present index, and all texts, instead. The
  # follower requests each message, so at most one is in transit.

  alias BeTree.{Error, Image}
  alias BeTree.Call.Instance
  alias BeTree.Processes.CrashReport
  alias BeTree.Server.{Copy, Lineage, Lookup, Names, Table}
  alias BeTree.Target.Ids

  # The bytes of a piece of an image, the texts of a message, and the changes of one.
  @piece_bytes 0x10_0000
  @texts_per_message 1_000
  @max_rows 500

  @typedoc "What a follower has, or `nil` if it needs an index."
  @type position :: Lineage.position() | nil

  @doc "Starts a courier beside the server `name` of `node`, for the calling process, which is at this position."
  @spec send_for({BeTree.Server.name(), node}, position) :: pid
  def send_for({name, node}, position), do: Node.spawn_link(node, __MODULE__, :serve, [name, self(), position])

  @doc false
  @spec serve(BeTree.Server.name(), pid, position) :: no_return
  def serve(name, follower, position) do
    CrashReport.guard(fn ->
      with {:error, message} <- Names.check_module(name),
           do: exit({:shutdown, %Error{kind: :no_server, message: message}})

      # An up-to-date follower gets no row until the next change. This message tells it that it is connected.
      history = history(name)
      if Lineage.includes?(history, position), do: send(follower, {:followed, self(), history})
      deliver(name, follower, position)
    end)
  end

  # Sends the rows after `position`, as soon as there are some, or an index.
  defp deliver(name, follower, position) do
    history = history(name)

    if Lineage.includes?(history, position) do
      {_id, version} = position = enter(history, position, follower)
      await_next(name, position)
      rows = rows(name, version)

      cond do
        # The server has another history since then, so the rows may be others.
        Lineage.id(history(name)) != Lineage.id(history) -> deliver(name, follower, position)
        rows == [] -> carry(name, follower)
        true -> send_rows(name, follower, rows, position)
      end
    else
      carry(name, follower)
    end
  end

  # Tells the follower that a lineage began after its own.
  defp enter(history, {id, version}, follower) do
    present = Lineage.id(history)
    if present != id, do: send(follower, {:followed, self(), history})
    {present, version}
  end

  defp send_rows(name, follower, rows, {id, _version}) do
    send(follower, {:rows, self(), rows})
    {version, _deleted, _wires} = List.last(rows)
    next(name, follower, {id, version})
  end

  defp next(name, follower, position) do
    receive do
      {:next, ^follower} -> deliver(name, follower, position)
    end
  end

  defp history(name) do
    {:ok, %{history: history}} = ended_or(Lookup.base(name))
    history
  end

  # Waits for the next change, or for another lineage.
  defp await_next(name, position) do
    {:ok, _version} = call(name, {:await, {:next, position}, :infinity})
  end

  # The end of the server's process ends this process too.
  defp call(name, request) do
    {:ok, table} = ended_or(Table.fetch(name))

    case Table.process(table.tid) do
      nil -> exit({:shutdown, %Error{kind: :not_ready, message: "it is not ready yet"}})
      pid -> GenServer.call(pid, request, :infinity)
    end
  end

  # Returns the rows that follow on `version` without a gap, or none if the follower needs a base.
  defp rows(name, version) do
    {:ok, table} = ended_or(Table.fetch(name))

    case Table.later(table, version, @max_rows) do
      [{first, _deleted, _wires} | _] = rows when first == version + 1 -> rows
      _gap -> []
    end
  end

  defp carry(name, follower) do
    {:ok, {index, base, version}} = ended_or(Copy.take(name, :infinity))
    # Replicas have a change a moment before the table has its texts. The server's process replies when it has put them.
    {:ok, _version} = call(name, :version)

    case Image.to_binary(index) do
      {:ok, image} ->
        in_pieces(follower, image)
        send_texts(name, follower, version)
        check_texts(name, base.history)
        send(follower, {:base, self(), description(name, index, base, version)})
        next(name, follower, {Lineage.id(base.history), version})

      {:error, %Error{} = error} ->
        exit({:shutdown, error})
    end
  end

  # The schema and the digest of the module are for a follower that has no memory for the image, and inserts the texts.
  defp description(name, index, base, version) do
    {:ok, table} = ended_or(Table.fetch(name))

    %{
      history: base.history,
      version: version,
      complete: base.complete,
      ids: table.tid |> Table.ids_of() |> Ids.kind(),
      schema: index.schema,
      module: index.guest |> Instance.wasm() |> :erlang.md5()
    }
  end

  # A text that a change replaces or deletes while the table is read may be missing. The row of that change follows.
  defp send_texts(name, follower, version) do
    {:ok, table} = ended_or(Table.fetch(name))

    for rows <- Table.rows_of_texts(table, version, @texts_per_message) do
      await_more(follower)
      send(follower, {:texts, self(), rows})
    end

    await_more(follower)
  end

  # The server may be a follower itself. If it has received another index meanwhile, its texts were replaced.
  defp check_texts(name, history) do
    {:ok, table} = ended_or(Table.fetch(name))
    :ok = ended_or(Table.check_texts(table))

    if Lineage.id(history(name)) != Lineage.id(history),
      do: exit({:shutdown, %Error{kind: :not_ready, message: "it began anew while it sent its index"}})
  end

  defp await_more(follower) do
    receive do
      {:more, ^follower} -> :ok
    end
  end

  defp ended_or({:error, error}), do: exit({:shutdown, error})
  defp ended_or(ok), do: ok

  defp in_pieces(follower, <<piece::binary-size(@piece_bytes), rest::binary>>) do
    send(follower, {:piece, self(), piece})
    await_more(follower)
    in_pieces(follower, rest)
  end

  defp in_pieces(follower, rest), do: send(follower, {:piece, self(), rest})
end
