defmodule BeTree.Processes.Heap do
  @moduledoc false
  # Enlarges the heap of a process before a large result.
  #
  # Such a result arrives in parts, and the garbage collector would copy all earlier parts each time they fill the heap. One
  # enlargement for all parts avoids the copies; new binaries then trigger no collection either.

  # Bounds the damage of a wrong estimate. Unused words are never touched.
  @max_requested_words 16_000_000

  # The VM allocates binaries of at least this many bytes outside the heap.
  @min_off_heap_bytes 65

  @doc """
  Returns the result of `fun`, after making room for `words` words. A collection first copies everything that the process
  keeps, so this is for the results of many events.
  """
  @spec with_room(non_neg_integer, (... -> result)) :: result when result: var
  def with_room(words, fun), do: widened(words, &make_room/1, fun)

  @doc "Returns the result of `fun`. The first collection meanwhile, if there is any, makes room for `words` words."
  @spec with_room_in_time(non_neg_integer, (... -> result)) :: result when result: var
  def with_room_in_time(words, fun), do: widened(words, fn _words -> :ok end, fun)

  @doc """
  Sends the calling `GenServer` the message `:collect`, on which it collects all its garbage. During the present callback the heap
  still refers to the replaced state. A process that makes little garbage would otherwise hardly ever collect all of it.
  """
  @spec collect_later :: :collect
  def collect_later, do: send(self(), :collect)

  defp widened(words, prepare, fun) do
    {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
    words = min(words, @max_requested_words)
    # The owner of the process set max_heap_size, and it stays in force.
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

  defp make_room(words) do
    if free() < words do
      # In newer versions of OTP a collection changes the limit of off-heap binaries only if it finds such a binary.
      :binary.copy(<<0>>, @min_off_heap_bytes)
      :erlang.garbage_collect(self(), type: :minor)
    end
  end

  defp free do
    {:garbage_collection_info, info} = Process.info(self(), :garbage_collection_info)
    info[:heap_block_size] - info[:heap_size] - info[:mbuf_size]
  end
end
