defmodule BeTree.Server.DurabilityTest do
  # Servers that keep their changes in a folder, and servers that are filled at the start.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, OsNode, Servers, Tmpfs}

  @moduletag timeout: :infinity
  @schema [a: :integer, s: {:string, optional: true}]

  setup [:quiet, :folder]

  defp name, do: :"durable_#{System.unique_integer([:positive])}"

  defp start!(folder, options \\ []) do
    name = name()
    {:ok, _pid} = Server.start_link([name: name, schema: @schema, dir: folder] ++ options)
    name
  end

  defp texts(name), do: for(id <- Server.ids!(name), into: %{}, do: {id, text(Server.fetch!(name, id))})
  defp text(text) when is_binary(text), do: text

  for durability <- [:sync, {:interval, 5}, :none] do
    @durability durability
    test "a server holds its changes after a stop and after a kill, with #{inspect(durability)}", %{folder: folder} do
      options = [durability: @durability]
      one = start!(folder, options)
      assert BeTree.search(one, %{a: 1}) == {:ok, []}
      {:ok, 3} = Server.insert_all(one, [{1, "a = 1"}, {2, "a > 0"}, {3, "s = 'x'"}])
      :ok = Server.delete(one, 3)
      :ok = Server.put(one, 2, "a < 0")
      :ok = Server.stop(one)

      two = start!(folder, options)
      assert texts(two) == %{1 => "a = 1", 2 => "a < 0"}
      assert BeTree.search(two, %{a: 1}) == {:ok, [1]}
      assert BeTree.search(two, %{a: -1}) == {:ok, [2]}
      :ok = Server.insert(two, 9, "a = 1")
      # All of its processes are gone at once, as with the node.
      Process.flag(:trap_exit, true)
      kill(two)

      three = start!(folder, options)
      assert texts(three) == %{1 => "a = 1", 2 => "a < 0", 9 => "a = 1"}
      {:ok, _} = Server.change(three, put: [{1, "a = 7"}, {4, "a = 7"}], delete: [9])
      assert BeTree.search(three, %{a: 7}) == {:ok, [1, 4]}
      assert Server.info!(three).journal.error == nil
      :ok = Server.stop(three)
    end
  end

  defp kill(name) do
    supervisor = Process.whereis(name)
    pids = [supervisor, Servers.keeper(name), Servers.process(name)]
    monitors = Enum.map(pids, &Process.monitor/1)
    for pid <- pids, do: Process.exit(pid, :kill)
    for monitor <- monitors, do: assert_receive({:DOWN, ^monitor, :process, _pid, _reason}, 60_000)
  end

  test "many changes at once share syncs, and a wrong one changes nothing", %{folder: folder} do
    name = start!(folder)

    results =
      for id <- 1..300 do
        Task.async(fn -> Server.insert(name, rem(id, 200), "a = #{id}") end)
      end
      |> Task.await_many(120_000)

    assert Enum.count(results, &(&1 == :ok)) == 200
    assert Enum.count(results, &match?({:error, %Error{kind: :duplicate_id}}, &1)) == 100
    assert Server.info!(name).version == 200
    before = texts(name)
    :ok = Server.stop(name)
    name = start!(folder)
    assert texts(name) == before and Server.info!(name).version == 200
    :ok = Server.stop(name)
  end

  test "bases are written beside the changes, and recovered with the changes after them", %{folder: folder} do
    name = start!(folder, durability: :none)
    long = String.duplicate("x", 20_000)
    for id <- 1..900, do: :ok = Server.insert(name, id, "a = #{rem(id, 7)} and s <> '#{long}'")
    eventually(fn -> Path.wildcard(Path.join(folder, "*.base")) != [] end)
    for id <- 1..50, do: :ok = Server.delete(name, id)
    before = texts(name)
    found = BeTree.search!(name, %{a: 3, s: "y"})
    :ok = Server.stop(name)

    name = start!(folder, durability: :none)
    assert texts(name) == before
    assert BeTree.search!(name, %{a: 3, s: "y"}) == found
    # The next base contains the first one.
    for id <- 1_001..1_900, do: :ok = Server.insert(name, id, "a = #{rem(id, 7)} and s <> '#{long}'")
    eventually(fn -> length(Path.wildcard(Path.join(folder, "*.base"))) == 1 and Server.info!(name).error == nil end)
    before = texts(name)
    :ok = Server.stop(name)
    name = start!(folder, durability: :none)
    assert texts(name) == before
    :ok = Server.stop(name)
  end

  test "an index that is swapped in is in the folder", %{folder: folder} do
    name = start!(folder)
    :ok = Server.insert(name, 1, "a = 1")
    tree = BeTree.new!(@schema)
    BeTree.insert!(tree, 7, "a = 2")
    :ok = Server.swap(name, BeTree.publish!(tree))
    :ok = Server.insert(name, 8, "a = 2")
    assert {:error, %{kind: :other_schema}} = Server.swap(name, BeTree.publish!(BeTree.new!(b: :integer)))
    :ok = Server.stop(name)
    name = start!(folder)
    assert BeTree.search(name, %{a: 2}) == {:ok, [7, 8]}
    assert BeTree.search(name, %{a: 1}) == {:ok, []}
    :ok = Server.delete(name, 7)
    :ok = Server.stop(name)
    name = start!(folder)
    assert BeTree.search(name, %{a: 2}) == {:ok, [8]}
    :ok = Server.stop(name)
  end

  test "a folder of another schema, of another server, or with a damage is refused", %{folder: folder} do
    Process.flag(:trap_exit, true)
    name = start!(folder)
    for id <- 1..3, do: :ok = Server.insert(name, id, "a = #{id}")
    assert {:error, %Error{kind: :locked}} = Server.start_link(name: name(), schema: @schema, dir: folder)
    :ok = Server.stop(name)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(name: name(), schema: [a: :integer, b: :integer], dir: folder)

    assert message =~ folder and message =~ "with the attribute `s`"
    [path] = Path.wildcard(Path.join(folder, "*.log"))
    bytes = File.read!(path)
    <<before::binary-size(200), byte, rest::binary>> = bytes
    File.write!(path, <<before::binary, Bitwise.bxor(byte, 1), rest::binary>>)

    assert {:error, %Error{kind: :damaged, message: message}} =
             Server.start_link(name: name(), schema: @schema, dir: folder)

    assert message =~ path
    File.write!(path, bytes)
    name = start!(folder)
    assert map_size(texts(name)) == 3
    :ok = Server.stop(name)
  end

  test "a full disk refuses changes and nothing else", %{folder: folder} do
    Tmpfs.with_room(folder, "256k", &full/1)
  end

  defp full(folder) do
    name = start!(folder)
    ballast = Path.join(folder, "ballast")
    File.write!(ballast, :binary.copy("x", 150_000))
    error = fill(name, 1)
    assert error.kind == :file and error.message =~ "no space left" and error.message =~ "the change was not made"
    before = texts(name)
    assert {:error, %{kind: :file}} = Server.insert(name, 1_000_000, "a = 5 and s = '#{String.duplicate("z", 5_000)}'")
    assert texts(name) == before
    assert BeTree.search(name, %{a: 5, s: "x"}) == {:ok, Enum.to_list(1..map_size(before))}
    File.rm!(ballast)
    :ok = Server.insert(name, 1_000_000, "a = 5 and s = 'x'")
    before = texts(name)
    :ok = Server.stop(name)
    name = start!(folder)
    assert texts(name) == before
    :ok = Server.stop(name)
  end

  defp fill(name, id) do
    case Server.insert(name, id, "a = 5 and s <> '#{String.duplicate("y", 2_000)}'") do
      :ok -> fill(name, id + 1)
      {:error, error} -> error
    end
  end

  ## Kills of the node

  test "a node that is killed keeps every acknowledged change", %{folder: folder} do
    :rand.seed(:exsss, {Attack.seed(), 31, 0})
    for number <- 1..Attack.size(5, 200), reduce: %{}, do: (there -> kill_node(folder, number, there))
  end

  # The node writes to a file that it begins a change, and that the change was acknowledged. The operating system has what is
  # written when the node is killed; what the node prints may still wait in the node. A printed line only says that one more
  # change begins.
  defp kill_node(folder, number, there) do
    file = Path.join(folder, "changes_#{number}.txt")

    port =
      OsNode.start("""
      {:ok, _} = Application.ensure_all_started(:be_tree)
      {:ok, _pid} = BeTree.Server.start_link(name: Killed, schema: #{inspect(@schema)}, dir: #{inspect(folder)}, durability: :sync)
      IO.puts("pid " <> System.pid())
      texts = for id <- BeTree.Server.ids!(Killed), do: {id, BeTree.Server.fetch!(Killed, id)}
      IO.puts("texts " <> Base.encode64(:erlang.term_to_binary(texts)))
      for client <- 1..4 do
        spawn(fn ->
          :rand.seed(:exsss, {#{number}, client, 0})
          {:ok, file} = :file.open(#{inspect(file)}, [:raw, :append])
          write = fn line -> :ok = :file.write(file, line <> "\\n") end
          for change <- 1..1_000_000 do
            id = client * 100 + :rand.uniform(20)
            text = "a = " <> Integer.to_string(change)
            write.("begin " <> Integer.to_string(client) <> " " <> Integer.to_string(id) <> " " <> text)
            IO.puts("one more")
            :ok = BeTree.Server.put(Killed, id, text)
            write.("made " <> Integer.to_string(client))
          end
        end)
      end
      Process.sleep(:infinity)
      """)

    os_pid = line(port, "pid ")
    found = port |> line("texts ") |> Base.decode64!() |> :erlang.binary_to_term() |> Map.new()
    assert agree?(there, found)
    # This waits for a number of events and not for a time.
    for _ <- 1..(10 + :rand.uniform(150)), do: line(port, "one more")
    OsNode.kill(port, os_pid)
    lines = file |> File.read!() |> String.split("\n")
    File.rm!(file)
    changes(lines, for({id, text} <- found, into: %{}, do: {id, {text, nil}}))
  end

  defp line(port, prefix) do
    receive do
      {^port, {:data, {_end, line}}} ->
        if String.starts_with?(line, prefix),
          do: String.replace_prefix(line, prefix, ""),
          else: flunk("the node printed #{line}")

      {^port, {:exit_status, status}} ->
        flunk("the node ended with #{status}")
    after
      300_000 -> flunk("the node printed nothing")
    end
  end

  # Returns for each id the text that was acknowledged last, and the one that had begun, if any.
  defp changes(lines, there) do
    {there, _begun} =
      Enum.reduce(lines, {there, %{}}, fn line, {there, begun} ->
        case String.split(line, " ", parts: 4) do
          ["begin", client, id, text] ->
            id = String.to_integer(id)
            {old, _} = Map.get(there, id, {nil, nil})
            {Map.put(there, id, {old, text}), Map.put(begun, client, {id, text})}

          ["made", client] when is_map_key(begun, client) ->
            {id, text} = Map.fetch!(begun, client)
            {Map.put(there, id, {text, nil}), begun}

          _cut ->
            {there, begun}
        end
      end)

    there
  end

  defp agree?(there, found) do
    Enum.all?(there, fn {id, {made, begun}} -> found[id] in [made, begun] end) and
      Enum.all?(Map.keys(found), &is_map_key(there, &1))
  end

  ## Filling

  def rules, do: [{1, "a = 1"}, {2, "a = 2"}]
  def rules_in_ok, do: {:ok, Stream.map(rules(), & &1)}
  def no_rules, do: {:error, %Error{kind: :not_found, message: "the database is down"}}
  def wrong_rules, do: [{1, "a = 1"}, {2, "a ="}]

  test "a server can be filled by a function, or from an image, before it is searched" do
    for function <- [:rules, :rules_in_ok] do
      name = name()
      start_supervised!({Server, name: name, schema: @schema, load: {__MODULE__, function, []}})
      assert BeTree.search(name, %{a: 2}) == {:ok, [2]}
      assert texts(name) == %{1 => "a = 1", 2 => "a = 2"}
      :ok = Server.put(name, 3, "a = 2")
      # The process that takes over does not load again.
      name |> Servers.process() |> Process.exit(:kill)
      eventually(fn -> match?({:ok, %{expressions: 3}}, Server.info(name)) end)
      assert BeTree.search(name, %{a: 2}) == {:ok, [2, 3]}
    end

    tree = BeTree.new!(@schema)
    BeTree.insert!(tree, 5, "a = 2")
    name = name()
    start_supervised!({Server, name: name, schema: @schema, image: {:binary, BeTree.Image.to_binary!(tree)}})
    assert BeTree.search(name, %{a: 2}) == {:ok, [5]}
  end

  test "a load that fails ends the start with its error" do
    Process.flag(:trap_exit, true)

    assert {:error, %Error{kind: :not_found, message: "the database is down"}} =
             Server.start_link(name: name(), schema: @schema, load: {__MODULE__, :no_rules, []})

    assert {:error, %Error{kind: :syntax, position: 1}} =
             Server.start_link(name: name(), schema: @schema, load: {__MODULE__, :wrong_rules, []})

    assert {:error, %Error{kind: :other_schema}} =
             Server.start_link(
               name: name(),
               schema: [b: :integer],
               image: {:binary, BeTree.Image.to_binary!(BeTree.new!(@schema))}
             )

    assert_raise ArgumentError, ~r/exclude each other/, fn ->
      Server.start_link(name: name(), schema: @schema, dir: "d", load: {__MODULE__, :rules, []})
    end
  end
end
