defmodule BeTree.Runtime.Wasmex.CheckoutTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually

  alias BeTree.Runtime.Wasmex.Checkout

  setup do
    {:ok, group: make_ref()}
  end

  # A process that obeys commands and reports the results.
  defp worker do
    parent = self()
    spawn(fn -> work(parent) end)
  end

  defp work(parent) do
    receive do
      {:do, work} -> send(parent, {self(), work.()})
    end

    work(parent)
  end

  defp tell(worker, work) do
    send(worker, {:do, work})
    worker
  end

  defp answer(worker) do
    assert_receive {^worker, answer}
    answer
  end

  defp enter(worker, group, count, timeout \\ :infinity, limit \\ :infinity) do
    tell(worker, fn -> Checkout.check_out(group, count, timeout, limit) end)
  end

  defp leave(worker, group, number), do: tell(worker, fn -> Checkout.check_in(group, number) end)

  test "one who finds a machine free takes it, the first that is", %{group: group} do
    assert Checkout.check_out(group, 3, 0, 0) == {:ok, 0}
    assert Checkout.check_out(group, 3, 0, 0) == {:ok, 1}
    assert Checkout.status(group, 3) == {:free, 0}
    assert Checkout.check_in(group, 0) == :ok
    assert Checkout.check_out(group, 3, 0, 0) == {:ok, 0}
    assert Checkout.check_out(group, 3, 0, 0) == {:ok, 2}
    assert Checkout.status(group, 3) == {:running, 0}
    assert Checkout.check_out(make_ref(), 1, 0, 0) == {:ok, 0}
    for number <- 0..2, do: Checkout.check_in(group, number)
    assert Checkout.status(group, 3) == {:free, 0}
  end

  test "who waits gets the machine in order, whoever lets go of one", %{group: group} do
    {:ok, 0} = Checkout.check_out(group, 2, 0, 0)
    {:ok, 1} = Checkout.check_out(group, 2, 0, 0)

    workers =
      for number <- 1..4 do
        worker = enter(worker(), group, 2)
        eventually(fn -> Checkout.status(group, 2) == {:running, number} end)
        worker
      end

    [one, two, three, four] = workers
    Checkout.check_in(group, 1)
    assert answer(one) == {:ok, 1}
    Checkout.check_in(group, 0)
    assert answer(two) == {:ok, 0}
    leave(two, group, 0)
    assert answer(three) == {:ok, 0}
    leave(one, group, 1)
    assert answer(four) == {:ok, 1}
    leave(three, group, 0)
    leave(four, group, 1)
    eventually(fn -> Checkout.status(group, 2) == {:free, 0} end)
    assert Checkout.check_out(group, 2, 0, 0) == {:ok, 0}
  end

  test "a machine passes on when its holder dies, running or suspended", %{group: group} do
    for suspended? <- [false, true] do
      holder = enter(worker(), group, 1)
      assert answer(holder) == {:ok, 0}
      if suspended?, do: holder |> tell(fn -> Checkout.suspend(group, 0, 7) end) |> answer()
      waiting = enter(worker(), group, 1)
      eventually(fn -> match?({_state, 1}, Checkout.status(group, 1)) end)
      Process.exit(holder, :kill)
      assert answer(waiting) == {:ok, 0}
      refute Checkout.resume(group, 0, 7)
      waiting |> leave(group, 0) |> answer()
    end
  end

  test "the next caller detects a holder that died before", %{group: group} do
    holder = enter(worker(), group, 1)
    assert answer(holder) == {:ok, 0}
    Process.exit(holder, :kill)
    assert Checkout.check_out(group, 1, 5_000, 10) == {:ok, 0}
  end

  test "a suspended call is resumed once, by anybody, who then holds the machine", %{group: group} do
    {:ok, 0} = Checkout.check_out(group, 1, 0, 0)
    Checkout.suspend(group, 0, 7)
    assert Checkout.status(group, 1) == {:suspended, 0}
    refute Checkout.resume(group, 0, 8)
    other = worker()
    waiting = enter(worker(), group, 1)
    eventually(fn -> Checkout.status(group, 1) == {:suspended, 1} end)
    assert other |> tell(fn -> Checkout.resume(group, 0, 7) end) |> answer()
    refute Checkout.resume(group, 0, 7)
    # Its death is noticed, though it did not hold the machine when one began to wait.
    Process.exit(other, :kill)
    assert answer(waiting) == {:ok, 0}
  end

  test "a holder of all machines is refused instead of waiting", %{group: group} do
    for number <- 0..1 do
      {:ok, ^number} = Checkout.check_out(group, 2, 0, 0)
      Checkout.suspend(group, number, number + 1)
    end

    assert Checkout.check_out(group, 2, :infinity, :infinity) == :held
    assert Checkout.resume(group, 0, 1)
    assert Checkout.check_out(group, 2, 1, 10) == :timeout
    Checkout.check_in(group, 0)
    assert Checkout.check_out(group, 2, :infinity, :infinity) == {:ok, 0}
  end

  test "no more than the limit wait, and nobody longer than the timeout", %{group: group} do
    {:ok, 0} = Checkout.check_out(group, 1, 0, 0)
    other = worker()
    assert other |> enter(group, 1, :infinity, 0) |> answer() == :full
    assert other |> enter(group, 1, 10, 1) |> answer() == :timeout
    waiting = enter(worker(), group, 1, :infinity, 1)
    eventually(fn -> Checkout.status(group, 1) == {:running, 1} end)
    assert other |> enter(group, 1, :infinity, 1) |> answer() == :full
    Process.exit(waiting, :kill)
    eventually(fn -> Checkout.status(group, 1) == {:running, 0} end)
    enter(other, group, 1, :infinity, 1)
    eventually(fn -> Checkout.status(group, 1) == {:running, 1} end)
    Checkout.check_in(group, 0)
    assert answer(other) == {:ok, 0}
  end

  test "a machine has one holder under kills and timeouts", %{group: group} do
    :rand.seed(:exsss, {1, 2, 3})
    inside = :counters.new(2, [:atomics])

    run = fn ->
      for _ <- 1..50 do
        with {:ok, number} <- Checkout.check_out(group, 2, Enum.random([1, 5, :infinity]), :infinity) do
          # Who is killed in between leaves a count behind, so what was there before is what must not change.
          before = :counters.get(inside, number + 1)
          :counters.add(inside, number + 1, 1)
          if :rand.uniform(4) == 1, do: Process.sleep(1)

          if :rand.uniform(3) == 1 do
            Checkout.suspend(group, number, 1_000 + number)
            unless Checkout.resume(group, number, 1_000 + number), do: exit(:lost)
          end

          if :counters.get(inside, number + 1) != before + 1, do: exit(:shared)
          Checkout.check_in(group, number)
        end
      end
    end

    workers = for _ <- 1..200, do: spawn_monitor(run)

    for {pid, _monitor} <- Enum.take_every(workers, 5),
        do: Process.sleep(Enum.random([0, 1])) && Process.exit(pid, :kill)

    for {pid, monitor} <- workers do
      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 30_000
      assert reason in [:normal, :killed]
    end

    assert {:ok, one} = Checkout.check_out(group, 2, 5_000, 10)
    assert {:ok, other} = Checkout.check_out(group, 2, 5_000, 10)
    assert Enum.sort([one, other]) == [0, 1]
    assert Checkout.status(group, 2) == {:running, 0}
  end
end
