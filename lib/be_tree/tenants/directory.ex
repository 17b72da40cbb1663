defmodule BeTree.Tenants.Directory do
  @moduledoc false
  # The tables of the tenants. They belong to the supervisor, so they outlive every process below it.
  #
  # The table of the supervisor's name has a row for each tenant in memory, under the key `{tenant}`, and other rows under
  # keys that are no tuples of one element. A match reads its tenant's row, and nothing else. Only the partition of a tenant writes
  # the row.
  #
  # An entry of `intents` says that the copy of a tenant in a shard, its row and the store may differ. A partition adds it before it
  # changes one of them, and removes it when they agree. A partition that starts again settles the entries that it finds.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Tenants.{Clock, Quota, Usage}

  @enforce_keys [:name, :usage, :shards, :intents, :store, :totals, :sizes, :rounds, :options, :guest, :digest]
  defstruct @enforce_keys

  @typedoc """
    * `:name` - the name of the supervisor and of the table of rows;
    * `:usage` - `{{tenant}, days}`, the counters of the bill (`BeTree.Tenants.Usage`);
    * `:shards` - `{{partition, number}, shard, used}`: the shards, and how many numbers of tenants are used;
    * `:intents` - `{{tenant, shard, number}, intent}`;
    * `:store` - the tables of the store;
    * `:totals` - counters: `total/2`; `:sizes` - atomics: `sizes/1` and `staying/1`; `:rounds` - atomics: `round_ms/1`;
    * `:options` - the options of the tenants;
    * `:guest` - the index module, and `:digest` its SHA-256.
  """
  @type t :: %__MODULE__{}

  @typedoc "The row of a tenant in memory, all that a match needs."
  @type row ::
          {key :: {term}, shard :: term, shard_id :: term, number :: non_neg_integer, Clock.day(),
           :counters.counters_ref(), :atomics.atomics_ref(), Quota.bucket(), Clock.t()}

  @typedoc """
  The key of an intent is `{tenant, shard, number}`.

    * `:load` - the copy is not complete, and has nothing that the store lacks;
    * `:change` - the copy may have a change that the store lacks;
    * `:leave` - the copy is frozen, and leaves the shard when the store has its statistics.
  """
  @type intent :: :load | :change | :leave

  @totals [:loads, :evictions, :rebuilds, :restores]

  # Numbers of a partition in `sizes`.
  @sizes 4

  @doc "Makes the tables. The calling process owns them."
  @spec new(map) :: t
  def new(%{name: name} = fields) do
    ^name = :ets.new(name, [:named_table, :public, read_concurrency: true, write_concurrency: true])

    directory =
      struct!(
        __MODULE__,
        Map.merge(fields, %{
          usage: :ets.new(:usage, [:public, read_concurrency: true]),
          shards: :ets.new(:shards, [:public, read_concurrency: true]),
          intents: :ets.new(:intents, [:public]),
          totals: :counters.new(length(@totals), []),
          sizes: :atomics.new(@sizes * fields.options.partitions, []),
          rounds: :atomics.new(fields.options.partitions, [])
        })
      )

    :ets.insert(name, {:tenants, directory})
    directory
  end

  @doc "Returns the tables of the tenants `name`."
  @spec fetch(atom) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    case :ets.lookup(name, :tenants) do
      [{:tenants, %__MODULE__{} = directory}] -> {:ok, directory}
      _other -> missing(name)
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> missing(name)
  end

  @doc "Returns the row of a tenant, `nil` if it is not in memory, or the error that no tenants have this name."
  @spec row(atom, term) :: row | nil | {:error, Error.t()}
  def row(name, tenant) do
    case :ets.lookup(name, {tenant}) do
      [row] -> row
      [] -> nil
    end
  rescue
    ArgumentError -> missing(name)
  end

  @doc "Returns the error for tenants that do not run."
  @spec missing(atom) :: {:error, Error.t()}
  def missing(name) do
    message = "no BeTree.Tenants called #{Describe.value(name)} runs on this node; start one"
    {:error, %Error{kind: :no_server, message: message}}
  end

  @doc "Returns the error for a tenant that does not exist."
  @spec unknown(term) :: {:error, Error.t()}
  def unknown(tenant) do
    message = "there is no tenant #{Describe.value(tenant)}; it exists from its first change"
    {:error, %Error{kind: :not_found, message: message}}
  end

  @doc "Returns the number of the partition of a tenant."
  @spec partition(t, term) :: non_neg_integer
  def partition(%__MODULE__{options: %{partitions: partitions}}, tenant), do: :erlang.phash2(tenant, partitions)

  @doc "Records the calling process as a partition."
  @spec put_partition(t, non_neg_integer) :: true
  def put_partition(%__MODULE__{name: name}, partition), do: :ets.insert(name, {{:partition, partition}, self()})

  @doc "Returns the process of a partition, `nil` before it first starts."
  @spec partition_process(t, non_neg_integer) :: pid | nil
  def partition_process(%__MODULE__{name: name}, partition) do
    case :ets.lookup(name, {:partition, partition}) do
      [{_key, pid}] -> pid
      [] -> nil
    end
  rescue
    ArgumentError -> nil
  end

  ## Usage

  @doc "Returns the days of a tenant that have counters."
  @spec usage(t, term) :: Usage.days()
  def usage(%__MODULE__{usage: usage}, tenant) do
    case :ets.lookup(usage, {tenant}) do
      [{_key, days}] -> days
      [] -> []
    end
  end

  @doc "Sets the days of a tenant that have counters."
  @spec put_usage(t, term, Usage.days()) :: true
  def put_usage(%__MODULE__{usage: usage}, tenant, []), do: :ets.delete(usage, {tenant})
  def put_usage(%__MODULE__{usage: usage}, tenant, days), do: :ets.insert(usage, {{tenant}, days})

  ## Totals

  @type total :: :loads | :evictions | :rebuilds | :restores

  @doc "Adds one to a total: loads, evictions, shards that were lost, and restores, which add to days that have ended."
  @spec count(t, total) :: :ok
  for {total, position} <- Enum.with_index(@totals, 1) do
    def count(%__MODULE__{totals: totals}, unquote(total)), do: :counters.add(totals, unquote(position), 1)
  end

  @doc "Returns a total."
  @spec total(t, total) :: non_neg_integer
  for {total, position} <- Enum.with_index(@totals, 1) do
    def total(%__MODULE__{totals: totals}, unquote(total)), do: :counters.get(totals, unquote(position))
  end

  ## Sizes

  @typedoc "A number of tenants and their bytes."
  @type size :: {tenants :: non_neg_integer, bytes :: non_neg_integer}

  @doc "Records the tenants of a partition in memory, and those of them that do not leave it."
  @spec put_sizes(t, non_neg_integer, hot :: size, staying :: size) :: :ok
  def put_sizes(%__MODULE__{sizes: sizes}, partition, {tenants, bytes}, {staying, staying_bytes}) do
    for {value, place} <- Enum.with_index([tenants, bytes, staying, staying_bytes]),
        do: :atomics.put(sizes, position(partition, place), value)

    :ok
  end

  @doc "Returns the tenants in memory."
  @spec sizes(t) :: size
  def sizes(directory), do: sum(directory, 0)

  @doc "Returns the tenants in memory that do not leave it."
  @spec staying(t) :: size
  def staying(directory), do: sum(directory, 2)

  defp sum(%{sizes: sizes, options: %{partitions: partitions}}, place) do
    Enum.reduce(0..(partitions - 1), {0, 0}, fn partition, {tenants, bytes} ->
      at = position(partition, place)
      {tenants + :atomics.get(sizes, at), bytes + :atomics.get(sizes, at + 1)}
    end)
  end

  defp position(partition, place), do: @sizes * partition + place + 1

  @doc "Records the milliseconds in which a partition wrote the statistics of all used tenants once."
  @spec put_round(t, non_neg_integer, non_neg_integer) :: :ok
  def put_round(%__MODULE__{rounds: rounds}, partition, ms), do: :atomics.put(rounds, partition + 1, ms)

  @doc "Returns the milliseconds of the longest of the partitions' last rounds."
  @spec round_ms(t) :: non_neg_integer
  def round_ms(%__MODULE__{rounds: rounds, options: %{partitions: partitions}}),
    do: 1..partitions |> Enum.map(&:atomics.get(rounds, &1)) |> Enum.max()

  @doc "Returns the other partition with the most tenants that do not leave memory, or `nil` if no other has any."
  @spec largest_other(t, non_neg_integer) :: non_neg_integer | nil
  def largest_other(%__MODULE__{sizes: sizes, options: %{partitions: partitions}}, partition) do
    others = for other <- 0..(partitions - 1), other != partition, do: {:atomics.get(sizes, position(other, 2)), other}

    with {tenants, other} when tenants > 0 <- Enum.max(others, fn -> nil end), do: other, else: (_none -> nil)
  end

  @doc "Returns the `count` tenants with the most fuel on their latest day, each with that fuel, the dearest first."
  @spec dearest(t, pos_integer) :: [{term, pos_integer}]
  def dearest(%__MODULE__{usage: usage}, count) do
    keep = fn
      {{tenant}, [{_day, counters, _stored} | _earlier]}, dearest ->
        case Usage.fuel(counters) do
          0 -> dearest
          fuel -> [{fuel, tenant} | dearest] |> Enum.sort(:desc) |> Enum.take(count)
        end
    end

    for {fuel, tenant} <- :ets.foldl(keep, [], usage), do: {tenant, fuel}
  end
end
