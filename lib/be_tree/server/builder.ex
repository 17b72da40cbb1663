defmodule BeTree.Server.Builder do
  @moduledoc false
  # Builds the next base beside the server's process, in a linked process of its own. A base is a copy of a replica that has
  # applied the whole log, so it costs no more than the copy, and the replicas continue as they are. A base with new replicas, for
  # example in another index module, lacks the changes made during its build. For such a base the builder makes a tree too, and
  # repeats those changes until few are left. The server's process repeats the rest before it shows the base.
  #
  # The builder reads the log itself, so it waits for no other process. Its last message is `{:built, builder, outcome}`, or the
  # exit signal of its link.

  alias BeTree.{Error, Guest, Index, Telemetry}
  alias BeTree.Error.Attempt
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Processes.CrashReport
  alias BeTree.Server.{Changes, Table}

  # The builder repeats later changes until there are at most this many, in at most this many rounds.
  @max_lag 16
  @max_rounds 6
  # The number of subscriptions of the table that are inserted at once: some milliseconds.
  @insert_size 100
  # A copy whose memory is larger than the tree's by this factor, because of a large event, is not used.
  @max_growth 1.25

  @typedoc "A base, the tree that continues from it, and the last version that both have."
  @type built :: %{index: Index.t(), version: Table.version(), tree: BeTree.t(), added: Table.version()}

  @typedoc "A later state of the present replicas: the index with that state, and its version."
  @type renewed :: {:renewed, Index.t(), Table.version()}

  @doc """
  Builds a base at a later version: `t:renewed/0`, or a `t:built/0` if the replicas have too much memory. `tree` is the server's tree,
  or `nil` for a server that follows, which has none.
  """
  @spec next(Table.t(), Table.base(), BeTree.t() | nil, map) :: pid
  def next(table, base, tree, options) do
    used = tree && tree.runtime.info(tree.instance).memory

    start(table, fn ->
      with :ok <- settle(base.index, tree), do: copy(table, base, used, options)
    end)
  end

  # Changes soon un-share nearly all pages of the replicas and the tree from their first base. So this copies all pages at once,
  # into large pages.
  defp settle(%{runtime: runtime, instance: instance}, tree) do
    with :ok <- if(tree, do: settle_all(runtime, tree.instance), else: :ok), do: settle_all(runtime, instance)
  end

  defp settle_all(runtime, instance) do
    case runtime.settle(instance) do
      {:ok, true} -> settle_all(runtime, instance)
      {:ok, false} -> :ok
      {:error, error} -> {:error, error}
    end
  end

  # Reads the counts first: that call applies the whole log in slices, so the copy applies only later changes.
  defp copy(table, %{index: %{runtime: runtime} = index, origin: origin} = base, used, options) do
    with {:ok, output} <- Instance.call(runtime, index.instance, "be_tree_info", [], nil, scheduler: :slices),
         {:ok, info} <- Reply.info(output),
         {:ok, snapshot} <- runtime.snapshot(index.instance, :infinity) do
      if used != nil and runtime.snapshot_length(snapshot) > @max_growth * used do
        with {:ok, copy, version} <- repeat(table, base, options), do: continue(table, copy, version, options)
      else
        index = %{index | snapshot: snapshot, info: info}
        {:ok, {:renewed, index, origin + runtime.snapshot_applied(snapshot)}}
      end
    end
  end

  # Makes the base without the memory of searches.
  defp repeat(table, %{index: index, version: version}, options) do
    rows = Table.later(table, version)

    with {:ok, tree} <- Changes.rebuild(index, rows, options.memory),
         {:ok, copy} <- BeTree.publish(tree, options.publish),
         do: {:ok, copy, version + length(rows)}
  end

  @doc "Returns the limits of the replicas of a base. Beside the index, which takes at most `:memory`, searches need some."
  @spec limits(map) :: keyword
  def limits(options), do: [memory: 2 * options.memory] ++ options.publish

  @doc "Builds in another index module, from the texts of the table up to `version`."
  @spec with_guest(Guest.t(), [BeTree.Domain.t()], Table.t(), Table.version(), map) :: pid
  def with_guest(guest, schema, table, version, options) do
    start(table, fn ->
      with {:ok, tree} <- BeTree.new(schema, Keyword.put(options.new, :guest, guest)),
           {:ok, count} <- fill(tree, Table.subscriptions(table, version, @insert_size)),
           :ok <- check_count(tree, count),
           # A subscription that was replaced or deleted while the table was read may be missing until its change is repeated.
           rows = Table.later(table, version),
           :ok <- Changes.repeat_all(tree, rows),
           {:ok, index} <- publish(tree, options),
           do: continue(table, index, version + length(rows), options)
    end)
  end

  @doc "Publishes a tree as the base of a server."
  @spec publish(BeTree.t(), map) :: {:ok, Index.t()} | {:error, Error.t()}
  def publish(tree, options) do
    with {:ok, snapshot} <- tree.runtime.snapshot(tree.instance, :infinity),
         do: Index.new(tree.guest, tree.schema, snapshot, tree.fuel_per_reduction, limits(options))
  end

  @doc "Returns an index of others with the limits of the server's replicas."
  @spec adopt(Index.t(), map) :: {:ok, Index.t()} | {:error, Error.t()}
  def adopt(%Index{} = index, options),
    do: Index.new(index.guest, index.schema, index.snapshot, index.fuel_per_reduction, limits(options))

  defp fill(tree, parts) do
    Attempt.reduce(parts, 0, fn part, filled ->
      with {:ok, count} <- Changes.insert(tree, part), do: {:ok, filled + count}
    end)
  end

  defp check_count(tree, count) do
    case BeTree.info(tree) do
      {:ok, %{expressions: ^count}} ->
        :ok

      {:ok, %{expressions: other}} ->
        message = "the index module accepted #{count} subscriptions and counts #{other}"
        {:error, %Error{kind: :bad_module, message: message}}

      {:error, error} ->
        {:error, error}
    end
  end

  @doc "Starts a builder that calls `build` and sends its outcome."
  @spec start(Table.t(), (... -> {:ok, term} | {:error, Error.t()})) :: pid
  def start(table, build) do
    server = self()
    metadata = %{server: table.server, operation: :build}

    spawn_link(fn ->
      outcome = CrashReport.guard(fn -> Telemetry.span(:base, metadata, build, &measure/1) end)
      send(server, {:built, self(), outcome})
    end)
  end

  defp measure({:ok, {:renewed, _index, version}}), do: %{version: version}
  defp measure({:ok, %{version: version}}), do: %{version: version}
  defp measure({:ok, %{added: version}}), do: %{version: version}
  defp measure({:error, _error}), do: %{}

  defp continue(table, index, version, options) do
    with {:ok, tree} <- Changes.rebuild(index, [], options.memory) do
      built = %{index: index, version: version, tree: tree, added: version}
      catch_up(built, table, @max_rounds)
    end
  end

  defp catch_up(built, table, rounds) do
    rows = Table.later(table, built.added)

    if rounds == 0 or length(rows) <= @max_lag do
      {:ok, built}
    else
      with {:ok, built} <- add(built, rows), do: catch_up(built, table, rounds - 1)
    end
  end

  @doc "Adds later changes to the base's log and to its tree."
  @spec add(built, [Table.row()]) :: {:ok, built} | {:error, Error.t()}
  def add(built, []), do: {:ok, built}

  def add(%{index: %{runtime: runtime, instance: instance}} = built, rows) do
    with :ok <- Changes.repeat_all(built.tree, rows),
         :ok <- append(runtime, instance, rows) do
      {version, _deleted, _wires} = List.last(rows)
      {:ok, %{built | added: version}}
    end
  end

  @doc "Appends to the log of the replicas of `base` those of `rows` that it lacks. The rows lead to the present version."
  @spec complete_log(Table.base(), [Table.row()]) :: :ok | {:error, Error.t()}
  def complete_log(%{index: %{runtime: runtime, instance: instance}, origin: origin}, rows) do
    {length, _lag} = runtime.lag(instance)
    append(runtime, instance, Enum.filter(rows, fn {version, _deleted, _wires} -> version > origin + length end))
  end

  @doc "Returns the bytes of the texts of rows."
  @spec bytes([Table.row()]) :: non_neg_integer
  def bytes(rows), do: Enum.reduce(rows, 0, fn {_version, _deleted, wires}, sum -> sum + Changes.bytes(wires) end)

  @doc "Returns the number of replicas of an index that exist, and the bytes that they have beside the base."
  @spec copies(Index.t()) :: %{count: non_neg_integer, bytes: non_neg_integer}
  def copies(%{runtime: runtime, instance: instance, snapshot: snapshot}) do
    %{memory: memory} = info = runtime.info(instance)
    %{count: Map.get(info, :machines, 0), bytes: max(memory - runtime.snapshot_length(snapshot), 0)}
  end

  @doc "Appends rows to the log of replicas."
  @spec append(module, BeTree.Runtime.instance(), [Table.row()]) :: :ok | {:error, Error.t()}
  def append(runtime, instance, rows), do: Attempt.each(rows, &runtime.append(instance, Changes.entry(&1)))
end
