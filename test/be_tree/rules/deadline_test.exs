defmodule BeTree.Rules.DeadlineTest do
  # All waits of a call of a server with partitions share the call's timeout.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.{Gauges, Shared}
  alias BeTree.Test.RulesServers

  @rules "fact click(id: integer) rule seen when c: click then notify seen(id: c.id)"
  @partitions 3
  @facts for id <- 1..30, do: {:click, id: id}

  # Far more than a busy machine needs.
  @wait 300_000

  defmodule Recording do
    @moduledoc false
    # Records the timeouts of the calls of a process that has called `begin/0`. Each takes a millisecond or more.
    use BeTree.Test.Delegating, except: [call: 4]

    def begin, do: Process.put(__MODULE__, [])
    def timeouts, do: Process.delete(__MODULE__)

    def call(instance, export, arguments, request) do
      if timeouts = Process.get(__MODULE__) do
        Process.put(__MODULE__, timeouts ++ [request.timeout])
        pass(System.monotonic_time(:millisecond))
      end

      BeTree.Runtime.Wasmtime.call(instance, export, arguments, request)
    end

    defp pass(now), do: if(System.monotonic_time(:millisecond) == now, do: pass(now))
  end

  defp start(options \\ []) do
    {name, _id} = RulesServers.start!([rules: @rules, partitions: @partitions, partition_by: :id] ++ options)
    {:ok, _page} = Server.assert_all(name, @facts)
    {:ok, _page} = Server.assert(name, {:click, id: 1, at: 1}, source: :web)
    name
  end

  # Returns what `call` returned, and the timeouts with which its process waited for replies of processes.
  defp waits(call) do
    test = self()

    task =
      Task.async(fn ->
        receive(do: (:go -> :ok))
        result = call.()
        send(test, :called)
        receive(do: (:end -> result))
      end)

    :erlang.trace_pattern({:gen_server, :receive_response, 2}, true, [])
    :erlang.trace(task.pid, true, [:call])
    send(task.pid, :go)
    assert_receive :called, @wait
    delivered = :erlang.trace_delivered(task.pid)
    assert_receive {:trace_delivered, _pid, ^delivered}, @wait
    send(task.pid, :end)
    {Task.await(task, @wait), traced(task.pid)}
  end

  defp traced(pid) do
    receive do
      {:trace, ^pid, :call, {:gen_server, :receive_response, [_request, timeout]}} -> [timeout | traced(pid)]
    after
      0 -> []
    end
  end

  test "a call waits its timeout for all partitions together" do
    name = start()
    owners = for number <- 0..(@partitions - 1), do: Shared.owner(name, number)
    Enum.each(owners, &:sys.suspend/1)

    for call <- [
          &Server.assert_all(name, @facts, timeout: &1),
          &Server.assert(name, {:click, id: 1, at: 2}, source: :web, timeout: &1),
          &Server.advance(name, 5, timeout: &1),
          &Server.end_source(name, :web, timeout: &1),
          &Server.facts(name, :click, timeout: &1),
          &Server.sources(name, timeout: &1),
          &Server.explain(name, :seen, timeout: &1),
          &Server.info(name, timeout: &1)
        ] do
      {result, [first | others]} = waits(fn -> call.(20) end)
      assert {:error, %Error{kind: :timeout}} = result
      # The first wait takes all the time.
      assert first in 0..20
      assert others == List.duplicate(0, @partitions - 1)
    end

    {result, [_first | others]} = waits(fn -> Gauges.read(name, 20) end)
    assert {:ok, %{busy: 1}} = result
    assert others == List.duplicate(0, @partitions - 1)
    Enum.each(owners, &:sys.resume/1)
  end

  test "a read of all partitions gives each the time that those before have left" do
    name = start(runtime: Recording)

    for call <- [
          &Server.facts(name, :click, timeout: &1),
          &Server.sources(name, timeout: &1),
          &Server.explain(name, :seen, timeout: &1),
          &Server.info(name, timeout: &1)
        ] do
      Recording.begin()
      assert {:ok, _result} = call.(@wait)
      timeouts = Recording.timeouts()
      assert length(timeouts) >= @partitions
      assert hd(timeouts) <= @wait
      assert timeouts == timeouts |> Enum.uniq() |> Enum.sort(:desc)
    end
  end
end
