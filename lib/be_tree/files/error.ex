defmodule BeTree.Files.Error do
  @moduledoc """
  An error in a file, with its place.

    * `path` - the path of the file;
    * `line`, `column` - the place, counted from 1, in lines and characters; `nil` when the error concerns the whole file;
    * `reason` - the fault and how to mend it;
    * `text`, `caret` - the text to show, and the character under which the caret stands, counted from 1; or `nil`.

  Its message is the place, followed by the message of a `BeTree.Error`:

      betree_exprs:2:7: expected a value

          age >=
                ^
  """

  @type t :: %__MODULE__{
          path: Path.t(),
          line: pos_integer | nil,
          column: pos_integer | nil,
          reason: String.t(),
          text: String.t() | nil,
          caret: pos_integer | nil
        }

  defexception [:path, :line, :column, :reason, :text, :caret]

  @impl true
  def message(%__MODULE__{} = error) do
    place = [error.path, error.line, error.column] |> Enum.reject(&is_nil/1) |> Enum.join(":")
    shown = %BeTree.Error{kind: :syntax, message: error.reason, text: error.text, column: error.caret}
    "#{place}: #{Exception.message(shown)}"
  end

  @doc false
  # Returns the error for a POSIX reason.
  @spec posix(Path.t(), atom) :: t
  def posix(path, reason), do: %__MODULE__{path: path, reason: to_string(:file.format_error(reason))}
end
