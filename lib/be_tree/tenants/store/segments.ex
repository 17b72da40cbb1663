defmodule BeTree.Tenants.Store.Segments do
  @moduledoc false
  # The segments of a folder: files to which records of tenants are appended.
  #
  #     bodies/NUMBER.body      bodies and statistics
  #     days/DAY-NUMBER.day     statistics of one sealed day
  #
  # A segment has a head, "BTBODY\n\0" or "BTSEALED" (BeTree.Journal.Head), with its number or its day, and then records of the
  # journal's format (BeTree.Journal.Record). The version of a record is 0, and its payload is the length of the key in 32 bits, the
  # key and the blob. Segments of both kinds share one sequence of numbers.
  #
  # Nobody scans a segment: the journal has the places of all records, and gets a place when the record is on the disk. So the torn
  # tail of an interrupted write is garbage that nothing refers to. After a failed write the next record begins another segment,
  # and so does the first record of each owner, because a late write of a killed owner may still reach the old one.

  import BeTree.Journal.Files, only: [create_whole: 3, with_device: 3]

  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Journal.{Disk, Fault, Head, Record, Segment}
  alias BeTree.Tenants.Store.{Place, Table}

  @body_magic "BTBODY\n\0"
  @day_magic "BTSEALED"
  @segment_bytes 0x100_0000
  # More days than these have no file open. Only a restore writes many days at once.
  @max_open 4

  @enforce_keys [:files, :folder, :table, :segment_bytes]
  defstruct @enforce_keys ++ [open: %{}]

  @typedoc "`:table` - has the number of the next segment; `:open` - the segments to which records are appended, by space."
  @type t :: %__MODULE__{
          files: module,
          folder: Path.t(),
          table: Table.t(),
          segment_bytes: pos_integer,
          open: %{space => map}
        }

  @typedoc "Where a folder's records are read."
  @type location :: {files :: module, folder :: Path.t()}

  @typedoc "The records that share a segment: bodies and statistics, or those of a day."
  @type space :: :bodies | {:day, integer}

  @doc "Returns the space of a kind of records."
  @spec space(Table.kind()) :: space
  def space({:day, day}), do: {:day, day}
  def space(_body_or_statistics), do: :bodies

  @doc "Opens the segments of a folder for new records. Each begins a segment of its own."
  @spec open(Path.t(), Table.t(), map) :: {:ok, t} | {:error, Error.t()}
  def open(folder, table, options) do
    files = Map.get(options, :files, Disk)

    with :ok <- make(files, Path.join(folder, "bodies")),
         :ok <- make(files, Path.join(folder, "days")),
         {:ok, found} <- list({files, folder}) do
      :ok = Table.follow_segment(table, Enum.max([0 | for({_space, number} <- found, do: number)]))
      bytes = Map.get(options, :segment_bytes, @segment_bytes)
      {:ok, %__MODULE__{files: files, folder: folder, table: table, segment_bytes: bytes}}
    end
  end

  @doc "Returns the same folder for another process, which writes segments of its own."
  @spec beside(t) :: t
  def beside(%__MODULE__{} = segments), do: %{segments | open: %{}}

  defp make(files, folder) do
    with {:error, reason} <- files.make_folder(folder), do: Fault.file("make the folder", folder, reason)
  end

  @doc "Returns the location of the segments, for readers."
  @spec location(t) :: location
  def location(%__MODULE__{files: files, folder: folder}), do: {files, folder}

  @doc "Returns the segments of a folder."
  @spec list(location) :: {:ok, [{space, pos_integer}]} | {:error, Error.t()}
  def list({files, folder}) do
    with {:ok, bodies} <- names(files, Path.join(folder, "bodies")),
         {:ok, days} <- names(files, Path.join(folder, "days")) do
      {:ok,
       for(name <- bodies, number = Segment.number(name, ".body"), do: {:bodies, number}) ++ Enum.flat_map(days, &day/1)}
    end
  end

  defp names(files, folder) do
    with {:error, reason} <- files.list(folder), do: Fault.file("read", folder, reason)
  end

  defp day(name) do
    with [_name, day, rest] <- Regex.run(~r/\A(-?\d+)-(\d+\.day)\z/, name),
         number when is_integer(number) <- Segment.number(rest, ".day") do
      [{{:day, String.to_integer(day)}, number}]
    else
      _foreign -> []
    end
  end

  @doc "Returns the path of a segment."
  @spec path(location, space, non_neg_integer) :: Path.t()
  def path({_files, folder}, :bodies, number), do: Path.join([folder, "bodies", Segment.digits(number) <> ".body"])

  def path({_files, folder}, {:day, day}, number),
    do: Path.join([folder, "days", "#{day}-#{Segment.digits(number)}.day"])

  @doc "Returns the bytes of a segment, or 0 if it is gone."
  @spec bytes(location, space, non_neg_integer) :: non_neg_integer
  def bytes({files, _folder} = location, space, number) do
    case files.size(path(location, space, number)) do
      {:ok, bytes} -> bytes
      {:error, _gone} -> 0
    end
  end

  ## Writing

  @doc "Appends records to a space. All of them are on the disk when this returns their places, in order."
  @spec write(t, space, [{Table.key(), binary}]) :: {:ok, [Place.t()], t} | {:error, Error.t(), t}
  def write(%__MODULE__{} = segments, space, records) do
    with {:ok, %{files: files} = segments} <- ready(segments, space) do
      segment = Map.fetch!(segments.open, space)
      {places, bytes, size} = encode(records, segment)

      with :ok <- files.pwrite(segment.device, segment.size, bytes),
           :ok <- files.sync(segment.device) do
        {:ok, places, put_in(segments.open[space].size, size)}
      else
        {:error, reason} ->
          {:error, error} = Fault.file("write", path(location(segments), space, segment.number), reason)
          _ = files.truncate(segment.device, segment.size)
          {:error, error, close(segments, space)}
      end
    end
  end

  defp encode(records, segment) do
    {places, {bytes, size}} =
      Enum.map_reduce(records, {[], segment.size}, fn {key, blob}, {bytes, at} ->
        {record, size} = Record.change(0, 0, [<<byte_size(key)::little-32>>, key, blob])
        {{segment.number, at, size}, {[bytes | record], at + size}}
      end)

    {places, bytes, size}
  end

  defp ready(segments, space) do
    case segments.open[space] do
      nil -> create(segments, space)
      %{size: size} when size >= segments.segment_bytes -> segments |> close(space) |> create(space)
      _open -> {:ok, segments}
    end
  end

  defp create(segments, space) do
    segments = close_one(segments, space)
    number = Table.next_segment(segments.table)
    {magic, of} = head(space, number)
    head = Head.encode(magic, of, "")

    case create_whole(segments.files, path(location(segments), space, number), [{0, head}]) do
      {:ok, device} ->
        segment = %{number: number, device: device, size: IO.iodata_length(head)}
        {:ok, %{segments | open: Map.put(segments.open, space, segment)}}

      {:error, error} ->
        {:error, error, segments}
    end
  end

  # The number of a head is unsigned. The name of the file has the day too.
  defp head(:bodies, number), do: {@body_magic, number}
  defp head({:day, day}, _number), do: {@day_magic, abs(day)}

  defp close_one(segments, space) do
    days = for {{:day, _day} = open, segment} <- segments.open, open != space, do: {segment.number, open}

    if space != :bodies and length(days) >= @max_open do
      {_number, oldest} = Enum.min(days)
      close(segments, oldest)
    else
      segments
    end
  end

  @doc "Ends the present segment of a space: the next record begins another one."
  @spec close(t, space) :: t
  def close(%__MODULE__{files: files} = segments, space) do
    case Map.pop(segments.open, space) do
      {nil, _open} ->
        segments

      {segment, open} ->
        _ = files.close(segment.device)
        %{segments | open: open}
    end
  end

  @doc "Ends all present segments."
  @spec close(t) :: t
  def close(%__MODULE__{} = segments), do: segments.open |> Map.keys() |> Enum.reduce(segments, &close(&2, &1))

  @doc "Removes a segment."
  @spec delete(location, space, non_neg_integer) :: :ok | {:error, Error.t()}
  def delete({files, _folder} = location, space, number) do
    path = path(location, space, number)

    case files.delete(path) do
      {:error, reason} when reason != :enoent -> Fault.file("remove", path, reason)
      _gone -> :ok
    end
  end

  @doc "Removes segments below a number whose creation was interrupted."
  @spec delete_unfinished(t, pos_integer) :: :ok | {:error, Error.t()}
  def delete_unfinished(%__MODULE__{files: files, folder: folder}, before) do
    Attempt.each(["bodies", "days"], fn name ->
      folder = Path.join(folder, name)

      with {:ok, names} <- names(files, folder) do
        unfinished = for name <- names, number = unfinished(name), number < before, do: Path.join(folder, name)

        Attempt.each(unfinished, fn path ->
          with {:error, reason} <- files.delete(path), do: Fault.file("remove", path, reason)
        end)
      end
    end)
  end

  defp unfinished(name) do
    with [_name, _day, number] <- Regex.run(~r/\A(-?\d+-)?(\d{16,})\.(?:body|day)\.new\z/, name),
         do: String.to_integer(number)
  end

  ## Reading

  @doc "Returns the blob of a tenant's record, with one read. `:gone` means that the segment was removed."
  @spec read(location, Table.kind(), Table.key(), Place.t()) :: {:ok, binary} | :gone | {:error, Error.t()}
  def read({files, _folder} = location, kind, key, {number, at, size}) do
    path = path(location, space(kind), number)

    case files.open(path) do
      {:ok, device} ->
        bytes = files.pread(device, at, size)
        _ = files.close(device)
        decode(bytes, kind, key, path, at)

      {:error, :enoent} ->
        :gone

      {:error, reason} ->
        Fault.file("open", path, reason)
    end
  end

  @doc "Folds `function` over records of one segment, each a kind, a key and a place. It gets a record's blob or its error."
  @spec reduce(location, space, pos_integer, [{Table.kind(), Table.key(), Place.t()}], acc, (tuple, result, acc -> acc)) ::
          {:ok, acc} | {:error, Error.t()}
        when acc: term, result: {:ok, binary} | {:error, Error.t()}
  def reduce({files, _folder} = location, space, number, records, acc, function) do
    path = path(location, space, number)

    with_device(files, path, fn device ->
      {:ok,
       Enum.reduce(records, acc, fn {kind, key, {^number, at, size}} = record, acc ->
         function.(record, device |> files.pread(at, size) |> decode(kind, key, path, at), acc)
       end)}
    end)
  end

  defp decode({:error, reason}, _kind, _key, path, _at), do: Fault.file("read", path, reason)
  defp decode(:eof, kind, _key, path, at), do: damaged(kind, path, at)

  defp decode({:ok, bytes}, kind, key, path, at) do
    length = byte_size(key)

    case Record.decode(bytes) do
      {:ok, %{payload: <<^length::little-32, ^key::binary-size(length), blob::binary>>}, ""} -> {:ok, blob}
      _other -> damaged(kind, path, at)
    end
  end

  @doc "Returns the error of a record that is not as it was written."
  @spec damaged(Table.kind(), Path.t(), non_neg_integer) :: {:error, Error.t()}
  def damaged(kind, path, at) do
    message =
      "#{path} is damaged: #{name(kind)} at byte #{at} is not as it was written; other tenants are not affected: restore the file " <>
        "from a copy, or drop the tenant"

    {:error, %Error{kind: :damaged, message: message}}
  end

  @doc "Returns the error of a record whose segment is missing."
  @spec missing(Table.kind(), Path.t(), non_neg_integer) :: {:error, Error.t()}
  def missing(kind, path, at) do
    message =
      "#{path} is missing, with #{name(kind)} at byte #{at}; tenants in other files are not affected: restore the file from a copy, " <>
        "or drop the tenant"

    {:error, %Error{kind: :damaged, message: message}}
  end

  defp name(:body), do: "the body of a tenant"
  defp name(:statistics), do: "the statistics of a tenant"
  defp name({:day, day}), do: "day #{day} of a tenant"
end
