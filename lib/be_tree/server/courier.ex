defmodule BeTree.Server.Courier do
  @moduledoc false
  # Carries the changes of a server to a follower, usually on another node. It runs beside the followed server, linked to the
  # follower. When either of them or the connection ends, the follower starts another courier.
  #
  # It sends the rows of the log as they come, at most @most at a time. If the follower has no base, one of another lineage, or
  # lacks rows that the log no longer has, it sends an image of the present index, and all texts, instead. The follower requests each
  # message, so at most one is in transit.

  alias BeTree.{Error, Image}
  alias BeTree.Engine.CrashReport
  alias BeTree.Server.{Copy, Ids, Table, View}

  # The bytes of a piece of an image, the texts of a message, and the changes of one.
  @piece 0x10_0000
  @texts 1_000
  @most 500

  @doc "Starts a courier beside the server `name` of `node`, for the calling process, which has this base and version."
  @spec send_for({BeTree.Server.name(), node}, reference | nil, Table.version() | -1) :: pid
  def send_for({name, node}, id, version), do: Node.spawn_link(node, __MODULE__, :serve, [name, self(), id, version])

  @doc false
  @spec serve(BeTree.Server.name(), pid, reference | nil, Table.version() | -1) :: no_return
  def serve(name, follower, id, version) do
    CrashReport.guard(fn ->
      greet(name, follower, id)
      deliver(name, follower, id, version)
    end)
  end

  # A follower of this lineage that lacks nothing gets no row until the next change.
  defp greet(name, follower, id) do
    {:ok, base} = ended_or(View.base(name))
    if base.id == id, do: send(follower, {:followed, self()})
  end

  defp deliver(name, follower, id, version) do
    {:ok, base} = ended_or(View.base(name))

    # The versions of another lineage may be lower, so only a follower of this one waits. A swap has a version of its own.
    if base.id == id, do: await(name, version + 1)
    {:ok, base} = ended_or(View.base(name))

    case rows(name, base, id, version) do
      [] ->
        {id, version} = carry(name, follower)
        next(name, follower, id, version)

      rows ->
        send(follower, {:rows, self(), rows})
        {version, _deleted, _wires} = List.last(rows)
        next(name, follower, id, version)
    end
  end

  defp next(name, follower, id, version) do
    receive do
      {:next, ^follower} -> deliver(name, follower, id, version)
    end
  end

  defp await(name, version) do
    {:ok, _version} = call(name, {:await, version, :infinity})
  end

  # The end of the server's process ends this process too.
  defp call(name, request) do
    {:ok, table} = ended_or(Table.fetch(name))

    case Table.process(table.name) do
      nil -> exit({:shutdown, %Error{kind: :not_ready, message: "it is not ready yet"}})
      pid -> GenServer.call(pid, request, :infinity)
    end
  end

  # Returns the rows that follow on `version` without a gap, or none if the follower needs a base.
  defp rows(name, %{id: id}, id, version) do
    {:ok, table} = ended_or(Table.fetch(name))

    case Table.later(table, version, @most) do
      [{first, _deleted, _wires} | _] = rows when first == version + 1 -> rows
      _gap -> []
    end
  end

  defp rows(_name, _base, _id, _version), do: []

  defp carry(name, follower) do
    {:ok, {index, base, version}} = ended_or(Copy.take(name, :infinity))
    # Replicas have a change a moment before the table has its texts. The server's process replies when it has put them.
    {:ok, _version} = call(name, :version)

    case Image.to_binary(index) do
      {:ok, image} ->
        in_pieces(follower, image)
        send_texts(name, follower, version)
        description = %{id: base.id, version: version, complete: base.complete, ids: kind(name)}
        send(follower, {:base, self(), description})
        {base.id, version}

      {:error, %Error{} = error} ->
        exit({:shutdown, error})
    end
  end

  defp kind(name) do
    {:ok, table} = ended_or(Table.fetch(name))
    table.name |> Table.ids_of() |> Ids.kind()
  end

  # A text that a change replaces or deletes while the table is read may be missing. The row of that change follows.
  defp send_texts(name, follower, version) do
    {:ok, table} = ended_or(Table.fetch(name))

    for rows <- Table.rows_of_texts(table, version, @texts) do
      await_more(follower)
      send(follower, {:texts, self(), rows})
    end

    await_more(follower)
  end

  defp await_more(follower) do
    receive do
      {:more, ^follower} -> :ok
    end
  end

  defp ended_or({:ok, value}), do: {:ok, value}
  defp ended_or({:error, error}), do: exit({:shutdown, error})

  defp in_pieces(follower, <<piece::binary-size(@piece), rest::binary>>) do
    send(follower, {:piece, self(), piece})
    await_more(follower)
    in_pieces(follower, rest)
  end

  defp in_pieces(follower, rest), do: send(follower, {:piece, self(), rest})
end
