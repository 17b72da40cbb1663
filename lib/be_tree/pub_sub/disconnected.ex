defmodule BeTree.PubSub.Disconnected do
  @moduledoc """
  The last message to a subscriber with `overflow: :disconnect` that reached its limit. Its subscriptions are gone.

    * `:pubsub` - the name of the `BeTree.PubSub`;
    * `:dropped` - how many messages were dropped since the last `BeTree.PubSub.Message`.

  A publish that runs at the same time in another process may still send a message after this one.
  """

  @enforce_keys [:pubsub, :dropped]
  defstruct @enforce_keys

  @type t :: %__MODULE__{pubsub: BeTree.PubSub.name(), dropped: non_neg_integer}
end
