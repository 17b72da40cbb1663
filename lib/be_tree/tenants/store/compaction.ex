defmodule BeTree.Tenants.Store.Compaction do
  @moduledoc false
  # Frees the garbage in segments, beside the store's work.
  #
  # A process reads all rows and sums the bytes of live records by segment. It removes segments without a live record, which are also
  # those of expired days, and copies the live records of others into new segments: of those with more garbage than live records,
  # and of small ones once there are many, because each start begins segments. The store's process then moves the tenants' places,
  # unless a tenant has a newer record, and syncs its journal. Only then an old segment is removed: after a loss of power the journal
  # must not lead to it.
  #
  # Segments that the store's process has open when this begins, and later ones, are left alone. All places in the others are in rows.

  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Processes.CrashReport
  alias BeTree.Tenants.Store.{Blobs, Segments, Table}

  # Small segments of a space above this number are merged.
  @max_small 8
  # A segment is small below this part of the bytes at which a segment ends.
  @small_part 4
  # One run copies about as many bytes as these segments have at most. They bound the memory for its lists of records.
  @max_copied_segments 8
  # The bytes of records of one write, and of one record of the journal's moves.
  @max_write_bytes 0x40_0000

  @typedoc "`:more` means that another run has more to copy."
  @type result :: :ok | :more | {:error, Error.t()}

  @doc "Starts a linked process. It sends the caller `{BeTree.Tenants.Store.Compaction, pid, result}` at its end."
  @spec start_link(Segments.t()) :: pid
  def start_link(%Segments{table: table} = segments) do
    owner = self()
    open = for {_space, %{number: number}} <- segments.open, do: number
    before = Table.next_segment(table)
    beside = Segments.beside(segments)

    spawn_link(fn ->
      Process.flag(:priority, :low)
      result = CrashReport.guard(fn -> run(owner, beside, open, before) end)
      send(owner, {__MODULE__, self(), result})
    end)
  end

  defp run(owner, %{table: table} = segments, open, before) do
    location = Segments.location(segments)

    with :ok <- Segments.delete_unfinished(segments, before),
         {:ok, found} <- Segments.list(location) do
      closed = for {space, number} <- found, number < before and number not in open, do: {space, number}
      live = live(table)
      {dead, used} = Enum.split_with(closed, &(not is_map_key(live, &1)))
      all = used |> sizes(location) |> victims(live, segments.segment_bytes)
      victims = limit(all, live, @max_copied_segments * segments.segment_bytes)

      with {:ok, copied} <- copy(owner, segments, MapSet.new(victims)),
           :ok <- GenServer.call(owner, :flush, :infinity),
           :ok <- Attempt.each(dead ++ copied, fn {space, number} -> Segments.delete(location, space, number) end) do
        # A run that copied no segment completely would repeat itself.
        if victims != all and copied != [], do: :more, else: :ok
      end
    end
  end

  # Returns the live bytes of each segment.
  defp live(table) do
    first = Table.first_day(table)

    for row <- Table.rows(table), {kind, {number, _at, size}} <- Blobs.places(row, first), reduce: %{} do
      live -> Map.update(live, {Segments.space(kind), number}, size, &(&1 + size))
    end
  end

  defp sizes(segments, location),
    do: for({space, number} = segment <- segments, do: {segment, Segments.bytes(location, space, number)})

  defp victims(sizes, live, segment_bytes) do
    {wasted, others} = Enum.split_with(sizes, fn {segment, bytes} -> 2 * live[segment] < bytes end)

    small =
      others
      |> Enum.filter(fn {_segment, bytes} -> @small_part * bytes < segment_bytes end)
      |> Enum.group_by(fn {{space, _number}, _bytes} -> space end)
      |> Enum.flat_map(fn {_space, small} -> if length(small) > @max_small, do: small, else: [] end)

    for {segment, _bytes} <- wasted ++ small, do: segment
  end

  # Another run continues.
  defp limit(victims, live, max_bytes) do
    {victims, _bytes} =
      Enum.flat_map_reduce(victims, 0, fn segment, bytes ->
        if bytes < max_bytes, do: {[segment], bytes + live[segment]}, else: {:halt, bytes}
      end)

    victims
  end

  # Copies the live records of segments, and returns the segments that were copied completely.
  defp copy(owner, %{table: table} = segments, victims) do
    first = Table.first_day(table)

    records =
      for row <- Table.rows(table),
          {kind, {number, _at, _size} = place} <- Blobs.places(row, first),
          segment = {Segments.space(kind), number},
          segment in victims,
          do: {segment, {kind, elem(row, 0), place}}

    records
    |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    |> Enum.reduce({:ok, MapSet.to_list(victims), segments}, fn {segment, records}, result ->
      with {:ok, copied, segments} <- result, do: copy(owner, segments, segment, records, copied)
    end)
    |> case do
      {:ok, copied, segments} ->
        _closed = Segments.close(segments)
        {:ok, copied}

      {:error, error, segments} ->
        _closed = Segments.close(segments)
        {:error, error}
    end
  end

  defp copy(owner, segments, {space, number} = segment, records, copied) do
    records = Enum.sort_by(records, fn {_kind, _key, {_number, at, _size}} -> at end)
    start = {:ok, segments, [], 0, :complete}

    read =
      Segments.reduce(Segments.location(segments), space, number, records, start, fn
        record, {:ok, blob}, {:ok, segments, batch, bytes, state} ->
          batch = [{record, blob} | batch]
          bytes = bytes + byte_size(blob)

          if bytes < @max_write_bytes,
            do: {:ok, segments, batch, bytes, state},
            else: move(owner, segments, space, batch, state)

        # The record stays, and so does its segment: a read of the tenant returns the error.
        _record, {:error, _damaged}, {:ok, segments, batch, bytes, _state} ->
          {:ok, segments, batch, bytes, :damaged}

        _record, _result, {:error, _error, _segments} = failure ->
          failure
      end)

    with {:ok, {:ok, segments, batch, _bytes, state}} <- read,
         {:ok, segments, [], 0, state} <- move(owner, segments, space, batch, state) do
      {:ok, if(state == :complete, do: copied, else: List.delete(copied, segment)), segments}
    else
      {:ok, {:error, error, segments}} -> {:error, error, segments}
      {:error, error, segments} -> {:error, error, segments}
      {:error, error} -> {:error, error, segments}
    end
  end

  defp move(_owner, segments, _space, [], state), do: {:ok, segments, [], 0, state}

  defp move(owner, segments, space, batch, state) do
    batch = Enum.reverse(batch)
    records = for {{_kind, key, _place}, blob} <- batch, do: {key, blob}

    with {:ok, places, segments} <- Segments.write(segments, space, records) do
      moves = Enum.zip_with(batch, places, fn {{kind, key, from}, _blob}, to -> {:move, key, kind, from, to} end)

      case GenServer.call(owner, {:move, moves}, :infinity) do
        :ok -> {:ok, segments, [], 0, state}
        {:error, %Error{} = error} -> {:error, error, segments}
      end
    end
  end
end
