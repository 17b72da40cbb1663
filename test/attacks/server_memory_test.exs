defmodule BeTree.Attacks.ServerMemoryTest do
  # A full server recovers after a kill of its process.
  use ExUnit.Case, async: true

  import Bitwise
  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Servers}

  setup :quiet

  defp expression(id, length) do
    strings = for n <- 1..length, do: "'#{id}-#{n}-#{String.duplicate("x", rem(id * n, 40))}'"
    "a = #{rem(id, 50)} or s in (#{Enum.join(strings, ", ")})"
  end

  # Fills the memory to the last bytes: each refusal halves the length of the next subscriptions.
  defp fill(_name, id, 0), do: id

  defp fill(name, id, length) do
    case Server.insert(name, id, expression(id, length)) do
      :ok -> fill(name, id + 1, length)
      {:error, %Error{kind: :out_of_memory}} -> fill(name, id, div(length, 2))
    end
  end

  for memory <- [3, 4, 6, 8] do
    test "a server of #{memory} MiB recovers all its data" do
      name = :"full_#{System.unique_integer([:positive])}"

      options = [
        schema: [a: :integer, s: {:string, optional: true}],
        memory: unquote(memory) <<< 20
      ]

      options = [name: name] ++ options
      start_supervised!({Server, options})
      last = fill(name, 1, 64)
      {:ok, before} = BeTree.search(name, %{a: 7})
      assert length(before) > 5

      for round <- 1..Attack.size(3, 20) do
        writer = Servers.process(name)
        Process.exit(writer, :kill)
        eventually(fn -> Servers.process(name) not in [nil, writer] end)
        assert {:ok, _info} = Server.info(name)
        assert BeTree.search(name, %{a: 7}) == {:ok, before}

        # The server still judges insertions and takes deletions.
        case Server.insert(name, last + round, expression(last + round, 60)) do
          :ok -> assert :ok = Server.delete(name, last + round)
          {:error, %Error{kind: :out_of_memory}} -> :ok
        end
      end

      for id <- before, do: assert(:ok = Server.delete(name, id))
      assert BeTree.search(name, %{a: 7}) == {:ok, []}
    end
  end
end
