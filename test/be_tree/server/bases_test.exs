defmodule BeTree.Server.BasesTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Server.{Bases, Table}

  # A server without processes: this process plays its owner.
  defp bases(info \\ []) do
    table = Table.new(:"bases_#{System.unique_integer([:positive])}", :integer)
    index = BeTree.publish!(BeTree.new!(a: :integer))
    index = %{index | info: Map.merge(index.info, Map.new(info))}
    base = %{history: [{"one", 0}], index: index, version: 0, origin: 0, complete: true}
    Process.flag(:trap_exit, true)
    table |> Bases.new(%{memory: 64_000_000, publish: [], new: []}) |> Bases.show(base, 0)
  end

  defp row(version), do: {version, [], [{version, "a = #{version}", []}]}

  describe "due?/2" do
    test "is true for a log of a sixteenth of the subscriptions, between 512 and 4,096 changes" do
      for {expressions, limit} <- [{0, 512}, {16_000, 1_000}, {1_000_000, 4_096}] do
        bases = bases(expressions: expressions)
        refute Bases.due?(bases, limit)
        assert Bases.due?(bases, limit + 1)
      end
    end

    test "is true for texts of an eighth of the memory, and at least a megabyte" do
      for {memory, limit} <- [{1_000, 1_000_000}, {80_000_000, 10_000_000}] do
        bases = bases(memory_bytes: memory)
        refute Bases.due?(%{bases | bytes: limit}, 1)
        assert Bases.due?(%{bases | bytes: limit + 1}, 1)
      end
    end
  end

  test "applicable?/2 is false for a row of more than 1,000 subscriptions, and without a log" do
    bases = bases()
    large = {1, Enum.to_list(1..600), for(id <- 1..401, do: {id, "a = 1", []})}
    assert Bases.applicable?(bases, [row(1)])
    refute Bases.applicable?(bases, [row(1), large])
    refute Bases.applicable?(%{bases | log: false}, [row(1)])
  end

  test "append/2 counts the bytes of texts, and the replicas show the rows" do
    bases = Bases.append(bases(), [row(1), row(2)])
    assert bases.bytes == 2 * byte_size("a = 1")
    assert BeTree.search!(bases.base.index, %{a: 2}) == [2]
    assert %{log: 2, base: 0, lineage: "one", bases: 1, building: false} = Bases.describe(bases, 2)
  end

  describe "info/2" do
    test "returns the outcome of the builder, and the error of its end" do
      builder = spawn(fn -> :ok end)
      bases = %{bases() | builder: {builder, :from}}
      assert {:built, {:ok, :base}, :from, %{builder: nil}} = Bases.info(bases, {:built, builder, {:ok, :base}})

      assert {:built, {:error, %Error{kind: :trap, message: message}}, :from, %{builder: nil}} =
               Bases.info(bases, {:EXIT, builder, :killed})

      assert message == "building the next base ended with :killed"
    end

    test "ignores a stopped builder, whose caller gets an error" do
      builder = spawn(fn -> Process.sleep(:infinity) end)
      tag = make_ref()
      bases = Bases.stop_building(%{bases() | builder: {builder, {self(), tag}}})
      assert_received {^tag, {:error, %Error{kind: :overloaded}}}
      assert Bases.info(bases, {:built, builder, {:ok, :base}}) == {:ok, bases}
      assert bases.builder == nil
    end

    test "returns :due after the pause of a failed build, and never for an earlier timer" do
      former = Bases.retry(bases())
      bases = Bases.retry(former)
      assert Bases.build_if_due(bases, 100_000, nil) == bases
      assert Bases.info(bases, {:build, former.retry}) == {:ok, bases}
      assert {:due, %{retry: nil}} = Bases.info(bases, {:build, bases.retry})
    end

    test "starts another maintainer, and returns :unfit for the present replicas alone" do
      %{maintainer: maintainer, base: %{index: %{instance: instance}}} = bases = bases()
      error = %Error{kind: :out_of_memory, message: "full"}
      assert {:unfit, ^error, ^bases} = Bases.info(bases, {:unfit, maintainer, instance, error})
      assert Bases.info(bases, {:unfit, maintainer, make_ref(), error}) == {:ok, bases}
      assert {:ok, %{maintainer: other}} = Bases.info(bases, {:EXIT, maintainer, :killed})
      assert other != maintainer
      assert Bases.info(bases, :stray) == :unknown
    end
  end

  test "put_history/2 changes the history of the base in the table" do
    bases = Bases.put_history(bases(), [{"two", 5}, {"one", 0}])
    assert Table.base(bases.table).history == [{"two", 5}, {"one", 0}]
  end

  describe "renew_base/2 of the tables of a former life" do
    test "raises, and leaves the next server of that name as it is" do
      name = :"bases_#{System.unique_integer([:positive])}"
      test = self()

      {owner, monitor} =
        spawn_monitor(fn ->
          send(test, {:table, Table.new(name, :integer)})
          receive(do: (:stop -> :ok))
        end)

      assert_receive {:table, former}, 30_000
      Process.exit(owner, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^owner, :killed}, 30_000
      present = Table.new(name, :integer)
      base = %{history: [{"one", 0}], index: nil, version: 7, origin: 0, complete: true}
      assert_raise ArgumentError, fn -> Table.renew_base(former, base) end
      assert_raise ArgumentError, fn -> Table.claim(former) end
      assert Table.base(present) == nil
    end
  end
end
