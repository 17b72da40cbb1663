defmodule BeTree.Journal.Manifest do
  @moduledoc false
  # The file `journal.manifest` records the least content of a folder's other files, so that a start notices when the newest
  # segment, or its end, is missing. After its head, "BTMANI\n\0" (BeTree.Journal.Head), it has two records at fixed places:
  #
  #     count    64 bits: the record with the greater count is current
  #     segment  64 bits, the sequence of a segment: this segment or a later one exists. 0: there may be none
  #     durable  64 bits: all changes up to this version were on the disk before this record was written
  #     crc      32 bits, CRC-32 of all of the above
  #
  # `put/3` writes a record and syncs it: when a segment begins, before the last one is removed, and when the owner closes the
  # folder. `note/2` writes a record without a sync, after each sync of changes. Such a record survives the end of the node, but
  # may not survive a loss of power. Each write replaces the record that is not known to be on the disk. So after any loss of
  # power one record is intact, and it never claims more than the disk has.

  import BeTree.Journal.Files, only: [create_whole: 3, with_device: 3]

  alias BeTree.Error.Attempt
  alias BeTree.Journal.{Fault, Head}

  @file_name "journal.manifest"
  @magic "BTMANI\n\0"
  # In different blocks of the disk, so that no write of one can hurt the other, or the head.
  @places [0x1000, 0x2000]
  @fixed 24
  @record 28

  @enforce_keys [:files, :path, :device, :count, :segment, :durable, :settled, :places]
  defstruct @enforce_keys

  @typedoc """
    * `:count`, `:segment`, `:durable` - the present record; `:settled` - the version in the record that is on the disk;
    * `:places` - the place of the next record, and that of the record which is on the disk.
  """
  @type t :: %__MODULE__{}

  @typedoc "The present record of a file, and the places of the other record and of this one."
  @type found :: %{
          count: pos_integer,
          segment: non_neg_integer,
          durable: non_neg_integer,
          places: {pos_integer, pos_integer}
        }

  @doc "Returns the name of the file."
  @spec file_name() :: String.t()
  def file_name, do: @file_name

  ## Reading

  @doc "Returns what the manifest of a folder says."
  @spec read(module, Path.t()) :: {:ok, found} | {:error, BeTree.Error.t()}
  def read(files, folder) do
    path = Path.join(folder, @file_name)

    with_device(files, path, fn device ->
      with {:ok, bytes} <- size(files, path),
           {:ok, _head} <- Head.read(files, path, device, bytes, @magic, 0),
           {:ok, records} <- records(files, path, device) do
        case Enum.sort(records, :desc) do
          [{count, segment, durable, place} | _older] ->
            [other] = List.delete(@places, place)
            {:ok, %{count: count, segment: segment, durable: durable, places: {other, place}}}

          [] ->
            Fault.damaged(path, "neither of its records is as it was written")
        end
      end
    end)
  end

  defp size(files, path) do
    with {:error, reason} <- files.size(path), do: Fault.file("read", path, reason)
  end

  defp records(files, path, device) do
    Attempt.reduce(@places, [], fn place, records ->
      case files.pread(device, place, @record) do
        {:ok, bytes} -> {:ok, decode(bytes, place) ++ records}
        :eof -> {:ok, records}
        {:error, reason} -> Fault.file("read", path, reason)
      end
    end)
  end

  defp decode(<<fixed::binary-size(@fixed), crc::little-32>>, place) do
    <<count::little-64, segment::little-64, durable::little-64>> = fixed
    if crc == :erlang.crc32(fixed), do: [{count, segment, durable, place}], else: []
  end

  defp decode(_short, _place), do: []

  ## Writing

  @doc "Opens the manifest for writing, with what was read of it. With `nil`, the folder is new, and gets one."
  @spec open(module, Path.t(), found | nil) :: {:ok, t} | {:error, BeTree.Error.t()}
  def open(files, folder, nil) do
    path = Path.join(folder, @file_name)
    [place, other] = @places
    found = %{count: 1, segment: 0, durable: 0, places: {other, place}}
    # Writes both records now, so that the manifest needs no space when the disk is full later.
    records = [{0, Head.encode(@magic, 0, "")}, {place, encode(1, 0, 0)}, {other, encode(0, 0, 0)}]

    with {:ok, device} <- create_whole(files, path, records), do: {:ok, new(files, path, device, found)}
  end

  # The present record may be an unsynced note of a killed owner. Another note of that owner may still reach the file, so this owner
  # skips its count.
  def open(files, folder, found) do
    path = Path.join(folder, @file_name)

    with {:ok, device} <- files.open_to_write(path),
         :ok <- files.sync(device) do
      {:ok, new(files, path, device, %{found | count: found.count + 1})}
    else
      {:error, reason} -> Fault.file("open", path, reason)
    end
  end

  defp new(files, path, device, found) do
    %__MODULE__{
      files: files,
      path: path,
      device: device,
      count: found.count,
      segment: found.segment,
      durable: found.durable,
      settled: found.durable,
      places: found.places
    }
  end

  @doc """
  Notes without a sync that all changes up to `durable` are on the disk. If the write fails, the former note remains, which is true as
  well.
  """
  @spec note(t, non_neg_integer) :: t
  def note(%__MODULE__{durable: before} = manifest, durable) when durable <= before, do: manifest

  def note(%__MODULE__{} = manifest, durable) do
    case write(manifest, manifest.segment, durable) do
      :ok -> %{manifest | count: manifest.count + 1, durable: durable}
      {:error, _reason} -> manifest
    end
  end

  @doc "Records the newest segment, and that all changes up to `durable` are on the disk. The record is on the disk when this returns."
  @spec put(t, non_neg_integer, non_neg_integer) :: {:ok, t} | {:error, BeTree.Error.t(), t}
  def put(%__MODULE__{files: files, device: device, places: {place, settled}} = manifest, segment, durable) do
    durable = max(durable, manifest.durable)

    with :ok <- write(manifest, segment, durable),
         :ok <- files.sync(device) do
      {:ok,
       %{
         manifest
         | count: manifest.count + 1,
           segment: segment,
           durable: durable,
           settled: durable,
           places: {settled, place}
       }}
    else
      {:error, reason} ->
        {:error, error} = Fault.file("write", manifest.path, reason)
        {:error, error, %{manifest | count: manifest.count + 1}}
    end
  end

  defp write(%{files: files, device: device, places: {place, _settled}} = manifest, segment, durable),
    do: files.pwrite(device, place, encode(manifest.count + 1, segment, durable))

  defp encode(count, segment, durable) do
    fixed = <<count::little-64, segment::little-64, durable::little-64>>
    [fixed, <<:erlang.crc32(fixed)::little-32>>]
  end

  @doc "Returns whether the record on the disk has all changes up to `durable`."
  @spec settled?(t, non_neg_integer) :: boolean
  def settled?(%__MODULE__{settled: settled}, durable), do: settled >= durable

  @doc "Closes the file."
  @spec close(t) :: :ok
  def close(%__MODULE__{files: files, device: device}) do
    _ = files.close(device)
    :ok
  end
end
