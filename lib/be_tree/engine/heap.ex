defmodule BeTree.Engine.Heap do
  @moduledoc false
  # Makes room for large results in the heap of the calling process.
  #
  # Such results come in parts. Whenever the heap is full of the parts so far, the garbage collector copies them into a
  # slightly larger heap, repeatedly. So the heap is made large enough for all parts at once. The binaries that arrive
  # meanwhile cause no collection either.

  # No more words than these are requested, because an estimate may be wrong. Unused room is never touched.
  @most 16_000_000

  @doc """
  Returns the result of `fun`, called with room for `words` words in the heap. The room is made while the heap holds little
  that would have to be copied. For a process with a large heap all of it is copied, so use this for results of many events.
  """
  @spec with_room(non_neg_integer, (() -> answer)) :: answer when answer: var
  def with_room(words, fun), do: widened(words, &make_room/1, fun)

  @doc "Returns the result of `fun`. The first collection during the call, if there is any, makes room for `words` words."
  @spec with_room_in_time(non_neg_integer, (() -> answer)) :: answer when answer: var
  def with_room_in_time(words, fun), do: widened(words, fn _words -> :ok end, fun)

  defp widened(words, prepare, fun) do
    {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
    words = min(words, @most)
    # The owner of a process may limit its heap.
    if words > settings[:min_heap_size] and settings[:max_heap_size].size == 0,
      do: widen(words, settings, prepare, fun),
      else: fun.()
  end

  defp widen(words, settings, prepare, fun) do
    Process.flag(:min_heap_size, words)
    Process.flag(:min_bin_vheap_size, max(words, settings[:min_bin_vheap_size]))

    try do
      prepare.(words)
      fun.()
    after
      Process.flag(:min_heap_size, settings[:min_heap_size])
      Process.flag(:min_bin_vheap_size, settings[:min_bin_vheap_size])
    end
  end

  defp make_room(words), do: if(free() < words, do: :erlang.garbage_collect(self(), type: :minor))

  defp free do
    {:garbage_collection_info, info} = Process.info(self(), :garbage_collection_info)
    info[:heap_block_size] - info[:heap_size] - info[:mbuf_size]
  end
end
