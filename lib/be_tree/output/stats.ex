defmodule BeTree.Output.Stats do
  @moduledoc """
  The counts of a `BeTree.Output`, from `BeTree.Output.stats/1`.

    * `:accepted` - the messages of all puts that were not refused with an error of kind `:closed`, `:timeout` or `:no_server`;
    * `:delivered` - those that the sink took (`BeTree.Output`, Sinks);
    * `:dropped` - those that an overflow cost, whether they were new or old;
    * `:lost` - those that the sink refused, or that a killed process of the output had in hand;
    * `:pending` - those in pages;
    * `:pending_bytes` - their bytes;
    * `:in_flight` - those that the sink has now, which are pending;
    * `:pages` - the pages that wait in the queue;
    * `:senders` - the processes that put messages and live;
    * `:memory` - the bytes of all pages and of the two processes of the output;
    * `:lateness` - the microseconds since the oldest pending message was put;
    * `:overloaded` - whether the hard limit was reached, and the soft limit not since;
    * `:closed` - the error of an output whose sink is gone, or `nil`.

  `accepted = delivered + dropped + lost + pending` whenever no message moves, and for each message before and after its
  moves: the process that counts looks at one sender after the other.
  """

  alias BeTree.Error
  alias BeTree.Output.Settings
  alias BeTree.Runtime.Native

  @enforce_keys [
    :accepted,
    :delivered,
    :dropped,
    :lost,
    :pending,
    :pending_bytes,
    :in_flight,
    :pages,
    :senders,
    :memory,
    :lateness,
    :overloaded,
    :closed
  ]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          accepted: non_neg_integer,
          delivered: non_neg_integer,
          dropped: non_neg_integer,
          lost: non_neg_integer,
          pending: non_neg_integer,
          pending_bytes: non_neg_integer,
          in_flight: non_neg_integer,
          pages: non_neg_integer,
          senders: non_neg_integer,
          memory: non_neg_integer,
          lateness: non_neg_integer,
          overloaded: boolean,
          closed: Error.t() | nil
        }

  @doc false
  @spec read(BeTree.Output.name()) :: {:ok, t} | {:error, Error.t()}
  def read(output) do
    with {:ok, queue} <- Settings.fetch(output, :queue),
         {:ok, settings} <- Settings.fetch(output, :settings),
         {:ok, writer} <- Settings.fetch(output, :writer) do
      {[
         accepted,
         delivered,
         dropped,
         lost,
         open,
         open_bytes,
         queued,
         queued_bytes,
         in_hand,
         in_hand_bytes,
         pages,
         senders,
         lateness
       ], overloaded} = Native.output_counts(queue)

      bytes = open_bytes + queued_bytes + in_hand_bytes

      {:ok,
       %__MODULE__{
         accepted: accepted,
         delivered: delivered,
         dropped: dropped,
         lost: lost,
         pending: open + queued + in_hand,
         pending_bytes: bytes,
         in_flight: in_hand,
         pages: pages,
         senders: senders,
         memory: bytes + memory(writer),
         lateness: lateness,
         overloaded: overloaded,
         closed: settings.closed
       }}
    end
  end

  # The writer's links are its supervisor and its runner.
  defp memory(writer) do
    case Process.info(writer, [:memory, :links]) do
      [memory: memory, links: links] ->
        memory + (links |> Enum.filter(&is_pid/1) |> Enum.map(&memory_of/1) |> Enum.sum())

      nil ->
        0
    end
  end

  defp memory_of(pid) do
    with {:memory, memory} <- Process.info(pid, :memory), do: memory, else: (_ended -> 0)
  end
end
