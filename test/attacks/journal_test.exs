defmodule BeTree.Attacks.JournalTest do
  @moduledoc false
  # Compares random changes, bases, failures, kills and losses of power with a list, on a simulated disk. A kill or a loss
  # of power comes at any operation on a file. No step depends on time, so a seed repeats a life exactly.
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.Quiet

  alias BeTree.Journal
  alias BeTree.Test.{Attack, Disk}

  @moduletag timeout: :infinity

  setup [:quiet, :folder]

  test "no acknowledged change is lost beyond what the durability allows", %{folder: folder} do
    Attack.each(Attack.size(60, 5_000), fn number ->
      folder = Path.join(folder, "#{number}")
      Disk.watch(folder)
      life(folder, Enum.random([:sync, :sync, {:interval, 1}, :none]), Enum.random(1..6))
      File.rm_rf!(folder)
    end)
  end

  # A life ends with a close, which syncs everything. So a later loss is damage, never an interrupted write.
  test "a folder that lost a file, or its end, is refused or complete", %{folder: folder} do
    Attack.each(Attack.size(20, 2_000), fn number ->
      folder = Disk.watch(Path.join(folder, "#{number}"))
      {found, _count} = life(folder, Enum.random([:sync, {:interval, 1}, :none]), Enum.random(1..3))

      for name <- folder |> File.ls!() |> Enum.sort() do
        copy = folder <> "_copy"
        File.cp_r!(folder, copy)
        lose(Path.join(copy, name))
        assert without_damage(copy) in [:damaged, Enum.reverse(found)]
        File.rm_rf!(copy)
      end

      File.rm_rf!(folder)
    end)
  end

  defp lose(path) do
    if :rand.uniform(2) == 1,
      do: File.rm!(path),
      else: File.write!(path, binary_part(File.read!(path), 0, :rand.uniform(File.stat!(path).size + 1) - 1))
  end

  defp without_damage(folder) do
    case Journal.open(folder, identity: "", durability: :sync) do
      {:ok, journal} ->
        # Reading a base verifies its content.
        found =
          if match?({:error, %{kind: :damaged}}, Journal.read_base(journal)), do: :damaged, else: contents(journal)

        :ok = Journal.close(journal)
        found

      {:error, %{kind: :damaged}} ->
        :damaged
    end
  end

  test "the seed determines a run", %{folder: folder} do
    for number <- 1..5 do
      [first, second] =
        for time <- 1..2 do
          :rand.seed(:exsss, {Attack.seed(), number, 0})
          folder = Disk.watch(Path.join(folder, "#{number}_#{time}"))
          found = life(folder, {:interval, 1}, 4)
          # An unfinished base has a temporary name.
          names = folder |> File.ls!() |> Enum.reject(&String.ends_with?(&1, ".new")) |> Enum.sort()
          {found, for(name <- names, do: {name, File.read!(Path.join(folder, name))})}
        end

      assert first == second
    end
  end

  # The model: all changes, newest first; the number that must survive a loss of power; and the groups that may follow: the
  # group being written, and groups refused since the last change whose bytes a failing disk kept.
  defp life(folder, durability, owners) do
    Enum.reduce(1..owners, {[], 0}, fn _owner, {accepted, durable} ->
      seed = :rand.uniform(1_000_000_000)
      test = self()

      {pid, monitor} =
        spawn_monitor(fn ->
          :rand.seed(:exsss, {seed, 0, 0})
          start_owner(folder, durability, accepted, durable, test)
        end)

      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 60_000
      assert reason in [:normal, :crash]
      {accepted, durable, uncertain} = last_state({accepted, durable, []})

      durable =
        if :rand.uniform(2) == 1 do
          Disk.lose_power(folder)
          durable
        else
          length(accepted)
        end

      Disk.heal(folder)
      found = check(folder, durability, accepted, durable, uncertain)
      {found, length(found)}
    end)
  end

  defp last_state(state) do
    receive do
      {:state, state} -> last_state(state)
    after
      0 -> state
    end
  end

  # Returns the changes in the folder.
  defp check(folder, durability, accepted, durable, uncertain) do
    {:ok, journal} = open(folder, durability)
    found = contents(journal)
    :ok = Journal.close(journal)
    all = Enum.reverse(accepted)
    assert Enum.any?([[] | uncertain], fn group -> found == Enum.take(all ++ group, length(found)) end)
    assert length(found) >= durable
    Enum.reverse(found)
  end

  defp open(folder, durability) do
    Journal.open(folder, identity: "", durability: durability, files: Disk, background: Disk, segment_bytes: 200)
  end

  # A base lists all changes before it.
  defp contents(journal) do
    base = with {:ok, _version, bytes} <- Journal.read_base(journal), do: :erlang.binary_to_term(bytes)
    base = if base == :none, do: [], else: base

    {:ok, contents} =
      Journal.reduce(journal, base, fn batch, contents ->
        assert elem(hd(batch), 0) == length(contents) + 1
        {:ok, contents ++ for({_version, payload} <- batch, do: payload)}
      end)

    assert length(contents) == Journal.last(journal)
    contents
  end

  defp start_owner(folder, durability, accepted, durable, test) do
    if :rand.uniform(2) == 1, do: Disk.crash_after(folder, :rand.uniform(60))
    send(test, {:state, {accepted, durable, []}})
    {:ok, journal} = open(folder, durability)
    assert contents(journal) == Enum.reverse(accepted)
    run(journal, folder, {accepted, length(accepted), []}, test, :rand.uniform(25))
  end

  defp run(_journal, _folder, _state, _test, 0), do: :ok

  defp run(journal, folder, {accepted, durable, uncertain}, test, left) do
    {journal, result} = step(:rand.uniform(12), journal, folder, {accepted, durable, uncertain}, test)

    {accepted, uncertain} =
      case result do
        {:accepted, payloads} -> {Enum.reverse(payloads) ++ accepted, []}
        {:refused, payloads} -> {accepted, [payloads | uncertain]}
        :other -> {accepted, uncertain}
      end

    durable = if journal.durability == :sync, do: length(accepted), else: max(durable, journal.durable)
    send(test, {:state, {accepted, durable, uncertain}})
    run(journal, folder, {accepted, durable, uncertain}, test, left - 1)
  end

  defp step(kind, journal, _folder, {accepted, durable, uncertain}, test) when kind <= 6 do
    payloads = for _ <- 1..:rand.uniform(3), do: :rand.bytes(:rand.uniform(60) - 1)
    send(test, {:state, {accepted, durable, [payloads | uncertain]}})

    case Journal.append(journal, payloads) do
      {:ok, journal} -> {journal, {:accepted, payloads}}
      {:error, _error, journal} -> {journal, {:refused, payloads}}
    end
  end

  defp step(7, journal, folder, _state, _test) do
    Disk.room(folder, Enum.random([0, 10, 50, 100, 200, :infinity]))
    {journal, :other}
  end

  defp step(8, journal, folder, _state, _test) do
    bad =
      Enum.random([[:pwrite], [:sync], [:truncate, :sync], [:pwrite, :truncate], [:create], [:rename], [:sync_folder]])

    Disk.fail(folder, Enum.random([nil, fn operation, _number -> if operation in bad, do: :eio end]))
    {journal, :other}
  end

  defp step(9, journal, folder, _state, _test) do
    Disk.fail(folder, nil)
    Disk.room(folder, :infinity)
    {journal, :other}
  end

  defp step(10, journal, _folder, {accepted, _durable, _uncertain}, _test) do
    version = :rand.uniform(length(accepted) + 1) - 1
    state = accepted |> Enum.reverse() |> Enum.take(version)

    with true <- journal.base == nil or journal.base.version <= version,
         :ok <- Journal.base_writer(journal).(version, [:erlang.term_to_binary(state)]) do
      case Journal.trim(journal, version) do
        {:ok, journal} -> {journal, :other}
        {:error, _error, journal} -> {journal, :other}
      end
    else
      _refused -> {journal, :other}
    end
  end

  defp step(_kind, journal, _folder, _state, _test), do: {Disk.pass(journal), :other}
end
