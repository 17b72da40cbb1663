defmodule BeTree.Server.DeletedTest do
  use ExUnit.Case, async: true

  alias BeTree.Server.Deleted

  @most 0xFFFF_FFFF_FFFF_FFFF

  defp put_all(set, ids_and_versions) do
    Enum.reduce(ids_and_versions, set, fn {id, version}, set -> Deleted.put(set, id, version) end)
  end

  test "of what was added it knows since when, and of nothing else anything" do
    :rand.seed(:exsss, 1)
    # Neighbours, numbers that leave the same remainder, and the largest.
    ids = Enum.concat([1..300, for(k <- 1..300, do: k * 1024), (@most - 300)..@most, [0]]) |> Enum.uniq()
    {added, others} = Enum.split(Enum.shuffle(ids), 500)
    versions = Enum.with_index(added, 1)
    {earlier, later} = Enum.split(versions, 250)
    half = put_all(Deleted.new(500), earlier)
    set = put_all(half, later)

    for version <- [0, 1, 250, 499, 500, 1_000] do
      for {id, since} <- versions, do: assert(Deleted.deleted?(set, id, version) == since <= version)
      for id <- others, do: refute(Deleted.deleted?(set, id, version))
      expected = ids -- for {id, since} <- versions, since <= version, do: id
      assert Deleted.reject(ids, set, version) == expected
      # Who asked before the rest was added goes on as if it had not been.
      if version <= 250, do: assert(Deleted.reject(ids, half, version) == expected)
    end
  end

  test "who is added again stays since the first time" do
    set = put_all(Deleted.new(3), [{7, 2}, {7, 5}])
    assert Deleted.reject([6, 7, 8], set, 1) == [6, 7, 8]
    assert Deleted.reject([6, 7, 8], set, 2) == [6, 8]
  end

  test "there is room for as many as it was made for, and asking ends then too" do
    for capacity <- [0, 1, 100] do
      set = put_all(Deleted.new(capacity), for(id <- 1..capacity//1, do: {id * 255, 1}))
      assert Deleted.reject(Enum.to_list(1..30_000), set, 1) |> length() == 30_000 - capacity
    end
  end
end
