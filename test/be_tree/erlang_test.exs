defmodule BeTree.ErlangTest do
  use ExUnit.Case, async: true

  import ExUnit.CaptureIO

  doctest :erl_betree

  # Suites in Erlang, for what programs in Erlang call: test/erlang.
  for suite <- [:erl_betree_tests, :erl_betree_yield_tests, :erl_betree_reasons_tests] do
    test "#{suite}" do
      report = capture_io(fn -> send(self(), {:result, :eunit.test(unquote(suite), [:verbose])}) end)
      assert_received {:result, result}
      assert result == :ok, report
    end
  end
end
