defmodule BeTree.Rules.NamesTest do
  # Servers of rules whose names are no atoms.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill_and_wait: 2]

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.{Shared, Subscribers}

  # Servers are killed here.
  setup :quiet

  @moduletag :tmp_dir
  @wait 60_000
  @rules "fact click(id: integer) rule seen when c: click then notify seen(id: c.id)"
  @layouts [one: [], partitions: [partitions: 3, partition_by: :id]]

  setup do
    registry = :"registry_#{System.unique_integer([:positive])}"
    start_supervised!({Registry, keys: :unique, name: registry})
    %{names: [{:via, Registry, {registry, "acme"}}, {:via, :global, {__MODULE__, make_ref()}}]}
  end

  defp pid({:via, module, term}), do: with(:undefined <- module.whereis_name(term), do: nil)

  defp numbers(_name, 0), do: []

  defp numbers(name, count) do
    assert_receive {Server, ^name, notices} when is_list(notices), @wait
    Enum.map(notices, & &1.number) ++ numbers(name, count - length(notices))
  end

  for {layout, options} <- @layouts do
    describe "{:via, module, term} with #{layout}" do
      @describetag options: options

      test "is a name for all functions", %{names: names, options: options, tmp_dir: dir} do
        for {name, index} <- Enum.with_index(names) do
          options = [name: name, rules: @rules, dir: Path.join(dir, "#{index}")] ++ options
          pid = start_supervised!({Server, options}, id: name)
          assert pid(name) == pid
          assert {:error, {:already_started, ^pid}} = Server.start_link(options)
          :ok = Server.subscribe(name)
          assert {:ok, %{firings: 1, ids: [id]}} = Server.assert(name, {:click, id: 1})
          assert {:ok, %{firings: 2}} = Server.assert_all(name, [{:click, id: 2}, {:click, id: 3}])
          assert length(numbers(name, 3)) == 3
          assert {:ok, _page} = Server.retract(name, id)
          assert {:ok, _page} = Server.advance(name, 5)
          assert {:ok, _page} = Server.assert(name, {:click, id: 4, at: 5}, source: :web)
          assert {:ok, %{"web" => 5}} = Server.sources(name)
          assert {:ok, _page} = Server.end_source(name, :web)
          assert {:ok, [_, _, _]} = Server.facts(name, :click)
          assert {:ok, [_explanation]} = Server.explain(name, :seen)
          assert :ok = Server.swap(name, @rules <> " rule more when c: click(id < 0) then retract c")
          assert {:ok, %{rules: 2, facts: 3}} = Server.info(name)
          assert {:ok, _page} = Server.go_live(name)
          assert :ok = Server.unsubscribe(name)
          assert :ok = stop_supervised(name)
          assert {:error, %Error{kind: :no_server}} = Server.assert(name, {:click, id: 1})
          assert {:error, %Error{kind: :no_server}} = Server.subscribe(name)
        end
      end

      test "keeps subscribers and numbers over restarts", %{names: [name | _names], options: options} do
        start_supervised!({Server, [name: name, rules: @rules] ++ options})
        :ok = Server.subscribe(name)
        for id <- 1..30, do: {:ok, _page} = Server.assert(name, {:click, id: id})
        before = numbers(name, 30)
        kill_and_wait(pid(name), fn -> pid(name) end)
        for _part <- 1..(options[:partitions] || 1), do: assert_receive({Server, ^name, :restarted}, @wait)
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        {:ok, %{last_notice: last}} = Server.info(name)
        if Shared.partitions(name), do: assert(Enum.sum(Map.values(last)) == 30), else: assert(last == 30)
        {:ok, _page} = Server.assert(name, {:click, id: 31})
        assert [number] = numbers(name, 1)
        assert number > Enum.min(before)
      end

      test "leaves nothing behind if nobody receives its notices", %{names: [name | _names], options: options} do
        for _round <- 1..3 do
          start_supervised!({Server, [name: name, rules: @rules] ++ options}, id: name)
          for id <- 1..9, do: {:ok, _page} = Server.assert(name, {:click, id: id})
          :ok = stop_supervised(name)
        end

        rows = for row <- :ets.tab2list(Subscribers), name in Tuple.to_list(elem(row, 0)), do: row
        assert rows == []
      end
    end
  end

  test "another term is refused" do
    for wrong <- ["x", 1, nil, {:global, :x}, {:via, "x", 1}] do
      assert_raise ArgumentError, ~r/an atom or {:via, module, term}/, fn -> Server.info(wrong) end
      assert_raise ArgumentError, ~r/:name/, fn -> Server.start_link(name: wrong, rules: @rules) end
    end
  end

  test "a module that cannot register and find processes raises" do
    for {module, fault} <- [
          {Missing, "there is no module Missing; give Registry"},
          {String, "lacks register_name/2, send/2, unregister_name/1, whereis_name/1; give Registry"}
        ] do
      name = {:via, module, 7}

      for call <- [
            &Server.start_link(name: &1, rules: @rules),
            &Server.start_link(name: &1, rules: @rules, partitions: 2, partition_by: :id),
            &Server.assert(&1, {:click, id: 1}),
            &Server.advance(&1, 1),
            &Server.info/1,
            &Server.subscribe/1
          ] do
        error = assert_raise ArgumentError, fn -> call.(name) end
        assert Exception.message(error) =~ fault
      end
    end
  end
end
