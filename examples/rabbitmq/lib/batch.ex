defmodule Workers.Batch do
  @moduledoc """
  The messages that a process has received and not worked on.

  A batch is full at a limit, which is at most the prefetch of the channel: the broker sends no more before an acknowledgement. It also ends
  when no message waits in the mailbox: a process with a batch that is not full asks for a timeout of 0.
  """

  alias Workers.Amqp

  @typedoc "The number of the messages, and the messages, the last one first."
  @type t :: {non_neg_integer, [Amqp.message()]}

  @doc "Returns a batch without messages."
  @spec new() :: t
  def new, do: {0, []}

  @doc "Adds a delivery, and returns whether the batch has `limit` messages. Other terms are ignored."
  @spec add(t, term, pos_integer) :: {:open | :full, t}
  def add({count, messages} = batch, delivery, limit) do
    case Amqp.message(delivery) do
      {_queue, message} -> {if(count + 1 < limit, do: :open, else: :full), {count + 1, [message | messages]}}
      nil -> {:open, batch}
    end
  end

  @doc "Returns the messages in their order."
  @spec messages(t) :: [Amqp.message()]
  def messages({_count, messages}), do: Enum.reverse(messages)
end
