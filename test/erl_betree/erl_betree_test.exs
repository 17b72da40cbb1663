defmodule ErlBetreeTest do
  use ExUnit.Case, async: true

  import ExUnit.CaptureIO

  doctest :erl_betree

  # Suites in Erlang, for what programs in Erlang call: test/erlang.
  for suite <- [:erl_betree_tests, :erl_betree_yield_tests, :erl_betree_reasons_tests] do
    test "#{suite}" do
      report = capture_io(fn -> send(self(), {:result, :eunit.test(tests(unquote(suite)), [:verbose])}) end)
      assert_received {:result, result}
      assert result == :ok, report
    end
  end

  # Left to itself EUnit gives a test 5 seconds, which may be too few beside other tests.
  defp tests(suite) do
    functions = for {name, 0} <- suite.module_info(:exports), String.ends_with?("#{name}", "_test"), do: name
    for function <- functions, do: {:timeout, 240, {:test, suite, function}}
  end
end
