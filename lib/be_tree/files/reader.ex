defmodule BeTree.Files.Reader do
  @moduledoc false
  # Reads a text file line by line, once, and counts the lines. It holds one line and a read-ahead buffer. A UTF-8 byte
  # order mark before the first line is skipped, because it is not part of the text.

  alias BeTree.Input.FileReader
  alias BeTree.Files.Error

  @enforce_keys [:path, :input]
  defstruct [:path, :input, :format, text: "", number: 0]

  @typedoc "The format, told by the first character of the file."
  @type format :: :terms | :objects | :lines

  @typedoc "The format is `nil` until the first line is read."
  @type t :: %__MODULE__{
          path: Path.t(),
          input: FileReader.t(),
          format: format | nil,
          text: binary,
          number: non_neg_integer
        }

  @typedoc "A line without its line end, and its number."
  @type line :: {binary, pos_integer}

  @byte_order_mark "\uFEFF"

  @typedoc "The unread text of the reader's line, and the reader."
  @type cursor :: {binary, t}

  # Opens `path`, or raises a `BeTree.Files.Error`. The cursor is at the first line that is not blank.
  @spec open!(Path.t()) :: cursor
  def open!(path) do
    case FileReader.open(path) do
      {:ok, input} -> first!(%__MODULE__{path: path, input: input})
      {:error, reason} -> raise Error.posix(path, reason)
    end
  end

  defp first!(reader) do
    case next_full(reader) do
      {:ok, reader} -> {reader.text, %{reader | format: reader.text |> String.trim_leading() |> format()}}
      :eof -> {"", %{reader | format: :lines}}
    end
  rescue
    error ->
      FileReader.close(reader.input)
      reraise error, __STACKTRACE__
  end

  # A file of terms begins with a list, a binary or a comment. No expression, attribute or JSON object begins like that.
  # Only a JSON object begins with a brace.
  defp format(<<first, _rest::binary>>) when first in ~c"[%", do: :terms
  defp format("<<" <> _rest), do: :terms
  defp format("{" <> _rest), do: :objects
  defp format(_other), do: :lines

  @spec close(cursor) :: :ok
  def close({_rest, reader}), do: FileReader.close(reader.input)

  # Calls `fun` with the cursor at the start of a file, and closes the file afterwards.
  @spec with_open!(Path.t(), (cursor -> result)) :: result when result: term
  def with_open!(path, fun) do
    cursor = open!(path)

    try do
      fun.(cursor)
    after
      close(cursor)
    end
  end

  # Returns a stream of elements. `take` returns an element and the cursor behind it, or nil at the end. The stream opens
  # the file when it is consumed, and closes it afterwards.
  @spec stream(Path.t(), (cursor -> {element, cursor} | nil)) :: Enumerable.t() when element: term
  def stream(path, take) do
    Stream.resource(
      fn -> open!(path) end,
      fn cursor ->
        case take.(cursor) do
          nil -> {:halt, cursor}
          {element, cursor} -> {[element], cursor}
        end
      end,
      &close/1
    )
  end

  # Returns a stream of the lines that are not blank.
  @spec lines(Path.t()) :: Enumerable.t()
  def lines(path), do: stream(path, &take/1)

  # Returns the next line that is not blank.
  @spec take(cursor) :: {line, cursor} | nil
  def take({"", reader}) do
    case next_full(reader) do
      {:ok, reader} -> {{reader.text, reader.number}, {"", reader}}
      :eof -> nil
    end
  end

  def take({text, reader}), do: {{text, reader.number}, {"", reader}}

  # Returns the reader at its next line. Its `text` has no line end.
  @spec next_line(t) :: {:ok, t} | :eof
  def next_line(%__MODULE__{} = reader) do
    case FileReader.read_line(reader.input) do
      {:ok, line} ->
        {:ok, %{reader | text: line |> unmarked(reader.number) |> trim_line_end(), number: reader.number + 1}}

      :eof ->
        :eof

      {:error, reason} ->
        raise Error.posix(reader.path, reason)
    end
  end

  # Returns an error at the byte `offset` of `text`, the line `number` of `path`.
  @spec error(Path.t(), binary, pos_integer, non_neg_integer, String.t()) :: Error.t()
  def error(path, text, number, offset, reason) do
    column = (text |> binary_part(0, offset) |> String.codepoints() |> length()) + 1
    %Error{path: path, line: number, column: column, reason: reason, text: text, caret: column}
  end

  defp next_full(reader) do
    with {:ok, reader} <- next_line(reader) do
      if blank?(reader.text), do: next_full(reader), else: {:ok, reader}
    end
  end

  defp unmarked(@byte_order_mark <> line, 0), do: line
  defp unmarked(line, _number), do: line

  defp trim_line_end(line), do: line |> trim_last(?\n) |> trim_last(?\r)

  defp trim_last("", _character), do: ""

  defp trim_last(text, character) do
    if :binary.last(text) == character, do: binary_part(text, 0, byte_size(text) - 1), else: text
  end

  defp blank?(<<character, rest::binary>>) when character in ~c" \t\r", do: blank?(rest)
  defp blank?(rest), do: rest == ""
end
