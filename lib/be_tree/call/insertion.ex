defmodule BeTree.Call.Insertion do
  @moduledoc false
  # Encodes many subscriptions as one list (docs/contributing/abi.md), a few hundred at a time. A stream is consumed lazily, and the garbage
  # collector never copies a list of a hundred thousand tuples.

  alias BeTree.Error
  alias BeTree.Input.{Check, Subscription}

  @derive {Inspect, only: [:count]}
  @enforce_keys [:count, :input, :sizes]
  defstruct @enforce_keys

  @typedoc "`input` is the inbox of be_tree_insert, and `sizes` are the bytes in it of each `@chunk` subscriptions."
  @type t :: %__MODULE__{count: non_neg_integer, input: binary, sizes: [pos_integer]}

  @chunk 500

  # The version byte of the external term format, the tag of a non-empty list (its length follows), and the tag of the empty
  # list.
  @version 131
  @list 108
  @nil_tag 106

  @doc "Checks and encodes subscriptions, in order. An error has the position of the first wrong one."
  @spec new(Enumerable.t()) :: {:ok, t} | {:error, Error.t()}
  def new(subscriptions) do
    with :ok <- Check.enumerable(subscriptions, "subscriptions"),
         {chunk, chunks, count} <- Enum.reduce_while(subscriptions, {[], [], 0}, &add/2) do
      chunks = Enum.reverse(encode(chunk, chunks))
      {:ok, %__MODULE__{count: count, input: list(chunks, count), sizes: Enum.map(chunks, &byte_size/1)}}
    end
  end

  defp add(subscription, {chunk, chunks, count}) do
    case Subscription.new(subscription, :integer) do
      {:ok, wire} when rem(count + 1, @chunk) == 0 -> {:cont, {[], encode([wire | chunk], chunks), count + 1}}
      {:ok, wire} -> {:cont, {[wire | chunk], chunks, count + 1}}
      {:error, error} -> {:halt, {:error, %{error | position: count}}}
    end
  end

  # The elements of an encoded list of tuples lie between its length and its tail.
  defp encode([], chunks), do: chunks

  defp encode(reversed, chunks) do
    <<@version, @list, _length::32, rest::binary>> = Subscription.encode(Enum.reverse(reversed))
    [binary_part(rest, 0, byte_size(rest) - 1) | chunks]
  end

  defp list(_chunks, 0), do: <<@version, @nil_tag>>
  defp list(chunks, count), do: IO.iodata_to_binary([<<@version, @list, count::32>>, chunks, @nil_tag])

  @doc "Returns a subscription, decoded, by its position."
  @spec fetch!(t, non_neg_integer) :: Subscription.wire()
  def fetch!(%__MODULE__{count: count, input: input, sizes: sizes}, position) do
    {before, [size | _after]} = Enum.split(sizes, div(position, @chunk))
    start = byte_size(<<@version, @list, count::32>>) + Enum.sum(before)
    length = min(@chunk, count - @chunk * length(before))

    [binary_part(input, start, size)]
    |> list(length)
    |> :erlang.binary_to_term()
    |> Enum.fetch!(rem(position, @chunk))
  end
end
