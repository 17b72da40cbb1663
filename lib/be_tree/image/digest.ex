defmodule BeTree.Image.Digest do
  @moduledoc false
  # SHA-256 of many parts on a normal scheduler, without joining them. It hashes in pieces, and charges each to the process for
  # its time. :crypto.hash/2 would charge a whole time slice for each 20,000 bytes.

  # A piece takes about 20 microseconds: this many of the 4,000 reductions of a millisecond.
  @piece 16_384
  @reductions 80

  @doc "Returns the SHA-256 of `parts`, one after the other."
  @spec sha256(iodata) :: binary
  def sha256(parts), do: :sha256 |> :crypto.hash_init() |> update(parts) |> :crypto.hash_final()

  defp update(state, []), do: state
  defp update(state, [part | rest]), do: state |> update(part) |> update(rest)
  defp update(state, byte) when is_integer(byte), do: :crypto.hash_update(state, <<byte>>)

  defp update(state, <<piece::binary-size(@piece), rest::binary>>) do
    :erlang.bump_reductions(@reductions)
    state |> :crypto.hash_update(piece) |> update(rest)
  end

  defp update(state, rest), do: :crypto.hash_update(state, rest)
end
