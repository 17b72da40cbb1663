defmodule BeTree.Tenants.Day do
  @moduledoc false
  # The record of a day of a tenant: an entry for each origin, with the statistics and the bill that were counted there.
  #
  # A tenant may have been counted in several places: it moved, its dump was restored, or two nodes both matched its events while
  # they had lost each other. Each copy in a store is an *origin*, which it keeps until it is dropped. Only that copy counts under
  # its origin, and its figures only grow. So records merge like a state-based CRDT: of two entries of one origin the later one has
  # all that the other one has, and entries of different origins add up. However often and in whatever order records are merged,
  # nothing counts twice.
  #
  # The entry of a copy's own origin is written when its day ends. Those of other origins are there as soon as they are restored, also on
  # the present day.

  alias BeTree.Error
  alias BeTree.Tenants.{Body, Usage}

  @origin_bytes 8

  @typedoc "Random bytes that name a copy."
  @type origin :: binary

  @typedoc "The statistics, `nil` if there are none, the bill, and the digest of the module that counted the fuel."
  @type entry :: {blob :: binary | nil, Usage.totals(), digest :: String.t()}

  @type t :: %{origin => entry}

  @doc "Returns a new origin."
  @spec new_origin() :: origin
  def new_origin, do: :crypto.strong_rand_bytes(@origin_bytes)

  @doc "Returns whether a term is an origin."
  @spec origin?(term) :: boolean
  def origin?(term), do: is_binary(term) and byte_size(term) == @origin_bytes

  @doc "Returns the bytes of a record."
  @spec encode(t) :: binary
  def encode(record), do: Body.encode_term(record)

  @doc "Returns the record of these bytes."
  @spec decode(binary) :: {:ok, t} | {:error, Error.t()}
  def decode(bytes), do: Body.decode_term(bytes, "a day", &is_map/1)

  @doc "Returns the record with all entries of both."
  @spec merge(t, t) :: t
  def merge(one, other), do: Map.merge(one, other, fn _origin, entry, another -> later(entry, another) end)

  # A caller that was killed after its event was counted leaves it out of the bill, so equal bills do not imply equal statistics.
  defp later(one, other), do: Enum.max_by([one, other], &order/1)

  defp order({blob, totals, _digest}), do: {Usage.size(totals), byte_size(blob || ""), blob}

  @doc "Returns the bills of the origins that are not `own`."
  @spec foreign(t, origin | nil) :: [entry]
  def foreign(record, own), do: for({origin, entry} <- record, origin != own, do: entry)
end
