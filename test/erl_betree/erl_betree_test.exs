defmodule ErlBetreeTest do
  use ExUnit.Case, async: true

  doctest :erl_betree

  # The suites in test/erlang are written in Erlang, as programs are that call this interface.
  for suite <- [:erl_betree_tests, :erl_betree_yield_tests, :erl_betree_reasons_tests],
      {name, 0} <- suite.module_info(:exports),
      String.ends_with?("#{name}", "_test") do
    test "#{suite}:#{name}" do
      unquote(suite).unquote(name)()
    end
  end
end
