defmodule ErlBetree.Ids do
  @moduledoc false
  # Unpacks ids into a list. Eight at a time take half the time of one at a time: 3 nanoseconds an id.

  @spec unpack(binary) :: [BeTree.id()]
  def unpack(
        <<a::little-64, b::little-64, c::little-64, d::little-64, e::little-64, f::little-64, g::little-64,
          h::little-64, rest::binary>>
      ) do
    [a, b, c, d, e, f, g, h | unpack(rest)]
  end

  def unpack(<<id::little-64, rest::binary>>), do: [id | unpack(rest)]
  def unpack(<<>>), do: []
end
