defmodule BeTree.Error do
  @moduledoc ~S"""
  The exception of this library. Functions return it as `{:error, %BeTree.Error{}}`, and their variants with `!` raise it.

  `Exception.message/1` names the fault and says how to mend it. It begins with the position in a list, or with the
  subscription. If the fault lies in an expression, the expression follows, with a caret under the place:

      iex> error = %BeTree.Error{kind: :syntax, message: "expected a value", text: "age >= and plan = 3", column: 8}
      iex> Exception.message(error)
      "expected a value\n\n    age >= and plan = 3\n           ^"

  An error holds no event and no value of one: neither its fields nor its message do, so it can be logged. It may name the
  attribute, the column of the JSON, the types and the sizes. With the option `strict: true` it contains the unknown name. An error of
  kind `:callback` has the message of your function's exception.

  ## Fields

    * `:kind` - an atom of the table below;
    * `:message` - one line that names the fault and how to mend it;
    * `:attribute` - the name of the attribute, or `nil`;
    * `:column` - the character of the expression or of the event's JSON, from 1, at which the fault lies, or `nil`;
    * `:position` - the position of the wrong subscription or event in a list, from 0, or `nil`;
    * `:line` - the line of a text of rules, from 1, or `nil`;
    * `:retry_after` - the milliseconds until the call may succeed, for the kind `:quota`, or `nil`;
    * `:faults` - for the kind `:schema_change`, a list of `{id, error}` in the order of ids, or `nil`;
    * `:text` - the expression, or the line of the rules, in which `:column` counts, or `nil`.

  ## Kinds

  | kind | cause |
  | --- | --- |
  | `:syntax` | an expression or JSON cannot be read |
  | `:unknown_attribute` | an expression, or an event of a strict search, names an attribute outside the schema |
  | `:type` | a value has the wrong type |
  | `:out_of_bounds` | a value lies outside of the bounds of its attribute or its type |
  | `:missing_attribute` | an event lacks an attribute that is not optional |
  | `:duplicate_id` | a subscription has this id already; `BeTree.put/4` replaces it |
  | `:exists` | a tenant of this name is there already |
  | `:not_found` | nothing has this id, or it is gone |
  | `:no_server` | no server of this name runs, its node cannot be reached, or it ended during the call |
  | `:not_ready` | a server has no index yet: it is being filled, or waits for the server that it follows |
  | `:out_of_fuel` | a call used its whole budget of fuel |
  | `:timeout` | a call took longer than its timeout |
  | `:out_of_memory` | the memory limit was reached |
  | `:trap` | the index module stopped with a fault, and a change in progress may be half made |
  | `:quota` | a tenant has used its fuel, or would exceed its memory (`BeTree.Tenants`) |
  | `:overloaded` | too many callers wait already, or the wait would never end |
  | `:bad_module` | bytes are no WebAssembly module, or no index module |
  | `:file` | a file cannot be read or written |
  | `:damaged` | a file is not as it was written, or one is missing |
  | `:other_schema` | a folder belongs to another schema |
  | `:schema_change` | subscriptions do not fit the schema to which a server should change; `:faults` lists them |
  | `:locked` | another server has the folder open |
  | `:closed` | the sink of a `BeTree.Output` is gone |
  | `:callback` | a function of yours that the library called, such as that of `load:` or of a runtime, raised, threw or exited |
  """

  @type kind ::
          :syntax
          | :unknown_attribute
          | :type
          | :out_of_bounds
          | :missing_attribute
          | :duplicate_id
          | :exists
          | :not_found
          | :no_server
          | :not_ready
          | :out_of_fuel
          | :timeout
          | :out_of_memory
          | :trap
          | :quota
          | :overloaded
          | :bad_module
          | :file
          | :damaged
          | :other_schema
          | :schema_change
          | :locked
          | :closed
          | :callback

  @type t :: %__MODULE__{
          kind: kind,
          message: String.t(),
          attribute: String.t() | nil,
          column: pos_integer | nil,
          position: non_neg_integer | nil,
          line: pos_integer | nil,
          text: binary | nil,
          retry_after: non_neg_integer | nil,
          faults: [{term, t}] | nil
        }

  @derive {Inspect, optional: [:attribute, :column, :position, :line, :text, :retry_after, :faults]}
  @enforce_keys [:kind, :message]
  defexception [:kind, :message, :attribute, :column, :position, :line, :text, :retry_after, :faults]

  @indent "    "
  # Characters of the text shown before and after the caret, which fit on one line of a terminal.
  @before 40
  @from 32
  @ellipsis "..."

  @impl Exception
  # The message for an expression names its subscription.
  def message(%__MODULE__{position: position, text: nil} = error) when is_integer(position) do
    "position #{position}: #{message(%{error | position: nil})}"
  end

  def message(%__MODULE__{line: line} = error) when is_integer(line) do
    message(%{error | message: "#{error.message} (line #{line})", line: nil})
  end

  def message(%__MODULE__{message: message, text: text, column: column}) when is_binary(text) and is_integer(column) do
    {line, caret} = excerpt(text, column)
    "#{message}\n\n#{@indent}#{line}\n#{@indent}#{String.duplicate(" ", caret)}^"
  end

  def message(%__MODULE__{message: message, column: column}) when is_integer(column),
    do: "#{message} (column #{column})"

  def message(%__MODULE__{message: message}), do: message

  # Returns the line around the column, cut to a window, and the number of characters before the caret.
  defp excerpt(text, column) do
    # Drops characters far before the column, because a text may have megabytes.
    near = min(column - 1, @before + 1)
    {_near, ahead} = split(text, near, [])
    {before, rest} = text |> follow(ahead, column - 1 - near) |> split(near, [])
    {head, before_length} = before |> Enum.take_while(&(&1 != ?\n)) |> cut(@before)
    {tail, _length} = rest |> take_line(@from + 1) |> cut(@from)
    {IO.chardata_to_string([Enum.reverse(head) | tail]), before_length}
  end

  # Drops `count` characters of the text, or as many as `ahead` has if that is fewer.
  defp follow(text, _ahead, 0), do: text
  defp follow(text, "", _count), do: text

  defp follow(text, ahead, count) do
    {_character, rest} = next(text)
    {_character, ahead} = next(ahead)
    follow(rest, ahead, count - 1)
  end

  # Returns the characters before the column, the last one first, and the bytes from it on.
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

  # A control character, or a byte that is no UTF-8, takes the place of one character.
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
