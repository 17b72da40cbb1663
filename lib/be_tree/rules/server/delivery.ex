defmodule BeTree.Rules.Server.Delivery do
  @moduledoc false
  # Sends notices to processes, and bounds those that wait in each of their mailboxes.
  #
  # Nobody acknowledges notices. So the process that sends them keeps an account for each receiver: the sizes of the messages that may
  # still be in its mailbox. Now and then the sender reads the length of the mailbox. With n messages there, at most the last n of the
  # sent messages wait. A message that would exceed the limit of waiting notices is dropped and counted. Once at most half of the limit
  # waits, the receiver gets the count, and then notices again.
  #
  # The length of a mailbox on another node is read by a process of its own, for which the sender waits at most @max_check_wait_ms.
  #
  # The accounts lie in the dictionary of the process, because notices are sent from within an operation.

  alias BeTree.Processes.Log
  alias BeTree.Telemetry

  @key __MODULE__
  # The number of messages to a receiver between two checks of its mailbox, which bounds the list of sizes.
  @max_unchecked_messages 1_000
  # The milliseconds until the next check of a full mailbox, and those for which a check waits for another node.
  @check_interval_ms 100
  @max_check_wait_ms 1_000
  @lost_after_ms 5_000

  @typedoc "A process, or its registered name."
  @type receiver :: pid | atom

  @typedoc """
    * `:pid` - the process that the receiver was last;
    * `:sizes`, `:messages`, `:notices` - the sizes of the messages that may be in its mailbox, oldest first, their number and their sum;
    * `:unseen` - the messages since its mailbox was looked at;
    * `:dropped` - the number of dropped notices that the receiver was not told yet;
    * `:asked` - the reference of the question for the length of a mailbox on another node, and the messages sent since, or `nil`;
    * `:is_slow` - whether such a question was not replied to in time.
  """
  @type account :: map

  @doc "Makes the calling process one that sends notices as `{sender, name, notices}`."
  @spec begin(%{
          required(:sender) => module,
          required(:name) => BeTree.Rules.Server.name(),
          required(:max_pending) => pos_integer,
          optional(atom) => term
        }) :: :ok
  def begin(%{sender: sender, name: name, max_pending: most}) do
    # A process that opens its folder again keeps its accounts.
    unless Process.get(@key),
      do: Process.put(@key, %{sender: sender, name: name, most: most, dropped: 0, accounts: %{}})

    :ok
  end

  @doc "Returns the number of notices that the calling process has dropped."
  @spec dropped() :: non_neg_integer
  def dropped, do: Process.get(@key).dropped

  @doc "Sends notices to all receivers."
  @spec send_all([receiver], [BeTree.Rules.Notice.t()]) :: :ok
  def send_all(_receivers, []), do: :ok

  def send_all(receivers, notices) do
    delivery = Process.get(@key)
    count = length(notices)
    delivery = Enum.reduce(receivers, forget_others(delivery, receivers), &send_one(&2, &1, notices, count))
    Process.put(@key, delivery)
    :ok
  end

  @doc """
  Tells all receivers that the calling process has started again after a crash. Notices may be missing for them: those of calls that had
  not returned.
  """
  @spec tell_restart([receiver]) :: :ok
  def tell_restart(receivers) do
    %{sender: sender, name: name} = Process.get(@key)
    for receiver <- receivers, pid = pid(receiver), do: :erlang.send(pid, {sender, name, :restarted}, [:nosuspend])
    :ok
  end

  @doc """
  Sends all notices after a number to a receiver that knows this number. It needs no count of those that were dropped for it before:
  they are among the notices.
  """
  @spec send_again(receiver, [BeTree.Rules.Notice.t()]) :: :ok
  def send_again(receiver, notices) do
    %{accounts: accounts} = delivery = Process.get(@key)

    delivery =
      case accounts do
        %{^receiver => account} -> put({%{account | dropped: 0}, delivery}, receiver)
        _none -> delivery
      end

    Process.put(@key, if(notices == [], do: delivery, else: send_one(delivery, receiver, notices, length(notices))))
    :ok
  end

  defp forget_others(%{accounts: accounts} = delivery, receivers) do
    if map_size(accounts) > length(receivers),
      do: %{delivery | accounts: Map.take(accounts, receivers)},
      else: delivery
  end

  defp send_one(delivery, receiver, notices, count) do
    case pid(receiver) do
      nil ->
        forget(delivery, receiver)

      pid ->
        {account, delivery} = delivery |> account(receiver, pid) |> look_if_needed(receiver, count, delivery)
        put(delivered(account, receiver, notices, count, delivery), receiver)
    end
  end

  @doc "Returns the process of a receiver, or `nil` if its name is not registered for one."
  @spec pid(receiver) :: pid | nil
  def pid(pid) when is_pid(pid), do: pid
  def pid(name), do: with(port when is_port(port) <- Process.whereis(name), do: nil)

  defp account(%{accounts: accounts}, receiver, pid) do
    case accounts do
      %{^receiver => %{pid: ^pid} = account} -> account
      _another_or_none -> empty(pid)
    end
  end

  defp empty(pid) do
    %{pid: pid, sizes: :queue.new(), messages: 0, notices: 0, unseen: 0, dropped: 0, asked: nil, is_slow: false}
  end

  defp put({account, delivery}, receiver), do: put_in(delivery.accounts[receiver], account)

  defp forget(delivery, receiver), do: %{delivery | accounts: Map.delete(delivery.accounts, receiver)}

  ## Sending

  defp delivered(%{dropped: 0} = account, receiver, notices, count, delivery) do
    case min(count, max(delivery.most - account.notices, 0)) do
      ^count -> deliver(account, receiver, notices, count, delivery)
      0 -> drop(account, receiver, count, delivery)
      room -> deliver_some(account, receiver, Enum.take(notices, room), room, count, delivery)
    end
  end

  # The receiver has not got the count of earlier dropped notices, so there is no room yet.
  defp delivered(account, receiver, _notices, count, delivery), do: drop(account, receiver, count, delivery)

  defp deliver(account, receiver, notices, count, delivery) do
    case post(account, notices, count, delivery) do
      {:ok, account} -> {account, delivery}
      :busy -> drop(account, receiver, count, delivery)
    end
  end

  defp deliver_some(account, receiver, notices, room, count, delivery) do
    case post(account, notices, room, delivery) do
      {:ok, account} -> drop(account, receiver, count - room, delivery)
      :busy -> drop(account, receiver, count, delivery)
    end
  end

  # A connection to another node that is busy counts as a full mailbox: to wait for it would hold up the server.
  defp post(%{pid: pid} = account, content, count, %{sender: sender, name: name}) do
    case :erlang.send(pid, {sender, name, content}, [:nosuspend]) do
      :ok -> {:ok, posted(account, count)}
      :nosuspend -> :busy
    end
  end

  defp posted(account, count) do
    %{
      account
      | sizes: :queue.in(count, account.sizes),
        messages: account.messages + 1,
        notices: account.notices + count,
        unseen: account.unseen + 1,
        asked: with({reference, since} <- account.asked, do: {reference, since + 1})
    }
  end

  defp drop(account, receiver, count, delivery) do
    if account.dropped == 0 do
      Log.warning(
        "#{account.notices} notices of #{inspect(delivery.name)} wait in the mailbox of #{inspect(receiver)}; later ones are " <>
          "dropped until it has received half of them"
      )

      look_later(receiver)
    end

    Telemetry.event([:rules, :dropped], %{notices: count}, %{server: delivery.name, process: receiver})
    {%{account | dropped: account.dropped + count}, %{delivery | dropped: delivery.dropped + count}}
  end

  defp look_later(receiver), do: :erlang.start_timer(@check_interval_ms, self(), {__MODULE__, receiver})

  ## Mailboxes

  defp look_if_needed(account, receiver, count, %{most: most} = delivery) do
    if account.dropped > 0 or account.unseen >= @max_unchecked_messages or account.notices + count > most do
      case look(account, receiver) do
        {:ok, account} -> tell(account, delivery)
        :gone -> {account, delivery}
      end
    else
      {account, delivery}
    end
  end

  defp look(%{pid: pid} = account, _receiver) when node(pid) == node() do
    case Process.info(pid, :message_queue_len) do
      {:message_queue_len, length} -> {:ok, seen(account, length)}
      nil -> :gone
    end
  end

  defp look(account, receiver) do
    account = ask(account, receiver)
    # A timer checks a receiver with dropped notices, so this call does not wait for the reply.
    if account.is_slow or account.dropped > 0, do: {:ok, account}, else: {:ok, await(account)}
  end

  defp ask(%{asked: nil, pid: pid} = account, receiver) do
    reference = make_ref()
    sender = self()
    spawn(fn -> send(sender, {__MODULE__, receiver, reference, length_of(pid)}) end)
    %{account | asked: {reference, 0}}
  end

  defp ask(account, _receiver), do: account

  defp length_of(pid) do
    case :erpc.call(node(pid), :erlang, :process_info, [pid, :message_queue_len], @lost_after_ms) do
      {:message_queue_len, length} -> length
      :undefined -> 0
    end
  catch
    # A node without such calls.
    :error, {:erpc, :notsup} -> 0
    :error, {:erpc, _lost_or_late} -> :unknown
  end

  defp await(%{asked: {reference, _since}} = account) do
    receive do
      {__MODULE__, _receiver, ^reference, length} -> replied(account, length)
    after
      @max_check_wait_ms -> %{account | is_slow: true}
    end
  end

  defp replied(account, :unknown), do: %{account | asked: nil, is_slow: true}

  defp replied(%{asked: {_reference, since}} = account, length),
    do: seen(%{account | asked: nil, is_slow: false}, length + since)

  # Only the last messages can still be in a mailbox of this length.
  defp seen(%{messages: messages} = account, length) when messages > length do
    {{:value, count}, sizes} = :queue.out(account.sizes)
    seen(%{account | sizes: sizes, messages: messages - 1, notices: account.notices - count}, length)
  end

  defp seen(account, _length), do: %{account | unseen: 0}

  # Tells a receiver with room how many notices it lacks.
  defp tell(%{dropped: dropped, notices: notices} = account, %{most: most} = delivery)
       when dropped > 0 and notices <= div(most, 2) do
    case post(account, {:dropped, dropped}, 1, delivery) do
      {:ok, account} -> {%{account | dropped: 0}, delivery}
      :busy -> {account, delivery}
    end
  end

  defp tell(account, delivery), do: {account, delivery}

  ## Messages

  @doc "Handles a message of this module, and returns whether it is one."
  @spec info(term) :: boolean
  def info({:timeout, _timer, {__MODULE__, receiver}}), do: change(receiver, &look_again(&1, receiver, &2))

  def info({__MODULE__, receiver, reference, length}) do
    change(receiver, fn
      %{asked: {^reference, _since}} = account, delivery -> account |> replied(length) |> tell(delivery)
      account, delivery -> {account, delivery}
    end)
  end

  def info(_other), do: false

  defp change(receiver, function) do
    delivery = Process.get(@key)

    with %{accounts: %{^receiver => account}} <- delivery do
      changed =
        case function.(account, delivery) do
          :gone -> forget(delivery, receiver)
          changed -> put(changed, receiver)
        end

      Process.put(@key, changed)
    end

    true
  end

  # It was told meanwhile, or there is another process of this name.
  defp look_again(%{dropped: 0} = account, _receiver, delivery), do: {account, delivery}

  defp look_again(account, receiver, delivery) do
    with {:ok, account} <- look(account, receiver) do
      {account, delivery} = tell(account, delivery)
      if account.dropped > 0, do: look_later(receiver)
      {account, delivery}
    end
  end
end
