defmodule BeTree.Server.BaseTest do
  # Bases built while a server changes: replicas continue, and memory and logs are bounded.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.Server
  alias BeTree.Server.{Builder, Lookup}
  alias BeTree.Test.Servers

  setup :quiet

  defp start(options) do
    name = :"base_#{System.unique_integer([:positive])}"
    start_supervised!({Server, [name: name, schema: [a: :integer]] ++ options}, id: name)
    name
  end

  defp text(id), do: "a = #{rem(id, 100)} or a > #{id + 1_000_000}"

  defp base(name) do
    {:ok, base} = Lookup.base(name)
    base
  end

  # Replaces all present subscriptions.
  defp replace(name, from, count, size) do
    for id <- from..(from + count - 1) do
      Server.insert!(name, id + size, text(id + size))
      Server.delete!(name, id)
      # Each change is visible at once.
      if rem(id, 50) == 0, do: assert(BeTree.search!(name, %{a: rem(id, 100)}, ids: [id, id + size]) == [id + size])
    end

    from + count
  end

  # Waits for the pending base, so that the next changes start another.
  defp settled(name, bases),
    do: eventually(fn -> match?(%{bases: n, building: false} when n > bases, Server.info!(name)) end)

  @size 6_000

  test "many bases leave replicas and memory constant and the log short" do
    name = start(replicas: 2)
    Server.insert_all!(name, for(id <- 1..@size, do: {id, text(id)}))
    for value <- 1..20, do: BeTree.search!(name, %{a: value})
    %{index: %{instance: instance}} = base(name)
    first = Server.info!(name)
    assert first.replicas.count in 1..2

    next =
      Enum.reduce(1..8, 1, fn _round, next ->
        %{bases: bases} = Server.info!(name)
        next = replace(name, next, 300, @size)
        settled(name, bases)
        info = Server.info!(name)
        assert info.log <= 600 and info.replicas.count <= 2

        # A replica has at most a copy of the index, of the same size. Replicas share a log of some hundred changes,
        # possibly other ones than those since the base.
        assert info.memory <= 1.5 * first.memory
        assert info.replicas.bytes <= 2 * info.memory + 1_000_000
        next
      end)

    assert %{index: %{instance: ^instance}, version: version, origin: origin} = base(name)
    assert version > origin
    expected = for id <- next..(next + @size - 1), rem(id, 100) == 7, do: id
    assert BeTree.search!(name, %{a: 7}) == expected
    # Rows that neither a base nor a follower needs are dropped, some with each change.
    {:ok, table} = Server.Table.fetch(name)
    for id <- 1..500, do: Server.put!(name, next, text(next + id))
    eventually(fn -> :ets.info(table.log, :size) <= 2_000 end)
  end

  test "a process killed between any two steps of a base keeps all changes" do
    name = start(replicas: 2)
    Server.insert_all!(name, for(id <- 1..@size, do: {id, text(id)}))

    next =
      Enum.reduce(1..4, 1, fn round, next ->
        %{bases: bases} = Server.info!(name)
        next = replace(name, next, 300, @size)
        settled(name, bases)
        # Simulates a kill between the table's base and the replicas'.
        if rem(round, 2) == 0 do
          base = base(name)
          {:ok, snapshot} = base.index.runtime.snapshot(base.index.instance, :infinity)
          {:ok, table} = Server.Table.fetch(name)
          version = base.origin + base.index.runtime.snapshot_applied(snapshot)
          Server.Table.renew_base(table, %{base | index: %{base.index | snapshot: snapshot}, version: version})
        end

        pid = Servers.process(name)
        Process.exit(pid, :kill)
        eventually(fn -> Servers.process(name) not in [nil, pid] and match?({:ok, _info}, Server.info(name)) end)
        next
      end)

    expected = for id <- next..(next + @size - 1), rem(id, 100) == 7, do: id
    assert BeTree.search!(name, %{a: 7}) == expected
    assert BeTree.search!(Server.index!(name), %{a: 7}) == expected
    assert Server.count!(name) == @size
    assert Builder.copies(base(name).index).count <= 2
  end

  test "a follower builds bases from its own replicas" do
    name = start(replicas: 2)
    Server.insert_all!(name, for(id <- 1..@size, do: {id, text(id)}))
    follower = :"#{name}_follower"
    start_supervised!({Server, name: follower, follow: {name, node()}}, id: follower)

    next =
      Enum.reduce(1..4, 1, fn _round, next ->
        next = replace(name, next, 300, @size)
        {:ok, version} = Server.version(name)
        assert {:ok, _version} = Server.await(follower, version, timeout: 60_000)
        next
      end)

    expected = for id <- next..(next + @size - 1), rem(id, 100) == 7, do: id
    assert BeTree.search!(follower, %{a: 7}) == expected
    eventually(fn -> Server.info!(follower).bases > 1 end)
    assert BeTree.search!(follower, %{a: 7}) == expected
    assert BeTree.search!(Server.index!(follower), %{a: 7}) == expected
  end
end
