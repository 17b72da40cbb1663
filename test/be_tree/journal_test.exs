defmodule BeTree.JournalTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.Quiet, only: [quiet: 1]

  alias BeTree.Journal
  alias BeTree.Journal.Lock.SocketFile
  alias BeTree.Test.{Attack, Disk, OsNode, Tmpfs}

  setup :folder

  setup :quiet

  # Sends the log lines about the folder to the test.
  setup %{folder: folder} do
    id = :"journal_#{System.unique_integer([:positive])}"
    :ok = :logger.add_primary_filter(id, {&log/2, {self(), folder}})
    on_exit(fn -> :logger.remove_primary_filter(id) end)
  end

  defp log(%{meta: %{application: :be_tree}, msg: {:string, text}}, {test, folder}) do
    line = IO.chardata_to_string(text)
    if line =~ folder, do: send(test, {:log, line})
    :ignore
  end

  defp log(_event, _extra), do: :ignore

  @identity "age: integer"

  defp open!(folder, options \\ []) do
    {:ok, journal} = open(folder, options)
    journal
  end

  defp open(folder, options), do: Journal.open(folder, Keyword.merge([identity: @identity, durability: :sync], options))

  defp append!(journal, payloads) do
    {:ok, journal} = Journal.append(journal, payloads)
    journal
  end

  # Returns the base, the changes after it and the last version, as the next owner finds them.
  defp content(folder, options \\ []) do
    journal = open!(folder, options)
    content = read(journal)
    :ok = Journal.close(journal)
    content
  end

  defp read(journal) do
    base = with {:ok, version, payload} <- Journal.read_base(journal), do: {version, payload}
    {:ok, changes} = Journal.reduce(journal, [], fn batch, changes -> {:ok, changes ++ batch} end)
    {base, changes, Journal.last(journal)}
  end

  defp segments(folder), do: Path.wildcard(Path.join(folder, "*.log")) |> Enum.sort()
  defp bases(folder), do: Path.wildcard(Path.join(folder, "*.base"))

  # Ends the owner like a kill of the node: nothing is flushed.
  defp in_other_process(function) do
    {pid, monitor} = spawn_monitor(fn -> exit({:result, function.()}) end)
    assert_receive {:DOWN, ^monitor, :process, ^pid, {:result, result}}
    result
  end

  for durability <- [:sync, {:interval, 5}, :none] do
    @durability durability
    test "keeps changes, with #{inspect(durability)}", %{folder: folder} do
      options = [durability: @durability]
      assert content(folder, options) == {:none, [], 0}

      in_other_process(fn ->
        journal = folder |> open!(options) |> append!(["a", ["b", "c"]]) |> append!([""])
        assert Journal.last(journal) == 3
      end)

      assert content(folder, options) == {:none, [{1, "a"}, {2, "bc"}, {3, ""}], 3}
      in_other_process(fn -> folder |> open!(options) |> append!(["d"]) end)
      assert content(folder, options) == {:none, [{1, "a"}, {2, "bc"}, {3, ""}, {4, "d"}], 4}
    end
  end

  test "reading a folder begins no segment", %{folder: folder} do
    for _ <- 1..3, do: content(folder)
    assert segments(folder) == []
    folder |> open!() |> append!(["a"]) |> Journal.close()
    for _ <- 1..3, do: content(folder)
    assert length(segments(folder)) == 1
  end

  test "divides changes among segments and removes the segments before a base", %{folder: folder} do
    changes = for number <- 1..200, do: "change #{number}"
    journal = Enum.reduce(changes, open!(folder, segment_bytes: 500), &append!(&2, [&1]))
    assert length(segments(folder)) > 5

    write = Journal.base_writer(journal)
    assert Task.await(Task.async(fn -> write.(120, ["the first ", ["1", "20"]]) end), :infinity) == :ok
    # Changes continue while a base is written.
    journal = append!(journal, ["change 201"])
    {:ok, journal} = Journal.trim(journal, 120)
    assert length(segments(folder)) in 2..6
    assert :ok = Journal.close(journal)

    later = for number <- 121..201, do: {number, "change #{number}"}
    assert content(folder) == {{120, "the first 120"}, later, 201}

    journal = open!(folder)
    :ok = Journal.base_writer(journal).(201, ["all"])
    {:ok, journal} = Journal.trim(journal, 201)
    assert :ok = Journal.close(journal)
    assert length(bases(folder)) == 1
    assert content(folder) == {{201, "all"}, [], 201}
    folder |> open!() |> append!(["change 202"]) |> Journal.close()
    assert content(folder) == {{201, "all"}, [{202, "change 202"}], 202}
  end

  test "an unfinished base leaves the older one, and the next append removes it", %{folder: folder} do
    journal = folder |> open!() |> append!(["a", "b"])
    :ok = Journal.base_writer(journal).(1, ["one"])
    :ok = Journal.close(journal)
    File.write!(Path.join(folder, "0000000000000002.base.77.new"), "half")
    File.write!(Path.join(folder, "0000000000000002.log.new"), "half")
    assert content(folder) == {{1, "one"}, [{2, "b"}], 2}
    assert length(Path.wildcard(Path.join(folder, "*.new"))) == 2
    :ok = folder |> open!() |> append!(["c"]) |> Journal.close()
    assert Path.wildcard(Path.join(folder, "*.new")) == []
    assert content(folder) == {{1, "one"}, [{2, "b"}, {3, "c"}], 3}
  end

  test "after a kill before trim/2, the next append removes the files that the base replaces", %{folder: folder} do
    in_other_process(fn ->
      journal = Enum.reduce(1..5, open!(folder, segment_bytes: 1), &append!(&2, ["#{&1}"]))
      for version <- 3..4, do: :ok = Journal.base_writer(journal).(version, ["base"])
    end)

    assert {length(segments(folder)), length(bases(folder))} == {5, 2}
    :ok = folder |> open!() |> append!(["6"]) |> Journal.close()
    assert {length(segments(folder)), length(bases(folder))} == {2, 1}
    assert content(folder) == {{4, "base"}, [{5, "5"}, {6, "6"}], 6}
  end

  test "keeps foreign files, and a refused open removes no file", %{folder: folder} do
    folder |> open!() |> append!(["a"]) |> Journal.close()
    others = ~w(notes.new 12.log 0000000000000001.log.bak lost+found/x +000000000000003.base partitions)

    for name <- others do
      File.mkdir_p!(Path.dirname(Path.join(folder, name)))
      File.write!(Path.join(folder, name), "of others")
    end

    unfinished = Path.join(folder, "0000000000000002.base.0000000000000077.new")
    File.write!(unfinished, "half")
    before = folder |> File.ls!() |> Enum.sort()
    assert {:error, {:identity, @identity}} = open(folder, identity: "age: float")
    assert folder |> File.ls!() |> Enum.sort() == before

    journal = folder |> open!() |> append!(["b"])
    :ok = Journal.base_writer(journal).(2, ["two"])
    {:ok, journal} = Journal.trim(journal, 2)
    :ok = Journal.close(journal)
    refute File.exists?(unfinished)
    for name <- others, do: assert(File.read!(Path.join(folder, name)) == "of others")
    assert content(folder) == {{2, "two"}, [], 2}
  end

  test "files have the mode 600 and new folders 700, and an existing folder keeps its mode", %{folder: folder} do
    File.chmod!(folder, 0o755)
    new = Path.join(folder, "above/journal")

    for folder <- [folder, new] do
      journal = folder |> open!() |> append!(["a"])
      :ok = Journal.base_writer(journal).(1, ["one"])
      :ok = Journal.close(journal)

      for path <- [Path.join(folder, "journal.manifest") | bases(folder) ++ segments(folder)],
          do: assert(mode(path) == 0o600)
    end

    assert {mode(folder), mode(Path.dirname(new)), mode(new)} == {0o755, 0o700, 0o700}
  end

  defp mode(path), do: Bitwise.band(File.stat!(path).mode, 0o777)

  # On other systems than Linux the folder then has a socket.
  if :os.type() != {:unix, :linux}, do: @tag(skip: "a socket cannot be copied")

  test "a folder can be copied, while open and after a kill", %{folder: folder} do
    original = Path.join(folder, "original")
    in_other_process(fn -> original |> open!() |> append!(["a"]) end)
    File.cp_r!(original, Path.join(folder, "killed"))
    journal = open!(original)
    File.cp_r!(original, Path.join(folder, "open"))
    :ok = Journal.close(journal)
    for name <- ~w(killed open), do: assert(content(Path.join(folder, name)) == {:none, [{1, "a"}], 1})
  end

  test "many starts make a base due, which leaves few segments", %{folder: folder} do
    count = 40
    for number <- 1..count, do: in_other_process(fn -> folder |> open!() |> append!(["#{number}"]) end)
    assert length(segments(folder)) == count
    journal = open!(folder)
    assert Journal.fragmented?(journal)
    :ok = Journal.base_writer(journal).(count, ["all"])
    {:ok, journal} = Journal.trim(journal, count)
    refute Journal.fragmented?(journal)
    :ok = Journal.close(journal)
    assert segments(folder) == []
    assert content(folder) == {{count, "all"}, [], count}
    # Full segments do not make a base due.
    journal = Enum.reduce(1..100, open!(folder, segment_bytes: 40), &append!(&2, ["change #{&1}"]))
    assert length(segments(folder)) >= 50
    refute Journal.fragmented?(journal)
    :ok = Journal.close(journal)
  end

  test "recovery uses a base that is ahead of the changes", %{folder: folder} do
    in_other_process(fn ->
      journal = folder |> open!(durability: :none) |> append!(["a", "b", "c"])
      :ok = Journal.base_writer(journal).(3, ["three"])
    end)

    [segment] = segments(folder)
    # The system had not written the last change when power was lost.
    File.write!(segment, binary_part(File.read!(segment), 0, File.stat!(segment).size - 60))
    journal = open!(folder, durability: :none)
    assert read(journal) == {{3, "three"}, [], 3}
    :ok = journal |> append!(["d"]) |> Journal.close()
    assert content(folder) == {{3, "three"}, [{4, "d"}], 4}
  end

  test "a base can replace all changes with a later version and identity", %{folder: folder} do
    journal = folder |> open!() |> append!(["a", "b"])
    write = Journal.base_writer(%{journal | identity: "other"})
    :ok = write.(3, ["three"])
    # The owner ends before it removes older changes.
    :ok = Journal.close(journal)
    assert open(folder, []) == {:error, {:identity, "other"}}
    assert content(folder, identity: "other") == {{3, "three"}, [], 3}

    journal = folder |> open!(identity: "other") |> append!(["d"])
    :ok = Journal.base_writer(journal).(7, ["seven"])
    {:ok, journal} = Journal.rebase(journal, 7)
    assert segments(folder) == []
    :ok = journal |> append!(["h"]) |> Journal.close()
    assert content(folder, identity: "other") == {{7, "seven"}, [{8, "h"}], 8}
  end

  test "reads many changes in batches and stops at an error", %{folder: folder} do
    folder |> open!() |> append!(for number <- 1..5_000, do: "#{number}") |> Journal.close()
    journal = open!(folder)

    {:ok, sizes} = Journal.reduce(journal, [], fn batch, sizes -> {:ok, [length(batch) | sizes]} end)
    assert Enum.sum(sizes) == 5_000 and Enum.max(sizes) <= 1_000
    stop = fn batch, count -> if count == 2, do: {:error, hd(batch)}, else: {:ok, count + 1} end
    assert Journal.reduce(journal, 0, stop) == {:error, {2_001, "2001"}}
    :ok = Journal.close(journal)
  end

  test "refuses another identity", %{folder: folder} do
    folder |> open!() |> append!(["a"]) |> Journal.close()
    assert open(folder, identity: "age: float") == {:error, {:identity, @identity}}
    assert content(folder) == {:none, [{1, "a"}], 1}
    journal = open!(folder)
    :ok = Journal.base_writer(journal).(1, ["base"])
    {:ok, journal} = Journal.trim(journal, 1)
    :ok = Journal.close(journal)
    assert open(folder, identity: "age: float") == {:error, {:identity, @identity}}
  end

  test "has one owner until it closes the folder or ends", %{folder: folder} do
    journal = open!(folder)
    assert {:error, %{kind: :locked, message: message}} = in_other_process(fn -> open(folder, []) end)
    assert message =~ folder
    :ok = Journal.close(journal)
    in_other_process(fn -> open!(folder) end)
    :ok = Journal.close(open!(folder))
  end

  # Twelve processes acquire and release `times` times each. At most one may be between the two, and one must get there.
  defp assert_exclusive(times, acquire, release) do
    counter = :counters.new(1, [])

    attempt = fn ->
      with {:ok, owned} <- acquire.() do
        :counters.add(counter, 1, 1)
        owners = :counters.get(counter, 1)
        :counters.sub(counter, 1, 1)
        :ok = release.(owned)
        owners
      end
    end

    tasks = for _ <- 1..12, do: Task.async(fn -> for _ <- 1..times, do: attempt.() end)
    results = tasks |> Task.await_many(600_000) |> List.flatten()
    assert 1 in results
    assert Enum.all?(results, &(&1 in [1, :locked]))
  end

  test "concurrent opens of a folder never succeed together", %{folder: folder} do
    acquire = fn -> with {:error, %{kind: :locked}} <- open(folder, []), do: :locked end
    assert_exclusive(5, acquire, &Journal.close/1)
  end

  # This lock is for systems without abstract sockets, and works on others too.
  test "concurrent locks by a socket file never succeed together, and leave no file", %{folder: folder} do
    assert_exclusive(20, fn -> SocketFile.acquire(folder) end, &SocketFile.release/1)
    assert File.ls!(folder) == []
  end

  test "a lock by a socket file ends with its process, also in a folder with a long path", %{folder: folder} do
    folder = Path.join(folder, String.duplicate("long", 40))
    File.mkdir_p!(folder)
    in_other_process(fn -> assert {:ok, _lock} = SocketFile.acquire(folder) end)
    assert File.ls!(folder) == ["lock.1"]
    assert {:ok, lock} = eventually_free(folder)
    assert in_other_process(fn -> SocketFile.acquire(folder) end) == :locked
    :ok = SocketFile.release(lock)
    assert File.ls!(folder) == []
  end

  # The socket of a process is closed a moment after its end.
  defp eventually_free(folder) do
    with :locked <- SocketFile.acquire(folder), do: eventually_free(folder)
  end

  test "a lock holds for a moved folder, and through a symbolic link", %{folder: folder} do
    {old, moved, link} = {Path.join(folder, "old"), Path.join(folder, "moved"), Path.join(folder, "link")}
    journal = open!(old)
    File.rename!(old, moved)
    File.ln_s!(moved, link)

    for path <- [moved, link],
        do: assert({:error, %{kind: :locked}} = in_other_process(fn -> open(path, []) end))

    in_other_process(fn -> open!(old) end)
    :ok = Journal.close(journal)
    :ok = Journal.close(open!(link))
  end

  test "a node locks the folder against another node until it is killed", %{folder: folder} do
    port =
      OsNode.start("""
      {:ok, journal} = BeTree.Journal.open(#{inspect(folder)}, identity: #{inspect(@identity)}, durability: :sync)
      {:ok, _journal} = BeTree.Journal.append(journal, ["a", "b"])
      IO.puts(System.pid())
      Process.sleep(:infinity)
      """)

    assert_receive {^port, {:data, {:eol, os_pid}}}, 120_000
    assert {:error, %{kind: :locked, message: message}} = open(folder, [])
    assert message =~ folder and message =~ "another operating-system process"
    OsNode.kill(port, os_pid)
    assert content(folder) == {:none, [{1, "a"}, {2, "b"}], 2}
  end

  test "a folder may have a long path", %{folder: folder} do
    folder = Path.join(folder, String.duplicate("long", 40))
    journal = folder |> open!() |> append!(["a"])
    assert {:error, %{kind: :locked}} = in_other_process(fn -> open(folder, []) end)
    :ok = Journal.close(journal)
    assert content(folder) == {:none, [{1, "a"}], 1}
  end

  test "names a folder that cannot be made", %{folder: folder} do
    file = Path.join(folder, "file")
    File.write!(file, "")
    assert {:error, %{kind: :file, message: message}} = open(Path.join(file, "journal"), [])
    assert message =~ "cannot make the folder #{file}/journal"
  end

  ## Interrupted writes and damages

  test "a truncation of the last segment keeps the changes before it", %{folder: folder} do
    payloads = ["a", "", "a longer change", "d"]

    # None is known to be synced.
    in_other_process(fn ->
      folder |> open!(durability: :none) |> append!(Enum.take(payloads, 2)) |> append!(Enum.drop(payloads, 2))
    end)

    [path] = segments(folder)
    bytes = File.read!(path)
    manifest = Path.join(folder, "journal.manifest")
    manifest_bytes = File.read!(manifest)
    head = 24 + byte_size(@identity) + 4
    ends = payloads |> Enum.scan(head, fn payload, at -> at + 24 + byte_size(payload) end)
    assert byte_size(bytes) == List.last(ends)

    for size <- head..byte_size(bytes) do
      File.write!(path, binary_part(bytes, 0, size))
      File.write!(manifest, manifest_bytes)
      count = Enum.count(ends, &(&1 <= size))

      expected =
        payloads |> Enum.take(count) |> Enum.with_index(1) |> Enum.map(fn {payload, version} -> {version, payload} end)

      journal = open!(folder)
      assert read(journal) == {:none, expected, count}
      assert journal.cut == nil == size in [head | ends]
      # Bytes behind the cut are not read again.
      :ok = journal |> append!(["after"]) |> Journal.close()
      assert content(folder) == {:none, expected ++ [{count + 1, "after"}], count + 1}
      for other <- segments(folder), other != path, do: File.rm!(other)
    end

    for size <- 0..(head - 1) do
      File.write!(path, binary_part(bytes, 0, size))
      assert {:error, %{kind: :damaged}} = open(folder, [])
    end
  end

  test "a truncation is logged", %{folder: folder} do
    in_other_process(fn -> folder |> open!(durability: :none) |> append!(["a", "b"]) end)
    [path] = segments(folder)
    File.write!(path, binary_part(File.read!(path), 0, File.stat!(path).size - 10))
    assert content(folder) == {:none, [{1, "a"}], 1}
    assert_receive {:log, text}
    assert text =~ "#{path} ends with a write that was interrupted" and text =~ "the last whole change is 1"
  end

  test "recovery finds every flipped byte of a change", %{folder: folder} do
    journal = folder |> open!(segment_bytes: 40) |> append!(["a", "bb"]) |> append!(["ccc", "d"]) |> append!(["e"])
    :ok = Journal.base_writer(journal).(1, ["base"])
    :ok = Journal.close(journal)
    whole = content(folder)
    assert {{1, "base"}, [_, _, _, _], 5} = whole
    assert length(segments(folder)) == 3

    manifest = Path.join(folder, "journal.manifest")
    records = Enum.concat([0..27, 0x1000..(0x1000 + 27), 0x2000..(0x2000 + 27)])

    for path <- [manifest | bases(folder) ++ segments(folder)],
        bytes = File.read!(path),
        at <- if(path == manifest, do: records, else: 0..(byte_size(bytes) - 1)) do
      {before, <<byte, rest::binary>>} = :erlang.split_binary(bytes, at)
      File.write!(path, <<before::binary, Bitwise.bxor(byte, Bitwise.bsl(1, :rand.uniform(8) - 1)), rest::binary>>)

      case open(folder, []) do
        {:ok, journal} ->
          base = Journal.read_base(journal)

          if match?({:error, _}, base) do
            assert {:error, %{kind: :damaged, message: message}} = base
            assert message =~ path
          else
            assert read(journal) == whole
          end

          :ok = Journal.close(journal)

        {:error, error} ->
          assert error.kind == :damaged
          assert error.message =~ path
      end

      File.write!(path, bytes)
    end

    assert content(folder) == whole
  end

  test "recovery finds a missing segment or base", %{folder: folder} do
    journal = Enum.reduce(1..6, open!(folder, segment_bytes: 1), &append!(&2, ["#{&1}"]))
    :ok = Journal.close(journal)
    [first, second | _rest] = segments(folder)

    for {path, missing} <- [{first, 1}, {second, 2}] do
      bytes = File.read!(path)
      File.rm!(path)
      assert {:error, %{kind: :damaged, message: message}} = open(folder, [])
      assert message =~ "change #{missing} is in no file" or message =~ "change #{missing} at byte"
      File.write!(path, bytes)
    end

    journal = open!(folder)
    :ok = Journal.base_writer(journal).(4, ["four"])
    {:ok, journal} = Journal.trim(journal, 4)
    :ok = Journal.close(journal)
    assert {{4, "four"}, [{5, "5"}, {6, "6"}], 6} = content(folder)
    for base <- bases(folder), do: File.rm!(base)
    assert {:error, %{kind: :damaged}} = open(folder, [])
  end

  for {durability, ending} <- [sync: :kill, sync: :close, none: :close, interval: :close] do
    @durability if durability == :interval, do: {:interval, 60_000}, else: durability
    @ending ending
    test "a truncated newest segment is detected after a #{ending}, with #{durability}", %{folder: folder} do
      in_other_process(fn ->
        journal = folder |> open!(durability: @durability) |> append!(["a"]) |> append!(["b", "c"])
        if @ending == :close, do: :ok = Journal.close(journal)
      end)

      [path] = segments(folder)
      bytes = File.read!(path)
      head = 24 + byte_size(@identity) + 4

      for size <- head..(byte_size(bytes) - 1) do
        File.write!(path, binary_part(bytes, 0, size))
        assert {:error, %{kind: :damaged, message: message}} = open(folder, [])
        assert message =~ path and message =~ "those up to 3 were on the disk once"
      end

      File.write!(path, bytes)
      assert {:none, [_, _, _], 3} = content(folder)
    end
  end

  for durability <- [:sync, {:interval, 60_000}, :none] do
    @durability durability
    test "a missing newest segment is detected after a kill, with #{inspect(durability)}", %{folder: folder} do
      in_other_process(fn ->
        Enum.reduce(1..3, open!(folder, durability: @durability, segment_bytes: 1), &append!(&2, ["#{&1}"]))
      end)

      for path <- segments(folder), bytes = File.read!(path) do
        File.rm!(path)
        assert {:error, %{kind: :damaged}} = open(folder, [])
        File.write!(path, bytes)
      end

      paths = segments(folder)
      contents = for path <- paths, do: {path, File.read!(path)}
      for path <- paths, do: File.rm!(path)
      assert {:error, %{kind: :damaged, message: message}} = open(folder, [])
      assert message =~ "#{List.last(paths)} is damaged: it is missing"
      for {path, bytes} <- contents, do: File.write!(path, bytes)
      assert {:none, [{1, "1"}, {2, "2"}, {3, "3"}], 3} = content(folder)
    end
  end

  test "recovery finds a missing manifest", %{folder: folder} do
    folder |> open!() |> append!(["a"]) |> Journal.close()
    path = Path.join(folder, "journal.manifest")
    bytes = File.read!(path)
    File.rm!(path)
    assert {:error, %{kind: :damaged, message: message}} = open(folder, [])
    assert message =~ "#{path} is damaged: it is missing"
    File.write!(path, bytes)
    assert content(folder) == {:none, [{1, "a"}], 1}
  end

  test "an abandoned open leaves the folder as it is", %{folder: folder} do
    in_other_process(fn -> folder |> open!(durability: :none) |> append!(["a"]) end)

    state = fn ->
      for path <- Path.wildcard(Path.join(folder, "*")), File.regular?(path), do: {path, File.read!(path)}
    end

    before = state.()
    :ok = Journal.release(open!(folder))
    assert state.() == before
  end

  test "files of another format are refused", %{folder: folder} do
    folder |> open!() |> append!(["a"]) |> Journal.close()
    [path] = segments(folder)
    <<magic::binary-size(8), _format::little-32, rest::binary>> = File.read!(path)
    File.write!(path, <<magic::binary, 1::little-32, rest::binary>>)
    assert {:error, %{kind: :damaged, message: message}} = open(folder, [])
    assert message =~ "its format is 1; expected 2"
  end

  ## Faults

  defp faulty(folder, options), do: folder |> Disk.watch() |> open!([files: Disk] ++ options)

  # Every effect of a full disk, at every byte where it can run out.
  for durability <- [:sync, {:interval, 60_000}, :none] do
    @durability durability
    test "a full disk refuses a change and takes it later, with #{inspect(durability)}", %{
      folder: folder
    } do
      for room <- Attack.size(Enum.take_every(0..150, 11), 0..150) do
        folder = Path.join(folder, "#{room}")
        journal = folder |> faulty(durability: @durability, segment_bytes: 80) |> append!(["first"])
        Disk.room(folder, room)

        {journal, refused} =
          Enum.reduce_while(1..10, {journal, nil}, fn number, {journal, nil} ->
            case Journal.append(journal, ["change #{number}", "and another"]) do
              {:ok, journal} -> {:cont, {journal, nil}}
              {:error, error, journal} -> {:halt, {journal, error}}
            end
          end)

        assert %{kind: :file, message: message} = refused
        assert message =~ "no space left on the device" and message =~ "the change was not made"
        last = Journal.last(journal)
        assert {:error, _error, journal} = Journal.append(journal, ["still full"])
        assert Journal.last(journal) == last

        Disk.room(folder, :infinity)
        journal = append!(journal, ["there is room"])
        assert Journal.last(journal) == last + 1
        :ok = Journal.close(journal)
        {:none, changes, _last} = content(folder)
        assert List.first(changes) == {1, "first"} and List.last(changes) == {last + 1, "there is room"}
        assert for({version, _payload} <- changes, do: version) == Enum.to_list(1..(last + 1))
        refute Enum.any?(changes, &match?({_version, "still full"}, &1))
      end
    end
  end

  test "a refused change is gone after a crash", %{folder: folder} do
    in_other_process(fn ->
      journal = folder |> faulty([]) |> append!(["a"])
      # The change is written completely, but its sync fails.
      Disk.fail(folder, fn operation, _number -> if operation == :sync, do: :eio end)
      {:error, error, _journal} = Journal.append(journal, ["b"])
      assert error.message =~ "; the change was not made"
    end)

    assert content(folder) == {:none, [{1, "a"}], 1}
  end

  test "the next segment replaces bytes that cannot be truncated", %{folder: folder} do
    journal = folder |> faulty([]) |> append!(["a"])
    Disk.fail(folder, fn operation, _number -> if operation in [:sync, :truncate], do: :eio end)
    {:error, _error, journal} = Journal.append(journal, ["b"])
    Disk.fail(folder, nil)
    journal = append!(journal, ["c"])
    :ok = Journal.close(journal)
    assert content(folder) == {:none, [{1, "a"}, {2, "c"}], 2}
  end

  test "waiting changes share a sync", %{folder: folder} do
    journal = faulty(folder, [])
    before = Disk.count(folder, :sync)
    journal = append!(journal, for(number <- 1..100, do: "#{number}"))
    # One sync for the segment's head, one for its number in the manifest, one for the changes.
    assert Disk.count(folder, :sync) == before + 3
    journal = append!(journal, ["one more"])
    assert Disk.count(folder, :sync) == before + 4
    :ok = Journal.close(journal)
  end

  defp take(journal, until) do
    if until.(journal) do
      journal
    else
      assert_receive message when not is_tuple(message) or elem(message, 0) != :log
      {:ok, journal} = Journal.info(journal, message)
      take(journal, until)
    end
  end

  test "with an interval, another process syncs", %{folder: folder} do
    journal = folder |> faulty(durability: {:interval, 1}) |> append!(["a", "b"])
    assert journal.durable == 0
    journal = take(journal, &(&1.durable == 2))
    journal = append!(journal, ["c"])
    Process.exit(journal.syncer, :kill)
    journal = take(journal, &(&1.durable == 3))
    assert journal.pending == [] and journal.pending_bytes == 0
    assert Journal.info(journal, :something_else) == :unknown
    :ok = Journal.close(journal)
    refute Process.alive?(journal.syncer)
  end

  test "with an interval, syncing a segment that a base removed leaves no file", %{folder: folder} do
    journal = folder |> open!(durability: {:interval, 1}, segment_bytes: 1) |> append!(["a"])
    # The syncer runs after the segment was removed.
    true = :erlang.suspend_process(journal.syncer)
    assert_receive {Journal, _ref, :due} = message
    {:ok, journal} = Journal.info(journal, message)
    journal = append!(journal, ["b"])
    :ok = Journal.base_writer(journal).(1, ["one"])
    {:ok, journal} = Journal.trim(journal, 1)
    assert length(segments(folder)) == 1
    true = :erlang.resume_process(journal.syncer)
    journal = take(journal, &(&1.durable == 2))
    :ok = Journal.close(journal)
    assert length(segments(folder)) == 1
    assert content(folder) == {{1, "one"}, [{2, "b"}], 2}
  end

  test "with an interval, changes of a failed sync are written again", %{folder: folder} do
    journal = folder |> faulty(durability: {:interval, 1}) |> append!(["a", "b"])
    Disk.fail(folder, fn operation, _number -> if operation == :sync, do: :eio end)

    journal = take(journal, & &1.error)
    assert_receive {:log, "BeTree: cannot sync " <> rest}
    assert rest =~ "accepted changes are not on the disk"
    assert journal.error.kind == :file and journal.durable == 0
    {:error, _error, journal} = Journal.append(journal, ["refused"])
    Disk.fail(folder, nil)
    journal = take(journal, &(&1.error == nil and &1.durable == 2))
    journal = append!(journal, ["c"])
    :ok = Journal.close(journal)
    assert content(folder) == {:none, [{1, "a"}, {2, "b"}, {3, "c"}], 3}
  end

  test "with an interval, a kill after a failed write loses no accepted change", %{folder: folder} do
    for count <- 0..20 do
      folder = Path.join(folder, "#{count}")

      {pid, monitor} =
        spawn_monitor(fn ->
          journal = folder |> faulty(durability: {:interval, 60_000}) |> append!(["a", "b"])
          Disk.fail(folder, fn operation, _number -> if operation == :pwrite, do: :eio end)
          {:error, _error, journal} = Journal.append(journal, ["refused"])
          Disk.fail(folder, nil)
          Disk.crash_after(folder, count)
          append!(journal, ["c"])
        end)

      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}
      assert reason in [:normal, :crash]
      Disk.heal(folder)
      assert {:none, [{1, "a"}, {2, "b"} | rest], _last} = content(folder)
      assert rest == [{3, "c"}] or (rest == [] and reason == :crash)
    end
  end

  test "with an interval, changes appended together are rewritten together, even if a base has some of them",
       %{folder: folder} do
    journal = folder |> faulty(durability: {:interval, 60_000}) |> append!(["a", "b", "c"])
    :ok = Journal.base_writer(journal).(1, ["base"])
    {:ok, journal} = Journal.trim(journal, 1)
    Disk.fail(folder, fn operation, _number -> if operation == :pwrite, do: :eio end)
    {:error, _error, journal} = Journal.append(journal, ["refused"])
    Disk.fail(folder, nil)
    journal = append!(journal, ["d"])
    :ok = Journal.close(journal)
    assert content(folder) == {{1, "base"}, [{2, "b"}, {3, "c"}, {4, "d"}], 4}
  end

  test "the syncer ends with the owner", %{folder: folder} do
    syncer = in_other_process(fn -> open!(folder, durability: {:interval, 1}).syncer end)
    monitor = Process.monitor(syncer)
    assert_receive {:DOWN, ^monitor, :process, ^syncer, _reason}
  end

  test "a base that cannot be written leaves no file", %{folder: folder} do
    journal = folder |> faulty([]) |> append!(["a"])
    Disk.room(folder, 6)
    assert {:error, %{kind: :file, message: message}} = Journal.base_writer(journal).(1, ["base"])
    assert message =~ "no space left"
    Disk.room(folder, :infinity)
    assert bases(folder) == [] and Path.wildcard(Path.join(folder, "*.new")) == []
    :ok = Journal.base_writer(journal).(1, ["base"])
    :ok = Journal.close(journal)
    assert content(folder) == {{1, "base"}, [], 1}
  end

  # A small file system, where the tests may make one.
  @tag :tmpfs
  test "a full file system refuses changes and takes them later", %{folder: folder} do
    Tmpfs.with_room(folder, "256k", &full/1)
  end

  defp full(folder) do
    ballast = Path.join(folder, "ballast")
    File.write!(ballast, :binary.copy("x", 100_000))
    {journal, error} = fill(open!(folder, segment_bytes: 30_000))
    assert error.kind == :file and error.message =~ "no space left on the device"
    {journal, _error} = fill(journal)
    last = Journal.last(journal)
    assert {:error, %{kind: :file}} = Journal.base_writer(journal).(last, [:binary.copy("x", 100_000)])

    File.rm!(ballast)
    journal = append!(journal, ["there is room"])
    assert Journal.last(journal) == last + 1
    :ok = Journal.base_writer(journal).(10, ["ten"])
    {:ok, journal} = Journal.trim(journal, 10)
    :ok = Journal.close(journal)
    {{10, "ten"}, changes, _last} = content(folder)
    assert for({version, _payload} <- changes, do: version) == Enum.to_list(11..(last + 1))
    assert List.last(changes) == {last + 1, "there is room"}
  end

  defp fill(journal) do
    case Journal.append(journal, [:binary.copy("y", 1_000)]) do
      {:ok, journal} -> fill(journal)
      {:error, error, journal} -> {journal, error}
    end
  end
end
