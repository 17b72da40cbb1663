defmodule BeTree.PubSub.Subscription do
  @moduledoc """
  A subscription, which `BeTree.PubSub.subscribe/3` returns and `BeTree.PubSub.unsubscribe/3` takes. Its fields are private.
  """

  @derive {Inspect, only: [:pubsub, :id]}
  @enforce_keys [:pubsub, :id, :pid]
  defstruct @enforce_keys

  @type t :: %__MODULE__{pubsub: BeTree.PubSub.name(), id: pos_integer, pid: pid}
end
