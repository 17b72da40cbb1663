defmodule BeTree.Runtime.FailuresTest do
  # Runtimes of the user that fail within the processes of servers.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Logs, Quiet}

  alias BeTree.{Error, Rules, Server}
  alias BeTree.Test.Servers

  setup :quiet

  # Each raises after its test has called `fail/2`.
  defmodule Switch do
    @moduledoc false
    def fail(runtime, how), do: :persistent_term.put(runtime, how)

    def check(runtime) do
      case :persistent_term.get(runtime, nil) do
        nil -> :ok
        {:raise, exception} -> raise exception
        {:throw, value} -> throw(value)
      end
    end
  end

  defmodule Offline do
    @moduledoc false
    use BeTree.Test.Delegating, except: [load: 1]
    def load(_wasm), do: raise("no connection to the accelerator")
  end

  for module <- [Messages, Values, Throws, OfRules] do
    defmodule module do
      @moduledoc false
      use BeTree.Test.Delegating, except: [call: 4]
      alias BeTree.Runtime.{FailuresTest.Switch, Wasmtime}

      # A tail call would not be in the stack trace.
      def call(instance, export, arguments, request) do
        :ok = Switch.check(__MODULE__)
        Wasmtime.call(instance, export, arguments, request)
      end
    end
  end

  test "start_link/1 of a server and of rules returns the exception of a runtime, and its place" do
    Process.flag(:trap_exit, true)

    starts = [
      fn -> Server.start_link(name: Servers.new_name(), schema: [age: :integer], runtime: Offline) end,
      fn -> Rules.Server.start_link(name: Servers.new_name(), rules: "fact a(x: integer)", runtime: Offline) end,
      fn ->
        partitions = [partitions: 2, partition_by: :x]
        rules = [name: Servers.new_name(), rules: "fact a(x: integer)", runtime: Offline]
        Rules.Server.start_link(rules ++ partitions)
      end
    ]

    for start <- starts do
      {result, lines} = with_log("no connection to the accelerator", start)
      assert {:error, %Error{kind: :callback, message: message}} = result

      assert message =~
               ~r/Offline.load\/1 raised RuntimeError: no connection to the accelerator \(.*failures_test.exs:\d+\)/

      # The stack trace.
      assert Enum.any?(lines, &(&1 =~ "lib/be_tree/"))
    end
  end

  # Returns the error of a change by which the process of the server ends, and the log until the server runs again.
  defp change(runtime, how) do
    name = Servers.start(schema: [name: :string], runtime: runtime)

    with_log(inspect(name), fn ->
      Switch.fail(runtime, how)
      {:error, error} = Server.insert(name, 1, "name = 'sEcReT'")
      Switch.fail(runtime, nil)
      eventually(fn -> Server.insert(name, 2, "true") == :ok end)
      error
    end)
  end

  test "a change during which a runtime raises returns the exception and its place" do
    {error, lines} = change(Messages, {:raise, %RuntimeError{message: "no connection\nto the accelerator"}})
    assert error.kind == :no_server

    expected =
      ~r/because .*Switch.check\/1 raised RuntimeError: no connection to the accelerator \(.*failures_test.exs:\d+\): the change/

    assert error.message =~ expected
    assert Enum.any?(lines, &(&1 =~ "raised RuntimeError: no connection to the accelerator" and &1 =~ "starts again"))
  end

  test "a change during which a runtime raises or throws a value reveals none" do
    for {runtime, how, failure} <- [
          {Values, {:raise, %MatchError{term: "sEcReT"}}, "raised MatchError ("},
          {Throws, {:throw, {:reply, "sEcReT", nil}}, "threw a tuple of 3 elements ("}
        ] do
      {error, lines} = change(runtime, how)
      assert error.kind == :no_server
      assert error.message =~ "Switch.check/1 #{failure}"
      refute Enum.join([Exception.message(error) | lines]) =~ "sEcReT"
    end
  end

  test "a call of rules during which a runtime raises returns the exception and its place" do
    name = Servers.new_name()
    start_supervised!({Rules.Server, name: name, rules: "fact a(x: integer)", runtime: OfRules})
    Switch.fail(OfRules, {:raise, %RuntimeError{message: "no connection"}})
    assert {:error, %Error{kind: :no_server, message: message}} = Rules.Server.assert(name, {:a, x: 1})
    Switch.fail(OfRules, nil)

    assert message =~
             ~r/because .*Switch.check\/1 raised RuntimeError: no connection \(.*failures_test.exs:\d+\): the call/
  end
end
