defmodule BeTree.Journal.OwnerTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Error
  alias BeTree.Journal.Owner
  alias BeTree.Test.Disk

  setup [:quiet, :folder]

  # A user of the module: a process with a list of texts, the last one first.
  defmodule Texts do
    use GenServer

    @behaviour Owner

    @impl GenServer
    def init({folder, options}) do
      Process.flag(:trap_exit, true)
      {:ok, journal} = Owner.open(__MODULE__, folder, [identity: "texts", durability: :sync] ++ options)

      case Owner.recover(journal, []) do
        {:ok, texts} -> {:ok, {journal, texts}, {:continue, :base}}
        {:error, error} -> {:stop, error}
      end
    end

    @impl Owner
    def load_base(content, []), do: {:ok, :erlang.binary_to_term(content)}

    @impl Owner
    def repeat(_batch, ["refused" | _texts]), do: {:error, %Error{kind: :damaged, message: "refused"}}
    def repeat(batch, texts), do: {:ok, Enum.reduce(batch, texts, fn {_version, text}, texts -> [text | texts] end)}

    @impl Owner
    def base(["unprepared" | _texts], _version), do: {:error, %Error{kind: :trap, message: "unprepared"}}

    def base(texts, version) do
      {:ok,
       fn write, flush ->
         if hd(texts) == "killed", do: Process.exit(self(), :kill)
         if hd(texts) == "held", do: receive(do: (:go_on -> :ok))
         with :ok <- flush.(), :ok <- write.(version, [:erlang.term_to_binary(texts)]), do: {:ok, version}
       end}
    end

    @impl GenServer
    def handle_continue(:base, state), do: {:noreply, base_if_due(state)}

    @impl GenServer
    def handle_call({:append, new}, _from, {journal, texts}) do
      case Owner.append(journal, new) do
        {:ok, journal} -> {:reply, :ok, base_if_due({journal, Enum.reverse(new) ++ texts})}
        {:error, error, journal} -> {:reply, {:error, error}, {journal, texts}}
      end
    end

    def handle_call({:replace, new}, _from, {journal, texts}) do
      case Owner.replace(journal, Owner.last(journal) + 1, [:erlang.term_to_binary(new)]) do
        {:ok, journal} -> {:reply, :ok, {journal, new}}
        {:error, error} -> {:reply, {:error, error}, {journal, texts}}
      end
    end

    def handle_call(:flush, _from, {journal, texts}) do
      {reply, journal} = Owner.flush(journal)
      {:reply, reply, {journal, texts}}
    end

    def handle_call(:get, _from, state), do: {:reply, state, state}

    @impl GenServer
    def handle_info(message, {journal, texts} = state) do
      case Owner.info(journal, message) do
        {:ok, journal} -> {:noreply, base_if_due({journal, texts})}
        :unknown -> {:noreply, state}
      end
    end

    @impl GenServer
    def terminate(_reason, {journal, _texts}), do: Owner.close(journal)

    defp base_if_due({journal, texts}), do: {Owner.write_base_if_due(journal, texts, length(texts)), texts}
  end

  defp start(folder, options \\ []) do
    {:ok, pid} = GenServer.start(Texts, {folder, options})
    pid
  end

  defp append(pid, texts), do: GenServer.call(pid, {:append, texts}, :infinity)
  defp texts(pid), do: pid |> GenServer.call(:get, :infinity) |> elem(1) |> Enum.reverse()
  defp owner(pid), do: pid |> GenServer.call(:get, :infinity) |> elem(0)
  defp bases(folder), do: Path.wildcard(Path.join(folder, "*.base"))

  defp restart(pid, folder, options \\ []) do
    Process.exit(pid, :kill)
    eventually(fn -> not Process.alive?(pid) end)
    start(folder, options)
  end

  test "without a folder no function stores anything" do
    assert Owner.append(nil, ["a"]) == {:ok, nil}
    assert Owner.flush(nil) == {:ok, nil}
    assert Owner.info(nil, :message) == :unknown
    assert Owner.write_base_if_due(nil, :source, 0) == nil
    assert Owner.replace(nil, 1, ["a"]) == {:ok, nil}
    assert {Owner.bytes(nil), Owner.status(nil), Owner.close(nil), Owner.release(nil)} == {0, nil, :ok, :ok}
  end

  test "open/3 returns the identity of the folder's owner", %{folder: folder} do
    pid = start(folder)
    :ok = append(pid, ["a"])
    :ok = GenServer.stop(pid)
    assert Owner.open(Texts, folder, identity: "others", durability: :sync) == {:error, {:identity, "texts"}}
  end

  test "recover/2 repeats all changes, without a base and with one", %{folder: folder} do
    pid = start(folder)
    :ok = append(pid, ["a", "b"])
    pid = restart(pid, folder, base_bytes: 1)
    eventually(fn -> bases(folder) != [] end)
    :ok = append(pid, ["c"])
    :ok = GenServer.stop(pid)
    assert folder |> start() |> texts() == ["a", "b", "c"]
  end

  test "recover/2 returns the error of a change that cannot be repeated", %{folder: folder} do
    pid = start(folder)
    :ok = append(pid, Enum.map(1..1_500, fn _ -> "a" end))
    :ok = GenServer.stop(pid)
    {:ok, journal} = Owner.open(Texts, folder, identity: "texts", durability: :sync)
    assert {:error, %Error{kind: :damaged, message: "refused"}} = Owner.recover(journal, ["refused"])
    :ok = Owner.release(journal)
  end

  describe "write_base_if_due/3" do
    test "writes a base after base_bytes more bytes", %{folder: folder} do
      pid = start(folder, base_bytes: 1_000)
      :ok = append(pid, [String.duplicate("x", 900)])
      assert owner(pid).writer == nil and bases(folder) == []
      :ok = append(pid, [String.duplicate("x", 900)])
      eventually(fn -> match?([_one], bases(folder)) and owner(pid).writer == nil end)
      :ok = append(pid, ["short"])
      assert owner(pid).writer == nil
    end

    test "writes a base after base_changes changes and a quarter of the entries", %{folder: folder} do
      pid = start(folder, base_changes: 10)
      for number <- 1..10, do: :ok = append(pid, ["#{number}"])
      assert owner(pid).writer == nil and bases(folder) == []
      :ok = append(pid, for(number <- 11..100, do: "#{number}"))
      eventually(fn -> owner(pid).journal.kept == 100 end)
      for number <- 101..125, do: :ok = append(pid, ["#{number}"])
      assert owner(pid).journal.kept == 100
      for number <- 126..140, do: :ok = append(pid, ["#{number}"])
      eventually(fn -> owner(pid).journal.kept > 100 end)
    end

    test "writes no base for many changes with base_changes: :infinity", %{folder: folder} do
      pid = start(folder, base_changes: :infinity)
      :ok = append(pid, for(number <- 1..20_000, do: "#{number}"))
      assert owner(pid).writer == nil and bases(folder) == []
    end

    test "writes a base after starts that each left a segment", %{folder: folder} do
      pid =
        Enum.reduce(1..40, start(folder), fn number, pid ->
          :ok = append(pid, ["#{number}"])
          restart(pid, folder)
        end)

      eventually(fn -> length(Path.wildcard(Path.join(folder, "*.log"))) < 10 end)
      assert texts(pid) == for(number <- 1..40, do: "#{number}")
    end

    test "keeps all changes when a base fails, and tries again", %{folder: folder} do
      Disk.watch(folder)
      pid = start(folder, files: Disk, base_bytes: 100)
      :ok = append(pid, ["a"])
      Disk.fail(folder, fn operation, _number -> if operation == :create, do: :eio end)
      :ok = append(pid, [String.duplicate("b", 200)])
      eventually(fn -> match?(%{error: %Error{kind: :file}, retry: timer} when timer != nil, owner(pid)) end)
      assert :ok = append(pid, ["c"])
      Disk.heal(folder)
      eventually(fn -> match?(%{error: nil, writer: nil}, owner(pid)) and bases(folder) != [] end)
      assert pid |> restart(folder, files: Disk) |> texts() == ["a", String.duplicate("b", 200), "c"]
    end

    test "reports a base that cannot be prepared, and a killed base writer", %{folder: folder} do
      pid = start(folder, base_bytes: 1)
      :ok = append(pid, ["unprepared"])
      assert %{error: %Error{message: "unprepared"}, writer: nil} = owner(pid)
      :ok = append(pid, ["killed"])

      eventually(fn ->
        match?(%{error: %Error{kind: :trap, message: "writing a base ended with :killed"}}, owner(pid))
      end)

      :ok = append(pid, ["a"])
      eventually(fn -> match?(%{error: nil}, owner(pid)) and bases(folder) != [] end)
    end
  end

  describe "oldest/1" do
    test "is the moment of the first change after the base, also of one that came while the base was written", %{
      folder: folder
    } do
      pid = start(folder, base_bytes: 100)
      assert Owner.oldest(owner(pid)) == nil
      :ok = append(pid, ["a"])
      first = Owner.oldest(owner(pid))
      :ok = append(pid, ["b"])
      assert Owner.oldest(owner(pid)) == first

      :ok = append(pid, [String.duplicate("x", 200), "held"])
      %{writer: {writer, _written}} = owner(pid)
      now = System.monotonic_time(:microsecond)
      :ok = append(pid, ["c"])
      assert Owner.oldest(owner(pid)) == first
      send(writer, :go_on)
      eventually(fn -> owner(pid).writer == nil end)
      assert Owner.oldest(owner(pid)) >= now
    end

    test "is nil once a base has all changes", %{folder: folder} do
      pid = start(folder, base_bytes: 1)
      :ok = append(pid, ["a"])
      eventually(fn -> Owner.oldest(owner(pid)) == nil end)

      pid = restart(pid, folder)
      assert Owner.oldest(owner(pid)) == nil
      :ok = append(pid, ["b"])
      assert Owner.oldest(owner(pid)) != nil
      :ok = GenServer.call(pid, {:replace, ["z"]})
      assert Owner.oldest(owner(pid)) == nil
    end

    test "is the moment of the start for changes from before it", %{folder: folder} do
      pid = start(folder)
      :ok = append(pid, ["a"])
      now = System.monotonic_time(:microsecond)
      assert pid |> restart(folder) |> owner() |> Owner.oldest() >= now
    end
  end

  describe "replace/3" do
    test "replaces all changes by a base with a later version", %{folder: folder} do
      pid = start(folder)
      :ok = append(pid, ["a", "b"])
      :ok = GenServer.call(pid, {:replace, ["z"]})
      :ok = append(pid, ["c"])
      assert Owner.last(owner(pid)) == 4
      assert pid |> restart(folder) |> texts() == ["z", "c"]
    end

    test "changes nothing when the base cannot be written", %{folder: folder} do
      Disk.watch(folder)
      pid = start(folder, files: Disk)
      :ok = append(pid, ["a"])
      Disk.fail(folder, fn operation, _number -> if operation == :create, do: :eio end)
      assert {:error, %Error{kind: :file}} = GenServer.call(pid, {:replace, ["z"]})
      Disk.heal(folder)
      :ok = append(pid, ["b"])
      assert pid |> restart(folder, files: Disk) |> texts() == ["a", "b"]
    end
  end

  describe "replace/4 with another identity" do
    # The owner ends at each operation on a file in turn, and the power fails in every second run.
    test "leaves the old content or the new one, wherever the owner ends", %{folder: folder} do
      outcomes =
        for durability <- [:sync, :none], loss <- [false, true], crash <- 1..28 do
          folder = Disk.watch(Path.join(folder, "#{inspect(durability)}_#{loss}_#{crash}"))
          File.mkdir_p!(folder)
          :rand.seed(:exsss, {crash, 1, 1})
          stage = replace_and_crash(folder, durability, crash)
          if loss, do: Disk.lose_power(folder)
          Disk.heal(folder)
          found = content(folder)

          case stage do
            # Changes that are not synced may be lost with the power.
            :replacing when loss and durability != :sync -> assert found in [[], ["a"], ["a", "b"], ["z"]]
            :replacing -> assert found in [["a", "b"], ["z"]]
            :replaced when loss and durability != :sync -> assert found in [["z"], ["z", "c"]]
            :replaced -> assert found in [["z"], ["z", "c"]]
            :done when loss and durability != :sync -> assert found in [["z"], ["z", "c"]]
            :done -> assert found == ["z", "c"]
          end

          {stage, found}
        end

      for outcome <- [{:replacing, ["a", "b"]}, {:replacing, ["z"]}, {:replaced, ["z"]}, {:done, ["z", "c"]}],
          do: assert(outcome in outcomes)
    end

    test "changes nothing when any operation on a file fails", %{folder: folder} do
      outcomes =
        for operation <- [:create, :pwrite, :sync, :rename, :sync_folder, :delete], number <- 1..3 do
          folder = Disk.watch(Path.join(folder, "#{operation}_#{number}"))
          File.mkdir_p!(folder)
          journal = open(folder, "texts", :sync)
          {:ok, journal} = Owner.append(journal, ["a", "b"])
          from = Disk.count(folder, operation)

          Disk.fail(folder, fn name, _number ->
            if name == operation and Disk.count(folder, name) == from + number, do: :eio
          end)

          replaced = Owner.replace(journal, 3, [:erlang.term_to_binary(["z"])], "new")
          Disk.heal(folder)

          {outcome, journal, expected} =
            case replaced do
              {:ok, journal} -> {:ok, journal, ["z", "c"]}
              {:error, %Error{kind: :file}} -> {:error, journal, ["a", "b", "c"]}
            end

          {:ok, journal} = Owner.append(journal, ["c"])
          :ok = Owner.close(journal)
          assert content(folder) == expected
          {operation, number, outcome}
        end

      # A failed removal of replaced files is reported later.
      for operation <- [:create, :pwrite, :sync, :rename, :sync_folder], do: assert({operation, 1, :error} in outcomes)
    end

    defp open(folder, identity, durability) do
      {:ok, journal} =
        Owner.open(Texts, folder, identity: identity, durability: durability, files: Disk, background: Disk)

      journal
    end

    # Returns how far the owner got.
    defp replace_and_crash(folder, durability, crash) do
      test = self()

      {pid, monitor} =
        spawn_monitor(fn ->
          journal = open(folder, "texts", durability)
          {:ok, journal} = Owner.append(journal, ["a", "b"])
          Disk.crash_after(folder, crash)
          send(test, {:stage, :replacing})
          {:ok, journal} = Owner.replace(journal, 3, [:erlang.term_to_binary(["z"])], "new")
          send(test, {:stage, :replaced})
          {:ok, journal} = Owner.append(journal, ["c"])
          send(test, {:stage, :done})
          Owner.close(journal)
        end)

      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 300_000
      assert reason in [:normal, :crash]
      last_stage(nil)
    end

    defp last_stage(stage) do
      receive do
        {:stage, later} -> last_stage(later)
      after
        0 -> stage
      end
    end

    # Returns the texts of a folder, which has one of the identities.
    defp content(folder) do
      {:ok, journal} =
        with {:error, {:identity, "new"}} <- Owner.open(Texts, folder, identity: "texts", durability: :sync),
             do: Owner.open(Texts, folder, identity: "new", durability: :sync)

      {:ok, texts} = Owner.recover(journal, [])
      :ok = Owner.release(journal)
      Enum.reverse(texts)
    end
  end

  test "release/1 ends the process that writes a base, and frees the folder", %{folder: folder} do
    Process.flag(:trap_exit, true)
    {:ok, journal} = Owner.open(Texts, folder, identity: "texts", durability: :sync, base_bytes: 1)
    {:ok, journal} = Owner.append(journal, ["a"])
    # This process does not reply to the call `:flush`, so the base is not written.
    %{writer: {writer, _bytes}} = journal = Owner.write_base_if_due(journal, ["a"], 1)
    :ok = Owner.release(journal)
    refute Process.alive?(writer)
    refute_received {:EXIT, ^writer, _reason}
    assert folder |> start() |> texts() == ["a"]
  end
end
