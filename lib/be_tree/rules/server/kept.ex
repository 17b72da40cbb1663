defmodule BeTree.Rules.Server.Kept do
  @moduledoc false
  # The notices that a server of rules, or a partition of it, still has for processes that ask for those they missed.
  #
  # Notices are numbered from 1, in the order of the firings. The latest lie in an open block, as terms; a full block is an external
  # term, outside of the heap of the process and ready for a base. Old blocks are removed whole, so at least as many notices as the option
  # says are kept, unless they exceed @max_bytes.

  alias BeTree.Error
  alias BeTree.Rules.Notice

  # A block is full with as many notices, or as many bytes. More notices than the option says are kept by at most a block.
  @block_notices 64
  @block_bytes 0x1_0000
  # A base has the kept notices, too.
  @max_bytes 0x100_0000

  @enforce_keys [:most, :partition, :last, :full]
  defstruct @enforce_keys ++ [open: [], open_count: 0, open_bytes: 0, count: 0, bytes: 0]

  @typedoc """
    * `:most` - the option `:kept_notices`; `:partition` - the number of the partition, or `nil`;
    * `:last` - the number of the last notice, 0 before the first;
    * `:full` - the number of notices, and the external term, of each full block, oldest first;
    * `:open`, `:open_count`, `:open_bytes` - the notices of the open block, newest first, their number, and the bytes of their external
      form;
    * `:count`, `:bytes` - the numbers of all kept notices and of their bytes.
  """
  @type t :: %__MODULE__{
          most: non_neg_integer,
          partition: non_neg_integer | nil,
          last: non_neg_integer,
          full: :queue.queue(block),
          open: [{String.t(), String.t() | nil, map}],
          open_count: non_neg_integer,
          open_bytes: non_neg_integer,
          count: non_neg_integer,
          bytes: non_neg_integer
        }

  @typep block :: {pos_integer, binary}

  @typedoc "The part of a base: the number of the last notice, and the blocks."
  @type content :: {non_neg_integer, [block]}

  @doc "Returns an empty store after the notice `last`."
  @spec new(non_neg_integer, non_neg_integer | nil, non_neg_integer) :: t
  def new(most, partition, last), do: %__MODULE__{most: most, partition: partition, last: last, full: :queue.new()}

  @doc "Numbers notices and keeps them."
  @spec add(t, [Notice.t()]) :: {[Notice.t()], t}
  def add(kept, []), do: {[], kept}

  def add(%{partition: partition, last: last} = kept, notices) do
    {notices, last} =
      Enum.map_reduce(notices, last, fn notice, last ->
        {%{notice | number: last + 1, partition: partition}, last + 1}
      end)

    {notices, keep(%{kept | last: last}, notices)}
  end

  defp keep(%{most: 0} = kept, _notices), do: kept
  defp keep(kept, notices), do: notices |> Enum.reduce(kept, &put/2) |> trim()

  defp put(%{rule: rule, name: name, values: values}, kept) do
    notice = {rule, name, values}
    bytes = :erlang.external_size(notice)

    close_if_full(%{
      kept
      | open: [notice | kept.open],
        open_count: kept.open_count + 1,
        open_bytes: kept.open_bytes + bytes,
        count: kept.count + 1,
        bytes: kept.bytes + bytes
    })
  end

  defp close_if_full(%{open_count: count, open_bytes: bytes} = kept)
       when count >= @block_notices or bytes >= @block_bytes,
       do: close(kept)

  defp close_if_full(kept), do: kept

  defp close(%{open: []} = kept), do: kept

  defp close(%{open: open, open_count: count} = kept) do
    block = open |> Enum.reverse() |> :erlang.term_to_binary(minor_version: 2)

    kept = %{
      kept
      | open: [],
        open_count: 0,
        open_bytes: 0,
        count: kept.count - count,
        bytes: kept.bytes - kept.open_bytes
    }

    put_full({count, block}, kept)
  end

  defp put_full({count, bytes} = block, kept) do
    %{
      kept
      | full: :queue.in(block, kept.full),
        count: kept.count + count,
        bytes: kept.bytes + byte_size(bytes)
    }
  end

  # The open block is far below the limit of bytes.
  defp trim(kept) do
    case :queue.peek(kept.full) do
      {:value, {count, bytes}} when kept.bytes > @max_bytes or kept.count - count >= kept.most ->
        trim(%{
          kept
          | full: :queue.drop(kept.full),
            count: kept.count - count,
            bytes: kept.bytes - byte_size(bytes)
        })

      _none_or_needed ->
        kept
    end
  end

  @doc "Returns the number of the first notice that is kept, or that of the next one if none is."
  @spec first(t) :: pos_integer
  def first(kept), do: kept.last - kept.count + 1

  @doc """
  Returns the notices after a number. Returns an error of kind `:not_found` if some of them are gone, and `:out_of_bounds` for a
  number that the server has not reached.
  """
  @spec since(t, non_neg_integer) :: {:ok, [Notice.t()]} | {:error, Error.t()}
  def since(kept, number) do
    first = first(kept)

    cond do
      number > kept.last ->
        message =
          "#{server(kept)} has numbered #{kept.last} notices, fewer than the number #{number}; it may have lost a folder, or the " <>
            "notices are those of another server: read the facts, and give the number 0 or that of `last_notice` of `info/2`"

        {:error, %Error{kind: :out_of_bounds, message: message}}

      number + 1 < first ->
        message =
          "the notices from #{number + 1} to #{first - 1} are gone, the first that #{server(kept)} has is #{first}; read the facts, and " <>
            "give the number #{first - 1}, or keep more notices with `kept_notices:`"

        {:error, %Error{kind: :not_found, message: message}}

      true ->
        {:ok, kept |> after_first(number + 1 - first) |> notices(number + 1, kept.partition)}
    end
  end

  defp server(%{partition: nil}), do: "the server"
  defp server(%{partition: number}), do: "partition #{number}"

  # Leaves `skipped` notices out. Full blocks of them are not decoded.
  defp after_first(%{full: full, open: open}, skipped), do: full |> :queue.to_list() |> after_first(skipped, open)

  defp after_first([{count, _bytes} | blocks], skipped, open) when skipped >= count,
    do: after_first(blocks, skipped - count, open)

  defp after_first(blocks, skipped, open) do
    decoded = Enum.flat_map(blocks, fn {_count, bytes} -> :erlang.binary_to_term(bytes) end)
    Enum.drop(decoded ++ Enum.reverse(open), skipped)
  end

  defp notices(contents, first, partition) do
    for {{rule, name, values}, number} <- Enum.with_index(contents, first),
        do: %Notice{rule: rule, name: name, values: values, number: number, partition: partition}
  end

  @doc "Returns the part of a base."
  @spec content(t) :: content
  def content(kept), do: {kept.last, :queue.to_list(close(kept).full)}

  @doc "Replaces all by the part of a base."
  @spec put_content(t, content) :: t
  def put_content(%{most: 0} = kept, {last, _blocks}), do: %{kept | last: last}

  def put_content(kept, {last, blocks}),
    do: blocks |> Enum.reduce(new(kept.most, kept.partition, last), &put_full/2) |> trim()
end
