defmodule BeTree.HeapTest do
  use ExUnit.Case, async: true

  alias BeTree.Heap

  defp settings do
    {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
    Keyword.delete(settings, :minor_gcs)
  end

  defp room(words), do: Heap.with_room(words, fn -> settings()[:min_heap_size] end)

  # What `fun` answers in a process with these settings.
  defp in_process(options, fun) do
    test = self()
    :erlang.spawn_opt(fn -> send(test, {:answer, fun.()}) end, [:link | options])
    assert_receive {:answer, answer}
    answer
  end

  test "there is room within, and none behind" do
    before = settings()
    assert room(100_000) >= 100_000
    assert settings() == before
    assert_raise RuntimeError, fn -> Heap.with_room(100_000, fn -> raise "no" end) end
    assert settings() == before
  end

  test "what the process had set counts" do
    assert in_process([min_heap_size: 500_000], fn -> room(100_000) end) >= 500_000
    small = settings()[:min_heap_size]
    assert in_process([max_heap_size: 300_000], fn -> room(1_000_000) end) == small
  end

  test "an estimate that is far off does no harm" do
    assert room(0) == settings()[:min_heap_size]
    assert room(1_000_000_000_000) < 10_000_000
  end
end
