defmodule BeTree.Image.LayoutTest do
  use ExUnit.Case, async: true

  alias BeTree.{Error, WasmModule}
  alias BeTree.Image.{Digest, Layout, Wasm}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.WasmGuest

  @page 0x1_0000

  defp image(changes \\ []) do
    memory = Keyword.get(changes, :memory, memory(2))

    struct!(
      %Layout{
        abi: 1,
        guest: WasmGuest.spin(1),
        memory: byte_size(memory),
        segments: Layout.segments(memory),
        schema: "schema",
        counts: "counts"
      },
      Keyword.delete(changes, :memory)
    )
  end

  # Bytes here and there among zeros.
  defp memory(pages) do
    for _ <- 1..(pages * 16)//1, into: "", do: Enum.random([<<0::32_768>>, <<0::32_768>>, :rand.bytes(4096)])
  end

  defp encode!(image) do
    {:ok, bytes} = Layout.encode(image)
    IO.iodata_to_binary(bytes)
  end

  defp refusal(bytes) do
    assert {:error, %Error{kind: :bad_module} = error} = Layout.decode(bytes, 1)
    assert "this is no image: " <> what = error.message
    what
  end

  # The same bytes with a matching digest, as a forger would write them.
  defp sealed(<<before::binary-size(38), _digest::binary-size(32), behind::binary>>) do
    before <> Digest.sha256([before, behind]) <> behind
  end

  defp put(bytes, at, part) do
    {before, rest} = :erlang.split_binary(bytes, at)
    {_replaced, behind} = :erlang.split_binary(rest, byte_size(part))
    before <> part <> behind
  end

  test "the digest is SHA-256 for any division into parts" do
    for size <- [0, 1, 16_383, 16_384, 16_385, 100_000] do
      bytes = :rand.bytes(size)
      assert Digest.sha256(bytes) == :crypto.hash(:sha256, bytes)
      assert Digest.sha256([[], 65, [bytes, "b" | bytes]]) == :crypto.hash(:sha256, ["A", bytes, "b", bytes])
    end
  end

  test "segments are the memory without its zeros" do
    for pages <- [0, 1, 3] do
      memory = memory(pages)
      segments = Layout.segments(memory)
      assert fill(segments, byte_size(memory)) == memory

      assert Enum.all?(segments, fn {address, bytes} -> rem(address, 4096) == 0 and rem(byte_size(bytes), 4096) == 0 end)

      # No segment touches the next.
      ends = for {address, bytes} <- segments, do: address + byte_size(bytes)
      assert ends -- Enum.map(segments, &elem(&1, 0)) == ends
    end

    assert Layout.segments(<<0::size(@page)-unit(8)>>) == []
  end

  defp fill(segments, size) do
    {parts, at} =
      Enum.map_reduce(segments, 0, fn {address, bytes}, at ->
        {[zeros(address - at), bytes], address + byte_size(bytes)}
      end)

    IO.iodata_to_binary([parts, zeros(size - at)])
  end

  defp zeros(size), do: <<0::size(size)-unit(8)>>

  test "an image round-trips, with the guest's exact bytes" do
    guests = [
      WasmGuest.spin(1),
      :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!(),
      WasmModule.assemble(memory: {1, 4}),
      # A start function, which must not run again, custom sections, and an image as the guest of an image.
      WasmModule.assemble(
        memory: {1, nil},
        functions: [WasmModule.function(nil, [], [], [])],
        start: 0,
        data: [{0, "a"}]
      ) <>
        IO.iodata_to_binary(Wasm.section(0, [4, "name", "anything"])),
      encode!(image())
    ]

    for guest <- guests, memory <- [memory(2), zeros(2 * @page), memory(3)] do
      image = image(guest: guest, memory: memory)
      assert Layout.decode(encode!(image), 1) == {:ok, image}
    end
  end

  test "header/1 needs only the start of an image" do
    bytes = encode!(image())
    prefix = binary_part(bytes, 0, Layout.prefix())
    {:ok, size} = Layout.section_size(prefix)
    {:ok, header} = Layout.header(binary_part(bytes, 0, size), byte_size(bytes))
    assert header.length == byte_size(bytes)
    assert header.guest_sha256 == :crypto.hash(:sha256, WasmGuest.spin(1))

    assert %{version: 1, abi: 1, memory: 2 * @page, schema: "schema", counts: "counts"}
           |> Map.to_list()
           |> Enum.all?(&(&1 in header))

    assert header.sha256 == sha256_as_documented(bytes)
  end

  # docs/image.md: the digest covers all bytes but the 32 from 38 on.
  defp sha256_as_documented(<<before::binary-size(38), _::binary-size(32), behind::binary>>) do
    :crypto.hash(:sha256, before <> behind)
  end

  test "wasmtime runs an image with its memory and without the start function" do
    memory = memory(3)
    counter = [WasmModule.i32_const(0), WasmModule.i32_const(77), WasmModule.i32_store()]

    guest = WasmModule.assemble(memory: {1, nil}, functions: [WasmModule.function(nil, [], [], counter)], start: 0)

    {:ok, module} = Wasmtime.load(encode!(image(guest: guest, memory: memory)))
    {:ok, instance} = Wasmtime.instantiate(module, memory: 3 * @page)
    assert Wasmtime.read(instance, 0, 3 * @page) == {:ok, memory}
    assert Wasmtime.info(instance).memory == 3 * @page
  end

  test "a guest with state outside its memory is refused" do
    for {parts, message} <- [
          {[memory: {1, nil}, globals: [{"a", :i32, :mutable, 0}, {"b", :i32, :mutable, 0}]], "2 globals that change"},
          {[], "no memory"}
        ] do
      assert {:error, %Error{kind: :bad_module} = error} = Layout.encode(image(guest: WasmModule.assemble(parts)))
      assert error.message =~ message
    end

    passive = WasmModule.assemble(memory: {1, nil}) <> <<11, 6, 1, 1, 3, "abc">>
    assert {:error, error} = Layout.encode(image(guest: passive))
    assert error.message =~ "passive data segments"
    assert {:error, %Error{kind: :bad_module}} = Layout.encode(image(guest: "no module"))
  end

  test "foreign, truncated and other versions' files report expected and actual values" do
    bytes = encode!(image())
    assert refusal("") =~ "expected a WebAssembly module"

    assert refusal("hello world") ==
             ~S(expected a WebAssembly module, which begins with <<0, 97, 115, 109, 1, 0, 0, 0>>, got "hello wo")

    assert refusal(WasmGuest.spin(1)) =~ "does not begin with a section be_tree"
    assert refusal(sealed(put(bytes, 30, <<2::little-32>>))) == "its image version is 2; expected 1"
    assert refusal(sealed(put(bytes, 30, <<0::little-32>>))) == "its image version is 0; expected 1"
    assert refusal(sealed(put(bytes, 34, <<0::little-32>>))) == "its ABI version is 0; expected 1"
    length = byte_size(bytes)
    assert refusal(binary_part(bytes, 0, length - 1)) == "it has #{length - 1} bytes; expected #{length}"
    assert refusal(bytes <> "x") == "it has #{length + 1} bytes; expected #{length}"
    assert refusal(binary_part(bytes, 0, 100)) == "its first section is cut off"

    assert refusal(put(bytes, length - 1, <<255 - :binary.last(bytes)>>)) =~
             ~r/its SHA-256 is [0-9a-f]{64}; expected [0-9a-f]{64}/

    assert refusal(sealed(put(bytes, 78, <<3 * @page::little-64>>))) == "its sections are not those of its guest"
    assert refusal(sealed(put(bytes, 78, <<3::little-64>>))) =~ "its memory has 3 bytes; expected pages of 65536"
    assert refusal(sealed(put(bytes, 86, <<0::256>>))) =~ ~r/the SHA-256 of its guest is [0-9a-f]{64}; expected 0{64}/
  end

  test "every damaged byte and every truncation is detected" do
    bytes = encode!(image(memory: <<1, 0::size(@page - 1)-unit(8)>>))

    for at <- 0..(byte_size(bytes) - 1) do
      {before, <<byte, behind::binary>>} = :erlang.split_binary(bytes, at)
      other = rem(byte + Enum.random(1..255), 256)
      assert {:error, %Error{kind: :bad_module}} = Layout.decode(<<before::binary, other, behind::binary>>, 1)
      assert {:error, %Error{kind: :bad_module}} = Layout.decode(before, 1)
    end
  end

  test "a forged image with a valid digest is refused or read like other runtimes read it" do
    memory = <<1, 0::size(@page - 1)-unit(8)>>
    bytes = encode!(image(memory: memory))

    # Everything except the memory's zeros, and some of these.
    zeros = (byte_size(bytes) - 4000)..(byte_size(bytes) - 1)
    places = Enum.to_list(0..(zeros.first - 1)) ++ Enum.take_random(zeros, 200)

    decoded =
      for at <- places, at not in 38..69 do
        forged = bytes |> put(at, <<Enum.random(0..255)>>) |> forge_guest() |> sealed()

        case Layout.decode(forged, 1) do
          {:ok, image} ->
            same_elsewhere(image, forged)
            1

          {:error, error} ->
            assert error.kind == :bad_module
            0
        end
      end

    # Some forgeries remain valid: other memory contents, other constants in code.
    assert Enum.sum(decoded) > 200
  end

  # With the digest of the changed guest, where it can be located.
  defp forge_guest(bytes) do
    with {:error, %{message: "this is no image: the SHA-256 of its guest is " <> hex}} <-
           Layout.decode(sealed(bytes), 1) do
      put(bytes, 86, hex |> binary_part(0, 64) |> Base.decode16!(case: :lower))
    else
      _other -> bytes
    end
  end

  defp same_elsewhere(image, forged) do
    with {:ok, module} <- Wasmtime.load(forged),
         {:ok, instance} <- Wasmtime.instantiate(module, memory: image.memory + @page),
         {:ok, memory} <- Wasmtime.read(instance, 0, image.memory) do
      assert memory == fill(image.segments, image.memory)
    else
      {:error, error} -> assert error.kind in [:bad_module, :out_of_memory, :trap]
    end
  end
end
