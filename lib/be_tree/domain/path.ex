defmodule BeTree.Domain.Path do
  @moduledoc false
  # The names of attributes: paths to fields of nested maps, as expressions spell them (wasm/index/src/model/path.rs).

  # The words that are operators and constants.
  @reserved ~w(and or not in true false)

  @plain ~r/\A[a-zA-Z_][a-zA-Z0-9_-]*/
  @quoted ~r/\A`((?:[^`]|``)*)`(?!`)/s

  @doc """
  Returns the names of the fields on the way of `path`, from the outermost one, or why `path` is none. `path` begins in the map
  that the fields `around` lead to.

      iex> BeTree.Domain.Path.fields("user.`first name`")
      {:ok, ["user", "first name"]}
  """
  @spec fields(String.t(), [String.t()]) :: {:ok, [String.t(), ...]} | {:error, String.t()}
  def fields(path, around \\ [])
  def fields(word, []) when word in @reserved, do: {:error, "it is an operator or a constant of the language"}
  def fields(path, _around), do: split(path, [])

  defp split(path, before) do
    with {:ok, name, rest} <- field(path) do
      case rest do
        "" -> {:ok, Enum.reverse(before, [name])}
        "." <> rest -> split(rest, [name | before])
        _other -> {:error, "a name has ASCII letters, digits, `_` and `-`, and begins with a letter or `_`"}
      end
    end
  end

  defp field("`" <> _rest = path) do
    case Regex.run(@quoted, path) do
      [quoted, inner] -> {:ok, String.replace(inner, "``", "`"), behind(path, quoted)}
      nil -> {:error, "a backtick has no end"}
    end
  end

  defp field(path) do
    case Regex.run(@plain, path) do
      [name] -> {:ok, name, behind(path, name)}
      nil -> {:error, "a name has ASCII letters, digits, `_` and `-`, and begins with a letter or `_`"}
    end
  end

  defp behind(path, head), do: binary_part(path, byte_size(head), byte_size(path) - byte_size(head))

  @doc """
  Returns the path of these fields in the spelling that names of attributes have: with backticks only where they are needed.

      iex> BeTree.Domain.Path.join(["user", "first name"])
      "user.`first name`"
  """
  @spec join([String.t(), ...]) :: String.t()
  def join([word]) when word in @reserved, do: quoted(word)
  def join(fields), do: Enum.map_join(fields, ".", &spell/1)

  defp spell(name), do: if(Regex.run(@plain, name) == [name], do: name, else: quoted(name))

  defp quoted(name), do: "`" <> String.replace(name, "`", "``") <> "`"
end
