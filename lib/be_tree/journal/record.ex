defmodule BeTree.Journal.Record do
  @moduledoc false
  # The bytes of a record. Integers are little-endian:
  #
  #     crc      32 bits, CRC-32 of all that follows
  #     length   32 bits, bytes of the payload
  #     version  64 bits: a change has that of the change before it plus one
  #     durable  64 bits: all changes up to this version were on the disk before this record was written
  #     payload

  @head 24
  @max_bytes 0xFFFF_FFFF

  @type t :: %{
          version: non_neg_integer,
          durable: non_neg_integer,
          payload: binary,
          size: pos_integer
        }

  @doc "Returns the maximum bytes of a payload."
  @spec max_bytes() :: pos_integer
  def max_bytes, do: @max_bytes

  @doc "Returns the bytes of a change, and their number."
  @spec change(non_neg_integer, non_neg_integer, iodata) :: {iodata, pos_integer}
  def change(version, durable, payload) do
    length = IO.iodata_length(payload)
    rest = [<<length::little-32, version::little-64, durable::little-64>>, payload]
    {[<<:erlang.crc32(rest)::little-32>>, rest], @head + length}
  end

  @doc """
  Decodes the record at the beginning of `bytes`. `:more` means that the record is longer than `bytes`, `:bad` that it is invalid.
  """
  @spec decode(binary) :: {:ok, t, rest :: binary} | {:more, pos_integer} | :bad
  def decode(
        <<crc::little-32, length::little-32, version::little-64, durable::little-64, payload::binary-size(length),
          behind::binary>> = bytes
      ) do
    if crc == :erlang.crc32(binary_part(bytes, 4, @head - 4 + length)),
      do: {:ok, %{version: version, durable: durable, payload: payload, size: @head + length}, behind},
      else: :bad
  end

  def decode(<<_crc::32, length::little-32, _short::binary>>), do: {:more, @head + length}
  def decode(_bytes), do: {:more, @head}

  @doc """
  Returns whether a record anywhere in `bytes` proves that the change `version` was durable.
  """
  @spec proof?(binary, pos_integer) :: boolean
  def proof?(bytes, version), do: proof?(bytes, 0, byte_size(bytes) - @head, version)

  defp proof?(_bytes, at, last, _version) when at > last, do: false

  # Random bytes rarely look like such a head, so few checksums are computed.
  defp proof?(bytes, at, last, version) do
    <<_crc::32, length::little-32, of::little-64, durable::little-64>> = binary_part(bytes, at, @head)

    (durable >= version and of > durable and length <= last - at and
       match?({:ok, _record, _rest}, decode(binary_part(bytes, at, @head + length)))) or
      proof?(bytes, at + 1, last, version)
  end
end
