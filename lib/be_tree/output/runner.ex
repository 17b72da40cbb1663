defmodule BeTree.Output.Runner do
  @moduledoc false
  # The process that calls a sink, and may block there. It is linked to the writer, which gives it one job at a time.

  alias BeTree.Input.Describe
  alias BeTree.Output.Sink
  alias BeTree.Processes.Callback

  @typedoc "The pages of `BeTree.Runtime.Native.output_next/3`, and the number of messages dropped before."
  @type job :: {[binary | {binary, binary}], non_neg_integer}

  @typedoc "What the writer must know of an open sink."
  @type opened :: %{form: :messages | :pages, encoding: :unicode | :latin1 | nil}

  @doc "Starts a process that opens the sink, and then sends `{:opened, pid, result}` to the caller."
  @spec start_link({module, term}) :: pid
  def start_link(sink) do
    writer = self()
    spawn_link(fn -> guard(writer, sink) end)
  end

  @doc "Writes a job. The process then sends `{:written, pid, :ok | {:error, reason}}`."
  @spec write(pid, job) :: :ok
  def write(runner, job) do
    send(runner, {:write, job})
    :ok
  end

  @doc "Ends the connection of a sink, in a process of its own, because the callback may block."
  @spec disconnect({module, term}) :: pid
  def disconnect({module, argument}),
    do: spawn(fn -> Callback.run(name(module), :private, fn -> Sink.disconnect(module, argument) end) end)

  @doc "Closes the sink behind the present job. The process ends."
  @spec close(pid) :: :ok
  def close(runner) do
    send(runner, :close)
    :ok
  end

  # Callbacks get messages, so the log has none of their values. The exit reason tells the writer what failed.
  defp guard(writer, {module, _argument} = sink) do
    with {:error, error} <- Callback.run(name(module), :private, fn -> run(writer, sink) end),
         do: exit({:shutdown, error})
  end

  defp name(module), do: "the sink #{Describe.value(module)}"

  defp run(writer, {module, argument}) do
    case module.open(argument) do
      {:ok, state} ->
        send(writer, {:opened, self(), {:ok, %{form: Sink.form(module), encoding: Sink.encoding(module, state)}}})
        loop(writer, module, state)

      {kind, reason} when kind in [:error, :closed] ->
        send(writer, {:opened, self(), {kind, reason}})
        :ok

      other ->
        refuse("open/1", "{:ok, state}, {:error, reason} or {:closed, reason}", other)
    end
  end

  defp loop(writer, module, state) do
    receive do
      {:write, job} ->
        case write(module, job, state) do
          {:ok, state} ->
            next(writer, module, state, :ok)

          {:error, reason, state} ->
            next(writer, module, state, {:error, reason})

          {:stop, reason, state} ->
            stop(writer, module, state, reason)

          other ->
            refuse("write/2 or dropped/2", "{:ok, state}, {:error, reason, state} or {:stop, reason, state}", other)
        end

      :close ->
        Sink.close(module, state)
        :ok
    end
  end

  defp refuse(callback, expected, other),
    do: raise(ArgumentError, "#{callback} returns #{expected}, got: #{Describe.kind(other)}")

  defp next(writer, module, state, result) do
    send(writer, {:written, self(), result})
    loop(writer, module, state)
  end

  # A sink that cannot be closed is logged, and the writer gets the reason for which it stopped.
  defp stop(writer, module, state, reason) do
    Callback.run(name(module), :private, fn -> Sink.close(module, state) end)
    send(writer, {:written, self(), {:error, reason}})
    :ok
  end

  defp write(module, {pages, 0}, state), do: write_pages(module, pages, state)

  defp write(module, {pages, dropped}, state) do
    with {:ok, state} <- Sink.dropped(module, dropped, state), do: write_pages(module, pages, state)
  end

  defp write_pages(_module, [], state), do: {:ok, state}
  defp write_pages(module, pages, state), do: module.write(Enum.flat_map(pages, &messages/1), state)

  defp messages({bytes, lengths}), do: split(lengths, bytes)
  defp messages(page), do: [page]

  defp split(<<length::32-native, lengths::binary>>, bytes) do
    <<message::binary-size(length), bytes::binary>> = bytes
    [message | split(lengths, bytes)]
  end

  defp split("", ""), do: []
end
