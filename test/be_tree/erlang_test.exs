defmodule BeTree.ErlangTest do
  use ExUnit.Case, async: true

  doctest :erl_betree
end
