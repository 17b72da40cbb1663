defmodule BeTree.Index do
  @moduledoc """
  A published index is an immutable copy of a tree, which any number of processes search at once.

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

  Every function that searches takes a tree or an index: `BeTree.search/3`, `BeTree.search_many/3`, `BeTree.stream/3`,
  `BeTree.explain/4`, `BeTree.info/2` and `BeTree.Search`. An index cannot be changed. Its memory is freed once no process
  refers to it.

  ## Replicas

  A tree runs one search at a time. An index runs as many as it has *replicas*: instances of the compiled module whose
  memory begins as a copy of the tree's. `BeTree.publish/2` makes that copy and compiles nothing. On Linux the replicas map
  the copy and share every page that they do not write, so another replica takes only the memory that its searches write.
  On other systems each replica has a whole copy.

  When all replicas are in use, a search makes another one on a dirty scheduler, up to the option `:replicas` of
  `BeTree.publish/2`. A search takes the replica that was used last, because its memory is in the caches. A search holds
  its replica until it ends, yields included. If every search ends within its slice, an index uses no more replicas than
  there are schedulers.

  When all replicas exist and are in use, a caller waits, in order, until its `:timeout`. When `:queue` callers wait already,
  the search returns an error of kind `:overloaded` at once. A search that is cancelled, uses up its budget or loses its
  process returns its replica as it is. A replica that trapped, or that stopped because it was refused memory, is thrown
  away, and made again from the copy when it is needed.
  """

  alias BeTree.{Domain, Error, Guest, Tree}
  alias BeTree.Call.Instance
  alias BeTree.Input.{Check, Describe}

  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :guest, :schema, :forgiving, :snapshot, :info]
  defstruct @enforce_keys

  @typedoc "A handle. Its fields are private."
  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          guest: Guest.t(),
          schema: [Domain.t()],
          forgiving: boolean,
          snapshot: BeTree.Runtime.snapshot(),
          info: %{atom => non_neg_integer}
        }

  @typedoc "An option of `BeTree.publish/2`."
  @type option :: {:replicas, pos_integer} | {:queue, non_neg_integer}

  @doc false
  # Returns the index of a snapshot. `limits` are the checked options `:replicas` and `:queue`, and the `:memory` of each replica. The
  # first replica is made here and returns the counts.
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
         forgiving: Domain.forgiving?(schema),
         snapshot: snapshot,
         info: info
       }}
    end
  end

  @doc """
  Returns a tree that begins with the content of the index and changes independently. It may take `memory` bytes.

  On Linux the tree shares the pages that it does not write. The call takes about 50 microseconds.

  Returns `{:error, error}` with the kind `:out_of_memory`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, other} = BeTree.Index.to_tree(BeTree.publish!(tree), 100_000_000)
      iex> BeTree.insert!(other, 2, "age >= 30")
      iex> {BeTree.search!(other, %{age: 30}), BeTree.search!(tree, %{age: 30})}
      {[1, 2], [1]}
  """
  @spec to_tree(t, pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def to_tree(index, memory)

  def to_tree(%__MODULE__{} = index, memory) do
    Check.memory!(memory)
    Tree.from_snapshot(index, index.snapshot, memory)
  end

  def to_tree(other, _memory), do: Check.expected!("a BeTree.Index", other)

  defimpl Inspect do
    alias BeTree.Input.Describe

    def inspect(%{info: info}, _options) do
      "#BeTree.Index<#{Describe.expressions(info.expressions)}, #{Describe.megabytes(info.memory_bytes)}>"
    end
  end
end
