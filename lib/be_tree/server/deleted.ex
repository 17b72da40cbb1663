defmodule BeTree.Server.Deleted do
  @moduledoc false
  # The ids that were deleted from a published index since it was published, each with the version of its deletion. One
  # process adds ids, and any number of processes read without a lock. Later additions do not affect a read of an older
  # version. The set is freed with the last view that refers to it.
  #
  # It is a hash table with linear probing in two arrays of :atomics. A slot is used if its version is not 0, and is never
  # freed. Ids that are deleted together are often consecutive. Their hashes are not, because otherwise every id in their
  # range would be compared with all of them.
  #
  # A search looks up each id that it found, and nearly none was deleted. For those a filter decides in a third of the
  # time: a bitmap by another hash, in a tuple. Each search copies it, so it has only some kilobytes.

  import Bitwise

  @derive {Inspect, only: [:slots]}
  @enforce_keys [:ids, :versions, :slots, :filter, :mask]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          ids: :atomics.atomics_ref(),
          versions: :atomics.atomics_ref(),
          slots: pos_integer,
          filter: tuple,
          mask: non_neg_integer
        }

  # A word of the filter has 32 bits, so it is a small integer.
  @word 32
  @shift 5

  @doc "Returns an empty set with room for `capacity` ids, about 32 bytes each."
  @spec new(non_neg_integer) :: t
  def new(capacity) do
    slots = 2 * capacity + 1
    bits = power(capacity, @word)

    %__MODULE__{
      ids: :atomics.new(slots, signed: false),
      versions: :atomics.new(slots, []),
      slots: slots,
      filter: Tuple.duplicate(0, div(bits, @word)),
      mask: bits - 1
    }
  end

  # The smallest power of two from `least` on.
  defp power(least, power) when power < least, do: power(least, 2 * power)
  defp power(_least, power), do: power

  @doc "Adds `id`, unless an earlier version has it. The caller guarantees that there is room: in a full set this loops."
  @spec put(t, BeTree.id(), pos_integer) :: t
  def put(%__MODULE__{} = set, id, version) do
    put(set, id, version, slot(id, set.slots))
    bit = bit(id, set.mask)
    word = bit >>> @shift
    %{set | filter: put_elem(set.filter, word, elem(set.filter, word) ||| 1 <<< (bit &&& @word - 1))}
  end

  defp put(set, id, version, slot) do
    cond do
      :atomics.get(set.versions, slot) == 0 ->
        # The id is written first: a reader that sees the version sees the id.
        :atomics.put(set.ids, slot, id)
        :atomics.put(set.versions, slot, version)

      :atomics.get(set.ids, slot) == id ->
        :ok

      true ->
        put(set, id, version, next(slot, set.slots))
    end
  end

  @doc "Returns the `ids` that were not deleted by `version`."
  @spec reject([BeTree.id()], t, non_neg_integer) :: [BeTree.id()]
  def reject(ids, %__MODULE__{filter: filter, mask: mask} = set, version), do: reject(ids, filter, mask, set, version)

  defp reject([], _filter, _mask, _set, _version), do: []

  defp reject([id | rest], filter, mask, set, version) do
    if filtered?(id, filter, mask) and since?(set, id, version),
      do: reject(rest, filter, mask, set, version),
      else: [id | reject(rest, filter, mask, set, version)]
  end

  @doc "Returns whether `id` was deleted by `version`."
  @spec deleted?(t, BeTree.id(), non_neg_integer) :: boolean
  def deleted?(%__MODULE__{filter: filter, mask: mask} = set, id, version) do
    filtered?(id, filter, mask) and since?(set, id, version)
  end

  # Returns whether the set may have it.
  defp filtered?(id, filter, mask) do
    bit = bit(id, mask)
    (elem(filter, bit >>> @shift) >>> (bit &&& @word - 1) &&& 1) == 1
  end

  defp since?(set, id, version), do: since?(set, id, version, slot(id, set.slots))

  defp since?(set, id, version, slot) do
    case :atomics.get(set.versions, slot) do
      0 ->
        false

      since ->
        if :atomics.get(set.ids, slot) == id,
          do: since <= version,
          else: since?(set, id, version, next(slot, set.slots))
    end
  end

  # Fibonacci hashing in which all numbers are small integers.
  defp bit(id, mask), do: ((bxor(id, id >>> 26) &&& 0x3FF_FFFF) * 0x9E37_79B1) >>> 16 &&& mask

  defp slot(id, slots), do: :erlang.phash2(id, slots) + 1

  defp next(slots, slots), do: 1
  defp next(slot, _slots), do: slot + 1
end
