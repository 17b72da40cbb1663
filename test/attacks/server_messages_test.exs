defmodule BeTree.Attacks.ServerMessagesTest do
  # Unknown messages to a server's process, and rapid kills of it.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Servers}

  setup :quiet

  @messages [
              :hello,
              {:built, :no, :pid},
              {:rows, 1, 2},
              {:next, nil},
              {:base, nil, nil},
              {:piece, nil, :last, 1},
              {:unfit, nil, nil, nil},
              {:build, 1}
            ] ++
              [{:EXIT, nil, nil}, {:EXIT, :x, :y}, {{:late}, :answer}, [1 | 2], {:start, nil}, "text", 1.5, nil]

  defp start(options \\ []) do
    name = :"stray_#{System.unique_integer([:positive])}"
    pid = start_supervised!({Server, Keyword.merge([name: name, schema: [a: :integer]], options)}, id: name)
    {name, pid}
  end

  defp ancestors(name) do
    {:dictionary, dictionary} = name |> Servers.process() |> Process.info(:dictionary)
    Keyword.fetch!(dictionary, :"$ancestors")
  end

  defp send_all(server) do
    for message <- @messages do
      send(server, message)
      GenServer.cast(server, message)
      assert {:error, %Error{kind: :type}} = GenServer.call(server, message, :infinity)
    end
  end

  test "the writer and its keeper ignore unknown messages" do
    {name, _pid} = start()
    Server.insert!(name, 1, "a = 1")
    writer = Servers.process(name)
    [keeper | _] = ancestors(name)
    send_all(writer)
    send_all(keeper)
    assert Servers.process(name) == writer
    assert Process.alive?(keeper)
    assert {:error, %Error{}} = GenServer.call(writer, {:insert, :no_list}, :infinity)
    assert {:error, %Error{}} = GenServer.call(writer, {:delete, :no_id}, :infinity)
    assert BeTree.search(name, %{a: 1}) == {:ok, [1]}
    assert Servers.process(name) == writer
  end

  test "a follower ignores unknown messages" do
    {name, _pid} = start()
    {follower, _pid} = start(schema: nil, follow: {name, node()})
    pid = Servers.process(follower)

    for message <- @messages do
      send(pid, message)
      GenServer.cast(pid, message)
    end

    assert Server.info!(follower).follows == {name, node()}
    assert Servers.process(follower) == pid
  end

  test "rapid kills of the writer and its keeper keep the data" do
    {name, pid} = start(max_restarts: 1_000_000_000)
    Server.insert_all!(name, for(id <- 1..100, do: {id, "a = 1"}))

    for round <- 1..Attack.size(150, 2_000) do
      for {_id, keeper, _type, _modules} <- Supervisor.which_children(pid), is_pid(keeper) do
        if rem(round, 2) == 0, do: Process.exit(keeper, :kill)
      end

      if writer = Servers.process(name), do: Process.exit(writer, :kill)
      assert {:ok, ids} = BeTree.search(name, %{a: 1})
      assert length(ids) == 100
    end

    assert Process.alive?(pid)
    eventually(fn -> match?({:ok, %{expressions: 100}}, Server.info(name)) end)
    eventually(fn -> Server.insert(name, 101, "a = 1") == :ok end)
  end
end
