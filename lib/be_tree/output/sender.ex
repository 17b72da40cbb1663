defmodule BeTree.Output.Sender do
  @moduledoc false
  # The calls of `BeTree.Output` in a process that sends.
  #
  # The process dictionary has the sender of each output, `{sender, epoch, encoding}`, so a message costs one NIF call. The NIF refuses
  # a call whose epoch is old, and the settings are then read again.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Output.{Settings, Text}
  alias BeTree.Processes.Deadline
  alias BeTree.Runtime.Native

  @type t :: {reference, non_neg_integer, Text.encoding()}

  # Longer messages are copied on a dirty scheduler: the copy would hold a scheduler for too long.
  @long 0x4_0000

  # The texts that one call of the NIF checks, in some 50 microseconds.
  @max_texts 500
  @max_text_bytes 1_000

  # How long a sender waits for the next writer after one was killed, before it looks again.
  @restart_ms 1

  @dropped %Error{kind: :overloaded, message: "the output has no room, and drops the message"}

  @doc "Returns the key of the dictionary."
  defmacro key(output), do: quote(do: {BeTree.Output.Sender, unquote(output)})

  @doc "Returns the number of bytes from which `put/2` of this module must take a message."
  defmacro long, do: @long

  @doc "Appends a message in any form."
  @spec put(BeTree.Output.name(), iodata | IO.chardata()) :: :ok | {:error, Error.t()}
  def put(output, message) do
    with {:ok, {_sender, _epoch, encoding} = sender} <- fetch(output),
         do: append(output, sender, Text.encode!(message, encoding))
  end

  @doc "Appends a binary, after the result of an attempt."
  @spec retry(BeTree.Output.name(), binary, atom) :: :ok | {:error, Error.t()}
  def retry(output, message, result) do
    case result do
      :wake -> wake(output)
      :dropped -> {:error, @dropped}
      :full -> wait(output, message)
      :disconnected -> disconnect(output)
      :invalid -> Text.encode!(message, :unicode)
      # Read the changed settings: the sink may have another encoding now.
      :stale -> refresh(output, message)
      :closed -> reopen(output, message)
    end
  end

  defp append(output, {sender, epoch, _encoding}, message, turn? \\ false) do
    case call(sender, message, epoch, turn?) do
      :ok -> :ok
      result -> retry(output, message, result)
    end
  end

  defp call(sender, message, epoch, turn?) when byte_size(message) < @long,
    do: Native.output_append(sender, message, epoch, turn?)

  defp call(sender, message, epoch, turn?), do: Native.output_append_long(sender, message, epoch, turn?)

  @doc "Appends messages. An error has the position of the first one that was not appended."
  @spec put_many(BeTree.Output.name(), [iodata | IO.chardata()]) :: :ok | {:error, Error.t()}
  def put_many(output, messages) do
    with {:ok, {_sender, _epoch, encoding}} <- fetch(output) do
      cond do
        encoding == nil and Enum.all?(messages, &(is_binary(&1) and byte_size(&1) < @long)) ->
          put_each(output, messages, false, 0, :ok)

        encoding == :unicode and short_texts?(messages, @max_texts) ->
          put_each(output, messages, true, 0, :ok)

        true ->
          put_each(output, Enum.map(messages, &Text.encode!(&1, encoding)), false, 0, :ok)
      end
    end
  end

  # Returns whether one call of the NIF may check all messages.
  defp short_texts?([], _left), do: true
  defp short_texts?(_messages, 0), do: false

  defp short_texts?([message | rest], left),
    do: is_binary(message) and byte_size(message) <= @max_text_bytes and short_texts?(rest, left - 1)

  defp put_each(_output, [], _text?, _position, result), do: result

  defp put_each(output, messages, text?, position, result) do
    with {:ok, {sender, epoch, _encoding}} <- fetch(output) do
      {outcome, wake?, count} = Native.output_append_many(sender, messages, epoch, text?)
      if wake?, do: wake(output)

      case {outcome, Enum.drop(messages, count)} do
        {:ok, rest} -> put_each(output, rest, text?, position + count, result)
        {:invalid, messages} -> Enum.each(messages, &Text.encode!(&1, :unicode))
        {outcome, [message | rest]} -> put_next(output, message, {rest, text?}, position + count, result, outcome)
      end
    end
  end

  defp put_next(output, message, {rest, text?}, position, result, outcome) do
    case retry(output, message, outcome) do
      :ok -> put_each(output, rest, text?, position + 1, result)
      {:error, error} -> put_each(output, rest, text?, position + 1, first(result, %{error | position: position}))
    end
  end

  defp first(:ok, error), do: {:error, error}
  defp first(result, _error), do: result

  @doc "Returns the sender of the calling process."
  @spec fetch(BeTree.Output.name()) :: {:ok, t} | {:error, Error.t()}
  def fetch(output) do
    case Process.get(key(output)) do
      nil -> register(output)
      sender -> {:ok, sender}
    end
  end

  defp register(output) do
    with {:ok, settings} <- Settings.fetch(output, :settings),
         {:ok, sender} <- request(output, :sender, Deadline.new(settings.timeout)) do
      sender = {sender, settings.epoch, settings.encoding}
      Process.put(key(output), sender)
      {:ok, sender}
    end
  end

  @doc "Calls the writer. Waits for the next one if it is killed."
  @spec request(BeTree.Output.name(), term, Deadline.t()) :: {:ok, term} | {:error, Error.t()}
  def request(output, request, deadline) do
    with {:ok, writer} <- Settings.fetch(output, :writer) do
      case call_writer(writer, request, Deadline.left(deadline)) do
        :down -> if rest(deadline), do: request(output, request, deadline), else: {:error, timeout(output)}
        :timeout -> {:error, timeout(output)}
        reply -> {:ok, reply}
      end
    end
  end

  defp call_writer(writer, request, timeout) do
    GenServer.call(writer, request, timeout)
  catch
    :exit, {:timeout, _call} -> :timeout
    :exit, _reason -> :down
  end

  # Waits a moment, unless the deadline has passed.
  defp rest(deadline) do
    receive do
    after
      @restart_ms -> not Deadline.passed?(deadline)
    end
  end

  defp wake(output) do
    with {:ok, writer} <- Settings.fetch(output, :writer), do: send(writer, :wake)
    :ok
  end

  defp refresh(output, message) do
    with {:ok, settings} <- Settings.fetch(output, :settings) do
      {sender, _epoch, _encoding} = Process.get(key(output))
      sender = {sender, settings.epoch, settings.encoding}
      Process.put(key(output), sender)
      append(output, sender, message)
    end
  end

  # The queue is closed: that of an output that stopped and was started again, or its sink is gone.
  defp reopen(output, message) do
    Process.delete(key(output))

    with {:ok, %{closed: nil}} <- Settings.fetch(output, :settings),
         {:ok, {sender, epoch, _encoding}} <- register(output) do
      case call(sender, message, epoch, false) do
        :ok -> :ok
        # The sender that met the overflow may have been killed before it told the writer.
        :closed -> disconnect(output)
        result -> retry(output, message, result)
      end
    else
      {:ok, %{closed: error}} -> {:error, error}
      {:error, error} -> {:error, error}
    end
  end

  defp disconnect(output) do
    with {:ok, writer} <- Settings.fetch(output, :writer), do: send(writer, :disconnect)
    {:error, %Error{kind: :closed, message: "the output has no room, and disconnects its sink"}}
  end

  defp wait(output, message) do
    with {:ok, settings} <- Settings.fetch(output, :settings),
         do: wait(output, message, Deadline.new(settings.timeout), :last)
  end

  # The writer gives the turns in the order in which senders began to wait.
  defp wait(output, message, deadline, place) do
    with {:ok, writer} <- Settings.fetch(output, :writer) do
      reference = :erlang.monitor(:process, writer, alias: :reply_demonitor)
      send(writer, {:wait, self(), reference, place})

      receive do
        {:turn, ^reference} -> take_turn(output, message, deadline)
        {:DOWN, ^reference, :process, _writer, _reason} -> wait_again(output, message, deadline, place)
      after
        Deadline.left(deadline) -> give_up(output, writer, reference)
      end
    end
  end

  defp take_turn(output, message, deadline) do
    {sender, epoch, _encoding} = Process.get(key(output))

    case call(sender, message, epoch, true) do
      :ok -> :ok
      :full -> wait(output, message, deadline, :first)
      result -> retry(output, message, result)
    end
  end

  defp wait_again(output, message, deadline, place) do
    if rest(deadline), do: wait(output, message, deadline, place), else: {:error, timeout(output)}
  end

  # The writer gives a turn that came too late to the next one.
  defp give_up(output, writer, reference) do
    Process.demonitor(reference, [:flush])
    send(writer, {:leave, reference})

    receive do
      {:turn, ^reference} -> :ok
    after
      0 -> :ok
    end

    {:error, timeout(output)}
  end

  defp timeout(output) do
    %Error{kind: :timeout, message: "the output #{Describe.value(output)} had no room, or was not there, in time"}
  end
end
