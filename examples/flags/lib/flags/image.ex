defmodule Flags.Image do
  @moduledoc """
  A folder with an image of all flags, `flags.wasm`, and their names, `names.txt`.

  The id of a flag is a digest of its name. So the names need not be of the same build as the image: they are written first, and a name too
  many does no harm.
  """

  @doc "Returns the id of a flag."
  @spec id(String.t()) :: BeTree.id()
  def id(name) do
    <<id::64, _rest::binary>> = :crypto.hash(:sha256, name)
    id
  end

  @doc "Returns the path of the image in a folder."
  @spec path(Path.t()) :: Path.t()
  def path(dir), do: Path.join(dir, "flags.wasm")

  @doc "Writes the flags of a text to a folder. Returns their number. A wrong rule changes nothing."
  @spec build(String.t(), BeTree.schema(), Path.t()) :: {:ok, non_neg_integer} | {:error, String.t()}
  def build(text, schema, dir) do
    tree = BeTree.new!(schema)

    with {:ok, flags} <- text |> String.split("\n") |> Enum.with_index(1) |> insert(tree, []),
         File.mkdir_p!(dir),
         :ok <- write_names(dir, flags),
         :ok <- BeTree.Image.write(tree, path(dir)) do
      {:ok, length(flags)}
    else
      {:error, %BeTree.Error{} = error} -> {:error, Exception.message(error)}
      {:error, reason} -> {:error, reason}
    end
  end

  defp insert([], _tree, names), do: {:ok, names}
  defp insert([{"", _number} | rest], tree, names), do: insert(rest, tree, names)
  defp insert([{"#" <> _comment, _number} | rest], tree, names), do: insert(rest, tree, names)

  defp insert([{line, number} | rest], tree, names) do
    with [name, rule] <- String.split(line, ": ", parts: 2),
         :ok <- BeTree.insert(tree, id(name), rule) do
      insert(rest, tree, [name | names])
    else
      [_line] -> {:error, "line #{number}: a line is NAME: RULE"}
      {:error, error} -> {:error, "line #{number}: #{Exception.message(error)}"}
    end
  end

  # Renamed as a whole, because a reader may come at any time. `BeTree.Image.write/3` does the same.
  defp write_names(dir, names) do
    path = Path.join(dir, "names.txt")
    File.write!(path <> ".new", Enum.join(names, "\n"))
    File.rename!(path <> ".new", path)
  end

  @doc "Reads a folder. Returns the index, and the names by id."
  @spec read(Path.t()) :: {:ok, {BeTree.Index.t(), %{BeTree.id() => String.t()}}} | {:error, BeTree.Error.t()}
  def read(dir) do
    # The image first: its names are there already.
    with {:ok, index} <- BeTree.Image.read(path(dir)) do
      names = dir |> Path.join("names.txt") |> File.read!() |> String.split("\n", trim: true)
      {:ok, {index, Map.new(names, &{id(&1), &1})}}
    end
  end
end
