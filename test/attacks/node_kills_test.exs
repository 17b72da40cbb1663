defmodule BeTree.Attacks.NodeKillsTest do
  # Servers with a folder, whose node gets SIGKILL at any moment.
  use ExUnit.Case, async: true

  import BeTree.Test.Quiet
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Test.{Attack, OsNode}

  @moduletag timeout: :infinity
  @schema [a: :integer, s: {:string, optional: true}]

  setup [:quiet, :folder]

  test "a killed node keeps every acknowledged change", %{folder: folder} do
    :rand.seed(:exsss, {Attack.seed(), 31, 0})
    for number <- 1..Attack.size(5, 200), reduce: %{}, do: (there -> kill_node(folder, number, there, &integer/1))
  end

  test "a killed node keeps the terms of its ids", %{folder: folder} do
    :rand.seed(:exsss, {Attack.seed(), 32, 0})
    for number <- 1..Attack.size(3, 50), reduce: %{}, do: (there -> kill_node(folder, number, there, &term/1))
  end

  test "a node that is killed during migrations keeps every acknowledged change", %{folder: folder} do
    :rand.seed(:exsss, {Attack.seed(), 33, 0})
    for number <- 1..Attack.size(4, 100), reduce: %{}, do: (there -> kill_node(folder, number, there, &migrating/1))
  end

  # Code for the server's options, for the id of an integer, the reverse, and for work beside the changes. Each node makes the atoms itself, after
  # recovery read those of the previous node.
  defp integer(:options), do: "[]"
  defp integer(:id), do: "fn id -> id end"
  defp integer(:integer), do: "fn id -> id end"
  defp integer(:beside), do: ""

  defp term(:options), do: "[ids: :term]"
  defp term(:id), do: ~s|fn id -> {String.to_atom("term_" <> Integer.to_string(rem(id, 7))), [id]} end|
  defp term(:integer), do: "fn {_atom, [id]} -> id end"
  defp term(:beside), do: ""

  # The next node finds either schema, and moves back to the first one.
  defp migrating(:options), do: "[schema_change: :migrate]"

  defp migrating(:beside) do
    """
    spawn(fn ->
      for _ <- 1..1_000_000, schema <- [#{inspect([b: {:float, optional: true}] ++ @schema)}, #{inspect(@schema)}] do
        :ok = BeTree.Server.migrate(Killed, schema)
      end
    end)
    """
  end

  defp migrating(other), do: integer(other)

  # The node writes to a file when a change begins and when it is acknowledged. The operating system keeps written bytes
  # after a kill;
  # printed ones may be lost, so they only count changes.
  defp kill_node(folder, number, there, kind) do
    file = Path.join(folder, "changes_#{number}.txt")

    port =
      OsNode.start("""
      {:ok, _} = Application.ensure_all_started(:be_tree)
      # On a loaded machine compiling the module may exceed the node's wait.
      compile = fn compile -> with {:error, %{kind: :timeout}} <- BeTree.new(a: :integer), do: compile.(compile) end
      {:ok, _tree} = compile.(compile)
      {id_of, integer_of} = {#{kind.(:id)}, #{kind.(:integer)}}
      options = [name: Killed, schema: #{inspect(@schema)}, dir: #{inspect(folder)}, durability: :sync] ++ #{kind.(:options)}
      {:ok, _pid} = BeTree.Server.start_link(options)
      IO.puts("pid " <> System.pid())
      texts = for id <- BeTree.Server.ids!(Killed), do: {integer_of.(id), BeTree.Server.fetch!(Killed, id)}
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
            :ok = BeTree.Server.put(Killed, id_of.(id), text)
            write.("made " <> Integer.to_string(client))
          end
        end)
      end
      #{kind.(:beside)}
      Process.sleep(:infinity)
      """)

    os_pid = OsNode.line(port, "pid ")
    found = port |> OsNode.line("texts ") |> Base.decode64!() |> :erlang.binary_to_term() |> Map.new()
    assert agree?(there, found)
    # Waits for a number of events instead of a time.
    for _ <- 1..(10 + :rand.uniform(150)), do: OsNode.line(port, "one more")
    OsNode.kill(port, os_pid)
    lines = file |> File.read!() |> String.split("\n")
    File.rm!(file)
    changes(lines, for({id, text} <- found, into: %{}, do: {id, {text, nil}}))
  end

  # Returns for each id the last acknowledged text and the pending one, if any.
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
end
