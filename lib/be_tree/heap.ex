defmodule BeTree.Heap do
  @moduledoc false
  # Room for large answers in the heap of the process that asked for them.
  #
  # Such answers come in parts. Whenever the heap is full with those that came, the garbage collector copies them into one
  # that is a little larger, and again, and again; one that is at once as large as all will need is filled once.

  # No more words than these are asked for: an estimate may be wrong.
  @most 4_000_000

  @doc "What `fun` answers. If the heap has to grow meanwhile, it does so to `words` words at the least."
  @spec with_room(non_neg_integer, (() -> answer)) :: answer when answer: var
  def with_room(words, fun) do
    {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
    words = min(words, @most)
    # Where the heap has a limit, that is its owner's choice.
    if words > settings[:min_heap_size] and settings[:max_heap_size].size == 0, do: widen(words, fun), else: fun.()
  end

  defp widen(words, fun) do
    before = Process.flag(:min_heap_size, words)

    try do
      fun.()
    after
      Process.flag(:min_heap_size, before)
    end
  end
end
