defmodule BeTree.Image.Digest do
  @moduledoc false
  # SHA-256 of many parts on a normal scheduler, without joining the parts. Each piece is charged for its real time.
  # `:crypto.hash/2` would charge a whole time slice for each 20,000 bytes.

  # A piece takes about 20 microseconds, which is 80 of the 4,000 reductions of a millisecond.
  @piece_bytes 16_384
  @reductions_per_piece 80

  @doc "Returns the SHA-256 of the concatenated `parts`."
  @spec sha256(iodata) :: binary
  def sha256(parts), do: :sha256 |> :crypto.hash_init() |> update(parts) |> :crypto.hash_final()

  defp update(state, []), do: state
  defp update(state, [part | rest]), do: state |> update(part) |> update(rest)
  defp update(state, byte) when is_integer(byte), do: :crypto.hash_update(state, <<byte>>)

  defp update(state, <<piece::binary-size(@piece_bytes), rest::binary>>) do
    :erlang.bump_reductions(@reductions_per_piece)
    state |> :crypto.hash_update(piece) |> update(rest)
  end

  defp update(state, rest), do: :crypto.hash_update(state, rest)
end
