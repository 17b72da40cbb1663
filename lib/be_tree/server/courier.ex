defmodule BeTree.Server.Courier do
  @moduledoc false
  # Carries the views of a server to one that follows it, on another node: the base as an image where the follower has
  # another, the delta as an image, and what was deleted. It runs beside the server that is followed, linked to the
  # follower: whichever ends, or the connection between them, the follower sends for another courier.
  #
  # Images go in pieces, each of which the follower asks for, so that no more than one is ever on its way.

  alias BeTree.{Error, Image}
  alias BeTree.Server.{View, Writer}

  @piece 0x10_0000

  @doc "Starts one beside the server `name` of `node`, for the calling process."
  @spec send_for({atom, node}) :: pid
  def send_for({name, node}), do: Node.spawn_link(node, __MODULE__, :serve, [name, self()])

  @doc false
  @spec serve(atom, pid) :: no_return
  def serve(name, follower), do: serve(name, follower, nil, nil)

  # `base` is what the follower has by now, and `version` what it has seen.
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
      # It follows another one itself.
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
