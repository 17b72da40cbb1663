defmodule BeTree.Tenants.QuotaTest do
  use ExUnit.Case, async: true

  alias BeTree.Tenants.Quota

  # Microseconds.
  @second 1_000_000

  defp bucket(options, now \\ 0) do
    slots = Quota.new_slots()
    {Quota.bucket(Quota.new!(options), slots, 0, now), slots}
  end

  describe "new!/1" do
    test "takes the rate for the burst" do
      assert %Quota{rate: 5, burst: 5, memory: nil, overflow: :error} = Quota.new!(rate: 5)
    end

    test "refuses a quota that limits nothing, and unknown options" do
      assert_raise ArgumentError, ~r/:rate, a :memory or both/, fn -> Quota.new!([]) end
      assert_raise ArgumentError, ~r/unknown keys \[:rat\]/, fn -> Quota.new!(rat: 5) end
      refute Quota.valid?(rate: 0)
      assert Quota.valid?(nil)
    end

    test "makes no bucket of a quota of memory" do
      assert {nil, _slots} = bucket(memory: 1_000)
    end
  end

  describe "charge/4" do
    test "leaves the burst less the fuel, and a debt beyond it" do
      {bucket, slots} = bucket(rate: 10, burst: 100)
      assert Quota.left(bucket, slots, 0) == 100
      Quota.charge(bucket, slots, 70, 0)
      assert Quota.left(bucket, slots, 0) == 30
      Quota.charge(bucket, slots, 70, 0)
      assert Quota.left(bucket, slots, 0) == -40
    end

    test "is paid at the rate, up to the burst" do
      {bucket, slots} = bucket(rate: 10, burst: 100)
      Quota.charge(bucket, slots, 150, 0)
      assert Quota.left(bucket, slots, 4 * @second) == -10
      assert Quota.left(bucket, slots, 5 * @second) == 0
      assert Quota.left(bucket, slots, 5 * @second + 100_000) == 1
      assert Quota.left(bucket, slots, 1_000 * @second) == 100
      Quota.charge(bucket, slots, 1, 1_000 * @second)
      assert Quota.left(bucket, slots, 1_000 * @second) == 99
    end

    test "admits the burst and the rate times the time, and one call more" do
      :rand.seed(:exsss, {1, 2, 3})
      {bucket, slots} = bucket(rate: 1_000, burst: 5_000)

      spent =
        for now <- 0..(60 * @second)//1_237, Quota.left(bucket, slots, now) > 0, reduce: 0 do
          spent ->
            fuel = :rand.uniform(40)
            Quota.charge(bucket, slots, fuel, now)
            spent + fuel
        end

      assert spent in (5_000 + 59_990)..(5_000 + 60_000 + 40)
    end

    test "loses no charge of concurrent callers" do
      {bucket, slots} = bucket(rate: 1, burst: 1_000_000)

      1..8
      |> Enum.map(fn _ -> Task.async(fn -> for _ <- 1..10_000, do: Quota.charge(bucket, slots, 3, 0) end) end)
      |> Task.await_many(300_000)

      assert Quota.left(bucket, slots, 0) == 1_000_000 - 240_000
    end

    test "reports each threshold once until half of the burst is left" do
      {bucket, slots} = bucket(rate: 10, burst: 100)
      assert Quota.charge(bucket, slots, 79, 0) == nil
      assert Quota.charge(bucket, slots, 1, 0) == 80
      assert Quota.charge(bucket, slots, 5, 0) == nil
      assert Quota.charge(bucket, slots, 15, 0) == 100
      assert Quota.charge(bucket, slots, 15, 2 * @second) == nil
      assert Quota.charge(bucket, slots, 1, 9 * @second) == nil
      assert Quota.charge(bucket, slots, 60, 9 * @second) == 80
    end

    test "counts from the time of the bucket, also if clocks are negative" do
      {bucket, slots} = bucket([rate: 10, burst: 100], -600_000_000 * @second)
      Quota.charge(bucket, slots, 100, -600_000_000 * @second)
      assert Quota.left(bucket, slots, -599_999_999 * @second) == 10
    end
  end

  describe "refusal/3" do
    test "has the time until there is fuel" do
      {bucket, slots} = bucket(rate: 1_000, burst: 100)
      Quota.charge(bucket, slots, 150, 0)
      error = Quota.refusal(bucket, slots, 0)
      assert error.kind == :quota
      assert error.retry_after == 51
      assert error.message =~ "-50 of 100 fuel are left; at 1000 fuel a second there is some again in 51 ms"
      assert Quota.left(bucket, slots, 50_000) == 0
      assert Quota.left(bucket, slots, 51_000) == 1
    end
  end
end
