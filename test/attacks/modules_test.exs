defmodule BeTree.Attacks.ModulesTest do
  # Damaged index modules are refused, or run within their budget and memory.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Guest}
  alias BeTree.Call.Instance
  alias BeTree.Test.{Attack, WasmGuest}

  @moduletag timeout: :infinity

  @event %{a: 3}

  # A loadable module may fail in its first call.
  @refused [:bad_module, :trap, :out_of_fuel, :out_of_memory]

  test "mutations of the built-in module" do
    {:ok, guest} = Instance.built_in(BeTree.Runtime.default())
    attack(Instance.wasm(guest), Attack.size(25, 921))
    sound?()
  end

  test "mutations of small modules" do
    modules = [
      WasmGuest.spin(100),
      WasmGuest.trapping_insert(),
      WasmGuest.assemble(WasmGuest.recurse(), when_json: true)
    ]

    for wasm <- modules, do: attack(wasm, Attack.size(150, 2_600))
    sound?()
  end

  test "the built-in module truncated at and around the ends of its sections" do
    {:ok, guest} = Instance.built_in(BeTree.Runtime.default())
    wasm = Instance.wasm(guest)

    for place <- sections(wasm, byte_size(wasm)), off <- Attack.size([0, 1], [-2, -1, 0, 1, 2]) do
      length = place + off
      if length < byte_size(wasm), do: wasm |> binary_part(0, length) |> use_it()
    end

    sound?()
  end

  # The offset of each section, after the header of 8 bytes.
  defp sections(<<_header::binary-size(8), rest::binary>>, size), do: begins(rest, size)
  defp begins("", _size), do: []

  defp begins(<<_id, rest::binary>> = here, size) do
    {length, rest} = leb128(rest, 0, 0)
    {_content, behind} = :erlang.split_binary(rest, length)
    [size - byte_size(here) | begins(behind, size)]
  end

  defp leb128(<<1::1, low::7, rest::binary>>, shift, sum), do: leb128(rest, shift + 7, sum + Bitwise.bsl(low, shift))
  defp leb128(<<0::1, low::7, rest::binary>>, shift, sum), do: {sum + Bitwise.bsl(low, shift), rest}

  defp attack(wasm, count), do: Attack.each(count, fn _number -> wasm |> Attack.mutate() |> use_it() end)

  defp use_it(wasm) do
    case Guest.load(wasm) do
      {:ok, guest} -> make(BeTree.new([a: :integer], guest: guest, memory: 8_000_000))
      {:error, %Error{kind: kind}} -> assert kind in @refused
    end
  end

  defp make({:error, %Error{}}), do: :refused

  defp make({:ok, tree}) do
    for slice <- [10_000, :infinity] do
      case BeTree.search(tree, @event, fuel: 1_000_000, slice: slice) do
        {:ok, ids} -> assert Enum.all?(ids, &is_integer/1)
        {:error, %Error{} = error} -> assert is_binary(Exception.message(error))
      end
    end

    assert tree.runtime.info(tree.instance).memory <= 8_000_000
  end

  # A tree of another module still works.
  defp sound? do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a = 3")
    assert BeTree.search(tree, @event) == {:ok, [1]}
  end
end
