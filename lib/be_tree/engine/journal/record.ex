defmodule BeTree.Engine.Journal.Record do
  @moduledoc false
  # The bytes of a record. Integers are little-endian:
  #
  #     crc      32 bits, CRC-32 of all that follows
  #     length   32 bits, bytes of the payload
  #     version  64 bits: a change has that of the change before it plus one
  #     durable  64 bits: all changes up to this version were on the disk before this record was written
  #     kind      8 bits: 0 a change, 1 a mark
  #     payload
  #
  # A mark has no payload and the version of the last change. It only says what is durable, behind the last change, when no other
  # change follows soon.

  @head 25
  @change 0
  @mark 1
  @most_bytes 0xFFFF_FFFF

  @type t :: %{
          version: non_neg_integer,
          durable: non_neg_integer,
          kind: :change | :mark,
          payload: binary,
          size: pos_integer
        }

  @doc "The greatest size of a payload."
  @spec most_bytes() :: pos_integer
  def most_bytes, do: @most_bytes

  @doc "Returns the bytes of a change, and their number."
  @spec change(non_neg_integer, non_neg_integer, iodata) :: {iodata, pos_integer}
  def change(version, durable, payload), do: encode(version, durable, @change, payload)

  @doc "Returns the bytes of a mark, and their number."
  @spec mark(non_neg_integer) :: {iodata, pos_integer}
  def mark(durable), do: encode(durable, durable, @mark, "")

  defp encode(version, durable, kind, payload) do
    length = IO.iodata_length(payload)
    rest = [<<length::little-32, version::little-64, durable::little-64, kind>>, payload]
    {[<<:erlang.crc32(rest)::little-32>>, rest], @head + length}
  end

  @doc """
  Decodes the record at the beginning of `bytes`. `:more` means that it has more bytes than these, `:bad` that it is none.
  """
  @spec decode(binary) :: {:ok, t, rest :: binary} | {:more, pos_integer} | :bad
  def decode(
        <<crc::little-32, length::little-32, version::little-64, durable::little-64, kind, payload::binary-size(length),
          behind::binary>> = bytes
      ) do
    kind = kind(kind)

    if kind != :bad and crc == :erlang.crc32(binary_part(bytes, 4, @head - 4 + length)),
      do: {:ok, record(version, durable, kind, payload), behind},
      else: :bad
  end

  def decode(<<_crc::32, length::little-32, _short::binary>>), do: {:more, @head + length}
  def decode(_bytes), do: {:more, @head}

  defp record(version, durable, kind, payload) do
    %{version: version, durable: durable, kind: kind, payload: payload, size: @head + byte_size(payload)}
  end

  defp kind(@change), do: :change
  defp kind(@mark), do: :mark
  defp kind(_other), do: :bad

  @doc """
  Returns whether a record anywhere in `bytes` proves that the change `version` was durable.
  """
  @spec proof?(binary, pos_integer) :: boolean
  def proof?(bytes, version), do: proof?(bytes, 0, byte_size(bytes) - @head, version)

  defp proof?(_bytes, at, last, _version) when at > last, do: false

  # Random bytes hardly ever look like such a head, so few checksums are calculated.
  defp proof?(bytes, at, last, version) do
    <<_crc::32, length::little-32, of::little-64, durable::little-64, kind>> = binary_part(bytes, at, @head)

    (durable >= version and of >= durable and kind <= @mark and length <= last - at and
       match?({:ok, _record, _rest}, decode(binary_part(bytes, at, @head + length)))) or
      proof?(bytes, at + 1, last, version)
  end
end
