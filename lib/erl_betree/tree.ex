defmodule ErlBetree.Tree do
  @moduledoc false
  # The term behind a tree's reference, the errors of its searches, and other operations.

  alias BeTree.Error
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Input.Limits
  alias ErlBetree.{Domains, Reference}

  @enforce_keys [:tree, :counters, :place, :reasons]
  defstruct @enforce_keys

  @typedoc """
  The handle without its schema, which every use of the reference would copy; the counters below; the host's place for
  replicas, if the runtime has places; and the names of reasons, if the tree keeps reasons.
  """
  @type t :: %__MODULE__{
          tree: BeTree.t(),
          counters: :atomics.atomics_ref(),
          place: BeTree.Runtime.place() | nil,
          reasons: tuple | nil
        }

  # The counters: insertions, which are the tree's version; the last version with replicas, plus one; and searches that
  # found the tree busy at that version.
  @inserted 1
  @published 2
  @contended 3

  @doc "Returns a reference to a new tree over domains of erl-be-tree, with or without reasons."
  @spec make(term, boolean) :: reference
  def make(domains, with_reasons) do
    domains = Domains.parse(domains)

    with {:ok, tree} <- BeTree.new(domains),
         :ok <- if(with_reasons, do: keep_reasons(tree), else: :ok) do
      Reference.new(:tree, %__MODULE__{
        tree: %{tree | schema: []},
        counters: :atomics.new(3, []),
        place: if(function_exported?(tree.runtime, :place, 0), do: tree.runtime.place()),
        reasons: if(with_reasons, do: reasons(domains))
      })
    else
      {:error, error} -> fail(error)
    end
  end

  defp keep_reasons(tree) do
    with {:ok, output} <- Instance.call(tree.runtime, tree.instance, "be_tree_keep_reasons", [], nil),
         do: Reply.nothing(output)
  end

  # In the order of docs/abi.md. An expression that is false for every event has no attribute as its reason.
  defp reasons(domains) do
    names = Enum.map(domains, &ErlBetree.Domains.name/1)
    List.to_tuple(names ++ [:geo, :no_reason, :invalid_event])
  end

  @doc "Returns the term behind the reference. Raises a badarg for other terms."
  @spec open(reference) :: t
  def open(reference), do: Reference.open(:tree, reference)

  @doc "Returns the number of insertions."
  @spec inserted(t) :: non_neg_integer
  def inserted(%__MODULE__{counters: counters}), do: :atomics.get(counters, @inserted)

  @doc "Counts an insertion."
  @spec count_insertion(t) :: :ok
  def count_insertion(%__MODULE__{counters: counters}), do: :atomics.add(counters, @inserted, 1)

  @doc "Raises an error, as a badarg if the input is wrong."
  @spec fail(Error.t()) :: no_return
  def fail(%Error{kind: kind}) when kind in [:type, :out_of_bounds, :missing_attribute, :syntax, :not_found] do
    :erlang.error(:badarg)
  end

  def fail(%Error{} = error), do: raise(error)

  # A tree runs one search at a time. Colliding searches move to replicas until the tree changes. Making replicas copies the
  # tree's memory once, so it requires this many collisions at one version.
  @meetings 8

  # Upper bound on replicas, made on demand. A search suspended at its threshold holds one.
  @replicas 1_000
  @queue Limits.default_queue()

  @doc "Returns the handle to search."
  @spec target(t) :: BeTree.t()
  def target(%__MODULE__{place: nil, tree: tree}), do: tree

  def target(%__MODULE__{tree: tree, counters: counters} = held) do
    with nil <- standing_in(held) do
      busy = tree.runtime.info(tree.instance).state != :free
      if busy and :atomics.add_get(counters, @contended, 1) >= @meetings, do: publish(held) || tree, else: tree
    end
  end

  @doc "Returns the replicas of the present version, made if necessary, or `nil` if that is impossible."
  @spec replicas(t) :: BeTree.t() | nil
  def replicas(%__MODULE__{place: nil}), do: nil
  def replicas(%__MODULE__{} = held), do: standing_in(held) || publish(held)

  defp standing_in(%__MODULE__{tree: tree, place: place} = held) do
    case tree.runtime.place_get(place, inserted(held)) do
      nil -> nil
      replicas -> %{tree | instance: replicas}
    end
  end

  # Returns nil if another process makes the replicas, or without memory. An insertion meanwhile changes the version, and no
  # search uses these replicas.
  defp publish(%__MODULE__{tree: %{runtime: runtime} = tree, place: place, counters: counters} = held) do
    version = inserted(held)
    limits = [memory: tree.memory, replicas: @replicas, queue: @queue]

    with before when before != version + 1 <- :atomics.exchange(counters, @published, version + 1),
         :ok <- :atomics.put(counters, @contended, 0),
         {:ok, snapshot} <- runtime.snapshot(tree.instance, :infinity),
         {:ok, replicas} <- Instance.replicate(tree.guest, snapshot, limits) do
      :ok = runtime.place_put(place, version, replicas)
      %{tree | instance: replicas}
    else
      _none -> nil
    end
  end

  @doc "Returns a drawing of the tree in the DOT language of Graphviz."
  @spec draw(t) :: binary
  def draw(%__MODULE__{tree: tree}) do
    case Instance.call(tree.runtime, tree.instance, "be_tree_draw", [], nil) do
      {:ok, picture} -> picture
      {:error, error} -> fail(error)
    end
  end
end
