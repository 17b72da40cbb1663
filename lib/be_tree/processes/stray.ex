defmodule BeTree.Processes.Stray do
  @moduledoc false
  # Unknown messages to a process and other warnings: it logs at most one per second, and continues.

  alias BeTree.Input.Describe
  alias BeTree.Processes.Log

  @key {__MODULE__, :logged}
  @min_log_interval_ms 1_000

  @doc "Logs that the calling process ignores `message`."
  @spec ignore(:message | :call | :cast, term) :: :ok
  def ignore(sort, message), do: warn("a process ignores an unknown #{sort}: #{Describe.kind(message)}")

  @doc "Logs a warning of the calling process, at most one per second."
  @spec warn(String.t()) :: :ok
  def warn(text) do
    now = System.monotonic_time(:millisecond)

    case Process.get(@key) do
      {at, ignored} when now - at < @min_log_interval_ms ->
        Process.put(@key, {at, ignored + 1})
        :ok

      logged ->
        more = if logged, do: elem(logged, 1), else: 0
        Process.put(@key, {now, 0})
        others = if more > 0, do: ", and #{more} before it", else: ""
        Log.warning(text <> others)
    end
  end

  @doc "Logs an unknown call, and returns the error for its caller."
  @spec refuse(term) :: {:error, BeTree.Error.t()}
  def refuse(call) do
    ignore(:call, call)
    {:error, %BeTree.Error{kind: :type, message: "this process knows no such call: #{Describe.kind(call)}"}}
  end
end
