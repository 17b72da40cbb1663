defmodule BeTree.Event.Prepared do
  @moduledoc """
  A decoded event for trees with the same attributes in the same order, made by `BeTree.Event.prepare/3`.

      iex> {:ok, event} = BeTree.Event.prepare(BeTree.new!(age: :integer), %{age: 30})
      iex> inspect(event) =~ ~r/^#BeTree.Event.Prepared<[0-9]+ bytes>$/
      true

  It can be sent to other processes and nodes. `inspect/1` reveals nothing of the event.
  """

  @enforce_keys [:bytes]
  defstruct @enforce_keys

  @typedoc "A decoded event. Its fields are private."
  @type t :: %__MODULE__{bytes: binary}

  defimpl Inspect do
    def inspect(%{bytes: bytes}, _options), do: "#BeTree.Event.Prepared<#{byte_size(bytes)} bytes>"
  end
end
