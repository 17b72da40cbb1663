defmodule BeTree.Tenants.Store.Blobs do
  @moduledoc false
  # The bodies, statistics and days of tenants: records in the segments of a folder, or rows of a table without a folder. A blob is
  # compressed if that makes it shorter. The caller's process compresses and reads it.

  alias BeTree.Error
  alias BeTree.Tenants.Store.{Place, Segments, Table}

  # Compressing fewer bytes saves nothing.
  @min_compressed_bytes 128
  @max_bytes 0x4000_0000

  @plain 0
  @deflated 1
  @deflate_level 1

  @type writer :: Segments.t() | nil

  @doc "Returns the bytes to store for a blob, or an error if it is too large."
  @spec pack(binary) :: {:ok, binary} | {:error, Error.t()}
  def pack(blob) when byte_size(blob) > @max_bytes do
    message = "a blob of a tenant has #{byte_size(blob)} bytes; expected #{@max_bytes} at most: divide the tenant"
    {:error, %Error{kind: :file, message: message}}
  end

  def pack(blob) when byte_size(blob) < @min_compressed_bytes, do: {:ok, <<@plain, blob::binary>>}

  def pack(blob) do
    deflated = deflate(blob)

    if IO.iodata_length(deflated) < byte_size(blob),
      do: {:ok, IO.iodata_to_binary([@deflated, deflated])},
      else: {:ok, <<@plain, blob::binary>>}
  end

  @doc "Returns the bytes, deflated at the level of blobs."
  @spec deflate(binary) :: iodata
  def deflate(bytes) do
    stream = :zlib.open()
    :ok = :zlib.deflateInit(stream, @deflate_level)
    deflated = :zlib.deflate(stream, bytes, :finish)
    :ok = :zlib.close(stream)
    deflated
  end

  defp unpack(<<@plain, blob::binary>>), do: blob

  defp unpack(<<@deflated, deflated::binary>>), do: :zlib.uncompress(deflated)

  @doc "Stores blobs of one kind of records, and returns their places in order."
  @spec write(writer, Table.t(), Segments.space(), [{Table.key(), binary}]) ::
          {:ok, [Place.t()], writer} | {:error, Error.t(), writer}
  def write(nil, %Table{blobs: blobs} = table, _space, records) do
    places =
      for {_key, blob} <- records do
        number = Table.next_sequence(table)
        true = :ets.insert(blobs, {number, blob})
        <<upper::32, lower::32>> = <<number::64>>
        {upper, lower, byte_size(blob)}
      end

    {:ok, places, nil}
  end

  def write(%Segments{} = segments, _table, space, records), do: Segments.write(segments, space, records)

  @doc "Frees places that nothing refers to any more. Returns the bytes that stay in the folder as garbage."
  @spec free(writer, Table.t(), [{Table.kind(), Place.t()}]) :: non_neg_integer
  def free(nil, %Table{blobs: blobs}, freed) do
    for {_kind, place} <- freed, do: :ets.delete(blobs, number(place))
    0
  end

  def free(%Segments{}, _table, freed),
    do: freed |> Enum.map(fn {_kind, {_segment, _at, size}} -> size end) |> Enum.sum()

  @doc "Without a folder, deletes the blobs that nothing refers to."
  @spec sweep(Table.t()) :: :ok
  def sweep(%Table{blobs: blobs} = table) do
    first = Table.first_day(table)

    live =
      table |> Table.rows() |> Stream.flat_map(&places(&1, first)) |> MapSet.new(fn {_kind, place} -> number(place) end)

    for {number, _blob} <- :ets.tab2list(blobs), number not in live, do: :ets.delete(blobs, number)
    :ok
  end

  defp number({upper, lower, _size}) do
    <<number::64>> = <<upper::32, lower::32>>
    number
  end

  @doc "Returns all places of a row, with days from `first` on."
  @spec places(Table.row(), integer) :: [{Table.kind(), Place.t()}]
  def places({_key, _sequence, body, _from, statistics, days, _bytes}, first) do
    days = for {day, place} <- Place.list(days), day >= first, do: {{:day, day}, place}
    days = if statistics, do: [{:statistics, elem(statistics, 1)} | days], else: days
    if body, do: [{:body, body} | days], else: days
  end

  @doc "Returns a blob. `:gone` means that its place is no longer that of the tenant, or that its file is missing."
  @spec read(Table.t(), Table.kind(), Table.key(), Place.t()) :: {:ok, binary} | :gone | {:error, Error.t()}
  def read(%Table{} = table, kind, key, place) do
    with {:ok, packed} <- read_packed(table, Table.get(table, :location), kind, key, place), do: {:ok, unpack(packed)}
  end

  defp read_packed(%{blobs: blobs}, nil, _kind, _key, place) do
    case :ets.lookup(blobs, number(place)) do
      [{_number, packed}] -> {:ok, packed}
      [] -> :gone
    end
  end

  defp read_packed(_table, location, kind, key, place), do: Segments.read(location, kind, key, place)
end
