defmodule BeTree.Error do
  @moduledoc ~S"""
  An error is the one exception of this library. Functions return it as `{:error, %BeTree.Error{}}`, and their variants
  with `!` raise it.

  `Exception.message/1` returns the fault and how to mend it. When the fault lies in a text, the message shows that text
  with a caret under the place:

      iex> error = %BeTree.Error{kind: :syntax, message: "expected a value", text: "age >= and plan = 3", column: 8}
      iex> Exception.message(error)
      "expected a value\n\n    age >= and plan = 3\n           ^"

  ## Fields

    * `:kind` - the kind of the error, one of those below;
    * `:message` - one line with the fault and how to mend it;
    * `:attribute` - the name of the attribute, or `nil`;
    * `:column` - the character of the text where the fault lies, from 1, or `nil`;
    * `:position` - the position of the faulty element in a list, from 0, such as a subscription of
      `BeTree.insert_all/3` or an event of `BeTree.search_many/3`, or `nil`;
    * `:text` - the expression or the JSON that `:column` counts in, or `nil`.

  ## Kinds

  | kind | meaning |
  | --- | --- |
  | `:syntax` | an expression or a JSON text has wrong syntax |
  | `:unknown_attribute` | an expression names an attribute outside the schema |
  | `:type` | a value has the wrong type |
  | `:out_of_bounds` | a value lies outside the bounds of its attribute or its type |
  | `:missing_attribute` | an event lacks a required attribute, or a subscription lacks a constant |
  | `:duplicate_id` | another subscription has this id |
  | `:not_found` | no subscription, server or search has this id or name, or it has ended |
  | `:out_of_fuel` | a call used its whole fuel budget |
  | `:timeout` | a call took longer than its timeout |
  | `:out_of_memory` | the call would exceed the memory limit, or the system refused memory |
  | `:trap` | the WebAssembly module stopped itself. It is faulty, and an interrupted change may have damaged its data |
  | `:overloaded` | too many callers wait, a limit of the system is reached, or the wait would never end |
  | `:bad_module` | the bytes are no WebAssembly module, or one that cannot be used here |
  | `:file` | a file cannot be read or written |
  """

  @type kind ::
          :syntax
          | :unknown_attribute
          | :type
          | :out_of_bounds
          | :missing_attribute
          | :duplicate_id
          | :not_found
          | :out_of_fuel
          | :timeout
          | :out_of_memory
          | :trap
          | :overloaded
          | :bad_module
          | :file

  @type t :: %__MODULE__{
          kind: kind,
          message: String.t(),
          attribute: String.t() | nil,
          column: pos_integer | nil,
          position: non_neg_integer | nil,
          text: binary | nil
        }

  @enforce_keys [:kind, :message]
  defexception [:kind, :message, :attribute, :column, :position, :text]

  @indent "    "
  # The excerpt fits on a line of a terminal: this many characters before the caret, and this many from it on.
  @before 40
  @from 32
  @ellipsis "..."

  @impl Exception
  def message(%__MODULE__{message: message, text: text, column: column}) when is_binary(text) and is_integer(column) do
    {line, caret} = excerpt(text, column)
    "#{message}\n\n#{@indent}#{line}\n#{@indent}#{String.duplicate(" ", caret)}^"
  end

  def message(%__MODULE__{message: message}), do: message

  # Returns the line around the column, cut to a window, and the number of characters before the caret.
  defp excerpt(text, column) do
    # Characters far before the column are not kept: a text may be an event of megabytes.
    near = min(column - 1, @before + 1)
    {_near, ahead} = split(text, near, [])
    {before, rest} = text |> follow(ahead, column - 1 - near) |> split(near, [])
    {head, before_length} = before |> Enum.take_while(&(&1 != ?\n)) |> cut(@before)
    {tail, _length} = rest |> take_line(@from + 1) |> cut(@from)
    {IO.chardata_to_string([Enum.reverse(head) | tail]), before_length}
  end

  # Drops one character of the text for each character of `ahead`, at most `count`.
  defp follow(text, _ahead, 0), do: text
  defp follow(text, "", _count), do: text

  defp follow(text, ahead, count) do
    {_character, rest} = next(text)
    {_character, ahead} = next(ahead)
    follow(rest, ahead, count - 1)
  end

  # Returns the characters before the column, the last one first, and the bytes from the column on.
  defp split(rest, 0, before), do: {before, rest}
  defp split("", _count, before), do: {before, ""}

  defp split(text, count, before) do
    {character, rest} = next(text)
    split(rest, count - 1, [character | before])
  end

  defp take_line("", _most), do: []
  defp take_line(_text, 0), do: []

  defp take_line(text, most) do
    case next(text) do
      {?\n, _rest} -> []
      {character, rest} -> [character | take_line(rest, most - 1)]
    end
  end

  # Control characters and bytes that are not UTF-8 are replaced by one printable character each.
  defp next(<<?\n, rest::binary>>), do: {?\n, rest}
  defp next(<<control, rest::binary>>) when control < 32 or control == 127, do: {?\s, rest}
  defp next(<<character::utf8, rest::binary>>), do: {character, rest}
  defp next(<<_byte, rest::binary>>), do: {0xFFFD, rest}

  defp cut(characters, most) do
    case Enum.split(characters, most) do
      {kept, []} -> {kept, length(kept)}
      {kept, _rest} -> {kept ++ String.to_charlist(@ellipsis), most + String.length(@ellipsis)}
    end
  end
end
