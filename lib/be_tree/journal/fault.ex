defmodule BeTree.Journal.Fault do
  @moduledoc false
  # The errors of a journal. Each names the file and the remedy.

  alias BeTree.Error

  @doc "The system refused an operation on a file."
  @spec file(String.t(), Path.t(), term) :: {:error, Error.t()}
  def file(action, path, reason) do
    {:error, %Error{kind: :file, message: "cannot #{action} #{path}: #{reason(reason)}"}}
  end

  @doc "Returns the error of a refused change."
  @spec refused(Error.t()) :: Error.t()
  def refused(error), do: %{error | message: error.message <> "; the change was not made"}

  @doc "A file of the journal is not as it was written."
  @spec damaged(Path.t(), String.t()) :: {:error, Error.t()}
  def damaged(path, fault) do
    message =
      "#{path} is damaged: #{fault}; nothing was changed: restore the folder from a copy, or move it away to start anew"

    {:error, %Error{kind: :damaged, message: message}}
  end

  @doc "Another process has the folder open."
  @spec locked(Path.t()) :: {:error, Error.t()}
  def locked(folder) do
    message =
      "another server has the folder #{folder} open, in this node or in another operating-system process; stop it first"

    {:error, %Error{kind: :locked, message: message}}
  end

  defp reason(:enospc), do: "no space left on the device; free some and try again"
  defp reason(:edquot), do: "the disk quota is exhausted; free some space and try again"
  defp reason(reason) when is_binary(reason), do: reason
  defp reason(reason) when is_atom(reason), do: List.to_string(:file.format_error(reason))
end
