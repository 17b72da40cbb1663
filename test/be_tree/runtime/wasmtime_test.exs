defmodule BeTree.Runtime.WasmtimeTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually

  import Bitwise
  import BeTree.WasmModule

  alias BeTree.{Error, Runtime.Wasmtime, WasmModule}

  @request %{input: nil, output: :none, fuel: :infinity, slice: :infinity, scheduler: :normal}
  @memory 64 * 65_536

  # Loops endlessly, counting in the first 8 bytes of memory.
  @count_for_ever loop([i32_const(0), i32_const(0), i64_load(), i64_const(1), i64_add(), i64_store(), branch(0)])

  defp instance(parts, options \\ []) do
    {:ok, compiled} = Wasmtime.load(WasmModule.assemble(parts))
    {:ok, instance} = Wasmtime.instantiate(compiled, Keyword.put_new(options, :memory, @memory))
    instance
  end

  defp single(body, parts \\ []) do
    instance([functions: [function("run", [], [:i32], [body, i32_const(0)])]] ++ parts)
  end

  # Input is copied into an inbox at 1024; `echo` returns it, `repeat(n)` returns n copies of the integer 7.
  defp echo(options \\ []) do
    functions = [
      function("inbox", [:i32], [:i32], [i32_const(1024)]),
      function("outbox", [], [:i32], [i32_const(16)]),
      function("echo", [:i32], [:i32], [answer(1024, [local_get(0)]), i32_const(0)]),
      function("refuse", [:i32], [:i32], [answer(1024, [local_get(0)]), i32_const(1)]),
      function("point", [:i32, :i32], [:i32], [
        [i32_const(16), local_get(0), i32_store(), i32_const(20), local_get(1), i32_store(), i32_const(0)]
      ])
    ]

    {pages, options} = Keyword.pop(options, :pages, 1)
    instance([functions: functions, memory: {pages, nil}], [inbox: "inbox", outbox: "outbox"] ++ options)
  end

  defp answer(address, length) do
    [i32_const(16), i32_const(address), i32_store(), i32_const(20), length, i32_store()]
  end

  defp call(instance, export, arguments \\ [], changes \\ []) do
    Wasmtime.call(instance, export, arguments, Map.merge(@request, Map.new(changes)))
  end

  defp finish({:yield, suspended, fuel}, yields), do: finish(Wasmtime.resume(suspended), [fuel | yields])
  defp finish(outcome, yields), do: {outcome, Enum.reverse(yields)}

  test "a message truncates a long module name between characters" do
    {:ok, compiled} = Wasmtime.load(WasmModule.assemble(imports: [{String.duplicate("é", 10_000), "log"}]))
    assert {:error, %Error{kind: :bad_module, message: message}} = Wasmtime.instantiate(compiled, memory: @memory)

    assert [_all, kept, omitted] =
             Regex.run(~r/\Athe module imports (é+)\.\.\. \((\d+) bytes are left out\)\z/u, message)

    assert byte_size(message) < 4_200
    rest = ".log; a module that runs here imports nothing"
    assert String.to_integer(omitted) == 20_000 - byte_size(kept) + byte_size(rest)
  end

  test "hashing a large module takes many time slices" do
    # Refused at the first byte, so only hashing takes time.
    wasm = :binary.copy(<<1>>, 16 <<< 20)
    loading = spawn(fn -> receive(do: (:go -> {:error, %Error{kind: :bad_module}} = Wasmtime.load(wasm))) end)
    monitor = Process.monitor(loading)
    :erlang.trace(loading, true, [:running])
    send(loading, :go)
    assert_receive {:DOWN, ^monitor, :process, ^loading, :normal}, 60_000
    delivered = :erlang.trace_delivered(loading)
    assert_receive {:trace_delivered, ^loading, ^delivered}, 60_000

    # At 20,000 bytes a time slice there are 838.
    assert scheduled_out(loading, 0) >= 100
  end

  defp scheduled_out(pid, count) do
    receive do
      {:trace, ^pid, :out, _function} -> scheduled_out(pid, count + 1)
      {:trace, ^pid, :in, _function} -> scheduled_out(pid, count)
    after
      0 -> count
    end
  end

  test "a place holds the instance of the latest version" do
    [one, two] = for number <- 1..2, do: single([i32_const(number), drop()])
    place = Wasmtime.place()
    assert Wasmtime.place_get(place, 0) == nil
    assert Wasmtime.place_put(place, 3, one) == :ok
    assert Wasmtime.place_get(place, 2) == nil
    assert Wasmtime.place_get(place, 3) == one
    # An older version is not put there.
    assert Wasmtime.place_put(place, 2, two) == :ok
    assert Wasmtime.place_get(place, 3) == one
    assert Wasmtime.place_put(place, 3, two) == :ok
    assert Wasmtime.place_get(place, 3) == two
    # A later version releases it.
    assert Wasmtime.place_get(place, 4) == nil
    assert Wasmtime.place_get(place, 3) == nil
  end

  describe "load" do
    test "names the fault of bytes that are no module" do
      for bytes <- ["", "nonsense", <<"\0asm", 2::little-32>>, <<"\0asm", 1::little-32, 10, 200>>] do
        assert {:error, %Error{kind: :bad_module, message: message}} = Wasmtime.load(bytes)
        assert message =~ "not a WebAssembly module that can run here: "
      end
    end

    test "refuses a function that does not typecheck" do
      assert {:error, %Error{kind: :bad_module, message: message}} =
               Wasmtime.load(WasmModule.assemble(functions: [function("f", [], [:i32], [])]))

      assert message =~ "type mismatch"
    end

    test "returns imports and exports" do
      wasm =
        WasmModule.assemble(
          imports: [{"env", "log"}],
          functions: [function("f", [:i32, :i64], [:f64], [f64_const(1.0)])],
          memory: {1, 3},
          globals: [{"g", :i32, :mutable, 5}, {"c", :i64, :constant, 5}]
        )

      assert {:ok, compiled} = Wasmtime.load(wasm)
      assert Wasmtime.imports(compiled) == [{"env", "log", {:function, [], []}}]

      assert Wasmtime.exports(compiled) == [
               {"memory", {:memory, 32, 1, 3}},
               {"g", {:global, :i32, :mutable}},
               {"c", {:global, :i64, :constant}},
               {"f", {:function, [:i32, :i64], [:f64]}}
             ]
    end
  end

  describe "instantiate/2" do
    test "refuses a module with imports and names them" do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(imports: [{"env", "log"}]))
      assert {:error, %Error{kind: :bad_module, message: message}} = Wasmtime.instantiate(compiled, memory: @memory)
      assert message =~ "env.log"
    end

    test "refuses memories and tables beyond the limit" do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(memory: {2, nil}))
      assert {:error, %Error{kind: :out_of_memory}} = Wasmtime.instantiate(compiled, memory: 131_071)
      assert {:ok, instance} = Wasmtime.instantiate(compiled, memory: 131_072)
      assert %{memory: 131_072, limit: 131_072, state: :free, waiting: 0} = Wasmtime.info(instance)

      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(table: 1_000))
      assert {:error, %Error{kind: :out_of_memory}} = Wasmtime.instantiate(compiled, memory: 7_999)
      assert {:ok, _instance} = Wasmtime.instantiate(compiled, memory: 8_000)
    end

    test "ends an endless start function" do
      {:ok, compiled} =
        Wasmtime.load(WasmModule.assemble(functions: [function(nil, [], [], loop(branch(0)))], start: 0))

      assert {:error, %Error{kind: :out_of_fuel}} = Wasmtime.instantiate(compiled, memory: @memory)
    end

    test "reports a start function that traps" do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(functions: [function(nil, [], [], unreachable())], start: 0))
      assert {:error, %Error{kind: :trap}} = Wasmtime.instantiate(compiled, memory: @memory)
    end

    test "checks the inbox and the outbox" do
      functions = [
        function("takes_nothing", [], [:i32], i32_const(0)),
        function("far", [], [:i32], i32_const(65_529)),
        function("takes_one", [:i32], [:i32], i32_const(0)),
        function("at_the_end", [], [:i32], i32_const(65_533)),
        function("odd", [], [:i32], i32_const(6)),
        function("negative", [], [:i32], i32_const(-4)),
        function("spins", [], [:i32], [loop(branch(0)), i32_const(0)])
      ]

      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(functions: functions, memory: {1, nil}))

      for {options, message} <- [
            {[inbox: "absent"], "exports no function absent"},
            {[inbox: "takes_nothing"], "takes_nothing has the type () -> (i32), and must have (i32) -> (i32)"},
            {[outbox: "far"], "the outbox is 8 bytes at 65529, outside of the memory of 65536 bytes"},
            {[stop: "takes_one"], "takes_one has the type (i32) -> (i32), and must have () -> (i32)"},
            {[stop: "at_the_end"], "the stop word is at 65533, which is no aligned word of the memory of 65536 bytes"},
            {[stop: "odd"], "the stop word is at 6, which is no aligned word"},
            {[stop: "negative"], "the stop word is at 4294967292, which is no aligned word"}
          ] do
        assert {:error, %Error{kind: :bad_module} = error} =
                 Wasmtime.instantiate(compiled, [memory: @memory] ++ options)

        assert error.message =~ message
      end

      assert {:error, %Error{kind: :out_of_fuel}} = Wasmtime.instantiate(compiled, memory: @memory, outbox: "spins")
    end

    test "raises on unknown and missing options" do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble([]))
      assert_raise ArgumentError, fn -> Wasmtime.instantiate(compiled, memory: 1, limit: 2) end
      assert_raise KeyError, fn -> Wasmtime.instantiate(compiled, []) end
    end
  end

  describe "call/3" do
    test "passes signed and unsigned integers" do
      instance =
        instance(
          functions: [
            function("i32", [:i32], [:i32], local_get(0)),
            function("i64", [:i64], [:i64], local_get(0)),
            function("none", [], [], [])
          ]
        )

      assert {:done, -1, nil, _fuel} = call(instance, "i32", [-1])
      assert {:done, -1, nil, _fuel} = call(instance, "i32", [0xFFFF_FFFF])
      assert {:done, -1, nil, _fuel} = call(instance, "i64", [0xFFFF_FFFF_FFFF_FFFF])
      assert {:done, 5, nil, _fuel} = call(instance, "i64", [5])
      assert {:done, 0, nil, _fuel} = call(instance, "none")

      for {export, argument} <- [
            {"i32", 0x1_0000_0000},
            {"i32", -0x8000_0001},
            {"i64", 0x1_0000_0000_0000_0000},
            {"i32", 1.0},
            {"i64", :one}
          ] do
        assert {:error, %Error{kind: :type, message: message}} = call(instance, export, [argument])
        assert message =~ "#{export} takes an #{export} as argument 1"
      end
    end

    test "does not print large arguments" do
      instance = instance(functions: [function("i32", [:i32], [:i32], local_get(0))])

      for {argument, printed} <- [
            {7 <<< 60, "8070450532247928832"},
            {-1 <<< 4_000_000, "an integer of more than 64 bits"},
            {Enum.to_list(1..1_000_000), "a list"},
            {%{a: 1}, "a map"},
            {"text", "a binary"},
            {:one, "one"},
            {0.5, "0.5"},
            {self(), "a term of another type"}
          ] do
        assert {:error, %Error{kind: :type, message: message}} = call(instance, "i32", [argument])
        assert String.starts_with?(message, "the function i32 takes an i32 as argument 1, and got #{printed}")
        assert byte_size(message) < 200
      end
    end

    test "refuses a wrong number of arguments, and a term that is no list" do
      instance = single([])
      assert {:error, %Error{kind: :type, message: message}} = call(instance, "run", [1])
      assert message == "the function run takes 0 arguments, and got 1"
      assert {:error, %Error{kind: :type}} = call(instance, "run", :none)
      assert {:error, %Error{kind: :type}} = call(instance, "run", [1 | 2])
      assert {:done, 0, nil, _fuel} = call(instance, "run")
    end

    test "refuses missing exports, other kinds, and types that cannot be passed" do
      instance = instance(functions: [function("vector", [:v128], [], [])], memory: {1, nil})

      for {export, message} <- [
            {"absent", "exports no function absent"},
            {"memory", "exports no function memory"},
            {<<255>>, "exports no function"},
            {"vector", "v128"}
          ] do
        assert {:error, %Error{kind: :bad_module} = error} = call(instance, export)
        assert error.message =~ message
      end
    end

    test "writes input and reads output" do
      instance = echo()
      assert {:done, 0, "hello", _fuel} = call(instance, "echo", [5], input: "hello", output: :binary)
      assert {:done, 0, "", _fuel} = call(instance, "echo", [0], input: "", output: :binary)
      assert {:done, 0, nil, _fuel} = call(instance, "echo", [5], input: "hello", output: :none)

      ids = [0, 1, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF]
      packed = for id <- ids, into: "", do: <<id::little-64>>
      assert {:done, 0, ^ids, _fuel} = call(instance, "echo", [32], input: packed, output: :u64s)
      assert {:done, 1, ^packed, _fuel} = call(instance, "refuse", [32], input: packed, output: :u64s)
      assert {:done, 0, [], _fuel} = call(instance, "echo", [0], output: :u64s)
    end

    test "builds lists of integers of any size" do
      instance = echo()
      ids = for bits <- 1..63, near <- -2..2, do: (1 <<< bits) + near
      # Some terms are computed, others created by the VM; references kept beside the list must survive a garbage
      # collection.
      for order <- [ids, Enum.reverse(ids), Enum.shuffle(ids)] do
        packed = for id <- order, into: "", do: <<id::little-64>>
        assert {:done, 0, answer, _fuel} = call(instance, "echo", [byte_size(packed)], input: packed, output: :u64s)
        :erlang.garbage_collect()
        assert answer === order
        assert Enum.map(answer, &Integer.to_string/1) == Enum.map(order, &Integer.to_string/1)
        assert :erlang.binary_to_term(:erlang.term_to_binary(answer)) === order
      end
    end

    test "builds long lists in charged parts" do
      instance = echo(pages: 16)
      part = 8_192

      for count <- [part - 1, part, part + 1, 3 * part, 3 * part + 1], integer <- [&(&1 * 3), &((1 <<< 62) - 7 * &1)] do
        integers = Enum.map(1..count, integer)
        packed = for integer <- integers, into: "", do: <<integer::little-64>>
        arguments = [byte_size(packed)]
        assert {:done, 0, answer, _fuel} = call(instance, "echo", arguments, input: packed, output: :u64s)
        :erlang.garbage_collect()
        assert answer === integers
        dirty = [input: packed, output: :u64s, scheduler: :dirty]
        assert {:done, 0, ^integers, _fuel} = call(instance, "echo", arguments, dirty)
        assert {:done, 1, ^packed, _fuel} = call(instance, "refuse", arguments, input: packed, output: :u64s)

        lists = [[1, 2], integers, [], integers, [3]]
        packed = for list <- lists, into: "", do: for(word <- [length(list) | list], into: "", do: <<word::little-64>>)
        arguments = [byte_size(packed)]
        assert {:done, 0, ^lists, _fuel} = call(instance, "echo", arguments, input: packed, output: :u64_lists)
        assert {:done, 0, binaries, _fuel} = call(instance, "echo", arguments, input: packed, output: :u64_binaries)
        assert Enum.map(binaries, &for(<<word::little-64 <- &1>>, do: word)) == lists
      end

      reductions = fn count ->
        request = [input: String.duplicate(<<7::little-64>>, count), output: :u64s]
        {:reductions, before} = Process.info(self(), :reductions)
        assert {:done, 0, answer, _fuel} = call(instance, "echo", [8 * count], request)
        {:reductions, later} = Process.info(self(), :reductions)
        assert length(answer) == count
        later - before
      end

      # The rest of the first time slice and two full ones end at three parts, where other processes run.
      assert reductions.(4 * part) > 2 * 4_000
    end

    test "returns the same on a dirty scheduler" do
      instance = echo()

      assert {:done, 0, "hello", fuel} =
               call(instance, "echo", [5], input: "hello", output: :binary, scheduler: :dirty, slice: 1)

      assert {:done, 0, "hello", ^fuel} = call(instance, "echo", [5], input: "hello", output: :binary)
    end

    test "checks the outbox's address" do
      instance = echo()

      for {address, length} <- [{65_536, 1}, {0, 65_537}, {0xFFFF_FFFF, 0xFFFF_FFFF}, {65_530, 8}] do
        assert {:error, %Error{kind: :bad_module, message: message}} =
                 call(instance, "point", [address, length], output: :binary)

        assert message == "the outbox is #{length} bytes at #{address}, outside of the memory of 65536 bytes"
      end

      assert {:error, %Error{kind: :bad_module, message: message}} = call(instance, "point", [0, 7], output: :u64s)
      assert message =~ "7 bytes"
      assert {:done, 0, <<_::binary-size(65_536)>>, _fuel} = call(instance, "point", [0, 65_536], output: :binary)
    end

    test "checks the inbox's address" do
      instance = echo()
      assert {:done, 0, _output, _fuel} = call(instance, "echo", [0], input: :binary.copy("x", 65_536 - 1024))

      assert {:error, %Error{kind: :bad_module, message: message}} =
               call(instance, "echo", [0], input: :binary.copy("x", 65_537 - 1024))

      assert message == "the inbox is 64513 bytes at 1024, outside of the memory of 65536 bytes"
    end

    test "reports an inbox without room, one that traps, and an endless one" do
      for {body, kind} <- [
            {i32_const(0), :out_of_memory},
            {unreachable(), :trap},
            {[loop(branch(0)), i32_const(0)], :out_of_fuel}
          ] do
        functions = [function("inbox", [:i32], [:i32], body), function("run", [], [], [])]
        instance = instance([functions: functions, memory: {1, nil}], inbox: "inbox")
        assert {:error, %Error{kind: ^kind}} = call(instance, "run", [], input: "x")
        assert {:done, 0, nil, _fuel} = call(instance, "run")
      end
    end

    test "refuses input and output without an inbox and an outbox" do
      instance = single([])
      assert {:error, %Error{kind: :bad_module, message: message}} = call(instance, "run", [], input: "x")
      assert message =~ "no inbox"
      assert {:error, %Error{kind: :bad_module, message: message}} = call(instance, "run", [], output: :binary)
      assert message =~ "no outbox"
    end

    test "raises on an invalid request" do
      instance = single([])
      assert_raise ArgumentError, fn -> call(instance, "run", [], slice: 0) end
      assert_raise ArgumentError, fn -> call(instance, "run", [], fuel: -1) end
      assert_raise ArgumentError, fn -> call(instance, "run", [], output: :list) end
      assert_raise ArgumentError, fn -> call(instance, :run) end
      assert {:done, 0, nil, _fuel} = call(instance, "run", [], fuel: 1 <<< 70, slice: 1 <<< 70)
    end

    test "returns a status only for functions with one" do
      instance = instance(functions: [function("two", [], [:i32, :i32], [i32_const(1), i32_const(2)])])
      assert {:error, %Error{kind: :bad_module, message: message}} = call(instance, "two")
      assert message =~ "[1, 2]"
    end
  end

  describe "invoke/3" do
    test "returns results of every kind" do
      functions = [
        function("all", [:i32, :i64, :f32, :f64], [:f64, :f32, :i64, :i32], for(i <- 3..0//-1, do: local_get(i))),
        function("divide", [:f64, :f64], [:f64], [local_get(0), local_get(1), f64_div()]),
        function("none", [], [], [])
      ]

      instance = instance(functions: functions)
      assert {:done, [-4.5, 1.5, -2, 1], nil, _fuel} = Wasmtime.invoke(instance, "all", [1, -2, 1.5, -4.5], @request)
      assert {:done, [4.0, 3.0, 2, 1], nil, _fuel} = Wasmtime.invoke(instance, "all", [1, 2, 3, 4], @request)
      assert {:done, [:infinity], nil, _fuel} = Wasmtime.invoke(instance, "divide", [1, 0], @request)
      assert {:done, [:negative_infinity], nil, _fuel} = Wasmtime.invoke(instance, "divide", [-1, 0], @request)
      assert {:done, [:nan], nil, _fuel} = Wasmtime.invoke(instance, "divide", [0, 0], @request)
      assert {:done, [], nil, _fuel} = Wasmtime.invoke(instance, "none", [], @request)
      assert {:error, %Error{kind: :type}} = Wasmtime.invoke(instance, "divide", [1, "0"], @request)
    end
  end

  describe "fuel" do
    setup do
      counting = [function("count", [:i32], [:i32], [count_down(0, nop()), i32_const(7)])]
      %{instance: instance(functions: counting)}
    end

    test "is the same for every slice, and the sum of its slices", %{instance: instance} do
      {:done, 7, nil, whole} = call(instance, "count", [50_000])
      assert whole > 100_000

      for slice <- [1_000, 20_000, 1_000_000, :infinity] do
        {outcome, yields} = finish(call(instance, "count", [50_000], slice: slice), [])
        assert outcome == {:done, 7, nil, whole}
        assert yields == Enum.map(1..length(yields)//1, &(&1 * slice))
        if is_integer(slice), do: assert(whole - length(yields) * slice <= slice + 16 * length(yields))
      end
    end

    test "is the same with the smallest slice", %{instance: instance} do
      {:done, 7, nil, whole} = call(instance, "count", [100])
      assert {{:done, 7, nil, ^whole}, [_ | _]} = finish(call(instance, "count", [100], slice: 1), [])
    end

    test "suffices to the unit", %{instance: instance} do
      {:done, 7, nil, whole} = call(instance, "count", [1_000])

      for slice <- [:infinity, 100, 1] do
        assert {{:done, 7, nil, ^whole}, _yields} =
                 finish(call(instance, "count", [1_000], fuel: whole, slice: slice), [])

        budget = whole - 20
        assert {{:error, error}, _yields} = finish(call(instance, "count", [1_000], fuel: budget, slice: slice), [])
        assert error.kind == :out_of_fuel
      end
    end

    test "counts bulk instructions by the byte" do
      fill = [i32_const(0), i32_const(1), local_get(0), memory_fill(), i32_const(0)]
      instance = instance(functions: [function("fill", [:i32], [:i32], fill)], memory: {1, nil})
      {:done, 0, nil, one} = call(instance, "fill", [1])
      assert {:done, 0, nil, whole} = call(instance, "fill", [60_001])
      assert whole == one + 60_000
      assert {{:done, 0, nil, ^whole}, [_ | _]} = finish(call(instance, "fill", [60_001], slice: 1_000), [])
    end

    test "does not include the inbox" do
      functions = [
        function("inbox", [:i32], [:i32], [count_down(1, nop()), i32_const(1024)], [:i32]),
        function("run", [], [:i32], i32_const(0))
      ]

      long = [i32_const(999_999), local_set(1), count_down(1, nop()), i32_const(1024)]
      busy_inbox = [function("inbox", [:i32], [:i32], long, [:i32])]
      quick = instance([functions: functions, memory: {1, nil}], inbox: "inbox")
      slow = instance([functions: busy_inbox ++ tl(functions), memory: {1, nil}], inbox: "inbox")
      {:done, 0, nil, fuel} = call(quick, "run", [], input: "x")
      assert {{:done, 0, nil, ^fuel}, yields} = finish(call(slow, "run", [], input: "x", slice: 1_000), [])
      assert [0, 0 | _] = yields
      assert {:done, 0, nil, ^fuel} = call(slow, "run", [], input: "x")
    end
  end

  describe "the stop word" do
    # `wait` returns the stop word once it is not 0.
    setup do
      functions = [
        function("stop", [], [:i32], i32_const(64)),
        function("wait", [], [:i32], [
          loop([i32_const(64), i32_load(), i32_eqz(), branch_if(0)]),
          i32_const(64),
          i32_load(),
          i32_const(64),
          i32_const(0),
          i32_store()
        ])
      ]

      {:ok, instance: instance([functions: functions, memory: {1, nil}], stop: "stop")}
    end

    test "is 1 after a timeout and 2 after the budget, on dirty schedulers", %{instance: instance} do
      assert {:done, 1, nil, _fuel} = call(instance, "wait", [], timeout: 0, scheduler: :dirty)
      assert {:done, 2, nil, _fuel} = call(instance, "wait", [], fuel: 1, scheduler: :dirty)
    end

    test "is set when a killed process's change runs for long", %{instance: instance} do
      {pid, monitor} = spawn_monitor(fn -> call(instance, "wait", [], scheduler: :dirty) end)
      eventually(fn -> Wasmtime.info(instance).state == :running end)
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, 60_000
      eventually(fn -> Wasmtime.info(instance).state == :free end)
      # The module cleared the word, as it does on return.
      assert {:ok, <<0::32>>} = Wasmtime.read(instance, 64, 4)
    end

    test "stays 0 for a call that changes nothing", %{instance: instance} do
      assert {:yield, suspended, _fuel} = call(instance, "wait", [], slice: 1_000)
      assert {:yield, suspended, _fuel} = BeTree.Runtime.Native.resume(suspended, 1)
      Wasmtime.cancel(suspended)
      assert {:ok, <<0::32>>} = Wasmtime.read(instance, 64, 4)
    end

    test "may be missing; then an endless change is cut off" do
      spin = function("spin", [], [], loop(branch(0)))
      instance = instance([functions: [spin], memory: {1, nil}], stop: "stop")
      assert {:error, %Error{kind: :timeout}} = call(instance, "spin", [], timeout: 0, scheduler: :dirty)
      assert {:error, %Error{kind: :out_of_fuel}} = call(instance, "spin", [], fuel: 1, scheduler: :dirty)
    end
  end

  describe "a fault of a module" do
    test "is reported, and the instance stays usable" do
      functions = [
        function("unreachable", [], [], unreachable()),
        function("divide", [], [:i32], [i32_const(1), i32_const(0), i32_div_u()]),
        function("load", [], [:i32], [i32_const(-4), i32_load()]),
        function("recurse", [], [], call(3)),
        function("spin", [], [], loop(branch(0))),
        function("fine", [], [:i32], i32_const(3))
      ]

      instance = instance(functions: functions, memory: {1, nil})

      for scheduler <- [:normal, :dirty],
          {export, kind, message} <- [
            {"unreachable", :trap, "unreachable"},
            {"divide", :trap, "divide by zero"},
            {"load", :trap, "out of bounds memory access"},
            {"recurse", :trap, "call stack exhausted"},
            {"spin", :out_of_fuel, "larger budget"}
          ] do
        assert {:error, error} = call(instance, export, [], fuel: 100_000_000, scheduler: scheduler)
        assert {error.kind, error.message =~ message} == {kind, true}
        assert {:done, 3, nil, _fuel} = call(instance, "fine")
      end
    end

    test "reports faults of memory as such" do
      grown = [i32_const(1), memory_grow(), i32_const(-1), i32_ne()]

      functions = [
        function("grow", [], [], loop([block([grown, branch_if(0), unreachable()]), branch(0)])),
        function("unreachable", [], [], unreachable())
      ]

      instance = instance([functions: functions, memory: {1, nil}], memory: 10 * 65_536)
      assert {:error, %Error{kind: :out_of_memory}} = call(instance, "grow")
      assert %{memory: 655_360, state: :free} = Wasmtime.info(instance)
      # Memory is not the cause of a later trap.
      assert {:error, %Error{kind: :trap}} = call(instance, "unreachable")
    end

    test "restores the stack pointer after a trap and a cancelled call" do
      functions = [
        function("trap", [], [], [i32_const(5), global_set(0), unreachable()]),
        function("spin", [], [], [i32_const(6), global_set(0), loop(branch(0))]),
        function("get", [], [:i32], global_get(0))
      ]

      instance = instance(functions: functions, globals: [{"__stack_pointer", :i32, :mutable, 1_000}])
      assert {:error, %Error{kind: :trap}} = call(instance, "trap")
      assert {:done, 1_000, nil, _fuel} = call(instance, "get")
      {:yield, suspended, 1_000} = call(instance, "spin", [], slice: 1_000)
      :ok = Wasmtime.cancel(suspended)
      Task.async(fn -> assert {:done, 1_000, nil, _fuel} = call(instance, "get") end) |> Task.await()
    end
  end

  describe "a suspended call" do
    setup do
      functions = [
        function("spin", [], [], @count_for_ever),
        function("peek", [], [:i64], [i32_const(0), i64_load()]),
        function("count", [:i32], [:i32], [count_down(0, nop()), i32_const(7)])
      ]

      %{instance: instance(functions: functions, memory: {1, nil})}
    end

    test "leaves the inbox open when it is cancelled there" do
      functions = [
        function("inbox", [:i32], [:i32], [count_down(1, nop()), mark(), i32_const(1024)], [:i32]),
        function("run", [], [:i32], i32_const(0))
      ]

      long = [i32_const(999_999), local_set(1) | hd(functions).body]
      functions = [%{hd(functions) | body: long} | tl(functions)]
      instance = instance([functions: functions, memory: {1, nil}], inbox: "inbox")
      {:yield, suspended, 0} = call(instance, "run", [], input: "x", slice: 1_000)
      :ok = Wasmtime.cancel(suspended)
      assert Task.await(Task.async(fn -> Wasmtime.read(instance, 8, 1) end), :infinity) == {:ok, <<1>>}
    end

    defp mark, do: [i32_const(8), i32_const(1), i32_store()]

    test "resumes in another process, on any scheduler", %{instance: instance} do
      outcome = call(instance, "count", [50_000], slice: 10_000)

      {:done, 7, nil, _fuel} =
        Enum.reduce_while(Stream.cycle([1]), outcome, fn _, {:yield, suspended, _fuel} ->
          case Task.await(Task.async(fn -> Wasmtime.resume(suspended) end), :infinity) do
            {:yield, _, _} = outcome -> {:cont, outcome}
            outcome -> {:halt, outcome}
          end
        end)
    end

    test "can be cancelled twice", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 10_000)
      assert %{state: :suspended} = Wasmtime.info(instance)
      assert :ok = Wasmtime.cancel(suspended)
      assert :ok = Wasmtime.cancel(suspended)
      assert {:error, %Error{kind: :not_found}} = Wasmtime.resume(suspended)
      eventually(fn -> Wasmtime.info(instance).state == :free end)
      assert {:done, counted, nil, _fuel} = call(instance, "peek")
      assert counted > 100
    end

    test "ends once", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "count", [2_000], slice: 10_000)
      {:done, 7, nil, _fuel} = Wasmtime.resume(suspended)
      assert {:error, %Error{kind: :not_found}} = Wasmtime.resume(suspended)
      assert :ok = Wasmtime.cancel(suspended)
      assert {:done, 7, nil, _fuel} = call(instance, "count", [1])
    end

    test "does not make its own process wait", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 10_000)
      assert {:error, %Error{kind: :overloaded}} = call(instance, "peek")
      assert {:error, %Error{kind: :overloaded}} = call(instance, "peek", [], scheduler: :dirty)
      Wasmtime.cancel(suspended)
    end

    test "is resumed by one process at a time and can be cancelled by another", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 1_000)
      resumer = Task.async(fn -> finish(Wasmtime.resume(suspended), []) end)
      Process.sleep(5)
      Wasmtime.cancel(suspended)
      assert {{:error, %Error{kind: :not_found}}, _yields} = Task.await(resumer, 60_000)
      eventually(fn -> Wasmtime.info(instance).state == :free end)
    end

    test "is cancelled when its process ends, and the memory survives", %{instance: instance} do
      parent = self()

      holder =
        spawn(fn ->
          {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 100_000)
          send(parent, :suspended)
          Process.sleep(:infinity)
          Wasmtime.cancel(suspended)
        end)

      assert_receive :suspended
      Process.exit(holder, :kill)
      assert {:done, counted, nil, _fuel} = call(instance, "peek")
      assert counted > 1_000
      assert {:done, ^counted, nil, _fuel} = call(instance, "peek")
    end
  end

  describe "a suspended call that must not be cut off" do
    setup do
      change = [count_down(0, nop()), i32_const(0), i64_const(77), i64_store(), i32_const(7)]
      functions = [function("change", [:i32], [:i32], change), function("peek", [], [:i64], [i32_const(0), i64_load()])]
      %{instance: instance(functions: functions, memory: {1, nil})}
    end

    test "runs in slices of the same fuel", %{instance: instance} do
      {:done, 7, nil, whole} = call(instance, "change", [50_000])

      assert {{:done, 7, nil, ^whole}, yields} =
               finish(call(instance, "change", [50_000], slice: 10_000, scheduler: :whole), [])

      assert yields == Enum.map(1..length(yields)//1, &(&1 * 10_000))
    end

    test "completes when its process is killed", %{instance: instance} do
      parent = self()

      holder =
        spawn(fn ->
          {:yield, suspended, _fuel} = call(instance, "change", [1_000_000], slice: 1_000, scheduler: :whole)
          send(parent, :suspended)
          Process.sleep(:infinity)
          Wasmtime.cancel(suspended)
        end)

      assert_receive :suspended, 30_000
      Process.exit(holder, :kill)
      assert {:done, 77, nil, _fuel} = call(instance, "peek")
    end
  end

  describe "memory" do
    test "is read and written within its bounds" do
      instance = instance(memory: {1, nil}, data: [{8, "abc"}])
      assert {:ok, "abc"} = Wasmtime.read(instance, 8, 3)
      assert :ok = Wasmtime.write(instance, 65_533, "xyz")
      assert {:ok, "xyz"} = Wasmtime.read(instance, 65_533, 3)
      assert {:ok, ""} = Wasmtime.read(instance, 65_536, 0)

      for {address, length} <- [{65_534, 3}, {1 <<< 63, 1}, {65_537, 0}] do
        assert {:error, %Error{kind: :bad_module, message: message}} = Wasmtime.read(instance, address, length)
        assert message =~ "outside of the memory of 65536 bytes"
      end

      assert {:error, %Error{kind: :bad_module}} = Wasmtime.write(instance, 65_534, "xyz")
      assert {:ok, <<0, "xy">>} = Wasmtime.read(instance, 65_532, 3)
    end
  end

  describe "a snapshot" do
    # `count` adds to a counter in memory and one in a global, and returns the sum. `fill` fills a page. `grow` grows by
    # pages.
    defp counters(globals) do
      functions = [
        function("count", [], [:i64], [
          [i32_const(0), i32_const(0), i64_load(), i64_const(1), i64_add(), i64_store()],
          [global_get(1), i64_const(1_000), i64_add(), global_set(1)],
          [i32_const(0), i64_load(), global_get(1), i64_add()]
        ]),
        function("grow", [:i32], [:i32], [local_get(0), memory_grow()]),
        function("trap", [], [], [i32_const(0), i64_const(77), i64_store(), unreachable()]),
        function("outbox", [], [:i32], i32_const(16)),
        function("spin", [], [], loop(branch(0)))
      ]

      [functions: functions, memory: {2, 100}, globals: globals, data: [{65_536, "data"}]]
    end

    @counters [{"__stack_pointer", :i32, :mutable, 9}, {"counter", :i64, :mutable, 0}]

    defp replicas(compiled, snapshot, options \\ []) do
      options = Keyword.merge([memory: @memory, replicas: 2, queue: 10], options)
      {:ok, instance} = Wasmtime.replicate(compiled, snapshot, options)
      instance
    end

    setup do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(counters(@counters)))
      {:ok, instance} = Wasmtime.instantiate(compiled, memory: @memory)
      %{compiled: compiled, instance: instance}
    end

    defp count(instance, arguments \\ []) do
      {:done, [count], nil, _fuel} = Wasmtime.invoke(instance, "count", arguments, @request)
      count
    end

    test "contains memory and globals", %{compiled: compiled, instance: instance} do
      for _ <- 1..3, do: count(instance)
      assert {:done, 2, nil, _fuel} = call(instance, "grow", [3])
      :ok = Wasmtime.write(instance, 5 * 65_536 - 3, "end")
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      assert count(instance) == 4_004
      assert Wasmtime.snapshot_length(snapshot) == 5 * 65_536

      replicas = replicas(compiled, snapshot)
      assert %{memory: 327_680, machines: 0, state: :free} = Wasmtime.info(replicas)
      assert count(replicas) == 4_004
      assert {:ok, "end"} = Wasmtime.read(replicas, 5 * 65_536 - 3, 3)
      assert {:ok, "data"} = Wasmtime.read(replicas, 65_536, 4)
      assert {:ok, <<0::size(8000)>>} = Wasmtime.read(replicas, 200_000, 1_000)
      assert {:done, 5, nil, _fuel} = call(replicas, "grow", [1])
      assert %{memory: 393_216, machines: 1} = Wasmtime.info(replicas)
      # A snapshot of a replica, like that of any instance.
      {:ok, second} = Wasmtime.snapshot(replicas)
      assert count(replicas) == 5_005
      assert compiled |> replicas(second) |> count() == 5_005
      assert count(instance) == 5_005
    end

    test "is the initial state of replicas, which are isolated", %{compiled: compiled, instance: instance} do
      count(instance)
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      replicas = replicas(compiled, snapshot)
      {:yield, suspended, _fuel} = call(replicas, "spin", [], slice: 1_000)
      for number <- 2..10, do: assert(count(replicas) == number * 1_001)
      :ok = Wasmtime.cancel(suspended)
      eventually(fn -> Wasmtime.info(replicas).machines == 2 and Wasmtime.info(replicas).state == :free end)
      assert {:error, %Error{kind: :trap}} = call(replicas, "trap")
      assert %{machines: 1} = Wasmtime.info(replicas)
      {:yield, other, _fuel} = call(replicas, "spin", [], slice: 1_000)
      assert count(replicas) in [2_002, 11_011]
      :ok = Wasmtime.cancel(other)
      assert compiled |> replicas(snapshot) |> count() == 2_002
    end

    test "can be read, and made of bytes", %{compiled: compiled, instance: instance} do
      for _ <- 1..3, do: count(instance)
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      {:ok, memory} = Wasmtime.snapshot_read(snapshot, 0, 131_072)
      assert <<3::little-64, _::binary-size(65_528), "data", _::binary>> = memory
      assert {:ok, "data"} = Wasmtime.snapshot_read(snapshot, 65_536, 4)
      assert {:ok, ""} = Wasmtime.snapshot_read(snapshot, 131_072, 0)
      assert {:error, %Error{kind: :bad_module}} = Wasmtime.snapshot_read(snapshot, 131_071, 2)
      assert {:error, %Error{kind: :bad_module}} = Wasmtime.snapshot_read(snapshot, 1 <<< 63, 1 <<< 63)

      # Bytes have no globals, so these start with the module's values.
      {:ok, snapshot} = Wasmtime.snapshot_of(131_072, [{0, memory}])
      assert compiled |> replicas(snapshot) |> count() == 1_004
      # All but parts of it is zero.
      {:ok, snapshot} = Wasmtime.snapshot_of(131_072, [{0, <<9::little-64>>}, {70_000, "part"}, {131_069, "end"}])
      assert compiled |> replicas(snapshot) |> count() == 1_010
      {:ok, memory} = Wasmtime.snapshot_read(snapshot, 0, 131_072)
      assert memory == <<9::little-64, 0::size(69_992)-unit(8), "part", 0::size(61_065)-unit(8), "end">>

      for part <- [{131_070, "end"}, {131_073, ""}, {0xFFFF_FFFF_FFFF_FFFF, "end"}] do
        assert {:error, %Error{kind: :bad_module}} = Wasmtime.snapshot_of(131_072, [part])
      end
    end

    test "can be the initial state of an instance", %{compiled: compiled, instance: instance} do
      for _ <- 1..3, do: count(instance)
      call(instance, "grow", [3])
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      {:ok, copy} = Wasmtime.instantiate(compiled, memory: @memory, snapshot: snapshot)
      assert %{memory: 327_680} = Wasmtime.info(copy)
      assert count(copy) == 4_004
      # The instance is no replica, so effects before a trap remain.
      assert {:error, %Error{kind: :trap}} = call(copy, "trap")
      assert count(copy) == 5_078
      assert count(instance) == 4_004

      assert {:error, %Error{kind: :out_of_memory}} =
               Wasmtime.instantiate(compiled, memory: 327_679, snapshot: snapshot)

      {:ok, other} = Wasmtime.load(WasmModule.assemble(memory: {6, nil}))
      assert {:error, %Error{kind: :bad_module}} = Wasmtime.instantiate(other, memory: @memory, snapshot: snapshot)
    end

    test "of another module, or too large, is an error of the call", %{compiled: compiled} do
      for {pages, limit, kind} <- [
            {1, @memory, :bad_module},
            {2.5, @memory, :bad_module},
            {3, 2 * 65_536, :out_of_memory},
            {101, 200 * 65_536, :out_of_memory}
          ] do
        {:ok, snapshot} = Wasmtime.snapshot_of(trunc(pages * 65_536), [{0, <<1>>}])
        replicas = replicas(compiled, snapshot, memory: limit)
        for _ <- 1..3, do: assert({:error, %Error{kind: ^kind}} = call(replicas, "count"))
        assert %{machines: 0, state: :free, waiting: 0} = Wasmtime.info(replicas)
      end

      {:ok, other} = Wasmtime.load(WasmModule.assemble(memory: {1, nil}, globals: [{"other", :i32, :mutable, 0}]))
      {:ok, instance} = Wasmtime.instantiate(other, memory: @memory)
      call(instance, "none")
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(memory: {1, nil}))
      assert {:error, %Error{kind: :bad_module, message: message}} = call(replicas(compiled, snapshot), "count")
      assert message =~ "no mutable global other"
    end

    test "of a module without a memory has only globals" do
      functions = [
        function("next", [], [:i32], [global_get(0), i32_const(1), i32_add(), global_set(0), global_get(0)])
      ]

      wasm = WasmModule.assemble(functions: functions, globals: [{"number", :i32, :mutable, 5}])
      {:ok, compiled} = Wasmtime.load(wasm)
      {:ok, instance} = Wasmtime.instantiate(compiled, memory: @memory)
      assert {:done, 6, nil, _fuel} = call(instance, "next")
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      assert Wasmtime.snapshot_length(snapshot) == 0
      assert {:done, 7, nil, _fuel} = call(replicas(compiled, snapshot), "next")
    end

    test "replaces effects of start functions and data segments, and keeps the outbox" do
      functions = [
        function(nil, [], [], [i32_const(0), i32_const(5), i32_store(), i32_const(1), memory_grow(), drop()]),
        function("load", [], [:i32], [i32_const(0), i32_load()]),
        function("set", [:i32], [], [i32_const(0), local_get(0), i32_store()]),
        # The memory determines the outbox's address.
        function("outbox", [], [:i32], [i32_const(8), i32_load()]),
        function("answer", [], [:i32], [
          [i32_const(100), i32_const(65_536), i32_store(), i32_const(104), i32_const(4), i32_store(), i32_const(0)]
        ])
      ]

      data = [{8, <<100::little-32>>}, {65_536, "late"}]
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(functions: functions, memory: {2, nil}, start: 0, data: data))
      {:ok, instance} = Wasmtime.instantiate(compiled, memory: @memory, outbox: "outbox")
      assert {:done, 5, nil, _fuel} = call(instance, "load")
      {:done, 0, nil, _fuel} = call(instance, "set", [6])
      :ok = Wasmtime.write(instance, 65_536, "4321")
      {:ok, snapshot} = Wasmtime.snapshot(instance)
      replicas = replicas(compiled, snapshot, outbox: "outbox")
      assert {:done, 6, nil, _fuel} = call(replicas, "load")
      assert {:done, 0, "4321", _fuel} = call(replicas, "answer", [], output: :binary)
    end

    test "is refused for a module with state outside its memory and exported globals" do
      {:ok, compiled} = Wasmtime.load(WasmModule.assemble(counters([hd(@counters), {nil, :i64, :mutable, 0}])))
      {:ok, instance} = Wasmtime.instantiate(compiled, memory: @memory)
      assert {:error, %Error{kind: :bad_module, message: message}} = Wasmtime.snapshot(instance)
      assert message =~ "its mutable global number 1 is not exported"
      assert count(instance) == 1_001
      {:ok, snapshot} = Wasmtime.snapshot_of(131_072, [])

      assert {:error, %Error{kind: :bad_module}} =
               Wasmtime.replicate(compiled, snapshot, memory: @memory, replicas: 1, queue: 0)

      assert {:error, %Error{kind: :bad_module}} = Wasmtime.instantiate(compiled, memory: @memory, snapshot: snapshot)
    end

    test "waits for its turn", %{compiled: compiled, instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 1_000)
      assert {:error, %Error{kind: :overloaded}} = Wasmtime.snapshot(instance)
      waiting = Task.async(fn -> Wasmtime.snapshot(instance) end)
      eventually(fn -> Wasmtime.info(instance).waiting == 1 end)
      :ok = Wasmtime.cancel(suspended)
      assert {:ok, snapshot} = Task.await(waiting, 60_000)
      assert compiled |> replicas(snapshot) |> count() == 1_001
    end
  end

  describe "many callers" do
    setup do
      # Returns the number of earlier calls.
      number = [i32_const(0), i32_load(64)]
      next = [i32_const(0), number, i32_const(1), i32_add(), i32_store(64), number, i32_const(1), i32_sub()]

      functions = [
        function("count", [:i32], [:i32], [count_down(0, nop()), i32_const(7)]),
        function("spin", [], [], @count_for_ever),
        function("next", [], [:i32], next)
      ]

      %{instance: instance(functions: functions, memory: {1, nil})}
    end

    test "each get a turn", %{instance: instance} do
      for scheduler <- [:normal, :dirty, :whole] do
        1..300
        |> Enum.map(fn _ ->
          Task.async(fn ->
            {outcome, _yields} = finish(call(instance, "count", [3_000], slice: 5_000, scheduler: scheduler), [])
            outcome
          end)
        end)
        |> Task.await_many(60_000)
        |> Enum.each(&assert({:done, 7, nil, _fuel} = &1))
      end

      assert %{state: :free, waiting: 0} = Wasmtime.info(instance)
    end

    test "wait in order", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 1_000)

      callers =
        for index <- 1..50 do
          caller = Task.async(fn -> call(instance, "next") end)
          eventually(fn -> Wasmtime.info(instance).waiting == index end)
          caller
        end

      Wasmtime.cancel(suspended)
      # The module itself counts the calls before each.
      assert for({:done, before, nil, _fuel} <- Task.await_many(callers, 60_000), do: before) == Enum.to_list(0..49)
    end

    test "get their turn after a caller is killed in a dirty call", %{instance: instance} do
      {:yield, suspended, _fuel} = call(instance, "spin", [], slice: 1_000)
      killed = spawn(fn -> call(instance, "spin", [], fuel: 3_000_000_000, scheduler: :dirty) end)
      eventually(fn -> Wasmtime.info(instance).waiting == 1 end)
      waiting = for _ <- 1..5, do: Task.async(fn -> call(instance, "count", [1]) end)
      eventually(fn -> Wasmtime.info(instance).waiting == 6 end)

      # The kill comes before, during or after the half second of the preceding call. All others get their turn.
      Wasmtime.cancel(suspended)
      eventually(fn -> Wasmtime.info(instance).waiting < 6 end)
      Process.sleep(50)
      Process.exit(killed, :kill)
      for outcome <- Task.await_many(waiting, 30_000), do: assert({:done, 7, nil, _fuel} = outcome)
    end

    test "stay unaffected by callers killed at any time", %{instance: instance} do
      :rand.seed(:exsss, {1, 2, 3})

      for _round <- 1..5 do
        workers =
          for _ <- 1..300 do
            scheduler = Enum.random([:normal, :normal, :dirty])
            pause = Enum.random([0, 0, 0, 1])
            spawn_monitor(fn -> work(instance, scheduler, pause) end)
          end

        {killed, spared} = Enum.split_with(workers, fn _ -> :rand.uniform() < 0.5 end)

        for {pid, _monitor} <- Enum.shuffle(killed) do
          if :rand.uniform() < 0.1, do: Process.sleep(1)
          Process.exit(pid, :kill)
        end

        for {pid, monitor} <- spared, do: assert_receive({:DOWN, ^monitor, :process, ^pid, :normal}, 30_000)
        for {pid, monitor} <- killed, do: assert_receive({:DOWN, ^monitor, :process, ^pid, _reason}, 30_000)
        eventually(fn -> match?(%{state: :free, waiting: 0}, Wasmtime.info(instance)) end)
        assert {:done, 7, nil, _fuel} = call(instance, "count", [1])
      end
    end

    defp work(instance, scheduler, pause) do
      for _ <- 1..3 do
        outcome = call(instance, "count", [1_000], slice: 2_000, scheduler: scheduler)
        if pause > 0, do: Process.sleep(pause)
        {{:done, 7, nil, _fuel}, _yields} = finish(outcome, [])
      end
    end
  end
end
