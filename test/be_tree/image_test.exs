defmodule BeTree.ImageTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Files

  alias BeTree.{Error, Image, Index}
  alias BeTree.Call.Instance
  alias BeTree.Image.Layout
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.{Random, WasmGuest}

  doctest Image

  @moduletag :tmp_dir

  @events 30

  # Random domains, a changed and searched tree, and events with the ids of a naive scan.
  defp random(expressions) do
    domains = Random.schema()
    expressions = for id <- 1..expressions, do: {id * 3, Random.expression(domains)}
    tree = BeTree.new!(domains)
    texts = Random.subscriptions(expressions)
    BeTree.insert_all!(tree, texts)
    again = Enum.take_random(texts, 20)
    for {id, _, _} <- again, do: BeTree.delete!(tree, id)
    BeTree.insert_all!(tree, again)
    events = for _ <- 1..@events, do: Random.event(domains)
    found = for event <- events, do: {event, naive(expressions, Map.new(event))}
    for {event, ids} <- found, do: assert(BeTree.search(tree, event) == {:ok, ids})
    %{schema: domains, tree: tree, texts: texts, found: found}
  end

  defp naive(expressions, event) do
    Random.matches(expressions, event)
  end

  defp same(target, found), do: for({event, ids} <- found, do: assert(BeTree.search(target, event) == {:ok, ids}))

  defp refusal(answer, kind \\ :bad_module) do
    assert {:error, %Error{kind: ^kind} = error} = answer
    Exception.message(error)
  end

  test "an image equals its source, read as an index and as a tree", %{tmp_dir: folder} do
    for _ <- 1..5 do
      %{tree: tree, texts: texts, found: found, schema: domains} = random(300)
      path = Path.join(folder, "index.wasm")
      assert Image.write(tree, path) == :ok
      {:ok, index} = Image.read(path)
      same(index, found)
      assert Image.to_binary!(BeTree.publish!(tree)) == File.read!(path)
      assert Image.to_binary!(index) == File.read!(path)
      assert BeTree.info(index) == BeTree.info(tree)

      {:ok, copy} = Image.read_tree({:binary, File.read!(path)})
      same(copy, found)
      # Changes until nothing of the tree is left do not affect the image's index.
      {:error, error} = BeTree.insert(copy, 3, "true")
      assert error.kind == :duplicate_id
      for {id, _, _} <- texts, do: BeTree.delete!(copy, id)
      assert BeTree.info!(copy).expressions == 0
      BeTree.insert_all!(copy, texts)
      same(copy, found)
      same(index, found)
      {:ok, domains} = BeTree.Domain.parse(domains)
      assert {:ok, %{schema: ^domains}} = Image.info(path)
    end
  end

  test "many processes search an index from an image" do
    %{tree: tree, found: found} = random(300)
    index = Image.read!({:binary, Image.to_binary!(tree)}, replicas: 4)
    1..8 |> Task.async_stream(fn _ -> same(index, found) end) |> Stream.run()
  end

  # docs/guides/image.md and docs/contributing/abi.md, without a line of what reads images here.
  test "our runtime runs it as a plain module" do
    %{tree: tree, found: found} = random(200)
    image = Image.to_binary!(tree)
    {:ok, module} = Wasmtime.load(image)

    {:ok, instance} =
      Wasmtime.instantiate(module, memory: 0x1000_0000, inbox: "be_tree_inbox", outbox: "be_tree_outbox")

    for {event, ids} <- found do
      event = :erlang.term_to_binary(event)
      request = %{input: event, output: :u64s, fuel: :infinity, slice: :infinity, scheduler: :dirty}

      assert {:done, 0, [_, _ | found], _} =
               Wasmtime.call(instance, "be_tree_search", [0, byte_size(event), -1, 0], request)

      assert found == ids
    end
  end

  @node System.find_executable("node")

  @tag skip: if(@node, do: false, else: "there is no node on this machine")
  test "Node searches an image with the program of docs/guides/image.md", %{tmp_dir: folder} do
    domains = [age: :integer, score: {:float, optional: true}, country: {:string, optional: true}, tags: :string_list]
    tree = BeTree.new!(domains)

    for id <- 1..500 do
      text = "age > #{rem(id, 90)} and (country = 'c#{rem(id, 7)}' or 't#{rem(id, 11)}' in tags) or score < #{id / 500}"
      BeTree.insert!(tree, 18_446_744_073_709_551_000 + id, text)
    end

    events =
      for i <- 1..100 do
        ~s({"age": #{i}, "country": #{if rem(i, 3) == 0, do: "null", else: ~s("c#{rem(i, 7)}")}, "tags": ["t#{rem(i, 11)}"]}\n)
      end

    # This event exceeds the first inbox, and memory has to grow.
    events = events ++ [~s({"age": 1, "tags": ["#{String.duplicate("long ", 500_000)}", "t3"]}\n)]
    [program] = Regex.run(~r/```js\n(.*?)```/s, File.read!("docs/guides/image.md"), capture: :all_but_first)
    texts = [{"search.mjs", program}, {"index.wasm", Image.to_binary!(tree)}, {"events", events}]
    [program, image, input] = for {name, text} <- texts, do: write(folder, name, text)
    {output, 0} = System.cmd("sh", ["-c", ~s(exec "$0" "$1" "$2" < "$3"), @node, program, image, input])

    expected = for event <- events, do: BeTree.Files.Results.line(BeTree.search!(tree, {:json, event}))
    assert output == IO.iodata_to_binary(expected)
  end

  test "the same index gives the same bytes" do
    texts = for id <- 1..500, do: {id, "age > #{id} and country = 'c#{rem(id, 50)}'"}

    trees =
      for _ <- 1..2 do
        tree = BeTree.new!(age: :integer, country: {:string, optional: true})
        BeTree.insert_all!(tree, texts)
        for id <- 1..100, do: BeTree.delete!(tree, id)
        tree
      end

    [image, other] = Enum.map(trees, &Image.to_binary!/1)
    assert image == other
    [tree, _other] = trees
    for i <- 1..300, do: BeTree.search!(tree, %{age: i, country: "c#{rem(i, 50)}"})
    for i <- 1..300, do: BeTree.search!(tree, {:json, ~s({"age": #{i}, "country": "elsewhere"})})
    assert Image.to_binary!(tree) == image
    # An image of an image is the same image.
    assert Image.to_binary!(Image.read!({:binary, image})) == image
    assert Image.to_binary!(Image.read_tree!({:binary, image})) == image
  end

  test "an image has no events and deleted strings, and keeps the rest" do
    tree =
      BeTree.new!(
        age: {:integer, optional: true},
        country: {:string, optional: true},
        tags: {:string_list, optional: true}
      )

    for id <- 1..1_000, do: BeTree.insert!(tree, id, "age > #{rem(id, 100)} and country = 'KePt#{id}'")

    for id <- 2_001..3_000,
        do: BeTree.insert!(tree, id, "country in ('DeLeTeD#{id}', 'DeLeTeD') or contains(country, 'DeL#{id}')")

    for id <- 2_001..3_000, do: BeTree.delete!(tree, id)

    {:error, _} =
      BeTree.insert_all(tree, for(id <- 5_000..6_000, do: {id, "country = 'ReFuSeD#{id}'"}) ++ [{1, "true"}])

    # Events of all sizes, so that buffers grow and leave stale copies behind.
    for size <- [1, 10, 100, 1_000, 10_000, 100_000], i <- 1..20 do
      secret = "SeCrEt#{i}" |> String.duplicate(size) |> binary_part(0, size)
      BeTree.search!(tree, %{age: i, country: secret, tags: [secret, "SeCrEt"]})
      BeTree.search!(tree, {:json, ~s({"age": #{i}, "country": "\\u0053eCrEt#{i}#{secret}"})})
      BeTree.explain!(tree, %{age: i, country: "SeCrEt" <> secret}, 7)
    end

    {:ok, memory} = Wasmtime.read(tree.instance, 0, BeTree.info!(tree).memory_bytes)
    assert memory =~ "SeCrEt"
    image = Image.to_binary!(tree)
    for remains <- ["SeCr", "eCrE", "CrEt", "DeL", "eLeT", "LeTe", "ReFu", "eFuS", "FuSe"], do: refute(image =~ remains)
    assert length(:binary.matches(image, "KePt")) == 1_000
    # An image contains the module.
    module = tree.guest |> Instance.wasm() |> byte_size()
    assert byte_size(image) - module < byte_size(memory)
  end

  test "images of an empty index and of one without attributes" do
    for tree <- [BeTree.new!([]), BeTree.new!(a: :boolean)] do
      image = {:binary, Image.to_binary!(tree)}
      assert Image.verify(image) == :ok
      copy = Image.read_tree!(image)
      BeTree.insert!(copy, 1, "true")
      assert BeTree.search(copy, %{a: true}) == {:ok, [1]}
      assert inspect(Image.read!(image)) =~ "#BeTree.Index<0 expressions, "
    end
  end

  test "write/3 waits for another's search and refuses the caller's own" do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id}"}))
    {:yield, search} = BeTree.Search.start(tree, %{a: 5}, slice: 1_000)
    assert refusal(Image.to_binary(tree), :overloaded) =~ "holds a suspended call"
    writer = Task.async(fn -> Image.to_binary!(tree) end)
    assert Task.yield(writer, 50) == nil
    BeTree.Search.cancel(search)
    index = Image.read!({:binary, Task.await(writer, 60_000)})
    assert BeTree.search(index, %{a: 5}) == {:ok, [1, 2, 3, 4]}
  end

  # A guest with a global besides its memory.
  defp unfit do
    guest = WasmGuest.assemble([], parts: [globals: [{"state", :i32, :mutable, 0}]])
    BeTree.new!([], guest: guest)
  end

  test "a guest with state outside its memory is refused" do
    assert refusal(Image.to_binary(unfit())) =~
             "this index module has 2 globals that change, where only __stack_pointer may"
  end

  test "an image of another guest works, forgetful or not" do
    tree = BeTree.new!([a: :integer], guest: WasmGuest.spin(10))
    index = Image.read!({:binary, Image.to_binary!(tree)})
    assert BeTree.search(index, %{a: 1}) == {:ok, WasmGuest.ids()}
  end

  test "the guide shows the program of examples/images" do
    assert File.read!("docs/guides/image.md") =~ "```js\n" <> File.read!("examples/images/search.mjs") <> "```"
  end

  describe "files" do
    test "report why they cannot be read or written", %{tmp_dir: folder} do
      tree = BeTree.new!(a: :integer)
      nowhere = Path.join([folder, "none", "index.wasm"])
      assert refusal(Image.write(tree, nowhere), :file) == "cannot write #{nowhere}: no such file or directory"
      assert refusal(Image.write(tree, folder), :file) =~ "cannot write #{folder}: "

      for call <- [&Image.read/1, &Image.read_tree/1, &Image.verify/1, &Image.info/1] do
        assert refusal(call.(nowhere), :file) == "cannot read #{nowhere}: no such file or directory"
        assert refusal(call.(folder), :file) == "cannot read #{folder}: it is a directory; expected a file"
        assert refusal(call.("/dev/zero"), :bad_module) =~ "this is no image: expected a WebAssembly module"
      end

      assert File.ls!(folder) == []
    end

    test "are replaced atomically", %{tmp_dir: folder} do
      path = Path.join(folder, "index.wasm")
      tree = BeTree.new!(a: :integer)
      Image.write!(tree, path)
      BeTree.insert!(tree, 1, "a = 1")
      Image.write!(tree, path)
      assert Image.info!(path).counts.expressions == 1
      assert refusal(Image.write(unfit(), path)) =~ "globals"
      assert Image.info!(path).counts.expressions == 1
      assert File.ls!(folder) == ["index.wasm"]
    end

    test "are refused if truncated, damaged or no images", %{tmp_dir: folder} do
      path = Path.join(folder, "index.wasm")
      bytes = Image.to_binary!(BeTree.new!(a: :integer))
      length = byte_size(bytes)

      for {content, message} <- [
            {"", "expected a WebAssembly module"},
            {"hello", "expected a WebAssembly module"},
            {WasmGuest.spin(1), "does not begin with a section be_tree"},
            {binary_part(bytes, 0, 50), "its first section is cut off"},
            {binary_part(bytes, 0, 130), "its first section is cut off"},
            {binary_part(bytes, 0, length - 1), "it has #{length - 1} bytes; expected #{length}"}
          ] do
        File.write!(path, content)

        for call <- [&Image.read/1, &Image.read_tree/1, &Image.verify/1, &Image.info/1],
            do: assert(refusal(call.(path)) =~ message)
      end

      File.write!(path, binary_part(bytes, 0, length - 1) <> "x")
      assert refusal(Image.verify(path)) =~ ~r/its SHA-256 is [0-9a-f]{64}; expected [0-9a-f]{64}/
      assert {:ok, _info} = Image.info(path)
    end
  end

  test "are refused before reading if they exceed the memory limit", %{tmp_dir: folder} do
    path = Path.join(folder, "index.wasm")
    tree = BeTree.new!(a: :integer)
    Image.write!(tree, path)
    memory = BeTree.info!(tree).memory_bytes
    message = "the image holds a memory of #{memory} bytes, more than the limit of 1000; raise the option :memory"
    assert refusal(Image.read(path, memory: 1_000), :out_of_memory) == message
    assert refusal(Image.read_tree({:binary, File.read!(path)}, memory: 1_000), :out_of_memory) == message
    # The tables do not fit.
    assert {:error, %Error{kind: :out_of_memory}} = Image.read(path, memory: memory)
    assert {:ok, %Index{}} = Image.read(path, memory: memory + 65_536)
  end

  test "raise on wrong options" do
    image = {:binary, Image.to_binary!(BeTree.new!(a: :integer))}

    for options <- [[memory: 0], [fuel_per_reduction: :a], [replicas: 0], [queue: -1], [nothing: 1]] do
      assert_raise ArgumentError, fn -> Image.read(image, options) end
    end

    assert_raise ArgumentError, fn -> Image.read_tree(image, replicas: 1) end
    assert_raise ArgumentError, fn -> Image.to_binary("no tree") end
  end

  test "raise in bang variants" do
    for call <- [&Image.read!/1, &Image.read_tree!/1, &Image.verify!/1, &Image.info!/1] do
      assert_raise Error, ~r/this is no image/, fn -> call.({:binary, "hello"}) end
    end

    assert_raise Error, ~r/cannot write/, fn -> Image.write!(BeTree.new!([]), "/nowhere/index.wasm") end
  end

  describe "forged images" do
    setup do
      tree = BeTree.new!(a: :integer, b: {:string, optional: true})
      BeTree.insert_all!(tree, for(id <- 1..200, do: {id, "a > #{id} and b = 's#{rem(id, 20)}'"}))
      {:ok, layout} = tree |> Image.to_binary!() |> Layout.decode(1)
      %{layout: layout}
    end

    defp forge(layout, changes) do
      {:ok, bytes} = layout |> struct!(changes) |> Layout.encode()
      {:binary, IO.iodata_to_binary(bytes)}
    end

    test "have their schemas and counts checked", %{layout: layout} do
      assert Image.verify(forge(layout, [])) == :ok

      for schema <- ["", "x", <<131, 80, 0>>, :erlang.term_to_binary([{"a", :number, false, nil}])] do
        assert refusal(Image.read(forge(layout, schema: schema))) =~ "this is no image: its schema is wrong: "
        assert refusal(Image.info(forge(layout, schema: schema))) =~ "this is no image: its schema is wrong: "
      end

      assert refusal(Image.read(forge(layout, counts: "x"))) =~ "this is no image: its counts are wrong: "
      {:ok, counts} = BeTree.Call.Reply.info(layout.counts)
      other = :erlang.term_to_binary(Enum.to_list(%{counts | expressions: 7}))

      assert refusal(Image.read(forge(layout, counts: other))) =~
               ~r/its module counts .*expressions: 200.*; expected .*expressions: 7/

      assert refusal(Image.read(forge(layout, abi: 0))) == "this is no image: its ABI version is 0; expected 1"
      assert {:ok, %{abi: 0}} = Image.info(forge(layout, abi: 0))
    end

    test "have their guests checked", %{layout: layout} do
      assert refusal(Image.read(forge(layout, guest: WasmGuest.assemble([]) <> <<99, 0>>))) =~
               "not a WebAssembly module"

      # A guest with all exports and no index.
      assert refusal(Image.read(forge(layout, guest: WasmGuest.spin(1), memory: 65_536, segments: []))) =~
               "the index module returned"

      plain = BeTree.WasmModule.assemble(memory: {1, nil})
      assert refusal(Image.read(forge(layout, guest: plain, memory: 65_536, segments: []))) =~ "does not export"
    end

    test "with any wrong memory return results or errors", %{layout: layout} do
      for _ <- 1..150 do
        with {:ok, index} <- Image.read(forge(layout, segments: damage(layout.segments)), memory: 0x400_0000) do
          for a <- [1, 100, 300], event <- [%{a: a, b: "s3"}, {:json, ~s({"a": #{a}, "b": "s#{a}"})}] do
            case BeTree.search(index, event, fuel: 50_000_000) do
              {:ok, ids} ->
                assert is_list(ids)

              {:error, error} ->
                assert error.kind in [
                         :trap,
                         :out_of_fuel,
                         :out_of_memory,
                         :bad_module,
                         :type,
                         :missing_attribute,
                         :syntax,
                         :not_found
                       ]
            end
          end
        else
          {:error, error} -> assert error.kind in [:bad_module, :trap, :out_of_fuel, :out_of_memory, :not_found]
        end
      end
    end

    # Changes a few bytes of a segment, or all of it.
    defp damage(segments) do
      which = Enum.random(0..(length(segments) - 1))

      List.update_at(segments, which, fn {address, bytes} ->
        case :rand.uniform(3) do
          1 ->
            {address, :rand.bytes(byte_size(bytes))}

          2 ->
            {address, <<0::size(byte_size(bytes))-unit(8)>>}

          3 ->
            {address, Enum.reduce(1..40, bytes, fn _, bytes -> put(bytes, Enum.random(0..(byte_size(bytes) - 4))) end)}
        end
      end)
    end

    defp put(bytes, at) do
      {before, <<_::32, behind::binary>>} = :erlang.split_binary(bytes, at)
      <<before::binary, Enum.random([0, 1, 0xFFFF_FFFF, :rand.uniform(0x8000_0000)])::32, behind::binary>>
    end
  end

  test "with random damage and truncation are detected" do
    image = Image.to_binary!(BeTree.new!(a: :integer))

    for _ <- 1..100 do
      at = Enum.random(0..(byte_size(image) - 1))
      {before, <<byte, behind::binary>>} = :erlang.split_binary(image, at)
      damaged = <<before::binary, rem(byte + Enum.random(1..255), 256), behind::binary>>
      for bytes <- [damaged, before, image <> before], do: refusal(Image.read({:binary, bytes}))
    end
  end

  test "functions that read refuse the bytes of an image in place of its path, in one line" do
    bytes = Image.to_binary!(BeTree.new!(a: :integer))

    for call <- [&Image.read/1, &Image.read_tree/1, &Image.verify/1, &Image.info/1, &Image.write(BeTree.new!([]), &1)],
        wrong <- [bytes, String.duplicate("a", 100_000)] do
      message = Exception.message(assert_raise(ArgumentError, fn -> call.(wrong) end))
      assert message =~ ~r/^expected a path.*, got: a binary of \d+ bytes$/
    end
  end
end
