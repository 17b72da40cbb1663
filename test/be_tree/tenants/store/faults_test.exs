defmodule BeTree.Tenants.Store.FaultsTest do
  # Damaged files, and disks that fail or are full.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet, Stores}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Error
  alias BeTree.Tenants.Store
  alias BeTree.Test.{Disk, Tmpfs}

  @wait_ms 300_000

  setup [:quiet, :folder]

  setup do
    Process.flag(:trap_exit, true)
    :ok
  end

  defp only(folder, pattern) do
    [path] = Path.wildcard(Path.join(folder, pattern))
    path
  end

  # Flips a bit of the first occurrence of `bytes` in a file.
  defp flip(path, bytes) do
    content = File.read!(path)
    [{at, _length} | _more] = :binary.matches(content, bytes)
    <<before::binary-size(at), byte, behind::binary>> = content
    File.write!(path, [before, Bitwise.bxor(byte, 4), behind])
  end

  defp filled(folder, options \\ []) do
    {store, pid} = start(folder, options)

    for tenant <- [:a, :b, :c] do
      {:ok, _place} = Store.put_body(store, tenant, "body of #{tenant}")
      :ok = Store.put_day(store, tenant, 20_000, "day of #{tenant}")
      :ok = Store.put_statistics(store, tenant, 20_001, "present of #{tenant}")
      :ok = append(store, tenant, "change of #{tenant}")
    end

    settle(pid)
    GenServer.stop(pid)
    :ok
  end

  describe "a flipped bit" do
    test "in a body is found by the read of its tenant, and names the file and the byte", %{folder: folder} do
      :ok = filled(folder)
      path = only(folder, "bodies/*.body")
      flip(path, "body of b")
      {store, pid} = start(folder, [])
      assert {:error, %Error{kind: :damaged, message: message}} = Store.read(store, :b)
      assert message =~ path and message =~ ~r/the body of a tenant at byte \d+ /
      for tenant <- [:a, :c], do: assert(found(store, tenant).body == "body of #{tenant}")
      assert Store.days(store, :b, 0..30_000) == {:ok, [{20_000, "day of b"}]}
      # A new body mends the tenant.
      {:ok, _place} = Store.put_body(store, :b, "new")
      assert found(store, :b) == %{body: "new", statistics: nil, tail: []}
      GenServer.stop(pid)
    end

    test "in statistics and in a day is found by a read of them", %{folder: folder} do
      :ok = filled(folder)
      path = only(folder, "bodies/*.body")
      flip(path, "present of a")
      day = only(folder, "days/*.day")
      flip(day, "day of b")
      {store, pid} = start(folder, [])
      assert {:error, %Error{kind: :damaged, message: message}} = Store.read(store, :a)
      assert message =~ path and message =~ "the statistics of a tenant at byte"
      assert {:error, %Error{kind: :damaged, message: message}} = Store.days(store, :b, 0..30_000)
      assert message =~ day and message =~ "day 20000 of a tenant at byte"
      assert Store.days(store, :a, 0..30_000) == {:ok, [{20_000, "day of a"}]}
      assert found(store, :b).body == "body of b"
      GenServer.stop(pid)
    end

    test "in the journal or its base refuses the folder", %{folder: folder} do
      for {name, base_bytes, file, bytes} <- [
            {"log", 0x100_0000, "journal/*.log", "change of a"},
            {"base", 1, "journal/*.base", "change of a"}
          ] do
        folder = Path.join(folder, name)
        :ok = filled(folder, base_bytes: base_bytes)
        folder |> only(file) |> flip(bytes)
        options = %{table: Store.table(), dir: folder, durability: :sync, retention: 30}
        assert {:error, %Error{kind: :damaged, message: message}} = Store.start_link(options)
        assert message =~ Path.join(folder, "journal")
      end
    end

    test "stays through a compaction, which moves the other tenants", %{folder: folder} do
      {store, pid} = start(folder, garbage_bytes: 1_000_000)
      for tenant <- 1..20, do: {:ok, _place} = Store.put_body(store, tenant, "body of #{tenant}.")
      GenServer.stop(pid)
      path = only(folder, "bodies/*.body")
      flip(path, "body of 4.")
      {store, pid} = start(folder, [])
      for tenant <- 5..20, do: :ok = drop(store, tenant)
      :ok = Store.expire(store, 1)
      settle(pid)
      assert {:error, %Error{kind: :damaged, message: message}} = Store.read(store, 4)
      assert message =~ path
      for tenant <- 1..3, do: assert(found(store, tenant).body == "body of #{tenant}.")
      :ok = drop(store, 4)
      :ok = Store.expire(store, 1)
      eventually(fn -> not File.exists?(path) end)
      for tenant <- 1..3, do: assert(found(store, tenant).body == "body of #{tenant}.")
      GenServer.stop(pid)
    end
  end

  test "a missing segment is an error of its tenants only", %{folder: folder} do
    :ok = filled(folder)
    path = only(folder, "bodies/*.body")
    {store, pid} = start(folder, [])
    {:ok, _place} = Store.put_body(store, :c, "new")
    File.rm!(path)
    assert {:error, %Error{kind: :damaged, message: message}} = Store.read(store, :a)
    assert message =~ path and message =~ "is missing"
    assert found(store, :c).body == "new"
    GenServer.stop(pid)
  end

  test "torn tails are cut: the journal's by a start, and those of segments are never read", %{folder: folder} do
    :ok = filled(folder)
    for pattern <- ["bodies/*.body", "days/*.day", "journal/*.log"], do: tear(only(folder, pattern))
    {store, pid} = start(folder, [])

    for tenant <- [:a, :b, :c] do
      present = {20_001, "present of #{tenant}"}
      assert found(store, tenant) == %{body: "body of #{tenant}", statistics: present, tail: ["change of #{tenant}"]}
      {:ok, _place} = Store.put_body(store, tenant, "newer")
      :ok = Store.put_day(store, tenant, 20_001, "later")
    end

    settle(pid)
    GenServer.stop(pid)
    {store, pid} = start(folder, [])

    for tenant <- [:a, :b, :c] do
      assert found(store, tenant) == %{body: "newer", statistics: nil, tail: []}
      assert Store.days(store, tenant, 0..30_000) == {:ok, [{20_000, "day of #{tenant}"}, {20_001, "later"}]}
    end

    GenServer.stop(pid)
  end

  # Half a record.
  defp tear(path), do: File.write!(path, <<1, 2, 3, 4, 200::little-32, 0, 0, 0>>, [:append])

  describe "a disk that fails" do
    setup %{folder: folder} do
      for name <- ["journal", "bodies", "days"], do: Disk.watch(Path.join(folder, name))
      :ok
    end

    test "refuses a change, tells its caller, and closes the tenant until resume/2", %{folder: folder} do
      {store, pid} = start(folder, files: Disk)
      :ok = append(store, :a, 1)
      :ok = append(store, :b, 1)
      Disk.fail(Path.join(folder, "journal"), fn operation, _number -> if operation == :pwrite, do: :eio end)
      assert {:error, %Error{kind: :file, message: message}} = append(store, :a, 2)
      assert message =~ "the change was not made"
      assert_receive {Store, :refused, :a, %Error{kind: :file}}, @wait_ms
      Disk.heal(Path.join(folder, "journal"))
      # These build on the refused change.
      assert {:error, %Error{kind: :file}} = append(store, :a, 3)
      assert {:error, %Error{kind: :file}} = Store.put_body(store, :a, "with change 2")
      assert :ok = Store.put_day(store, :a, 20_000, "day")
      assert :ok = append(store, :b, 2)
      assert Store.resume(store, :a) == :ok
      assert found(store, :a) == %{body: nil, statistics: nil, tail: [1]}
      assert :ok = append(store, :a, 4)
      kill(pid)
      {store, pid} = start(folder, files: Disk)
      assert {found(store, :a).tail, found(store, :b).tail} == {[1, 4], [1, 2]}
      GenServer.stop(pid)
    end

    test "keeps the earlier body of a refused one", %{folder: folder} do
      {store, pid} = start(folder, files: Disk)
      {:ok, _place} = Store.put_body(store, :a, "old")
      :ok = append(store, :a, 1)
      bodies = Path.join(folder, "bodies")
      Disk.fail(bodies, fn operation, _number -> if operation == :sync, do: :eio end)
      assert {:error, %Error{kind: :file, message: message}} = Store.put_body(store, :a, "new")
      assert message =~ bodies
      assert found(store, :a) == %{body: "old", statistics: nil, tail: [1]}
      # Changes need no bodies.
      :ok = append(store, :a, 2)
      Disk.heal(bodies)
      assert {:ok, _place} = Store.put_body(store, :a, "new")
      :ok = append(store, :a, 3)
      kill(pid)
      {store, pid} = start(folder, files: Disk)
      assert found(store, :a) == %{body: "new", statistics: nil, tail: [3]}
      GenServer.stop(pid)
    end

    test "takes a body and its days together, or none of them", %{folder: folder} do
      {store, pid} = start(folder, files: Disk)
      :ok = put_all(store, :a, "old", [{20_000, "old"}])
      before = content(store)

      for name <- ["bodies", "days", "journal"] do
        Disk.fail(Path.join(folder, name), fn operation, _number -> if operation in [:pwrite, :sync], do: :eio end)
        assert {:error, %Error{kind: :file}} = put_all(store, :a, "new", [{20_000, "new"}, {20_001, "new"}])
        Disk.heal(Path.join(folder, name))
        assert content(store) == before
      end

      kill(pid)
      {store, pid} = start(folder, files: Disk)
      assert content(store) == before
      GenServer.stop(pid)
    end

    test "keeps segments that cannot be removed or copied, and logs it", %{folder: folder} do
      {store, pid} = start(folder, files: Disk, garbage_bytes: 1_000_000, segment_bytes: 100)
      for tenant <- 1..10, do: {:ok, _place} = Store.put_body(store, tenant, "body of #{tenant}")
      for tenant <- 1..9, do: :ok = drop(store, tenant)
      bodies = Path.join(folder, "bodies")
      settle(pid)
      Disk.fail(bodies, fn operation, _number -> if operation == :delete, do: :eio end)
      :ok = Store.expire(store, 1)
      settle(pid)
      assert {:ok, %{error: %Error{kind: :file, message: message}}} = Store.info(store)
      assert message =~ bodies
      Disk.heal(bodies)
      :ok = Store.expire(store, 1)
      settle(pid)
      assert {:ok, %{error: nil}} = Store.info(store)
      assert length(File.ls!(bodies)) <= 2
      assert found(store, 10).body == "body of 10"
      GenServer.stop(pid)
    end
  end

  test "a full disk refuses requests, and takes them again when it has room", %{folder: folder} do
    Tmpfs.with_room(folder, "512k", fn folder ->
      ballast = Path.join(folder, "ballast")
      File.write!(ballast, :binary.copy("x", 100_000))
      {store, pid} = start(Path.join(folder, "store"), segment_bytes: 50_000)
      {bodies, error} = fill(store, 1)
      assert error.kind == :file and error.message =~ "no space left on the device"
      changes = append_until_full(store, bodies, 1)
      assert_receive {Store, :refused, 1, %Error{kind: :file}}, @wait_ms
      for tenant <- 1..(bodies - 1), do: assert(byte_size(found(store, tenant).body) == 10_000)
      File.rm!(ballast)
      :ok = Store.resume(store, 1)
      :ok = append(store, 1, "there is room")
      {:ok, _place} = Store.put_body(store, bodies, "there is room")
      before = content(store)
      assert length(before[1].tail) == changes + 1
      GenServer.stop(pid)
      {store, pid} = start(Path.join(folder, "store"), [])
      assert content(store) == before
      GenServer.stop(pid)
    end)
  end

  defp fill(store, tenant) do
    case Store.put_body(store, tenant, :rand.bytes(10_000)) do
      {:ok, _place} -> fill(store, tenant + 1)
      {:error, error} -> {tenant, error}
    end
  end

  defp append_until_full(store, bodies, count) do
    case append(store, 1, :rand.bytes(3_000)) do
      :ok -> append_until_full(store, bodies, count + 1)
      {:error, %Error{kind: :file}} -> count - 1
    end
  end
end
