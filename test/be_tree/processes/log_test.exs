defmodule BeTree.Processes.LogTest do
  # Messages of the library in a VM of their own, which prints them.
  use ExUnit.Case, async: true

  # Sends a process of the library a message that it does not know, and waits until the handler has printed the warning.
  @warn "Names = 'Elixir.BeTree.Server.Names', Names ! unknown, sys:get_state(Names), logger_std_h:filesync(default), halt(0)."
  @warning "BeTree: a process ignores an unknown message: an atom"

  # Returns what Erlang prints during `code`, with the applications of this build.
  defp erl(code) do
    paths = for application <- [:elixir, :logger, :be_tree], do: Path.join(:code.lib_dir(application), "ebin")
    arguments = ["-noshell", "+S", "2:2", "-pa"] ++ paths ++ ["-eval", code]
    assert {printed, 0} = System.cmd(System.find_executable("erl"), arguments, stderr_to_stdout: true)
    printed
  end

  test "a warning is printed by Erlang's handler, where Elixir's Logger does not run" do
    assert erl("{ok, _} = application:ensure_all_started(be_tree), #{@warn}") =~ @warning
  end

  test "a warning is kept out by a filter of Erlang's handler for the application" do
    filter = "fun(#{"\#{meta := \#{application := be_tree}}"}, _) -> stop; (_, _) -> ignore end"
    code = "ok = logger:add_handler_filter(default, be_tree, {#{filter}, []}), "
    refute erl("{ok, _} = application:ensure_all_started(be_tree), #{code} #{@warn}") =~ "BeTree"
  end

  test "a warning is printed by Elixir's Logger" do
    # Its console prints in a process of its own before Elixir 1.15.
    code = "{ok, _} = application:ensure_all_started(logger), {ok, _} = application:ensure_all_started(be_tree), "

    warn =
      "Names = 'Elixir.BeTree.Server.Names', Names ! unknown, sys:get_state(Names), 'Elixir.Logger':flush(), " <>
        "init:stop(), receive after infinity -> ok end."

    assert erl(code <> warn) =~ @warning
  end
end
