defmodule BeTree.Files.Csv do
  @moduledoc false
  # Reads rows of comma-separated values as RFC 4180 defines them: a field in double quotes may have commas, line ends and quotes,
  # each written twice. A line end in a field becomes a line feed.

  alias BeTree.Files.Reader

  @typedoc "A field: its text, the line and the column of its first character, and whether it is in quotes."
  @type field :: {String.t(), line :: pos_integer, column :: pos_integer, quoted :: boolean}

  @typedoc "A row: its fields, and the text and the number of its first line."
  @type row :: {[field], String.t(), pos_integer}

  # Returns the next row. Blank lines are skipped.
  @spec take(Reader.cursor()) :: {row, Reader.cursor()} | nil
  def take(cursor) do
    with {{text, number}, {_rest, reader}} <- Reader.take(cursor) do
      {fields, reader} = fields(text, reader, [])
      {{fields, text, number}, {"", reader}}
    end
  end

  # Returns the line and the column of the character `column` of a field's text.
  @spec position(field, pos_integer) :: {pos_integer, pos_integer}
  def position({text, line, first, quoted}, column) do
    before = text |> String.codepoints() |> Enum.take(column - 1)
    [last | lines] = before |> Enum.chunk_while([], &chunk/2, &{:cont, &1, []}) |> Enum.reverse()
    width = length(last) + if(quoted, do: Enum.count(last, &(&1 == "\"")), else: 0)
    {line + length(lines), width + if(lines == [], do: first, else: 1)}
  end

  defp chunk("\n", line), do: {:cont, line, []}
  defp chunk(character, line), do: {:cont, [character | line]}

  defp fields("\"" <> rest, reader, found) do
    start = {reader, rest}
    {text, rest, behind} = quoted(rest, reader, [], start)
    next(rest, behind, [{text, reader.number, column(rest_offset(start), reader), true} | found])
  end

  defp fields(rest, reader, found) do
    [text | _others] = :binary.split(rest, ",")

    if String.contains?(text, "\"") do
      reason = "a field with a quote is in quotes, in which a quote is written twice: \"a = \"\"b\"\"\""
      fail(reader, byte_size(reader.text) - byte_size(rest), reason)
    end

    behind = binary_part(rest, byte_size(text), byte_size(rest) - byte_size(text))
    start = byte_size(reader.text) - byte_size(rest)
    next(behind, reader, [{text, reader.number, column(start, reader), false} | found])
  end

  defp next("", reader, found), do: {Enum.reverse(found), reader}
  defp next("," <> rest, reader, found), do: fields(rest, reader, found)

  defp next(rest, reader, _found) do
    reason = "expected a comma or the end of the line after the closing quote; a quote in a field is written twice"
    fail(reader, byte_size(reader.text) - byte_size(rest), reason)
  end

  defp quoted(rest, reader, found, start) do
    case :binary.split(rest, "\"") do
      [text, "\"" <> rest] ->
        quoted(rest, reader, [found, text, ?"], start)

      [text, rest] ->
        {IO.iodata_to_binary([found | text]), rest, reader}

      [text] ->
        case Reader.next_line(reader) do
          {:ok, reader} -> quoted(reader.text, reader, [found, text, ?\n], start)
          :eof -> fail(elem(start, 0), rest_offset(start) - 1, "the quote that begins here has no end")
        end
    end
  end

  defp rest_offset({reader, rest}), do: byte_size(reader.text) - byte_size(rest)

  defp column(offset, reader), do: (reader.text |> binary_part(0, offset) |> String.codepoints() |> length()) + 1

  @spec fail(Reader.t(), non_neg_integer, String.t()) :: no_return
  defp fail(reader, offset, reason), do: raise(Reader.error(reader.path, reader.text, reader.number, offset, reason))
end
