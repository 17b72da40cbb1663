defmodule BeTree.PubSub.Message do
  @moduledoc """
  The message that a subscriber receives for an event.

    * `:pubsub` - the name of the `BeTree.PubSub`;
    * `:event` - the event, as it was published;
    * `:tags` - the tags of the subscriber's matching subscriptions, in the order in which it subscribed;
    * `:why` - a pair `{tag, explanation}` for each matching subscription with `why: true`, in the same order. The
      `:id` of the explanation is the tag. In place of an explanation that could not be made, for lack of memory for example, stands the `BeTree.Error`;
    * `:dropped` - how many messages were dropped since the message before, because the subscriber had reached its limit.
  """

  @enforce_keys [:pubsub, :event, :tags]
  defstruct @enforce_keys ++ [why: [], dropped: 0]

  @type t :: %__MODULE__{
          pubsub: BeTree.PubSub.name(),
          event: BeTree.Event.t(),
          tags: [term],
          why: [{term, BeTree.Explanation.t() | BeTree.Error.t()}],
          dropped: non_neg_integer
        }
end
