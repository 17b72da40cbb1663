defmodule BeTree.Image.Wasm do
  @moduledoc false
  # The parts of WebAssembly's binary format that an image needs: sections, limits of the memory, globals and data segments.
  # Every read is bounds-checked. Invalid content is `{:error, fault}`, where `fault` completes a sentence that begins with
  # "it has".

  import Bitwise

  @type section :: {id :: byte, bytes :: binary, contents :: binary}
  @type segment :: {address :: non_neg_integer, bytes :: binary}

  @preamble <<0, "asm", 1::little-32>>

  # The limit of the engines.
  @max_segments 100_000

  @ids %{custom: 0, memory: 5, global: 6, start: 8, code: 10, data: 11, data_count: 12}

  @doc "Returns the preamble of every module."
  @spec preamble() :: binary
  def preamble, do: @preamble

  @doc "Returns the id of a kind of section."
  @spec id(atom) :: byte
  for {name, id} <- @ids, do: def(id(unquote(name)), do: unquote(id))

  @doc "Returns the sections of a module after its preamble, in order, as sub-binaries."
  @spec sections(binary) :: {:ok, [section]} | {:error, String.t()}
  def sections(bytes), do: sections(bytes, [])

  defp sections("", sections), do: {:ok, Enum.reverse(sections)}

  defp sections(<<id, rest::binary>> = bytes, sections) do
    with {:ok, size, body} <- u32(rest), {:ok, contents, behind} <- take(body, size, "section") do
      section = binary_part(bytes, 0, byte_size(bytes) - byte_size(behind))
      sections(behind, [{id, section, contents} | sections])
    end
  end

  @doc "Encodes a section."
  @spec section(byte, iodata) :: iodata
  def section(id, contents), do: [id, sized(contents)]

  @doc "Returns the limits of a memory section. Requires one 32-bit memory that is not shared, as the runtimes here do."
  @spec memory(binary) :: {:ok, minimum :: non_neg_integer, maximum :: non_neg_integer | nil} | {:error, String.t()}
  def memory(<<1, 0, rest::binary>>) do
    with {:ok, minimum, ""} <- u32(rest), do: {:ok, minimum, nil}, else: (other -> unreadable(other, "memory section"))
  end

  def memory(<<1, 1, rest::binary>>) do
    with {:ok, minimum, rest} <- u32(rest), {:ok, maximum, ""} <- u32(rest) do
      {:ok, minimum, maximum}
    else
      other -> unreadable(other, "memory section")
    end
  end

  def memory(_other), do: {:error, "a memory section that is not of one memory of 32 bits"}

  @doc "Encodes a memory section. Sizes are in pages of 64 KiB."
  @spec memory_section(non_neg_integer, non_neg_integer | nil) :: iodata
  def memory_section(minimum, nil), do: section(@ids.memory, [1, 0, encode_u32(minimum)])
  def memory_section(minimum, maximum), do: section(@ids.memory, [1, 1, encode_u32(minimum), encode_u32(maximum)])

  @doc "Returns the number of mutable globals in a global section."
  @spec mutable_globals(binary) :: {:ok, non_neg_integer} | {:error, String.t()}
  def mutable_globals(contents) do
    with {:ok, count, rest} <- u32(contents), do: mutable_globals(rest, count, 0)
  end

  defp mutable_globals("", 0, mutable), do: {:ok, mutable}

  defp mutable_globals(<<_type, changes, rest::binary>>, left, mutable) when left > 0 and changes in 0..1 do
    with {:ok, rest} <- skip_constant(rest), do: mutable_globals(rest, left - 1, mutable + changes)
  end

  defp mutable_globals(_other, _left, _mutable), do: {:error, "a global section that cannot be read"}

  # The instructions of a constant expression.
  defp skip_constant(<<0x0B, rest::binary>>), do: {:ok, rest}
  defp skip_constant(<<op, rest::binary>>) when op in [0x41, 0x42, 0x23, 0xD2], do: skip_leb(rest)
  defp skip_constant(<<0x43, _::binary-size(4), rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<0x44, _::binary-size(8), rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<0xD0, _type, rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<0xFD, 0x0C, _::binary-size(16), rest::binary>>), do: skip_constant(rest)
  defp skip_constant(<<op, rest::binary>>) when op in 0x6A..0x6C or op in 0x7C..0x7E, do: skip_constant(rest)
  defp skip_constant(_other), do: {:error, "a constant that cannot be read"}

  defp skip_leb(<<1::1, _::7, rest::binary>>), do: skip_leb(rest)
  defp skip_leb(<<0::1, _::7, rest::binary>>), do: skip_constant(rest)
  defp skip_leb(""), do: {:error, "a constant that cannot be read"}

  @doc """
  Returns whether all data segments are active, that is copied to the memory at instantiation. Code cannot observe how
  active segments are divided.
  """
  @spec active?(binary) :: {:ok, boolean} | {:error, String.t()}
  def active?(contents) do
    with {:ok, count, rest} <- u32(contents), do: active?(rest, count)
  end

  defp active?("", 0), do: {:ok, true}
  defp active?(<<1, _::binary>>, left) when left > 0, do: {:ok, false}

  defp active?(<<0, rest::binary>>, left) when left > 0 do
    with {:ok, rest} <- skip_constant(rest),
         {:ok, size, rest} <- u32(rest),
         {:ok, _bytes, rest} <- take(rest, size, "data segment"),
         do: active?(rest, left - 1)
  end

  defp active?(_other, _left), do: {:error, "a data section that cannot be read"}

  @doc """
  Returns the segments of a data section as sub-binaries. All must be active, of the first memory, at ascending constant
  addresses, and without overlaps.
  """
  @spec data(binary) :: {:ok, [segment]} | {:error, String.t()}
  def data(contents) do
    with {:ok, count, rest} <- u32(contents) do
      if count <= @max_segments,
        do: data(rest, count, 0, []),
        else: {:error, "#{count} data segments; expected #{@max_segments} at most"}
    end
  end

  defp data("", 0, _from, segments), do: {:ok, Enum.reverse(segments)}
  defp data(rest, 0, _from, _segments), do: {:error, "#{byte_size(rest)} bytes behind the last data segment"}

  defp data(<<0, 0x41, rest::binary>>, left, from, segments) do
    with {:ok, address, <<0x0B, rest::binary>>} <- address(rest),
         {:ok, size, rest} <- u32(rest),
         {:ok, bytes, rest} <- take(rest, size, "data segment") do
      if address >= from,
        do: data(rest, left - 1, address + size, [{address, bytes} | segments]),
        else: {:error, "a data segment at #{address}, where the one before it ends at #{from}"}
    else
      other -> unreadable(other, "data segment")
    end
  end

  defp data(_other, _left, _from, _segments), do: {:error, "a data segment that is not one of a constant address"}

  @doc "Encodes a data section."
  @spec data_section([segment]) :: iodata
  def data_section(segments) do
    encoded =
      for {address, bytes} <- segments do
        [[0, 0x41, encode_address(address), 0x0B, encode_u32(byte_size(bytes))], bytes]
      end

    section(@ids.data, [encode_u32(length(segments)) | encoded])
  end

  @doc "Encodes a data count section, which precedes the code."
  @spec data_count_section(non_neg_integer) :: iodata
  def data_count_section(count), do: section(@ids.data_count, encode_u32(count))

  @doc "Decodes a LEB128 number of at most 32 bits. Returns it and the bytes behind it."
  @spec u32(binary) :: {:ok, 0..0xFFFF_FFFF, rest :: binary} | {:error, String.t()}
  def u32(<<0::1, a::7, rest::binary>>), do: {:ok, a, rest}
  def u32(<<1::1, a::7, 0::1, b::7, rest::binary>>), do: {:ok, b <<< 7 ||| a, rest}
  def u32(<<1::1, a::7, 1::1, b::7, 0::1, c::7, rest::binary>>), do: {:ok, c <<< 14 ||| b <<< 7 ||| a, rest}

  def u32(<<1::1, a::7, 1::1, b::7, 1::1, c::7, 0::1, d::7, rest::binary>>) do
    {:ok, d <<< 21 ||| c <<< 14 ||| b <<< 7 ||| a, rest}
  end

  def u32(<<1::1, a::7, 1::1, b::7, 1::1, c::7, 1::1, d::7, 0::4, e::4, rest::binary>>) do
    {:ok, e <<< 28 ||| d <<< 21 ||| c <<< 14 ||| b <<< 7 ||| a, rest}
  end

  def u32(_other), do: {:error, "a number that is cut off or over 32 bits"}

  @doc "Encodes a number of at most 32 bits as the shortest LEB128."
  @spec encode_u32(0..0xFFFF_FFFF) :: iodata
  def encode_u32(number) when number < 0x80, do: [number]
  def encode_u32(number), do: [(number &&& 0x7F) ||| 0x80 | encode_u32(number >>> 7)]

  @doc "Encodes a number of at most 32 bits as five bytes of LEB128."
  @spec encode_u32_padded(0..0xFFFF_FFFF) :: binary
  def encode_u32_padded(number) do
    <<e::4, d::7, c::7, b::7, a::7>> = <<number::32>>
    <<1::1, a::7, 1::1, b::7, 1::1, c::7, 1::1, d::7, 0::4, e::4>>
  end

  # An i32 constant is signed LEB128; an address is the same bits, unsigned.
  defp address(bytes), do: address(bytes, 0, 0)

  defp address(<<more::1, bits::7, rest::binary>>, shift, low) when shift <= 28 do
    value = bits <<< shift ||| low

    cond do
      more == 1 -> address(rest, shift + 7, value)
      (bits &&& 0x40) == 0 -> in_range(value, rest)
      true -> in_range(value - (1 <<< (shift + 7)), rest)
    end
  end

  defp address(_other, _shift, _low), do: {:error, "an address that is cut off or over 32 bits"}

  defp in_range(value, rest) when value in -0x8000_0000..0x7FFF_FFFF, do: {:ok, value &&& 0xFFFF_FFFF, rest}
  defp in_range(_value, _rest), do: {:error, "an address over 32 bits"}

  defp encode_address(address) when address < 0x8000_0000, do: encode_s32(address)
  defp encode_address(address), do: encode_s32(address - 0x1_0000_0000)

  defp encode_s32(number) when number in -64..63, do: [number &&& 0x7F]
  defp encode_s32(number), do: [(number &&& 0x7F) ||| 0x80 | encode_s32(number >>> 7)]

  defp sized(contents), do: [encode_u32(IO.iodata_length(contents)), contents]

  defp take(bytes, size, name) do
    if size <= byte_size(bytes) do
      {taken, rest} = :erlang.split_binary(bytes, size)
      {:ok, taken, rest}
    else
      {:error, "a #{name} of #{size} bytes with #{byte_size(bytes)} of them there"}
    end
  end

  defp unreadable({:error, fault}, _section), do: {:error, fault}
  defp unreadable(_other, section), do: {:error, "a #{section} that cannot be read"}
end
