defmodule BeTree.Image.Layout do
  @moduledoc false
  # The layout of an image (docs/guides/image.md): a section with a description, then the guest's module with the index's memory as
  # its initial memory. Nothing here runs a module.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Image.{Digest, Wasm}

  @enforce_keys [:abi, :guest, :memory, :segments, :schema, :counts]
  defstruct @enforce_keys

  @typedoc """
  The content of an image.

    * `abi` - the version of the guest's interface;
    * `guest` - the guest's module, as it was loaded;
    * `memory` - the size of the memory in bytes;
    * `segments` - the non-zero content of the memory: addresses and bytes;
    * `schema` - the input of `be_tree_schema`;
    * `counts` - the output of `be_tree_info`.
  """
  @type t :: %__MODULE__{
          abi: non_neg_integer,
          guest: binary,
          memory: non_neg_integer,
          segments: [Wasm.segment()],
          schema: binary,
          counts: binary
        }

  @typedoc "The description at the beginning of an image."
  @type header :: %{
          version: non_neg_integer,
          abi: non_neg_integer,
          sha256: binary,
          length: non_neg_integer,
          memory: non_neg_integer,
          guest_sha256: binary,
          schema: binary,
          counts: binary
        }

  @version 1
  @page_bytes 0x1_0000
  @max_memory 0x1_0000_0000

  @preamble Wasm.preamble()
  @memory Wasm.id(:memory)
  @start Wasm.id(:start)
  @data_count Wasm.id(:data_count)
  @data Wasm.id(:data)

  @name "be_tree"
  @magic "BTIMAGE\n"
  # Bytes up to the end of the section's name. The section's size always takes five bytes, so fields of fixed length have
  # fixed places.
  @bytes_before_header 8 + 1 + 5 + 1 + 7
  # Magic, versions, digest, length, memory, the guest's digest, the length of the schema.
  @fixed_header_bytes 8 + 4 + 4 + 32 + 8 + 8 + 32 + 4
  # The digest covers all bytes but its own.
  @digest_at @bytes_before_header + 16
  @digest_size 32

  # Granularity of the search for zeros, and so the minimum length of a segment.
  @min_zero_run 4096
  # Upper bound on pieces, because engines accept at most 100,000 segments.
  @max_pieces 0x1_0000

  # Upper bounds on an image without its memory, far above any guest's needs. They bound a read of a file.
  @max_section_bytes 0x400_0000
  @max_bytes_beside_memory 0x1000_0000

  @doc "Returns how many bytes of a file `section_size/1` needs."
  @spec prefix() :: pos_integer
  def prefix, do: @bytes_before_header + @fixed_header_bytes

  @doc "Returns how many bytes of a file `header/1` needs. `start` is at least the first `prefix/0` bytes."
  @spec section_size(binary) :: {:ok, pos_integer} | {:error, Error.t()}
  def section_size(start) do
    with {:ok, size, _rest} <- section_start(start), do: {:ok, size}
  end

  @doc """
  Returns the header of an image. `start` is at least its first `section_size/1` bytes. `length` is the image's length, or
  `nil` to trust the header.
  """
  @spec header(binary, non_neg_integer | nil) :: {:ok, header} | {:error, Error.t()}
  def header(start, length) do
    with {:ok, header, _pieces, _rest} <- read_header(start, length), do: {:ok, header}
  end

  ## Writing

  @doc """
  Returns the segments of a memory: all of it except runs of zeros of at least 4 KiB, or more in a memory over 256 MiB.
  Segments are sub-binaries, not copies.
  """
  @spec segments(binary) :: [Wasm.segment()]
  def segments(memory), do: runs(memory, 0, grain(byte_size(memory), @min_zero_run), nil, [])

  defp grain(size, grain) when size > grain * @max_pieces, do: grain(size, 2 * grain)
  defp grain(_size, grain), do: grain

  # `from` is the start of the current run, or nil.
  defp runs(memory, at, grain, from, runs) do
    size = min(grain, byte_size(memory) - at)

    cond do
      size == 0 -> Enum.reverse(run(memory, from, at, runs))
      zero?(memory, at, size) -> runs(memory, at + size, grain, nil, run(memory, from, at, runs))
      true -> runs(memory, at + size, grain, from || at, runs)
    end
  end

  defp run(_memory, nil, _at, runs), do: runs
  defp run(memory, from, at, runs), do: [{from, binary_part(memory, from, at - from)} | runs]

  @zeros <<0::size(@min_zero_run)-unit(8)>>

  defp zero?(memory, at, size) when size > @min_zero_run do
    zero?(memory, at, @min_zero_run) and zero?(memory, at + @min_zero_run, size - @min_zero_run)
  end

  defp zero?(memory, at, @min_zero_run), do: binary_part(memory, at, @min_zero_run) == @zeros
  defp zero?(memory, at, size), do: binary_part(memory, at, size) == binary_part(@zeros, 0, size)

  @doc "Returns the bytes of an image, or an error for a guest with state that an image cannot hold."
  @spec encode(t) :: {:ok, iodata} | {:error, Error.t()}
  def encode(%__MODULE__{} = image) do
    case read_guest(image.guest) do
      {:ok, sections, maximum} ->
        data = Wasm.data_section(image.segments)
        body = Enum.map(weave(sections, image.memory, maximum, length(image.segments)), &fill(&1, data))
        {:ok, seal(image, pieces(sections), body)}

      {:error, fault} ->
        message = "an image holds only the memory of an index, and this index module has #{fault}"
        {:error, %Error{kind: :bad_module, message: message}}
    end
  end

  defp fill(:data, data), do: data
  defp fill(section, _data), do: IO.iodata_to_binary(section)

  # The digest stands in front of most bytes that it covers.
  defp seal(image, pieces, body) do
    variable = [
      [<<byte_size(image.schema)::little-32>>, image.schema],
      [<<byte_size(image.counts)::little-32>>, image.counts],
      <<length(pieces)::little-32>>,
      for({offset, bytes} <- pieces, do: [<<offset::little-32, byte_size(bytes)::little-32>>, bytes])
    ]

    # The schema's length counts as part of the fixed fields.
    size = 1 + byte_size(@name) + @fixed_header_bytes - 4 + IO.iodata_length(variable)
    length = @bytes_before_header - 1 - byte_size(@name) + size + IO.iodata_length(body)

    before = [
      [@preamble, Wasm.id(:custom), Wasm.encode_u32_padded(size), byte_size(@name), @name],
      [@magic, <<@version::little-32, image.abi::little-32>>]
    ]

    behind = [
      <<length::little-64, image.memory::little-64>>,
      [Digest.sha256(image.guest), variable | body]
    ]

    [before, Digest.sha256([before, behind]), behind]
  end

  ## The guest's module and the image's

  # Returns the guest's sections and its maximum memory. Refuses a guest whose instances keep state outside their memory.
  defp read_guest(guest) do
    with <<preamble::binary-size(8), rest::binary>> when preamble == @preamble <- guest,
         {:ok, sections} <- Wasm.sections(rest),
         {:ok, mutable} when mutable <= 1 <- contents(sections, :global, {:ok, 0}, &Wasm.mutable_globals/1),
         {:ok, true} <- contents(sections, :data, {:ok, true}, &Wasm.active?/1),
         {:ok, _minimum, maximum} <- contents(sections, :memory, {:error, "no memory"}, &Wasm.memory/1) do
      {:ok, sections, maximum}
    else
      {:ok, false} -> {:error, "passive data segments, which its code would miss"}
      {:ok, mutable} -> {:error, "#{mutable} globals that change, where only __stack_pointer may"}
      {:error, fault} -> {:error, fault}
      _other -> {:error, "no module's beginning"}
    end
  end

  defp contents(sections, name, default, read) do
    case List.keyfind(sections, Wasm.id(name), 0) do
      {_id, _section, contents} -> read.(contents)
      nil -> default
    end
  end

  # Returns the sections of an image: those of the guest with three changes. The memory has the size of the index. The start
  # function is gone, because it has run. `:data` stands in place of the guest's data.
  defp weave(sections, memory, maximum, segments) do
    woven =
      Enum.flat_map(sections, fn
        {@memory, _section, _contents} -> [Wasm.memory_section(div(memory, @page_bytes), maximum)]
        {@start, _section, _contents} -> []
        {@data_count, _section, _contents} -> [Wasm.data_count_section(segments)]
        {@data, _section, _contents} -> [:data]
        {_id, section, _contents} -> [section]
      end)

    if :data in woven, do: woven, else: woven ++ [:data]
  end

  # Returns the pieces of the guest that an image changes or omits, with their offsets in the guest.
  defp pieces(sections) do
    {pieces, _end} =
      Enum.flat_map_reduce(sections, byte_size(@preamble), fn {id, section, _contents}, at ->
        {if(id in [@memory, @start, @data_count, @data], do: [{at, section}], else: []), at + byte_size(section)}
      end)

    pieces
  end

  ## Reading

  @doc """
  Returns the content of an image if the digest and every section are correct. `abi` is the required version of the guest.
  Segments are sub-binaries of `bytes`.
  """
  @spec decode(binary, non_neg_integer) :: {:ok, t} | {:error, Error.t()}
  def decode(bytes, abi) do
    with {:ok, header, pieces, rest} <- read_header(bytes, byte_size(bytes)),
         :ok <- check_version("ABI", header.abi, abi),
         :ok <- check_digest(bytes, header.sha256),
         {:ok, sections} <- image_sections(rest),
         {:ok, guest} <- guest(sections, pieces, header.guest_sha256),
         {:ok, segments} <- image_segments(sections, header.memory),
         :ok <- check_sections(sections, guest, header.memory, length(segments)) do
      {:ok,
       %__MODULE__{
         abi: header.abi,
         guest: guest,
         memory: header.memory,
         segments: segments,
         schema: header.schema,
         counts: header.counts
       }}
    end
  end

  # The name is checked first, then the version, so that a foreign file or version gets an apt message.
  defp section_start(<<0, "asm", 1::little-32, 0, size::binary-size(5), 7, @name, @magic, rest::binary>>) do
    with <<version::little-32, rest::binary>> <- rest,
         :ok <- check_version("image", version, @version),
         {:ok, size, ""} when size >= 1 + 7 + @fixed_header_bytes <- Wasm.u32(size) do
      if size <= @max_section_bytes,
        do: {:ok, @bytes_before_header - 1 - byte_size(@name) + size, rest},
        else: bad("its first section has #{size} bytes; expected #{@max_section_bytes} at most")
    else
      {:error, %Error{} = error} -> {:error, error}
      _other -> bad("its first section is cut off")
    end
  end

  defp section_start(<<0, "asm", _::binary>>) do
    bad("this WebAssembly module does not begin with a section be_tree, as an image does")
  end

  defp section_start(bytes) do
    start = binary_part(bytes, 0, min(8, byte_size(bytes)))

    bad("expected a WebAssembly module, which begins with #{Describe.value(@preamble)}, got #{Describe.value(start)}")
  end

  defp read_header(bytes, length) do
    with {:ok, size, _rest} <- section_start(bytes),
         true <- size <= byte_size(bytes),
         {section, rest} = :erlang.split_binary(bytes, size),
         {:ok, header, pieces} <-
           fields(binary_part(section, @bytes_before_header + 12, size - @bytes_before_header - 12)),
         :ok <- check_sizes(header, length) do
      {:ok, header, pieces, rest}
    else
      {:error, %Error{} = error} -> {:error, error}
      _other -> bad("its first section is cut off")
    end
  end

  defp fields(
         <<abi::little-32, sha256::binary-size(32), length::little-64, memory::little-64, guest::binary-size(32),
           schema_size::little-32, schema::binary-size(schema_size), counts_size::little-32,
           counts::binary-size(counts_size), pieces::little-32, rest::binary>>
       ) do
    header = %{
      version: @version,
      abi: abi,
      sha256: sha256,
      length: length,
      memory: memory,
      guest_sha256: guest,
      schema: schema,
      counts: counts
    }

    with {:ok, pieces} <- read_pieces(rest, pieces, []), do: {:ok, header, pieces}
  end

  defp fields(_other), do: :error

  defp read_pieces("", 0, pieces), do: {:ok, Enum.reverse(pieces)}

  defp read_pieces(<<offset::little-32, size::little-32, bytes::binary-size(size), rest::binary>>, left, pieces)
       when left > 0 do
    read_pieces(rest, left - 1, [{offset, bytes} | pieces])
  end

  defp read_pieces(_other, _left, _pieces), do: :error

  defp check_version(_name, version, version), do: :ok
  defp check_version(name, version, expected), do: bad("its #{name} version is #{version}; expected #{expected}")

  defp check_sizes(%{length: expected, memory: memory}, length) do
    cond do
      length not in [nil, expected] ->
        bad("it has #{length} bytes; expected #{expected}")

      rem(memory, @page_bytes) != 0 or memory > @max_memory ->
        bad("its memory has #{memory} bytes; expected pages of #{@page_bytes}, #{@max_memory} at most")

      expected > memory + @max_bytes_beside_memory ->
        bad("it has #{expected} bytes for a memory of #{memory}; expected #{@max_bytes_beside_memory} more at most")

      true ->
        :ok
    end
  end

  defp check_digest(bytes, expected) do
    <<before::binary-size(@digest_at), _digest::binary-size(@digest_size), behind::binary>> = bytes

    case Digest.sha256([before, behind]) do
      ^expected -> :ok
      other -> bad("its SHA-256 is #{hex(other)}; expected #{hex(expected)}")
    end
  end

  defp image_sections(bytes) do
    with {:error, fault} <- Wasm.sections(bytes), do: bad("it has #{fault}")
  end

  # Rebuilds the guest as it was loaded: its parts in the image, with the changed or omitted pieces put back.
  defp guest(sections, pieces, expected) do
    kept = for {id, section, _contents} <- sections, id not in [@memory, @data_count, @data], do: section
    guest = IO.iodata_to_binary([@preamble | kept])

    with {:ok, guest} <- put_pieces(guest, 0, pieces, []) do
      case Digest.sha256(guest) do
        ^expected -> {:ok, guest}
        other -> bad("the SHA-256 of its guest is #{hex(other)}; expected #{hex(expected)}")
      end
    end
  end

  defp put_pieces(kept, _at, [], done), do: {:ok, IO.iodata_to_binary(Enum.reverse([kept | done]))}

  defp put_pieces(kept, at, [{offset, bytes} | pieces], done) do
    if offset in at..(at + byte_size(kept)) do
      {before, rest} = :erlang.split_binary(kept, offset - at)
      put_pieces(rest, offset + byte_size(bytes), pieces, [bytes, before | done])
    else
      bad("a piece of its guest belongs at #{offset}, where the guest has no place")
    end
  end

  defp image_segments(sections, memory) do
    with {:ok, segments} <- contents(sections, :data, {:error, "no data section"}, &Wasm.data/1),
         :ok <- within(List.last(segments), memory) do
      {:ok, segments}
    else
      {:error, fault} -> bad("it has #{fault}")
    end
  end

  defp within({address, bytes}, memory) when address + byte_size(bytes) > memory do
    {:error, "a data segment up to #{address + byte_size(bytes)} in a memory of #{memory} bytes"}
  end

  defp within(_last, _memory), do: :ok

  # Reads the header from the file exactly as a WebAssembly runtime would.
  defp check_sections(sections, guest, memory, segments) do
    with {:ok, guest_sections, maximum} <- read_guest(guest) do
      expected = for part <- weave(guest_sections, memory, maximum, segments), do: fill(part, :data)
      contained = for {id, section, _contents} <- sections, do: if(id == @data, do: :data, else: section)
      if contained == expected, do: :ok, else: bad("its sections are not those of its guest")
    else
      {:error, fault} -> bad("its guest has #{fault}")
    end
  end

  defp hex(digest), do: Base.encode16(digest, case: :lower)

  defp bad(fault), do: {:error, %Error{kind: :bad_module, message: "this is no image: #{fault}"}}
end
