defmodule BeTree.Runtime.MachineCodeTest do
  # The code of modules in VMs of their own, which have a copy of the library, so that each loads its modules for the first time.
  use ExUnit.Case, async: true

  import BeTree.WasmModule

  alias BeTree.Test.Tmpfs

  @moduletag :tmp_dir
  @moduletag runtime: BeTree.Runtime.Wasmtime

  # Keeps the sources of modules and the warnings of a VM.
  {:module, recorder, code, _} =
    defmodule Recorder do
      def execute([:be_tree, :module, :compile], %{duration: duration, bytes: bytes}, %{source: source})
          when duration > 0 and bytes > 0,
          do: keep(:sources, source)

      def execute(_name, _measurements, _metadata), do: :ok

      def log(%{msg: {:string, text}}, _config), do: keep(:warnings, IO.iodata_to_binary(text))
      def log(_event, _config), do: :ok

      def kept(key), do: Enum.reverse(:persistent_term.get({__MODULE__, key}, []))

      defp keep(key, value),
        do: :persistent_term.put({__MODULE__, key}, [value | :persistent_term.get({__MODULE__, key}, [])])
    end

  @recorder {recorder, code}

  setup %{tmp_dir: folder} do
    library = Path.expand("be_tree", folder)
    File.mkdir_p!(library)
    for part <- ["ebin", "priv"], do: File.cp_r!(Application.app_dir(:be_tree, part), Path.join(library, part))
    {:ok, library: library, code: Path.join(library, "priv/native/code"), cache: Path.expand("cache", folder)}
  end

  # Starts a VM with the library. It has a cache if a folder is given.
  defp start(library, cache \\ nil) do
    others = for path <- :code.get_path(), not String.contains?(List.to_string(path), "/lib/be_tree/ebin"), do: path
    {:ok, peer, _node} = :peer.start(%{wait_boot: 120_000, connection: :standard_io})
    on_exit(fn -> :peer.stop(peer) end)
    call(peer, :code, :add_paths, [[String.to_charlist(Path.join(library, "ebin")) | others]])
    {recorder, code} = @recorder
    {:module, ^recorder} = call(peer, :code, :load_binary, [recorder, ~c"recorder", code])
    call(peer, BeTree.Telemetry, :put_sink, [recorder])
    :ok = call(peer, :logger, :add_handler, [:recorder, recorder, %{level: :warning}])
    if cache, do: :ok = call(peer, Application, :put_env, [:be_tree, :code_cache, cache])
    peer
  end

  defp call(peer, module, function, arguments), do: :peer.call(peer, module, function, arguments, :infinity)

  defp kept(peer, key), do: call(peer, Recorder, :kept, [key])

  # Evaluates Elixir in the VM.
  defp eval(peer, text) do
    {:ok, _started} = call(peer, :application, :ensure_all_started, [:elixir])
    {value, _bindings} = call(peer, Code, :eval_string, [text])
    value
  end

  # Makes the first tree and the first rules of a VM, and uses them.
  defp use_both(peer) do
    assert eval(peer, """
           tree = BeTree.new!(a: :integer)
           :ok = BeTree.insert(tree, 1, "a > 1")
           rules = BeTree.Rules.new!("fact order(id: integer) rule seen when o: order then notify seen(id: o.id)")
           {:ok, page} = BeTree.Rules.assert(rules, {:order, id: 7})
           {:ok, index} = BeTree.publish(tree)
           {BeTree.search!(tree, %{a: 2}), BeTree.search!(index, %{a: 2}), page.firings}
           """) == {[1], [1], 1}
  end

  # Loads a module of its own, and uses it.
  defp use_module(peer, number) do
    wasm = assemble(functions: [function("number", [], [:i32], i32_const(number))])

    assert eval(peer, """
           module = BeTree.Sandbox.load!(Base.decode64!("#{Base.encode64(wasm)}"))
           BeTree.Sandbox.call!(BeTree.Sandbox.new!(module), "number", [])
           """) == [number]
  end

  defp mode(path), do: Bitwise.band(File.stat!(path).mode, 0o777)

  describe "code of the build" do
    test "is loaded by the first tree and the first rules of a VM", %{library: library, code: code, cache: cache} do
      files = File.ls!(code)
      assert files |> Enum.map(&Path.extname/1) |> Enum.sort() == [".code", ".code", ".digest", ".digest"]
      assert Enum.all?(files, &(mode(Path.join(code, &1)) == 0o644))
      # A release may be read-only.
      for folder <- [code, Path.dirname(code)], do: File.chmod!(folder, 0o555)
      peer = start(library, cache)
      use_both(peer)
      assert kept(peer, :sources) == [:built, :built]
      # The cache is not used for them.
      refute File.exists?(cache)
      File.chmod!(code, 0o755)
    end

    test "is not loaded if it is truncated or belongs to another module", %{library: library, code: code} do
      [first, second] = Path.wildcard(Path.join(code, "*.code"))
      bytes = File.read!(first)
      File.cp!(second, first)
      File.write!(second, binary_part(bytes, 0, 1_000_000))
      peer = start(library)
      use_both(peer)
      assert kept(peer, :sources) == [:compiled, :compiled]
      assert kept(peer, :warnings) == []
    end

    test "is not loaded for a changed module, or one of the same size and checksum", %{library: library, code: code} do
      index = Path.join(library, "priv/be_tree.wasm")
      other = assemble(functions: [function("number", [], [:i32], i32_const(3))])
      [digest | _] = Path.wildcard(Path.join(code, "#{File.stat!(index).size}-*.digest"))
      File.cp!(digest, Path.join(code, "#{byte_size(other)}-#{:erlang.crc32(other)}.digest"))
      # An empty custom section.
      File.write!(index, <<0, 2, 1, ?a>>, [:append])
      peer = start(library)
      use_module(peer, 3)
      use_both(peer)
      assert kept(peer, :sources) == [:compiled, :compiled, :built]
    end

    test "is not needed: without it the cache keeps the code", %{library: library, code: code, cache: cache} do
      File.rm_rf!(code)

      for source <- [:compiled, :cache] do
        peer = start(library, cache)
        use_both(peer)
        assert kept(peer, :sources) == [source, source]
      end

      assert length(File.ls!(cache)) == 2
    end
  end

  describe "config :be_tree, :code_cache" do
    test "keeps the code of other modules for the next VM, in a private folder", %{library: library, cache: cache} do
      peer = start(library, cache)
      use_module(peer, 1)
      use_module(peer, 2)
      assert kept(peer, :sources) == [:compiled, :compiled]
      assert [first, _second] = File.ls!(cache)
      assert mode(cache) == 0o700 and mode(Path.join(cache, first)) == 0o600

      peer = start(library, cache)
      use_module(peer, 1)
      use_module(peer, 2)
      assert kept(peer, :sources) == [:cache, :cache]

      # Damaged code is compiled and replaced. The first VMs have mapped the old files, so those are not written to.
      for name <- File.ls!(cache),
          path = Path.join(cache, name),
          :ok <- [File.rm!(path)],
          do: File.write!(path, "no code")

      sources = for _vm <- 1..2, peer = start(library, cache), do: {use_module(peer, 1), kept(peer, :sources)}
      assert sources == [{true, [:compiled]}, {true, [:cache]}]
      assert kept(peer, :warnings) == []
    end

    test "serves two VMs at once", %{library: library, cache: cache} do
      peers = [start(library, cache), start(library, cache)]
      tasks = for peer <- peers, do: Task.async(fn -> for number <- 1..20, do: use_module(peer, number) end)
      Task.await_many(tasks, :infinity)
      assert length(File.ls!(cache)) == 20
      for peer <- peers, do: assert(kept(peer, :warnings) == [])
    end

    test "warns once if the folder cannot be written", %{library: library, cache: cache} do
      File.write!(cache, "a file")
      peer = start(library, Path.join(cache, "below"))
      use_module(peer, 1)
      use_module(peer, 2)
      assert kept(peer, :sources) == [:compiled, :compiled]
      assert [warning] = kept(peer, :warnings)

      assert warning =~
               "#{cache}/below (config :be_tree, :code_cache) cannot keep the code of compiled modules: Not a directory"
    end

    test "warns once if the disk is full", %{library: library, cache: cache} do
      File.mkdir_p!(cache)

      Tmpfs.with_room(cache, "8k", fn _folder ->
        peer = start(library, Path.join(cache, "code"))
        use_module(peer, 1)
        use_module(peer, 2)
        assert kept(peer, :sources) == [:compiled, :compiled]
        assert [warning] = kept(peer, :warnings)
        assert warning =~ "No space left on device"
        assert File.ls!(Path.join(cache, "code")) == []
      end)
    end

    test "refuses a folder to which other users may write", %{library: library, cache: cache} do
      peer = start(library, cache)
      use_module(peer, 1)
      File.chmod!(cache, 0o777)
      peer = start(library, cache)
      use_module(peer, 1)
      assert kept(peer, :sources) == [:compiled]
      assert [warning] = kept(peer, :warnings)
      assert warning =~ "other users may write to the folder (mode 777)"
    end

    test "is a path", %{library: library} do
      peer = start(library, :code)
      assert %ArgumentError{message: message} = catch_error(use_module(peer, 1))
      assert message == "config :be_tree, :code_cache is the path of a folder, a string, got: :code"
    end
  end
end
