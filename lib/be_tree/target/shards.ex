defmodule BeTree.Target.Shards do
  @moduledoc false
  # The value of a cluster (`t:BeTree.Cluster.t/0`): its shards, and the function that maps an id to a shard.

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.Input.{Check, Describe}

  @enforce_keys [:shards, :shard, :ids]
  defstruct @enforce_keys

  @typedoc "A server by its name and its node."
  @type shard :: {BeTree.Server.name(), node}

  @type t :: %__MODULE__{shards: tuple, shard: (BeTree.id() -> non_neg_integer), ids: :integer | :term}

  @doc """
  Returns the cluster of a list of shards, with ids of this kind. Without a function of the id, a hash of the id divides them.
  """
  @spec new([shard], (BeTree.id() -> non_neg_integer) | nil, :integer | :term) :: t
  def new(shards, function, ids) do
    unless Check.proper_list?(shards) do
      raise ArgumentError, "the shards are a list of {name, node}, got: #{Describe.value(shards)}"
    end

    for shard <- shards, do: check_shard(shard)
    if shards == [], do: raise(ArgumentError, "a cluster has one shard or more, got: []")
    count = length(shards)
    %__MODULE__{shards: List.to_tuple(shards), shard: function || (&:erlang.phash2(&1, count)), ids: ids}
  end

  defp check_shard({name, node}) when is_name(name) and is_atom(node), do: :ok
  defp check_shard(other), do: raise(ArgumentError, "a shard is {name, node}, got: #{Describe.value(other)}")

  @doc "Returns the cluster, or raises an `ArgumentError` for another term."
  @spec check(term) :: t
  def check(%__MODULE__{} = cluster), do: cluster
  # Prints the kind only: with swapped arguments this term is the event.
  def check(other), do: raise(ArgumentError, "expected a BeTree.Cluster, got: #{Describe.kind(other)}")

  @doc "Returns all shards, in order."
  @spec all(t) :: [shard, ...]
  def all(%__MODULE__{shards: shards}), do: Tuple.to_list(shards)

  @doc "Returns the first shard, for what all shards have alike."
  @spec first(t) :: shard
  def first(%__MODULE__{shards: shards}), do: elem(shards, 0)

  @doc "Returns the shard of an id. Raises an `ArgumentError` if the function of the id returns no number of a shard."
  @spec of(t, BeTree.id()) :: shard
  def of(%__MODULE__{shards: shards, shard: shard}, id) do
    case shard.(id) do
      number when is_integer(number) and number >= 0 and number < tuple_size(shards) ->
        elem(shards, number)

      other ->
        raise ArgumentError,
              "the option :shard returns numbers from 0 to #{tuple_size(shards) - 1}, but #{Describe.value(other)} for #{Describe.value(id)}"
    end
  end

  defimpl Inspect do
    def inspect(%{shards: {_shard}}, _options), do: "#BeTree.Cluster<1 shard>"
    def inspect(%{shards: shards}, _options), do: "#BeTree.Cluster<#{tuple_size(shards)} shards>"
  end
end
