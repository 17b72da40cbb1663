defmodule BeTree.Files.Reader do
  @moduledoc false
  # Reads a text file line by line and counts the lines. It holds one line and a read-ahead buffer.

  alias BeTree.Files.Error

  @enforce_keys [:path, :device]
  defstruct [:path, :device, text: "", number: 0]

  @type t :: %__MODULE__{path: Path.t(), device: :file.io_device(), text: binary, number: non_neg_integer}

  @read_ahead 0x10000

  # Opens `path`, or raises a `BeTree.Files.Error`.
  @spec open!(Path.t()) :: t
  def open!(path) do
    case :file.open(path, [:read, :raw, :binary, read_ahead: @read_ahead]) do
      {:ok, device} -> %__MODULE__{path: path, device: device}
      {:error, reason} -> raise Error.posix(path, reason)
    end
  end

  @spec close(t) :: :ok
  def close(%__MODULE__{device: device}), do: :file.close(device)

  # Returns the reader at its next line, whose `text` is without its line end.
  @spec next_line(t) :: {:ok, t} | :eof
  def next_line(%__MODULE__{} = reader) do
    case :file.read_line(reader.device) do
      {:ok, line} -> {:ok, %{reader | text: trim_line_end(line), number: reader.number + 1}}
      :eof -> :eof
      {:error, reason} -> raise Error.posix(reader.path, reason)
    end
  end

  # Returns a stream of the lines that hold more than white space, each with its number.
  @spec lines(Path.t()) :: Enumerable.t()
  def lines(path) do
    path |> all_lines() |> Stream.reject(fn {text, _number} -> blank?(text) end)
  end

  # Returns an error at the byte `offset` of `text`, the line `number` of `path`.
  @spec error(Path.t(), binary, pos_integer, non_neg_integer, String.t()) :: Error.t()
  def error(path, text, number, offset, reason) do
    column = (text |> binary_part(0, offset) |> String.codepoints() |> length()) + 1
    %Error{path: path, line: number, column: column, reason: reason, text: text, caret: column}
  end

  defp all_lines(path) do
    Stream.resource(
      fn -> open!(path) end,
      fn reader ->
        case next_line(reader) do
          {:ok, reader} -> {[{reader.text, reader.number}], reader}
          :eof -> {:halt, reader}
        end
      end,
      &close/1
    )
  end

  defp trim_line_end(line), do: line |> trim_last(?\n) |> trim_last(?\r)

  defp trim_last("", _character), do: ""

  defp trim_last(text, character) do
    if :binary.last(text) == character, do: binary_part(text, 0, byte_size(text) - 1), else: text
  end

  defp blank?(<<character, rest::binary>>) when character in ~c" \t\r", do: blank?(rest)
  defp blank?(rest), do: rest == ""
end
