defmodule BeTree.Files.Ids do
  @moduledoc false
  # Numbers for ids that an index cannot hold. The ids of an index are unsigned 64-bit integers. If a file has another id, its expressions
  # are numbered from 1, and a file of ids keeps the id of each number: `{"id":"a7","number":1}`, one a line.

  alias BeTree.Files.{Reader, Rows}
  alias BeTree.Input.{Json, Limits}

  require Limits

  @typedoc "The given id of each number, or nil if the numbers are the ids."
  @type t :: %{BeTree.id() => integer | String.t()} | nil

  # Returns a number for each row. Raises a `BeTree.Files.Error` for an id that is there twice, unless the index finds it.
  @spec number!([Rows.t()], Path.t()) :: {[BeTree.id()], t}
  def number!(rows, path) do
    if Enum.all?(rows, &Limits.is_u64(&1.id)) do
      {Enum.map(rows, & &1.id), nil}
    else
      Enum.reduce(rows, %{}, &put_once!(&1, &2, path))
      numbers = Enum.to_list(1..length(rows))
      {numbers, numbers |> Enum.zip(Enum.map(rows, & &1.id)) |> Map.new()}
    end
  end

  defp put_once!(%{id: id, line: line} = row, lines, path) do
    with %{^id => first} <- lines do
      reason = "the id #{Json.encode(id)} is there twice, first in line #{first}; give each expression its own"
      raise Reader.error(path, row.text, line, 0, reason)
    end

    Map.put(lines, id, line)
  end

  # Returns the given id of a number.
  @spec given(t, BeTree.id()) :: integer | String.t()
  def given(nil, number), do: number
  def given(ids, number), do: Map.get(ids, number, number)

  # Returns the text of a file of ids, for the numbers of an index.
  @spec text(t, [BeTree.id()]) :: iodata
  def text(ids, numbers), do: for(number <- numbers, do: [Json.encode(%{number: number, id: given(ids, number)}), ?\n])

  # Reads such a file.
  @spec read!(Path.t()) :: t
  def read!(path) do
    path
    |> Reader.lines()
    |> Map.new(fn {text, number} ->
      case Json.decode(text) do
        {:ok, %{"number" => key, "id" => id}} when Limits.is_u64(key) and (is_integer(id) or is_binary(id)) ->
          {key, id}

        _other ->
          raise Reader.error(path, text, number, 0, ~S(a line has an id and its number: {"id": "a7", "number": 1}))
      end
    end)
  end
end
