defmodule BeTree.Bench.Output.Loops do
  @moduledoc false
  # The measured loops of senders. Each calls one function with every message of a list, `rounds` times over.

  alias BeTree.Bench.Output.Mailbox
  alias BeTree.Output

  # The rounds repeat a short list, so that the heap of a sender is small. It has whole chunks only.
  @distinct 640
  @chunk 64

  def distinct, do: @distinct

  @doc "Returns the messages of `bytes` bytes in the form that a loop takes."
  def messages(:binaries, bytes), do: for(number <- 1..@distinct, do: message(number, bytes))
  def messages(:strings, bytes), do: for(message <- messages(:binaries, bytes), do: String.to_charlist(message))
  def messages(:chunks, bytes), do: :binaries |> messages(bytes) |> Enum.chunk_every(@chunk)

  defp message(number, bytes), do: String.pad_trailing("message #{number} ", bytes - 1, "abcdefgh ") <> "\n"

  @doc "Puts, and returns how many messages were dropped."
  def shed(_output, _messages, 0, dropped), do: dropped

  def shed(output, messages, rounds, dropped),
    do: shed(output, messages, rounds - 1, shed_list(messages, output, dropped))

  defp shed_list([], _output, dropped), do: dropped

  defp shed_list([message | messages], output, dropped) do
    case Output.put(output, message) do
      :ok -> shed_list(messages, output, dropped)
      {:error, %{kind: :overloaded}} -> shed_list(messages, output, dropped + 1)
    end
  end

  def shed_posts(_box, _messages, 0, dropped), do: dropped

  def shed_posts(box, messages, rounds, dropped),
    do: shed_posts(box, messages, rounds - 1, shed_box(messages, box, dropped))

  defp shed_box([], _box, dropped), do: dropped

  defp shed_box([message | messages], box, dropped) do
    case Mailbox.post(box, message) do
      :ok -> shed_box(messages, box, dropped)
      :dropped -> shed_box(messages, box, dropped + 1)
    end
  end

  # One loop for each function, because a call of a fun costs as much as a part of `put/2`.
  for {name, call} <- [
        put: quote(do: Output.put(var!(target), var!(message))),
        put_many: quote(do: Output.put_many(var!(target), var!(message))),
        format: quote(do: :io.format(var!(target), var!(message), [])),
        put_chars: quote(do: :io.put_chars(var!(target), var!(message))),
        file_write: quote(do: :file.write(var!(target), var!(message))),
        tcp_send: quote(do: :gen_tcp.send(var!(target), var!(message))),
        post: quote(do: Mailbox.post(var!(target), var!(message))),
        post_many: quote(do: Mailbox.post_many(var!(target), var!(message), unquote(@chunk)))
      ] do
    def unquote(name)(target, messages, rounds), do: unquote(:"#{name}_rounds")(rounds, messages, messages, target)

    defp unquote(:"#{name}_rounds")(0, _rest, _messages, _target), do: :ok

    defp unquote(:"#{name}_rounds")(rounds, [], messages, target),
      do: unquote(:"#{name}_rounds")(rounds - 1, messages, messages, target)

    defp unquote(:"#{name}_rounds")(rounds, [message | rest], messages, target) do
      var!(target) = target
      var!(message) = message
      :ok = unquote(call)
      unquote(:"#{name}_rounds")(rounds, rest, messages, target)
    end
  end
end
