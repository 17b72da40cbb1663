defmodule BeTree.Journal.Head do
  @moduledoc false
  # The head of a file of a journal. Integers are little-endian:
  #
  #     magic     8 bytes, the kind of the file
  #     format    32 bits
  #     number    64 bits, a version
  #     length    32 bits, and as many bytes: the identity of the owner
  #     more      bytes of a length that depends on the kind
  #     crc       32 bits, CRC-32 of all of the above

  alias BeTree.Journal.Fault

  @format 2
  @fixed 24
  @crc 4

  @typedoc "`:at` is the place behind the head."
  @type t :: %{number: non_neg_integer, identity: binary, more: binary, at: pos_integer}

  @doc "Returns the bytes of a head."
  @spec encode(<<_::64>>, non_neg_integer, binary, binary) :: iodata
  def encode(magic, number, identity, more \\ "") do
    head = [magic, <<@format::little-32, number::little-64, byte_size(identity)::little-32>>, identity, more]
    [head, <<:erlang.crc32(head)::little-32>>]
  end

  @doc "Returns the number of bytes of a head."
  @spec size(binary, non_neg_integer) :: pos_integer
  def size(identity, more), do: @fixed + byte_size(identity) + more + @crc

  @doc "Reads the head of a file of `bytes` bytes, with this magic and this many further bytes."
  @spec read(module, Path.t(), term, non_neg_integer, <<_::64>>, non_neg_integer) ::
          {:ok, t} | {:error, BeTree.Error.t()}
  def read(files, path, device, bytes, magic, more) do
    with {:ok, <<^magic::binary-size(8), @format::little-32, number::little-64, length::little-32>> = fixed} <-
           files.pread(device, 0, @fixed),
         rest = length + more + @crc,
         true <- @fixed + rest <= bytes,
         {:ok, behind} when byte_size(behind) == rest <- files.pread(device, @fixed, rest),
         {identity, behind} = :erlang.split_binary(behind, length),
         {extra, <<crc::little-32>>} = :erlang.split_binary(behind, more),
         true <- crc == :erlang.crc32([fixed, identity, extra]) do
      {:ok, %{number: number, identity: identity, more: extra, at: @fixed + rest}}
    else
      {:ok, <<^magic::binary-size(8), format::little-32, _rest::binary>>} when format != @format ->
        Fault.damaged(path, "its format is #{format}; expected #{@format}")

      {:error, reason} ->
        Fault.file("read", path, reason)

      _other ->
        Fault.damaged(path, "its head is not as it was written")
    end
  end
end
