defmodule BeTree.Test.Formatter do
  # ExUnit's formatter, followed by a list of failures. Tests of crashes print thousands of lines, so the names must be at
  # the end.
  @moduledoc false

  use GenServer

  alias ExUnit.CLIFormatter

  # Only the beginning of a long message.
  @characters 400

  @impl true
  def init(options) do
    {:ok, state} = CLIFormatter.init(options)
    {:ok, {state, []}}
  end

  @impl true
  def handle_cast({:suite_finished, _times} = event, {state, failed}) do
    {:noreply, state} = CLIFormatter.handle_cast(event, state)
    if failed != [], do: IO.puts(["\nFailed:\n" | Enum.reverse(failed)])
    {:noreply, {state, []}}
  end

  def handle_cast(event, {state, failed}) do
    {:noreply, state} = CLIFormatter.handle_cast(event, state)
    {:noreply, {state, lines_of(event) ++ failed}}
  end

  defp lines_of({:test_finished, %{state: {:failed, failures}, name: name, tags: tags}}),
    do: ["#{place(tags.file)}:#{tags.line} #{name}\n#{messages(failures)}"]

  defp lines_of({:test_finished, %{state: {:invalid, _module}, name: name, tags: tags}}),
    do: ["#{place(tags.file)}:#{tags.line} #{name}\n  not run, because the set-up of its module failed\n"]

  defp lines_of({:module_finished, %{state: {:failed, failures}, file: file, name: name}}),
    do: ["#{place(file)} #{inspect(name)}\n#{messages(failures)}"]

  defp lines_of(_event), do: []

  defp place(file), do: Path.relative_to_cwd(file)

  defp messages(failures) do
    for {kind, reason, _stack} <- failures do
      message = kind |> Exception.format_banner(reason) |> String.slice(0, @characters)
      "  " <> String.replace(message, "\n", "\n  ") <> "\n"
    end
  end
end
