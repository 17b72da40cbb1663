defmodule BeTree.Test.OsNode do
  @moduledoc """
  An Erlang node in another operating-system process, with the code of this build, for tests that kill it.

  The calling test receives printed lines as `{port, {:data, {:eol, line}}}`, and `{port, {:exit_status, status}}` at the
  end. A node still running at the end of the test is killed.
  """

  import ExUnit.Callbacks, only: [on_exit: 2]

  @doc """
  Starts a node that runs this Elixir code, and returns its port. `limits:` is a shell command that lowers limits first. `library:` is the
  folder of another build of an application.
  """
  def start(code, options \\ []) do
    paths = for path <- :code.get_path(), path = List.to_string(path), path =~ "/_build/", do: ["-pa", path]
    # The last path is searched first.
    library = if options[:library], do: ["-pa", Path.join(options[:library], "ebin")], else: []
    arguments = List.flatten(paths) ++ library ++ ["--erl", "+S 2:2 -start_epmd false", "-e", code]
    {executable, arguments} = limited(System.find_executable("elixir"), arguments, options[:limits])

    port =
      Port.open({:spawn_executable, executable}, [
        :binary,
        :exit_status,
        :stderr_to_stdout,
        line: 65_536,
        args: arguments
      ])

    {:os_pid, os_pid} = Port.info(port, :os_pid)
    # Elixir's and Erlang's scripts exec the node, so this is its pid.
    on_exit({__MODULE__, port}, fn -> System.cmd("kill", ["-9", "#{os_pid}"], stderr_to_stdout: true) end)
    port
  end

  defp limited(executable, arguments, nil), do: {executable, arguments}

  defp limited(executable, arguments, command) do
    {System.find_executable("sh"), ["-c", ~s(#{command} && exec "$@"), "sh", executable | arguments]}
  end

  @doc "Waits for a printed line with this prefix, and returns the rest of it. Any other line fails the test."
  def line(port, prefix) do
    receive do
      {^port, {:data, {_end, line}}} ->
        if String.starts_with?(line, prefix),
          do: String.replace_prefix(line, prefix, ""),
          else: ExUnit.Assertions.flunk("the node printed:\n" <> Enum.join([line | await_end(port)], "\n"))

      {^port, {:exit_status, status}} ->
        ExUnit.Assertions.flunk("the node ended with #{status}")
    after
      300_000 -> ExUnit.Assertions.flunk("the node printed nothing")
    end
  end

  @doc "Kills the node and waits for its end. `os_pid` is the node's `System.pid/0`, because the port's process may be a shell."
  def kill(port, os_pid) do
    {_output, 0} = System.cmd("kill", ["-9", os_pid])
    await_end(port)
  end

  @doc "Waits for the end of the node. Returns its printed lines that were not received yet."
  def await_end(port, lines \\ []) do
    receive do
      {^port, {:data, {_end, line}}} ->
        await_end(port, [line | lines])

      {^port, {:exit_status, _status}} ->
        # The pid may be reused soon.
        on_exit({__MODULE__, port}, fn -> :ok end)
        Enum.reverse(lines)
    after
      120_000 -> raise "the node did not end, and printed #{inspect(Enum.reverse(lines))}"
    end
  end
end
