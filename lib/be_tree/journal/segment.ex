defmodule BeTree.Journal.Segment do
  @moduledoc false
  # A segment is a file `SEQUENCE.log` of records, behind a head, "BTJOURN\n", with the version of the first change
  # (BeTree.Journal.Head).
  #
  # A segment gets its name when its head, its first changes, and all changes of earlier segments are on the disk. So a file with such
  # a name and a wrong head, or a gap before it, is damage and never an interrupted write.
  #
  # A segment replaces all changes of earlier segments from its own first version on.

  import BeTree.Journal.Files, only: [create_whole: 3, with_device: 3]

  alias BeTree.Journal.{Fault, Head, Record}
  alias BeTree.Error

  @magic "BTJOURN\n"
  @chunk 0x10_0000
  @digits 16

  @enforce_keys [:sequence, :path, :first]
  defstruct [:sequence, :path, :first, :identity, :start, :device, :size]

  @type t :: %__MODULE__{
          sequence: pos_integer,
          path: Path.t(),
          first: pos_integer,
          identity: binary | nil,
          start: pos_integer | nil,
          device: term,
          size: pos_integer | nil
        }

  @doc "Returns a number as the names of files have it, so that the order of names is that of the numbers."
  @spec digits(non_neg_integer) :: String.t()
  def digits(number), do: number |> Integer.to_string() |> String.pad_leading(@digits, "0")

  @doc "Returns the path of the segment `sequence`."
  @spec path(Path.t(), pos_integer) :: Path.t()
  def path(folder, sequence), do: Path.join(folder, digits(sequence) <> ".log")

  @doc "Returns the number in the name of a file with this extension, or `nil` for any other name."
  @spec number(String.t(), String.t()) :: non_neg_integer | nil
  def number(name, extension) do
    with {number, ^extension} <- Integer.parse(name),
         true <- name == digits(number) <> extension do
      number
    else
      _other -> nil
    end
  end

  ## Writing

  @doc """
  Creates the segment `sequence`, whose changes begin with the version `first`, with `records` as its content. All of it is on the
  disk when this returns. The file replaces one with the same sequence.
  """
  @spec create(module, Path.t(), pos_integer, pos_integer, binary, iodata) :: {:ok, t} | {:error, BeTree.Error.t()}
  def create(files, folder, sequence, first, identity, records) do
    path = path(folder, sequence)
    head = Head.encode(@magic, first, identity)
    start = IO.iodata_length(head)
    size = start + IO.iodata_length(records)

    with {:ok, device} <- create_whole(files, path, [{0, [head | records]}]),
         do: {:ok, %__MODULE__{sequence: sequence, path: path, first: first, start: start, device: device, size: size}}
  end

  ## Reading

  @doc "Returns the segment in the file at `path`, checked up to the end of its head."
  @spec open(module, Path.t()) :: {:ok, t} | {:error, BeTree.Error.t()}
  def open(files, path) do
    with_device(files, path, fn device ->
      with {:ok, size} <- files.size(path),
           {:ok, head} <- Head.read(files, path, device, size, @magic, 0) do
        sequence = path |> Path.basename() |> number(".log")

        {:ok,
         %__MODULE__{
           sequence: sequence,
           path: path,
           first: head.number,
           identity: head.identity,
           start: head.at,
           size: size
         }}
      else
        {:error, %Error{} = error} -> {:error, error}
        {:error, reason} -> Fault.file("read", path, reason)
      end
    end)
  end

  @typedoc "How a reading ended: at the end of the file, at a fault, or because the function said so; where; the next version."
  @type ending :: {:end | :fault | :halt, at :: non_neg_integer, next :: pos_integer}

  @doc """
  Folds `function` over the changes of the segment, in order. The function returns `{:cont, value}` or
  `{:halt, value}`.
  """
  @spec reduce(module, t, acc, (Record.t(), acc -> {:cont | :halt, acc})) ::
          {:ok, ending, acc} | {:error, BeTree.Error.t()}
        when acc: term
  def reduce(files, %__MODULE__{} = segment, value, function) do
    with_device(files, segment.path, fn device ->
      with {:ok, size} <- files.size(segment.path) do
        reader = %{files: files, device: device, size: size, function: function}
        read(reader, "", segment.start, segment.first, value)
      end
      |> case do
        {:error, reason} -> Fault.file("read", segment.path, reason)
        result -> result
      end
    end)
  end

  # `at` is the place in the file at which `buffer` begins.
  defp read(reader, buffer, at, next, value) do
    case Record.decode(buffer) do
      {:ok, %{version: ^next} = change, rest} ->
        case reader.function.(change, value) do
          {:cont, value} -> read(reader, rest, at + change.size, next + 1, value)
          {:halt, value} -> {:ok, {:halt, at, next}, value}
        end

      {:more, size} when at + size <= reader.size ->
        refill(reader, buffer, at, next, value, size)

      {:more, _size} when buffer == "" and at >= reader.size ->
        {:ok, {:end, at, next}, value}

      _fault ->
        {:ok, {:fault, at, next}, value}
    end
  end

  defp refill(reader, buffer, at, next, value, size) do
    from = at + byte_size(buffer)

    case reader.files.pread(reader.device, from, max(@chunk, size - byte_size(buffer))) do
      {:ok, more} -> read(reader, buffer <> more, at, next, value)
      # The file has become shorter.
      :eof -> {:ok, {:fault, at, next}, value}
      {:error, reason} -> {:error, reason}
    end
  end

  @doc "Returns whether a record of the segment behind the place `at` proves that the change `version` was durable."
  @spec proof?(module, t, non_neg_integer, pos_integer) :: {:ok, boolean} | {:error, BeTree.Error.t()}
  def proof?(files, %__MODULE__{path: path}, at, version) do
    with_device(files, path, fn device ->
      with {:ok, size} <- files.size(path),
           {:ok, bytes} <- pread(files, device, at, max(size - at, 0)) do
        {:ok, Record.proof?(bytes, version)}
      else
        {:error, reason} -> Fault.file("read", path, reason)
      end
    end)
  end

  @doc "Returns when all of the segment is on the disk."
  @spec sync(module, Path.t()) :: :ok | {:error, BeTree.Error.t()}
  def sync(files, path) do
    with_device(files, path, fn device ->
      with {:error, reason} <- files.sync(device), do: Fault.file("sync", path, reason)
    end)
  end

  defp pread(_files, _device, _at, 0), do: {:ok, ""}

  defp pread(files, device, at, length) do
    with :eof <- files.pread(device, at, length), do: {:ok, ""}
  end
end
