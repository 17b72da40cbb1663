defmodule BeTree.PubSub.Credit do
  @moduledoc false
  # Bounds the messages that wait in the mailbox of a subscriber.
  #
  # The credit is the number of messages that may be sent before somebody looks at the mailbox. A publisher takes one for each message.
  # The publisher that finds none left looks once. If fewer messages than the limit wait, the difference is the new credit. Otherwise
  # the message is dropped, and the gauge (BeTree.PubSub.Gauge) closes the account. Publishers then drop without looking until the gauge
  # opens it again. So a slow subscriber holds each publisher up for at most one look, of at most @patience milliseconds.
  #
  # A publisher takes the credit before it sends, so concurrent publishers do not exceed it.

  @type t :: :atomics.atomics_ref()

  # The positions.
  @credit 1
  @dropped 2
  @limit 3
  @state 4
  @overflow 5
  @size 5

  @open 0
  @full 1
  @gone 2

  @drop_new 0
  @disconnect 1

  # The credit of a forgotten subscriber. No number of publishes or of looks brings it above the second value.
  @forgotten -0x4000_0000_0000_0000
  @forgotten_below -0x2000_0000_0000_0000

  # Milliseconds that a look may take. A process in a long native function does not reply earlier.
  @patience 100

  @doc "Returns an account for a mailbox in which `waiting` messages wait."
  @spec new(pos_integer, :drop_new | :disconnect, non_neg_integer) :: t
  def new(limit, overflow, waiting) do
    credit = :atomics.new(@size, [])
    :atomics.put(credit, @credit, limit - waiting)
    set(credit, limit, overflow)
    credit
  end

  @doc "Changes the limit and the policy, unless they are `nil`. The next look follows the new limit."
  @spec set(t, pos_integer | nil, :drop_new | :disconnect | nil) :: :ok
  def set(credit, limit, overflow) do
    if limit, do: :atomics.put(credit, @limit, limit)
    if overflow, do: :atomics.put(credit, @overflow, if(overflow == :disconnect, do: @disconnect, else: @drop_new))
    :ok
  end

  @doc """
  Takes the credit of one message to `pid`. Returns `:ok`; `:full` if the message must be dropped, with the number of waiting
  messages if this call found that; or `:gone` if the subscriber is forgotten or its process has ended.
  """
  @spec take(t, pid) :: :ok | :full | {:full, non_neg_integer | :unknown} | :gone
  def take(credit, pid) do
    if :atomics.sub_get(credit, @credit, 1) >= 0, do: :ok, else: take_after_look(credit, pid)
  end

  defp take_after_look(credit, pid) do
    case :atomics.get(credit, @state) do
      @open -> credit |> renew(pid, waiting(pid), limit(credit)) |> dropped(credit)
      @full -> dropped(:full, credit)
      @gone -> :gone
    end
  end

  defp dropped(outcome, _credit) when outcome in [:ok, :gone], do: outcome

  defp dropped(full, credit) do
    :atomics.add(credit, @dropped, 1)
    full
  end

  defp renew(_credit, _pid, nil, _limit), do: :gone

  defp renew(credit, pid, waiting, limit) when is_integer(waiting) and waiting < limit do
    case :atomics.get(credit, @credit) do
      # Another publisher has looked meanwhile.
      left when left > 0 ->
        if :atomics.sub_get(credit, @credit, 1) >= 0, do: :ok, else: renew(credit, pid, waiting, limit)

      left when left < @forgotten_below ->
        :gone

      left ->
        if :atomics.compare_exchange(credit, @credit, left, limit - waiting - 1) == :ok,
          do: :ok,
          else: renew(credit, pid, waiting, limit)
    end
  end

  defp renew(_credit, _pid, waiting, _limit), do: {:full, waiting}

  # Reads the length of a mailbox in a process of its own, because the call waits until the other process is scheduled.
  defp waiting(pid) do
    {looker, monitor} = spawn_monitor(fn -> exit({:waiting, length_of(pid)}) end)

    receive do
      {:DOWN, ^monitor, :process, ^looker, {:waiting, waiting}} -> waiting
      {:DOWN, ^monitor, :process, ^looker, _killed} -> :unknown
    after
      @patience ->
        Process.demonitor(monitor, [:flush])
        :unknown
    end
  end

  @doc "Returns the number of messages in the mailbox of a process, or `nil` if it has ended."
  @spec length_of(pid) :: non_neg_integer | nil
  def length_of(pid) do
    with {:message_queue_len, length} <- Process.info(pid, :message_queue_len), do: length
  end

  @doc "Returns the number of messages that were dropped since the last call."
  @spec take_dropped(t) :: non_neg_integer
  def take_dropped(credit) do
    if :atomics.get(credit, @dropped) == 0, do: 0, else: :atomics.exchange(credit, @dropped, 0)
  end

  @spec limit(t) :: pos_integer
  def limit(credit), do: :atomics.get(credit, @limit)

  @spec overflow(t) :: :drop_new | :disconnect
  def overflow(credit), do: if(:atomics.get(credit, @overflow) == @disconnect, do: :disconnect, else: :drop_new)

  @doc "Makes publishers drop without a look. Only the gauge does this."
  @spec close(t) :: :ok
  def close(credit) do
    :atomics.compare_exchange(credit, @state, @open, @full)
    :ok
  end

  @doc "Ends `close/1`, with `waiting` messages in the mailbox. Only the gauge does this."
  @spec open(t, non_neg_integer) :: :ok
  def open(credit, waiting) do
    if :atomics.compare_exchange(credit, @state, @full, @open) == :ok do
      left = :atomics.get(credit, @credit)
      room = max(limit(credit) - waiting, 0)
      # If this fails, the next publisher looks.
      if left >= @forgotten_below, do: :atomics.compare_exchange(credit, @credit, left, room)
    end

    :ok
  end

  @doc "Forgets the subscriber: publishers send it nothing more. Only the registrar does this."
  @spec forget(t) :: :ok
  def forget(credit) do
    :atomics.put(credit, @state, @gone)
    :atomics.put(credit, @credit, @forgotten)
  end

  @spec forgotten?(t) :: boolean
  def forgotten?(credit), do: :atomics.get(credit, @state) == @gone
end
