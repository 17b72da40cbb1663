defmodule BeTree.Index do
  @moduledoc """
  A published index: what a tree held at one moment, searched by any number of processes at once.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> {:ok, 2} = BeTree.insert_all(tree, [{1, "age >= 21"}, {2, "country = 'CA'"}])
      iex> {:ok, index} = BeTree.publish(tree)
      iex> :ok = BeTree.delete(tree, 1)
      iex> BeTree.search(index, %{age: 30, country: "CA"})
      {:ok, [1, 2]}
      iex> BeTree.search(tree, %{age: 30, country: "CA"})
      {:ok, [2]}
      iex> BeTree.info!(index).expressions
      2

  Whatever searches takes a tree or an index: `BeTree.search/3`, `BeTree.search_many/3` and `BeTree.stream/3`,
  `BeTree.explain/4`, `BeTree.info/2`, `BeTree.Search`. An index cannot be changed, and lives as long
  as something refers to it.

  ## Replicas

  A tree runs one search at a time, an index as many as it has *replicas*: instances of the compiled module whose memory
  begins as a copy of the tree's. `BeTree.publish/2` makes that copy and compiles nothing. On Linux the replicas map the
  copy and share whatever they do not write, so that another one takes the memory of what a search writes, and not that
  of an index; elsewhere each has the whole of it.

  A replica is made when all others are in use, on a dirty scheduler, up to the option `:replicas` of `BeTree.publish/2`.
  That one is warm is more useful than that there are many: a search takes the replica that was used last. It is held
  for as long as a search runs, yields included, so where every search ends within its slice no more replicas are used
  than there are schedulers.

  Who finds all replicas in use waits, in order, until its `:timeout` at the latest, and where `:queue` others wait
  already is refused as `:overloaded` at once. A search that is cancelled, ran out of its budget or lost its process
  gives its replica back as it is; a replica that trapped, or stopped for want of memory, is thrown away, and made anew
  from the copy when it is needed.
  """

  alias BeTree.{Domain, Error, Guest, Tree}
  alias BeTree.Engine.{Check, Describe, Instance}

  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :guest, :schema, :snapshot, :info]
  defstruct @enforce_keys

  @typedoc "A handle; its fields are private."
  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          guest: Guest.t(),
          schema: [Domain.t()],
          snapshot: BeTree.Runtime.snapshot(),
          info: %{atom => non_neg_integer}
        }

  @typedoc "See `BeTree.publish/2`."
  @type option :: {:replicas, pos_integer} | {:queue, non_neg_integer}

  @doc false
  # The index whose memory `snapshot` holds: of a guest, and a schema. `limits` are the checked options `:replicas` and `:queue`, and the
  # `:memory` that each replica may take. One replica is made here, and tells the counts.
  @spec new(Guest.t(), [Domain.t()], BeTree.Runtime.snapshot(), pos_integer, keyword) :: {:ok, t} | {:error, Error.t()}
  def new(%Guest{runtime: runtime} = guest, schema, snapshot, fuel_per_reduction, limits) do
    with {:ok, instance} <- Instance.replicate(guest, snapshot, limits),
         {:ok, info} <- Instance.info(runtime, instance) do
      {:ok,
       %__MODULE__{
         runtime: runtime,
         instance: instance,
         fuel_per_reduction: fuel_per_reduction,
         guest: guest,
         schema: schema,
         snapshot: snapshot,
         info: info
       }}
    end
  end

  @doc """
  A tree that begins as the index and then changes on its own: it may take `memory` bytes. It shares the memory that it
  does not write, where replicas do, and is made in some 50 microseconds. Errors by kind: `:out_of_memory`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, other} = BeTree.Index.to_tree(BeTree.publish!(tree), 100_000_000)
      iex> BeTree.insert!(other, 2, "age >= 30")
      iex> {BeTree.search!(other, %{age: 30}), BeTree.search!(tree, %{age: 30})}
      {[1, 2], [1]}
  """
  @spec to_tree(t, pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def to_tree(index, memory)

  def to_tree(%__MODULE__{guest: guest, snapshot: snapshot} = index, memory) do
    Check.memory!(memory)

    with {:ok, instance} <- Instance.instantiate(guest, memory, snapshot) do
      {:ok,
       %Tree{
         runtime: guest.runtime,
         instance: instance,
         fuel_per_reduction: index.fuel_per_reduction,
         guest: guest,
         schema: index.schema,
         memory: memory
       }}
    end
  end

  def to_tree(other, _memory), do: Check.expected!("a BeTree.Index", other)

  defimpl Inspect do
    alias BeTree.Engine.Describe

    def inspect(%{info: info}, _options) do
      "#BeTree.Index<#{Describe.expressions(info.expressions)}, #{Describe.megabytes(info.memory_bytes)}>"
    end
  end
end
