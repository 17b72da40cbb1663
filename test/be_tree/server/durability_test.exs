defmodule BeTree.Server.DurabilityTest do
  # Servers with a folder, and servers that are filled at the start.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Logs, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Servers, Tmpfs}

  @moduletag timeout: :infinity
  @schema [a: :integer, s: {:string, optional: true}]

  setup [:quiet, :folder]

  defp name, do: :"durable_#{System.unique_integer([:positive])}"

  defp start!(folder, options \\ []) do
    name = name()
    {:ok, _pid} = Server.start_link(Keyword.merge([name: name, schema: @schema, dir: folder], options))
    name
  end

  defp texts(name), do: for(id <- Server.ids!(name), into: %{}, do: {id, text(Server.fetch!(name, id))})
  defp text(text) when is_binary(text), do: text

  for durability <- [:sync, {:interval, 5}, :none] do
    @durability durability
    test "changes survive a stop and a kill, with #{inspect(durability)}", %{folder: folder} do
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
      # All of its processes end at once, as with the node.
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

  test "concurrent changes share syncs, and a refused one changes nothing", %{folder: folder} do
    name = start!(folder)

    results =
      for id <- 1..300 do
        Task.async(fn -> Server.insert(name, rem(id, 200), "a = #{id}") end)
      end
      |> Task.await_many(:infinity)

    assert Enum.count(results, &(&1 == :ok)) == 200
    assert Enum.count(results, &match?({:error, %Error{kind: :duplicate_id}}, &1)) == 100
    assert Server.info!(name).version == 200
    before = texts(name)
    :ok = Server.stop(name)
    name = start!(folder)
    assert texts(name) == before and Server.info!(name).version == 200
    :ok = Server.stop(name)
  end

  test "a change replaces what an earlier change of its sync inserted", %{folder: folder} do
    name = start!(folder)
    {:ok, _counts} = Server.change(name, put: [{1, "a = 1"}])
    :sys.suspend(Servers.process(name))
    changes = [[put: [{2, "a = 2"}, {3, "a = 3"}]], [put: [{2, "a = 20"}]], [put: [{1, "a = 10"}, {4, "a = 4"}]]]

    tasks =
      for {change, waiting} <- Enum.with_index(changes, 1) do
        task = Task.async(fn -> Server.change(name, change) end)
        eventually(fn -> Process.info(Servers.process(name), :message_queue_len) == {:message_queue_len, waiting} end)
        task
      end

    :sys.resume(Servers.process(name))

    assert Task.await_many(tasks, :infinity) == [
             ok: %{put: 2, deleted: 0, unchanged: 0},
             ok: %{put: 1, deleted: 0, unchanged: 0},
             ok: %{put: 2, deleted: 0, unchanged: 0}
           ]

    expected = %{1 => "a = 10", 2 => "a = 20", 3 => "a = 3", 4 => "a = 4"}
    assert texts(name) == expected
    assert BeTree.search(name, %{a: 20}) == {:ok, [2]} and BeTree.search(name, %{a: 2}) == {:ok, []}
    :ok = Server.stop(name)
    name = start!(folder)
    assert texts(name) == expected
    :ok = Server.stop(name)
  end

  test "a start recovers the base and the changes after it", %{folder: folder} do
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

  test "a swapped index is written to the folder", %{folder: folder} do
    name = start!(folder)
    :ok = Server.insert(name, 1, "a = 1")
    tree = BeTree.new!(@schema)
    BeTree.insert!(tree, 7, "a = 2")
    :ok = Server.swap(name, BeTree.publish!(tree))
    :ok = Server.insert(name, 8, "a = 2")
    assert {:error, %{kind: :other_schema} = error} = Server.swap(name, BeTree.publish!(BeTree.new!(b: :integer)))
    assert error.message =~ "another schema than the folder of this server, with the attribute `b`; swap in an index"
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

  test "a start refuses a folder of another schema or server, or a damaged one", %{folder: folder} do
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

  test "start_link/1 refuses a folder of rules, with and without a migration or ids that are terms", %{folder: folder} do
    Process.flag(:trap_exit, true)
    {:ok, pid} = BeTree.Rules.Server.start_link(name: name(), rules: "fact login(user: string)", dir: folder)
    GenServer.stop(pid)

    for options <- [[], [schema_change: :migrate], [ids: :term], [ids: :term, schema_change: :migrate]] do
      assert {:error, %Error{kind: :other_schema, message: message}} =
               Server.start_link([name: name(), schema: @schema, dir: folder] ++ options)

      assert message == "the folder #{folder} holds the facts of a BeTree.Rules.Server; give this server another :dir"
    end
  end

  test "start_link/1 refuses a folder whose schema it cannot read, and does not advise a migration", %{folder: folder} do
    Process.flag(:trap_exit, true)
    {:ok, journal} = BeTree.Journal.open(folder, identity: "of another owner", durability: :sync)
    {:ok, journal} = BeTree.Journal.append(journal, ["a change"])
    BeTree.Journal.close(journal)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(name: name(), schema: @schema, dir: folder, schema_change: :migrate)

    assert message =~ "holds no subscriptions of a server" and not (message =~ "migrate")
  end

  test "start_link/1 names the options in which the schema of a folder differs", %{folder: folder} do
    Process.flag(:trap_exit, true)
    name = start!(folder)
    :ok = Server.insert(name, 1, "a = 1")
    :ok = Server.stop(name)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(name: name(), schema: @schema, dir: folder, on_mismatch: :undefined)

    assert message =~ "in which `s` has on_mismatch: :error, where the server has on_mismatch: :undefined; start"
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

  test "a start refuses an empty path" do
    for dir <- ["", []] do
      assert_raise ArgumentError, ~r/:dir takes the path of a folder, a string that is not empty/, fn ->
        Server.start_link(name: name(), schema: @schema, dir: dir)
      end
    end
  end

  test "many starts with a change each leave few segments", %{folder: folder} do
    for id <- 1..40 do
      name = start!(folder)
      :ok = Server.insert(name, id, "a = 1")
      :ok = Server.stop(name)
    end

    name = start!(folder)
    eventually(fn -> length(Path.wildcard(Path.join(folder, "*.log"))) < 40 end)
    assert BeTree.search(name, %{a: 1}) == {:ok, Enum.to_list(1..40)}
    :ok = Server.stop(name)
    assert length(Path.wildcard(Path.join(folder, "*.base"))) == 1
    name = start!(folder)
    assert BeTree.search(name, %{a: 1}) == {:ok, Enum.to_list(1..40)}
    :ok = Server.stop(name)
  end

  test "a start refuses a folder with a missing or truncated newest segment", %{folder: folder} do
    Process.flag(:trap_exit, true)

    for id <- 1..3 do
      name = start!(folder)
      :ok = Server.insert(name, id, "a = 1")
      if id == 3, do: kill(name), else: :ok = Server.stop(name)
    end

    path = Path.join(folder, "*.log") |> Path.wildcard() |> Enum.max()
    bytes = File.read!(path)
    start = fn -> Server.start_link(name: name(), schema: @schema, dir: folder) end
    File.write!(path, binary_part(bytes, 0, byte_size(bytes) - 1))
    assert {:error, %Error{kind: :damaged, message: message}} = start.()
    assert message =~ path and message =~ "those up to 3 were on the disk once"
    File.rm!(path)
    assert {:error, %Error{kind: :damaged, message: message}} = start.()
    assert message =~ path
    File.write!(path, bytes)
    assert {:ok, _pid} = start.()
  end

  test "a refused start leaves the folder unchanged", %{folder: folder} do
    Process.flag(:trap_exit, true)
    name = start!(folder)
    :ok = Server.insert(name, 1, "a = 1")
    kill(name)
    File.write!(Path.join(folder, "0000000000000001.base.0000000000000001.new"), "half")

    state = fn ->
      for path <- Path.wildcard(Path.join(folder, "*")), File.regular?(path), do: {path, File.read!(path)}
    end

    before = state.()

    assert {:error, %Error{kind: :other_schema}} = Server.start_link(name: name(), schema: [b: :integer], dir: folder)

    assert {:error, %Error{}} = Server.start_link(name: name(), schema: @schema, dir: folder, guest: "not a module")

    assert state.() == before
  end

  test "a start with too little memory names the sufficient limit", %{folder: folder} do
    Process.flag(:trap_exit, true)
    name = start!(folder)
    {:ok, 20_000} = Server.insert_all(name, for(id <- 1..20_000, do: {id, "a > #{id}"}))
    :ok = Server.stop(name)
    start = fn memory -> Server.start_link(name: name(), schema: @schema, dir: folder, memory: memory) end

    assert {:error, %Error{kind: :out_of_memory, message: message}} = start.(700_000)
    [_, needed] = Regex.run(~r/start it with memory: (\d+) or more/, message)
    name = start!(folder, memory: String.to_integer(needed))
    assert Server.info!(name).expressions == 20_000
    assert length(BeTree.search!(name, %{a: 20_001})) == 20_000
    :ok = Server.delete(name, 20_000)
    :ok = Server.stop(name)
  end

  # The same subscriptions in another order may take more memory than a small server has.
  for seed <- Attack.size([102, 125, 140], Enum.to_list(100..150)) do
    @seed seed
    test "a full server starts again with its memory limit, seed #{seed}", %{folder: folder} do
      :rand.seed(:exsss, {@seed, 1, 1})
      options = [schema: @schema ++ [b: :integer, l: {:integer_list, optional: true}]]
      options = [memory: 900_000 + :rand.uniform(1_800_000), durability: :none] ++ options
      name = start!(folder, options)
      overfill(name, 0)
      before = texts(name)
      :ok = Server.stop(name)
      name = start!(folder, options)
      assert texts(name) == before
      assert Server.info!(name).expressions == map_size(before)
      for id <- Map.keys(before), do: :ok = Server.delete(name, id)
      # Some have room for no subscription at all.
      if before != %{}, do: :ok = Server.insert(name, 1, "a = 1")
      :ok = Server.stop(name)
    end
  end

  # Inserts ever smaller lists until thirteen were refused.
  defp overfill(_name, 13), do: :ok

  defp overfill(name, refused) do
    count = 100 + :rand.uniform(900)
    ids = for number <- 1..div(count, refused + 1), do: {:rand.uniform(10_000_000), any_text(number)}

    case Server.change(name, put: Enum.uniq_by(ids, &elem(&1, 0))) do
      {:ok, _count} -> overfill(name, refused)
      {:error, %Error{kind: :out_of_memory}} -> overfill(name, refused + 1)
    end
  end

  defp any_text(id) do
    Enum.random([
      "a > #{id}",
      "b = #{id} and a < #{id}",
      "s = 'x#{id}' or a in (#{Enum.map_join(1..:rand.uniform(60), ",", fn _ -> "#{:rand.uniform(1_000_000)}" end)})",
      "contains(s, 'abc#{id}')",
      "l one of (#{id}, #{id + 3}, #{:rand.uniform(10)})",
      "not (a = #{id} and b > 3 or s = 'y#{rem(id, 10)}')"
    ])
  end

  ## Filling

  def rules, do: [{1, "a = 1"}, {2, "a = 2"}]
  def rules_in_ok, do: {:ok, Stream.map(rules(), & &1)}
  def no_rules, do: {:error, %Error{kind: :not_found, message: "the database is down"}}
  def wrong_rules, do: [{1, "a = 1"}, {2, "a ="}]

  test "a function or an image fills a server before its first search" do
    for function <- [:rules, :rules_in_ok] do
      name = name()
      start_supervised!({Server, name: name, schema: @schema, load: {__MODULE__, function, []}})
      assert BeTree.search(name, %{a: 2}) == {:ok, [2]}
      assert texts(name) == %{1 => "a = 1", 2 => "a = 2"}
      :ok = Server.put(name, 3, "a = 2")
      # The successor does not load again.
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

  def raising_rules, do: raise("the database refused the password")
  def raising_stream, do: Stream.map(rules(), fn _rule -> raise KeyError, key: :text, term: %{id: 7} end)
  def throwing_rules, do: throw({:no, :rules})
  def exiting_rules, do: exit({:timeout, {GenServer, :call, [:repo, :all, 5_000]}})

  describe "start_link/1 with a load: that" do
    for {function, failures} <- [
          raising_rules: ["raised RuntimeError: the database refused the password"],
          raising_stream: ["raised KeyError: ", ":text", "%{id: 7}"],
          throwing_rules: ["threw {:no, :rules}"],
          exiting_rules: ["exited: ", "GenServer.call(:repo, :all, 5000)", "time out"],
          undefined_rules: ["raised UndefinedFunctionError: ", "undefined_rules/0 is undefined"]
        ] do
      test "is #{function}/0 returns its failure, and logs the stack trace" do
        Process.flag(:trap_exit, true)
        options = [name: name(), schema: @schema, load: {__MODULE__, unquote(function), []}]
        about = "#{inspect(__MODULE__)}.#{unquote(function)}/0"
        {result, [line | _more]} = with_log(about, fn -> Server.start_link(options) end)
        assert {:error, %Error{kind: :callback, message: message}} = result
        assert message =~ "`load:`, #{about}, "
        refute message =~ "\n"
        for failure <- unquote(failures), text <- [message, line], do: assert(text =~ failure)
        assert line =~ "\n    " and line =~ "start.ex:"
      end
    end

    test "returns no list says so" do
      Process.flag(:trap_exit, true)
      load = {Function, :identity, [:no_list]}

      assert {:error, %Error{kind: :type, message: "subscriptions are a list or a stream, got: an atom"}} =
               Server.start_link(name: name(), schema: @schema, load: load)
    end
  end

  test "a failed load ends the start with its error" do
    Process.flag(:trap_exit, true)

    assert {:error, %Error{kind: :not_found, message: "the database is down"}} =
             Server.start_link(name: name(), schema: @schema, load: {__MODULE__, :no_rules, []})

    assert {:error, %Error{kind: :syntax, position: 1}} =
             Server.start_link(name: name(), schema: @schema, load: {__MODULE__, :wrong_rules, []})

    image = {:binary, BeTree.Image.to_binary!(BeTree.new!(@schema))}

    for {schema, difference} <- [
          {[b: :integer], "with the attribute `a`"},
          {Enum.reverse(@schema), "with its attributes in another order"}
        ] do
      assert {:error, %Error{kind: :other_schema, message: message}} =
               Server.start_link(name: name(), schema: schema, image: image)

      assert message == "the image has another schema than the server, #{difference}; give the server that schema"
    end

    assert_raise ArgumentError, ~r/exclude each other/, fn ->
      Server.start_link(name: name(), schema: @schema, dir: "d", load: {__MODULE__, :rules, []})
    end
  end
end
