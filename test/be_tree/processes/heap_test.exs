defmodule BeTree.Processes.HeapTest do
  use ExUnit.Case, async: true

  alias BeTree.Processes.Heap

  defp settings do
    {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
    Keyword.delete(settings, :minor_gcs)
  end

  defp room(words), do: Heap.with_room(words, fn -> settings()[:min_heap_size] end)

  # Returns the result of `fun` in a process with these heap settings.
  defp in_process(options, fun) do
    test = self()
    :erlang.spawn_opt(fn -> send(test, {:answer, fun.()}) end, [:link | options])
    assert_receive {:answer, answer}
    answer
  end

  test "with_room/2 enlarges the heap during the function only" do
    before = settings()
    assert room(100_000) >= 100_000
    assert settings() == before
    assert_raise RuntimeError, fn -> Heap.with_room(100_000, fn -> raise "no" end) end
    assert settings() == before
  end

  test "with_room/2 does not collect a heap that is large enough" do
    collections = fn -> Process.info(self(), :garbage_collection) |> elem(1) |> Keyword.fetch!(:minor_gcs) end

    counts =
      Heap.with_room(1_000_000, fn ->
        before = collections.()
        list = Enum.to_list(1..200_000)
        binaries = for n <- 1..1_000, do: String.duplicate("x", 500 + n)
        {before, collections.(), length(list), length(binaries)}
      end)

    assert {count, count, 200_000, 1_000} = counts
  end

  test "with_room/2 respects the settings of the process" do
    assert in_process([min_heap_size: 500_000], fn -> room(100_000) end) >= 500_000

    binaries = fn ->
      Process.flag(:min_bin_vheap_size, 500_000)
      Heap.with_room(100_000, fn -> settings()[:min_bin_vheap_size] end)
    end

    assert in_process([], binaries) >= 500_000
    small = settings()[:min_heap_size]
    assert in_process([max_heap_size: 300_000], fn -> room(1_000_000) end) == small
  end

  test "with_room_in_time/2 makes room at the first collection" do
    in_process([], fn ->
      {:garbage_collection_info, before} = Process.info(self(), :garbage_collection_info)
      assert before[:heap_block_size] < 100_000

      Heap.with_room_in_time(100_000, fn ->
        {:garbage_collection_info, within} = Process.info(self(), :garbage_collection_info)
        assert within[:heap_block_size] == before[:heap_block_size]
        :erlang.garbage_collect()
        {:garbage_collection_info, collected} = Process.info(self(), :garbage_collection_info)
        assert collected[:heap_block_size] >= 100_000
      end)
    end)

    before = settings()
    assert_raise RuntimeError, fn -> Heap.with_room_in_time(100_000, fn -> raise "no" end) end
    assert settings() == before
  end

  test "with_room/2 bounds a wrong estimate" do
    assert room(0) == settings()[:min_heap_size]
    assert room(1_000_000_000_000) < 20_000_000
  end
end
