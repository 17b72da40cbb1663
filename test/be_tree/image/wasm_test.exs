defmodule BeTree.Image.WasmTest do
  use ExUnit.Case, async: true

  import BeTree.WasmModule, only: [assemble: 1]

  alias BeTree.Image.Wasm

  defp binary(iodata), do: IO.iodata_to_binary(iodata)

  defp sections(<<preamble::binary-size(8), rest::binary>>) do
    assert preamble == Wasm.preamble()
    Wasm.sections(rest)
  end

  defp contents(module, name) do
    {:ok, sections} = sections(module)
    {_id, _whole, contents} = List.keyfind(sections, Wasm.id(name), 0)
    contents
  end

  test "numbers decode from their shortest and padded forms" do
    edges = for shift <- 0..32, offset <- -1..1, number = Bitwise.bsl(1, shift) + offset, do: number

    for number <- Enum.filter(edges, &(&1 in 0..0xFFFF_FFFF)) do
      assert Wasm.u32(binary([Wasm.encode_u32(number), "rest"])) == {:ok, number, "rest"}
      padded = Wasm.encode_u32_padded(number)
      assert {byte_size(padded), Wasm.u32(padded)} == {5, {:ok, number, ""}}
    end
  end

  test "truncated and too large numbers are refused" do
    for bytes <- ["", <<0x80>>, <<0x80, 0x80, 0x80, 0x80>>, <<0xFF, 0xFF, 0xFF, 0xFF, 0x10>>, <<-1::40, 0>>] do
      assert {:error, "a number that is cut off or over 32 bits"} = Wasm.u32(bytes)
    end
  end

  test "the sections of the index module cover all of its bytes" do
    guest = :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!()
    {:ok, sections} = sections(guest)
    assert binary([Wasm.preamble() | Enum.map(sections, &elem(&1, 1))]) == guest
    assert Enum.all?(sections, fn {id, whole, contents} -> whole == binary(Wasm.section(id, contents)) end)
    assert {:ok, 1} = Wasm.mutable_globals(contents(guest, :global))
    assert Wasm.active?(contents(guest, :data)) == {:ok, true}

    # A truncated module is invalid unless the cut lies between sections.
    ends = Enum.scan(sections, 0, fn {_id, whole, _contents}, at -> at + byte_size(whole) end)
    <<_::binary-size(8), rest::binary>> = guest

    for size <- Enum.take_random(1..(byte_size(rest) - 1), 500) do
      assert match?({:ok, _}, Wasm.sections(binary_part(rest, 0, size))) == size in ends
    end
  end

  test "memory sections round-trip, and other kinds are refused" do
    for {minimum, maximum} <- [{0, nil}, {1, 1}, {17, 65_536}, {65_536, nil}] do
      {:ok, [{5, _whole, contents}]} = Wasm.sections(binary(Wasm.memory_section(minimum, maximum)))
      assert Wasm.memory(contents) == {:ok, minimum, maximum}
      assert {:error, _} = Wasm.memory(contents <> <<0>>)
      assert {:error, _} = Wasm.memory(binary_part(contents, 0, byte_size(contents) - 1))
    end

    # None, two, a shared one, one of 64 bits.
    for contents <- ["", <<0>>, <<2, 0, 1, 0, 1>>, <<1, 3, 1, 1>>, <<1, 4, 1>>],
        do: assert({:error, _} = Wasm.memory(contents))
  end

  test "mutable globals are counted for any initial value" do
    module = assemble(globals: [{"a", :i32, :mutable, -1}, {"b", :i64, :constant, 300}, {"c", :i64, :mutable, 1}])
    assert Wasm.mutable_globals(contents(module, :global)) == {:ok, 2}

    constants = [
      <<0x41, 0x80, 0x01>>,
      <<0x42, 0x7F>>,
      <<0x43, 0::32>>,
      <<0x44, 0::64>>,
      <<0x23, 0>>,
      <<0xD0, 0x70>>,
      <<0xD2, 3>>,
      <<0xFD, 0x0C, 0::128>>,
      <<0x41, 1, 0x41, 2, 0x6A>>,
      <<0x42, 1, 0x42, 2, 0x7E>>
    ]

    for constant <- constants do
      global = <<0x7F, 1, constant::binary, 0x0B>>
      assert Wasm.mutable_globals(<<2, global::binary, 0x7F, 0, 0x41, 0, 0x0B>>) == {:ok, 1}
      assert {:error, _} = Wasm.mutable_globals(<<1, global::binary, 0>>)

      for size <- 0..byte_size(global),
          do: assert({:error, _} = Wasm.mutable_globals(<<2, binary_part(global, 0, size)::binary>>))
    end

    assert {:error, _} = Wasm.mutable_globals(<<1, 0x7F, 2, 0x41, 0, 0x0B>>)
    assert {:error, _} = Wasm.mutable_globals(<<1, 0x7F, 1, 0x10, 0, 0x0B>>)
  end

  test "data segments round-trip at any address" do
    for _ <- 1..100 do
      segments = random_segments()
      {:ok, [{11, _whole, contents}]} = Wasm.sections(binary(Wasm.data_section(segments)))
      assert Wasm.data(contents) == {:ok, segments}
      assert Wasm.active?(contents) == {:ok, true}
      for size <- 0..(byte_size(contents) - 1), do: assert({:error, _} = Wasm.data(binary_part(contents, 0, size)))
      assert {:error, "1 bytes behind the last data segment"} = Wasm.data(contents <> <<0>>)
    end
  end

  defp random_segments do
    addresses = Enum.take_random([0, 63, 77, 8000, 8192, 0x7FFF_FFF0, 0x8000_0000, 0xFFFF_FF00], Enum.random(0..8))
    for address <- Enum.sort(addresses), do: {address, :rand.bytes(Enum.random([0, 1, 10]))}
  end

  test "passive and invalid data segments are refused" do
    passive = <<1, 1, 3, "abc">>
    assert Wasm.active?(passive) == {:ok, false}
    assert {:error, _} = Wasm.data(passive)
    named = <<1, 2, 0, 0x41, 0, 0x0B, 3, "abc">>
    assert {:error, _} = Wasm.active?(named)
    # At the value of a global.
    computed = <<1, 0, 0x23, 0, 0x0B, 3, "abc">>
    assert Wasm.active?(computed) == {:ok, true}
    assert {:error, _} = Wasm.data(computed)
    # Overlapping, and in descending order.
    assert {:error, message} = Wasm.data(<<2, 0, 0x41, 4, 0x0B, 3, "abc", 0, 0x41, 6, 0x0B, 1, "d">>)
    assert message == "a data segment at 6, where the one before it ends at 7"
    assert {:error, "100001 data segments; expected 100000 at most"} = Wasm.data(binary(Wasm.encode_u32(100_001)))
    # An address of 33 bits, and one whose last bits do not extend its sign.
    assert {:error, _} = Wasm.data(<<1, 0, 0x41, 0x80, 0x80, 0x80, 0x80, 0x10, 0x0B, 0>>)
    assert {:error, _} = Wasm.data(<<1, 0, 0x41, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x0B, 0>>)
    assert {:ok, [{0xFFFF_FFFF, ""}]} = Wasm.data(<<1, 0, 0x41, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0x0B, 0>>)
  end
end
