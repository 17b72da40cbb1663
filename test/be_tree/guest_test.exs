defmodule BeTree.GuestTest do
  use ExUnit.Case, async: true

  import BeTree.WasmModule, only: [i32_const: 1, i32_store: 0, i32_store: 1, nop: 0]

  alias BeTree.{Error, Guest}
  alias BeTree.Call.Instance
  alias BeTree.Test.WasmGuest

  doctest Guest

  setup_all do
    {:ok, wasm: :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!()}
  end

  test "load/1 of the built-in module makes trees", %{wasm: wasm} do
    {:ok, guest} = Guest.load(wasm)
    assert inspect(guest) == "#BeTree.Guest<BeTree.Runtime.Wasmtime>"
    tree = BeTree.new!([a: :integer], guest: guest)
    BeTree.insert!(tree, 1, "a = 1")
    assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
    assert {:ok, _tree} = BeTree.new([a: :integer], guest: wasm)
  end

  test "a handle holds no large binary and keeps its module's bytes", %{wasm: wasm} do
    # Part of a larger binary, which must not be kept alive.
    <<_first, part::binary>> = <<0, wasm::binary>>
    {:ok, guest} = Guest.load(part)
    assert Instance.wasm(guest) == wasm
    assert Instance.wasm(guest) == wasm

    tree = BeTree.new!([a: :integer], guest: guest)
    BeTree.insert!(tree, 1, "a = 1")
    handles = [BeTree.new!(a: :integer), tree, BeTree.publish!(tree)]
    test = self()

    spawn_link(fn ->
      {:binary, binaries} = Process.info(self(), :binary)
      send(test, {:sizes, for({_id, size, _count} <- binaries, do: size), length(handles)})
      for tree <- handles, do: BeTree.search!(tree, %{a: 1})
    end)

    assert_receive {:sizes, sizes, 3}
    assert Enum.sum(sizes) < 1_000
  end

  # Those of the module of rules have a section of their own.
  @shared ~w(memory __stack_pointer be_tree_abi be_tree_inbox be_tree_outbox be_tree_resume be_tree_forget)

  test "the built-in modules export what docs/contributing/abi.md lists, and import nothing", %{wasm: wasm} do
    [before, rules] = "docs/contributing/abi.md" |> File.read!() |> String.split("\n## Rules\n")
    [rules, behind] = String.split(rules, "\n## ", parts: 2)
    check_exports(wasm, documented(before <> behind), 44)

    check_exports(
      File.read!(Application.app_dir(:be_tree, "priv/be_tree_rules.wasm")),
      @shared ++ documented(rules),
      22
    )
  end

  defp documented(page) do
    for [_, name] <- Regex.scan(~r/^\| `(\w+)` \|/m, page),
        name in ["memory", "__stack_pointer"] or String.starts_with?(name, "be_tree_"),
        do: name
  end

  defp check_exports(wasm, documented, count) do
    {:ok, compiled} = BeTree.Runtime.Wasmtime.load(wasm)
    assert BeTree.Runtime.Wasmtime.imports(compiled) == []
    exported = for {name, _type} <- BeTree.Runtime.Wasmtime.exports(compiled), do: name
    assert length(documented) == count
    # A linker may export addresses such as the start of the heap, but no other function.
    assert documented -- exported == []
    functions = for {name, {:function, _, _}} <- BeTree.Runtime.Wasmtime.exports(compiled), do: name
    assert functions -- documented == []
  end

  # The encoding of a module: magic and sections.
  defp module(sections), do: IO.iodata_to_binary(["\0asm", <<1::little-32>>, sections])
  defp section(id, contents), do: with(bytes = IO.iodata_to_binary(contents), do: [id, leb(byte_size(bytes)), bytes])
  defp vector(items), do: [leb(length(items)), items]
  defp name(text), do: [leb(byte_size(text)), text]
  defp leb(n) when n < 128, do: <<n>>
  defp leb(n), do: <<1::1, rem(n, 128)::7, leb(div(n, 128))::binary>>

  @i32 0x7F
  @i64 0x7E
  @operations ~w(abi inbox outbox schema insert delete search search_many more resume prepare explain info)
  @types %{
    "abi" => {[], 1},
    "inbox" => {[@i32], 32},
    "outbox" => {[], 0},
    "schema" => {[@i32], 0},
    "insert" => {[@i32], 0},
    "delete" => {[@i64], 0},
    "search" => {[@i32, @i32, @i32, @i32], 0},
    "search_many" => {[@i64, @i32, @i32, @i32, @i32], 0},
    "more" => {[@i64], 0},
    "resume" => {[], 0},
    "prepare" => {[@i32, @i32], 0},
    "explain" => {[@i32, @i32, @i64], 0},
    "info" => {[], 0}
  }

  # A module with all exports of the interface, whose functions return a constant or loop endlessly. Inbox and results are
  # the zeros of fresh memory.
  defp guest(changes \\ %{}) do
    functions = for name <- @operations ++ ["forget"], do: {name, Map.get(changes, name, @types[name] || :none)}
    stack_mutable = Map.get(changes, :stack_mutable, 1)
    kept = Enum.reject(functions, fn {_name, function} -> function == :none end)

    module([
      section(1, vector(for {_, {parameters, _}} <- kept, do: [0x60, vector(parameters), vector([@i32])])),
      if(changes[:import], do: section(2, vector([[name("env"), name("clock"), 0x00, 0]])), else: []),
      section(3, vector(for {_, index} <- Enum.with_index(kept), do: leb(index))),
      section(5, vector([[0x00, leb(1)]])),
      section(6, vector([[@i32, stack_mutable, 0x41, leb(0), 0x0B]])),
      section(
        7,
        vector(
          [[name("memory"), 0x02, 0], [name("__stack_pointer"), 0x03, 0]] ++
            for({{name, _}, index} <- Enum.with_index(kept), do: [name("be_tree_" <> name), 0x00, leb(index)])
        )
      ),
      section(10, vector(for {_, {_, answer}} <- kept, do: body(answer)))
    ])
  end

  defp body(:loop), do: with(code = [0, 0x03, 0x40, 0x0C, 0, 0x0B, 0x41, 0, 0x0B], do: [leb(length(code)), code])
  defp body(:trap), do: [3, 0, 0x00, 0x0B]
  defp body(answer), do: [4, 0, 0x41, leb(answer), 0x0B]

  test "a module of empty replies loads and is refused at its first reply" do
    {:ok, tree} = BeTree.new([a: :integer], guest: guest())
    assert BeTree.insert(tree, 1, "any text") == :ok
    assert {:error, %Error{kind: :bad_module}} = BeTree.search(tree, %{a: 1})
    assert {:error, %Error{kind: :bad_module}} = BeTree.info(tree)
    assert {:error, %Error{kind: :bad_module}} = BeTree.explain(tree, %{a: 1}, 1)
    assert inspect(tree) == "#BeTree<bad_module, 0.1 MB>"
  end

  # A guest that refuses each insertion with this message.
  defp refusing(message) do
    refusal = :erlang.term_to_binary({:type, message, nil, nil, nil}, minor_version: 2)
    {outbox, at} = {4, 1_024}

    insert = [
      [i32_const(outbox), i32_const(at), i32_store()],
      [i32_const(outbox), i32_const(byte_size(refusal)), i32_store(4)],
      i32_const(1)
    ]

    WasmGuest.assemble(nop(), insert: insert, parts: [data: [{at, refusal}]])
  end

  test "a guest's long message is truncated between characters, with the omitted length" do
    for {message, kept} <- [
          {"no", "no"},
          {String.duplicate("x", 4_096), String.duplicate("x", 4_096)},
          {String.duplicate("x", 5_000), String.duplicate("x", 4_096)},
          {"x" <> String.duplicate("é", 5_000), "x" <> String.duplicate("é", 2_047)},
          {String.duplicate("🎈", 5_000), String.duplicate("🎈", 1_024)},
          {"xyz" <> String.duplicate("🎈", 5_000), "xyz" <> String.duplicate("🎈", 1_023)}
        ] do
      tree = BeTree.new!([a: :integer], guest: refusing(message))
      assert {:error, %Error{kind: :type} = error} = BeTree.insert(tree, 1, "a = 1")
      omitted = byte_size(message) - byte_size(kept)
      assert error.message == kept <> if(omitted == 0, do: "", else: "... (#{omitted} bytes are left out)")
    end
  end

  test "a guest's message in invalid UTF-8 is refused" do
    for message <- [
          <<"abc", 255>>,
          <<"abc", 0xC3>>,
          String.duplicate("x", 4_000) <> <<255>> <> String.duplicate("x", 9_000)
        ] do
      tree = BeTree.new!([a: :integer], guest: refusing(message))
      assert {:error, %Error{kind: :bad_module} = error} = BeTree.insert(tree, 1, "a = 1")
      assert error.message == "the index module returned an error of kind :type whose message is not UTF-8"
    end
  end

  test "load/1 names missing exports and wrong types" do
    for {changes, message} <- [
          {%{"info" => :none, "delete" => :none}, ~r/does not export be_tree_delete, be_tree_info/},
          {%{"delete" => {[@i32], 0}}, ~r/its export be_tree_delete is .*:i32.*; expected .*:i64/},
          {%{"search" => {[@i32], 0}}, ~r/its export be_tree_search/},
          {%{:stack_mutable => 0}, ~r/its export __stack_pointer/},
          {%{"abi" => {[], 2}}, ~r/has version 2 of the interface; expected 1/}
        ] do
      assert {:error, %Error{kind: :bad_module} = error} = BeTree.new([a: :integer], guest: guest(changes))
      assert Exception.message(error) =~ message
    end
  end

  test "load/1 checks the type of an optional export" do
    assert {:error, error} = Guest.load(guest(%{"forget" => {[@i32], 0}}))
    assert Exception.message(error) =~ ~r/its export be_tree_forget is .*; expected {:function, \[\], \[:i32\]}/
    assert {:ok, _guest} = Guest.load(guest(%{"forget" => {[], 0}}))
  end

  test "load/1 names the imports of a module" do
    # The import shifts the indices of functions; the exports no longer matter.
    assert {:error, %Error{kind: :bad_module} = error} = Guest.load(guest(%{import: true}))
    assert Exception.message(error) =~ "imports env.clock"
  end

  test "load/1 refuses bytes that are no module" do
    for bytes <- ["", "hello", "\0asm", module([section(1, "junk")])] do
      assert {:error, %Error{kind: :bad_module}} = Guest.load(bytes)
    end
  end

  test "an unknown status is :bad_module" do
    {:ok, tree} = BeTree.new([], guest: guest(%{"insert" => {[@i32], 7}, "search" => {[@i32, @i32, @i32, @i32], 9}}))
    assert {:error, %Error{kind: :bad_module} = error} = BeTree.insert(tree, 1, "true")
    assert Exception.message(error) =~ "be_tree_insert with status 7"
    assert {:error, %Error{kind: :bad_module}} = BeTree.search(tree, %{})
  end

  test "a trap is :trap" do
    assert {:error, %Error{kind: :trap}} = BeTree.new([], guest: guest(%{"schema" => {[@i32], :trap}}))
  end

  test "an endless module is ended" do
    assert {:error, %Error{kind: :out_of_fuel}} = BeTree.new([], guest: guest(%{"abi" => {[], :loop}}))
  end

  test "an endless search yields and ends with its budget or timeout" do
    {:ok, tree} = BeTree.new([], guest: guest(%{"search" => {[@i32, @i32, @i32, @i32], :loop}}))
    assert {:error, %Error{kind: :out_of_fuel}} = BeTree.search(tree, %{}, fuel: 5_000_000)
    assert {:error, %Error{kind: :timeout}} = BeTree.search(tree, %{}, timeout: 5)
    {pid, monitor} = spawn_monitor(fn -> BeTree.search(tree, %{}) end)
    Process.sleep(10)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}
  end
end
