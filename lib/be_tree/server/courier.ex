defmodule BeTree.Server.Courier do
  @moduledoc false
  # Carries the views of a server to a follower on another node: the base as an image if the follower has another, the
  # delta as an image, and the deleted ids. It runs beside the followed server, linked to the follower. When either of
  # them or the connection ends, the follower starts another courier.
  #
  # Images travel in pieces. The follower requests each piece, so at most one is in transit.

  alias BeTree.{Error, Image}
  alias BeTree.Engine.CrashReport
  alias BeTree.Server.{View, Writer}

  @piece 0x10_0000

  @doc "Starts a courier beside the server `name` of `node`, for the calling process."
  @spec send_for({atom, node}) :: pid
  def send_for({name, node}), do: Node.spawn_link(node, __MODULE__, :serve, [name, self()])

  @doc false
  @spec serve(atom, pid) :: no_return
  def serve(name, follower), do: CrashReport.guard(fn -> serve(name, follower, nil, nil) end)

  # `base` is the base that the follower has, and `version` the last version that it received.
  defp serve(name, follower, base, version) do
    {new_base, view, deleted} = next_view(name, base, version)
    if new_base != base, do: carry(follower, :base, view.base)
    carry(follower, :delta, view.delta)
    send(follower, {:view, self(), %{deleted: deleted, version: view.version, expressions: view.expressions}})

    receive do
      {:next, ^follower} -> serve(name, follower, new_base, view.version)
    end
  end

  defp next_view(name, base, version) do
    case Writer.next_view(name, base, version) do
      {_base, %View{}, _deleted} = next -> next
      # This server follows another one itself.
      {:raise, message} -> exit({:shutdown, %Error{kind: :not_found, message: message}})
    end
  end

  defp carry(follower, part, nil), do: send(follower, {:part, self(), part, :none})

  defp carry(follower, part, index) do
    case Image.to_binary(index) do
      {:ok, image} -> in_pieces(follower, part, image)
      {:error, %Error{} = error} -> exit({:shutdown, error})
    end
  end

  defp in_pieces(follower, part, <<piece::binary-size(@piece), rest::binary>>) do
    send(follower, {:part, self(), part, {:piece, piece}})

    receive do
      {:more, ^follower} -> in_pieces(follower, part, rest)
    end
  end

  defp in_pieces(follower, part, rest), do: send(follower, {:part, self(), part, {:last, rest}})
end
