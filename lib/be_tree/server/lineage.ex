defmodule BeTree.Server.Lineage do
  @moduledoc false
  # The history of a server, to which its versions belong.
  #
  # A server that starts anew, and the first change after a start from a folder, begins a *lineage*: a random name for the changes from
  # then on. The history is the list of its lineages, the present one first, each with the version at which it began. Two servers whose
  # histories share a lineage have the same changes up to the version at which the next lineage of either began. So a server that
  # is restored from an older folder has another history than a follower that has seen later changes, even when their versions are
  # equal again. Before the server's first change, its version is lower than the follower's.

  alias BeTree.Error

  # Followers with an earlier lineage get an index anew.
  @max_lineages 64

  @type id :: String.t()
  @type version :: non_neg_integer
  @type t :: [{id, version}]
  @type position :: {id, version}

  @doc "Begins a lineage after the last version of `history`."
  @spec begin(t, version) :: t
  def begin(history, version), do: append(history, new_id(), version)

  @doc "Adds a lineage that began at `version`, unless it is the present one."
  @spec append(t, id, version) :: t
  def append([{id, _since} | _] = history, id, _version), do: history
  def append(history, id, version), do: [{id, version} | Enum.take(history, @max_lineages - 1)]

  defp new_id, do: Base.encode16(:rand.bytes(8), case: :lower)

  @doc "Returns the present lineage, or `nil` for an empty history."
  @spec id(t) :: id | nil
  def id([{id, _since} | _]), do: id
  def id([]), do: nil

  @doc "Returns whether `history` leads to a position or past it. No history leads to `nil`."
  @spec includes?(t, position | nil) :: boolean
  def includes?(_history, nil), do: false
  def includes?(history, position), do: find(history, position) == :included

  @doc """
  Looks a position up: `:included`; `{:ended, version}` if its lineage ended before it, so that its change is lost; or `:unknown`.
  """
  @spec find(t, position) :: :included | {:ended, version} | :unknown
  def find(history, position), do: find(history, :infinity, position)

  defp find([{id, _since} | _], last, {id, version}), do: if(version <= last, do: :included, else: {:ended, last})
  defp find([{_id, since} | earlier], _last, position), do: find(earlier, since, position)
  defp find([], _last, _position), do: :unknown

  @doc "Returns the error for a position whose change is lost."
  @spec lost(position, version) :: Error.t()
  def lost({id, version}, ended) do
    message =
      "the version #{version} of the lineage #{id} is lost: the server continued without it after version #{ended}, " <>
        "because it was restored, or lost its last changes; read its position again"

    %Error{kind: :not_found, message: message}
  end
end
