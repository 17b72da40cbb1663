defmodule BeTree.Bench.Output.Mailbox do
  @moduledoc false
  # The peer that a careful user writes without an output: a process that collects messages and writes pages, as pobox with a
  # batching owner does. Senders count messages in an atomic before they send them, so its mailbox is bounded. A sender without
  # room waits for the process, or drops the message.

  @linger 5

  @doc "Starts the process. `write` gets a list of binaries."
  def start(write, page, limit, overflow \\ :block) do
    used = :atomics.new(1, [])
    pid = :erlang.spawn_opt(fn -> loop(write, page, used, [], 0, 0) end, [:link, message_queue_data: :off_heap])
    {pid, used, limit, overflow}
  end

  def post({pid, used, limit, overflow} = box, message) do
    if :atomics.add_get(used, 1, 1) <= limit do
      send(pid, {:post, message})
      :ok
    else
      :atomics.sub(used, 1, 1)
      if overflow == :block, do: flush(box) && post(box, message), else: :dropped
    end
  end

  def post_many({pid, used, limit, _overflow} = box, messages, count) do
    if :atomics.add_get(used, 1, count) <= limit do
      send(pid, {:post_many, messages, count})
      :ok
    else
      :atomics.sub(used, 1, count)
      flush(box)
      post_many(box, messages, count)
    end
  end

  def flush({pid, _used, _limit, _overflow}) do
    reference = make_ref()
    send(pid, {:flush, self(), reference})

    receive do
      ^reference -> true
    end
  end

  def pid({pid, _used, _limit, _overflow}), do: pid

  def stop({pid, _used, _limit, _overflow}) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
  end

  defp loop(write, page, used, messages, bytes, count) do
    receive do
      {:post, message} ->
        add(write, page, used, [messages | message], bytes + byte_size(message), count + 1)

      {:post_many, list, number} ->
        add(write, page, used, [messages | list], bytes + :erlang.iolist_size(list), count + number)

      {:flush, from, reference} ->
        write(write, used, messages, count)
        send(from, reference)
        loop(write, page, used, [], 0, 0)
    after
      if(count == 0, do: :infinity, else: @linger) ->
        write(write, used, messages, count)
        loop(write, page, used, [], 0, 0)
    end
  end

  defp add(write, page, used, messages, bytes, count) when bytes >= page do
    write(write, used, messages, count)
    loop(write, page, used, [], 0, 0)
  end

  defp add(write, page, used, messages, bytes, count), do: loop(write, page, used, messages, bytes, count)

  defp write(_write, _used, _messages, 0), do: :ok

  defp write(write, used, messages, count) do
    write.(messages)
    :atomics.sub(used, 1, count)
  end
end
