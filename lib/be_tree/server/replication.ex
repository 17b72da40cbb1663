defmodule BeTree.Server.Replication do
  @moduledoc false
  # The primary copy of a server's index, and its replicas.
  #
  # The server's process makes a change in the primary tree (BeTree.Server.Primary), and then puts it into the replicas, by their log
  # or by a new base (BeTree.Server.Bases). This struct keeps both at the same version, and rebuilds or publishes the tree where one
  # of them cannot follow.

  alias BeTree.{Error, Index}
  alias BeTree.Server.{Bases, Builder, Changes, Migration, Primary, Start, Table}

  # The rows of the table's log that a change drops.
  @max_dropped 4

  @enforce_keys [:table, :options, :version, :bases]
  defstruct @enforce_keys ++ [:primary, :error]

  @typedoc """
  `:version` is that of the last change in the primary tree. `:error` is the error of the last write of changes or the last base that
  failed, until the next base.
  """
  @type t :: %__MODULE__{
          table: Table.t(),
          options: map,
          version: Table.version(),
          bases: Bases.t(),
          primary: Primary.t() | nil,
          error: Error.t() | nil
        }

  @doc "Shows the base of a start, with all of its rows."
  @spec begin(Start.t(), Table.t(), map) :: {:ok, t} | {:error, Error.t()}
  def begin(%Start{base: base, rows: rows, tree: tree}, table, options) do
    bases = Bases.new(table, options)
    replication = %__MODULE__{table: table, options: options, version: base.version + length(rows), bases: bases}

    with {:ok, primary} <- Primary.new(tree, options.memory),
         {:ok, replication} <- replication |> show(base, primary, base.version) |> complete(rows) do
      Table.complete_texts(table, replication.bases.base, :infinity)
      {:ok, replication}
    end
  end

  # After a crash the log of the replicas may lack the last changes.
  defp complete(replication, []), do: {:ok, replication}
  defp complete(%{bases: %{log: false}} = replication, _rows), do: publish(replication)

  defp complete(%{bases: %{base: base}} = replication, rows),
    do: with(:ok <- Builder.complete_log(base, rows), do: {:ok, replication})

  # Continues with a base, and a tree that has all changes. Followers may lack the rows of the table's log after the version `oldest`.
  defp show(replication, base, primary, oldest),
    do: %{replication | primary: primary, bases: Bases.show(replication.bases, base, oldest), error: nil}

  ## Changes

  @doc "Makes changes that the primary tree has, in the table and in the replicas."
  @spec make(t, [Table.row()]) :: t
  def make(%__MODULE__{table: table} = replication, rows) do
    # The one place that each change passes, with its version, before it is acknowledged and before a search sees it.
    for {version, deleted, wires} <- rows, do: Table.append(table, version, deleted, wires)
    Bases.forget(replication.bases, @max_dropped)
    replication = put_into_replicas(replication, rows)
    for row <- rows, do: :ok = Table.put_new_texts(table, row, replication.bases.base)
    replication
  end

  defp put_into_replicas(%{bases: bases, primary: primary} = replication, rows) do
    if Bases.applicable?(bases, rows) and not Primary.emptied?(primary, bases.base.index),
      do: %{replication | bases: Bases.append(bases, rows)},
      else: put_as_base(stop_building(replication), rows)
  end

  # Without memory for another base, the replicas apply a large change too. The replicas of some runtimes cannot. They show the
  # change when there is memory again.
  defp put_as_base(replication, rows) do
    with {:error, error} <- publish(replication) do
      bases = if replication.bases.log, do: Bases.append(replication.bases, rows), else: replication.bases
      retry(%{replication | bases: bases, error: error})
    else
      {:ok, replication} -> replication
    end
  end

  ## The primary tree. `pending` are rows that it has and the table lacks.

  @doc "Makes the primary tree anew."
  @spec rebuild(t, pending :: [Table.row()]) :: t
  def rebuild(%__MODULE__{bases: %{base: base}, primary: primary} = replication, pending),
    do: %{replication | primary: Primary.rebuild(primary, base.index, rows(replication, pending))}

  @doc "Makes the primary tree anew if a change that was cut off has damaged it."
  @spec repair(t, pending :: [Table.row()]) :: t
  def repair(%__MODULE__{primary: primary} = replication, pending),
    do: if(Primary.sound?(primary), do: replication, else: rebuild(replication, pending))

  @doc "Brings a primary tree that exceeds the memory limit back within it, if enough subscriptions were deleted."
  @spec fit(t) :: t
  def fit(%__MODULE__{primary: primary, bases: %{base: base}} = replication) do
    cond do
      not Primary.may_fit?(primary) -> replication
      # A tree that was emptied is small again, and the base may not be.
      Primary.fits?(primary) -> publish_or_retry(replication)
      true -> %{replication | primary: Primary.fit(primary, base.index, rows(replication, []))}
    end
  end

  defp rows(%{table: table, bases: %{base: base}}, pending), do: Table.later(table, base.version) ++ pending

  ## Bases

  # Publishes the tree as the base.
  defp publish(%{options: options, version: version, bases: %{base: base}, primary: %{tree: tree}} = replication) do
    with {:ok, index} <- Builder.publish(tree, options),
         {:ok, tree} <- Changes.rebuild(index, [], options.memory),
         {:ok, primary} <- Primary.new(tree, options.memory) do
      {:ok, show(replication, %{base | index: index, version: version, origin: version}, primary, base.version)}
    end
  end

  defp publish_or_retry(replication) do
    with({:ok, replication} <- publish(replication), do: replication, else: ({:error, _error} -> retry(replication)))
  end

  defp retry(replication), do: %{replication | bases: Bases.retry(replication.bases)}

  @doc "Ends the builder, whose base a swap or a large change replaces."
  @spec stop_building(t) :: t
  def stop_building(replication), do: %{replication | bases: Bases.stop_building(replication.bases)}

  @doc "Starts to build the next base if one is due. Without a log, the tree is published."
  @spec build_if_due(t) :: t
  def build_if_due(
        %__MODULE__{bases: %{builder: nil, retry: nil, log: false, base: base}, version: version} = replication
      )
      when version > base.version,
      do: publish_or_retry(replication)

  def build_if_due(%__MODULE__{bases: bases, version: version, primary: %{tree: tree}} = replication),
    do: %{replication | bases: Bases.build_if_due(bases, version, tree)}

  @doc "Replaces everything by a swapped base, to which the log does not lead. So no row before it is kept."
  @spec swap(t, Table.base(), Primary.t()) :: t
  def swap(%__MODULE__{} = replication, base, primary),
    do: show(%{replication | version: base.version}, base, primary, base.version)

  @doc """
  Handles a message of the bases. Returns `:unknown` for another one, and `{:migration, migration, from, replication}` when all texts
  fit the new schema of a migration.
  """
  @spec info(t, term) :: {:ok, t} | {:migration, Migration.t(), GenServer.from(), t} | :unknown
  def info(%__MODULE__{} = replication, message) do
    case Bases.info(replication.bases, message) do
      {:ok, bases} -> {:ok, %{replication | bases: bases}}
      {:due, bases} -> {:ok, build_if_due(%{replication | bases: bases})}
      {:built, {:ok, %Migration{} = made}, from, bases} -> {:migration, made, from, %{replication | bases: bases}}
      {:built, outcome, from, bases} -> {:ok, built(%{replication | bases: bases}, outcome, from)}
      {:unfit, error, bases} -> {:ok, publish_or_retry(stop_building(%{replication | bases: bases, error: error}))}
      :unknown -> :unknown
    end
  end

  # The replicas and the tree continue as they are.
  defp built(replication, {:ok, {:renewed, index, version}}, nil) do
    case Bases.renew(replication.bases, index, version) do
      {:ok, bases} -> build_if_due(%{replication | bases: bases, error: nil})
      {:error, error, bases} -> retry(%{replication | bases: bases, error: error})
    end
  end

  defp built(%{table: table, bases: %{base: base}, version: last} = replication, outcome, from) do
    with {:ok, built} <- outcome,
         {:ok, %{added: ^last} = built} <- Builder.add(built, Table.later(table, built.added)),
         {:ok, primary} <- Primary.new(built.tree, replication.options.memory) do
      next = %{base | index: built.index, version: built.version, origin: built.version}
      replication = show(replication, next, primary, base.version)
      if from, do: GenServer.reply(from, :ok)
      # The changes meanwhile may be too many again.
      build_if_due(replication)
    else
      {:error, error} when from != nil ->
        GenServer.reply(from, {:error, error})
        build_if_due(replication)

      {:error, error} ->
        retry(%{replication | error: error})
    end
  end

  ## Descriptions

  @doc "Returns the part of a server's `info` that describes its index."
  @spec describe(t) :: map
  def describe(
        %__MODULE__{primary: primary, bases: %{base: %{index: %Index{} = index}}, version: version} = replication
      ) do
    # A tree that a change has damaged is rebuilt with the next change.
    counts = with {:error, _error} <- BeTree.info(primary.tree), do: {:ok, index.info}

    counts
    |> elem(1)
    |> Map.merge(Bases.describe(replication.bases, version))
    |> Map.merge(%{expressions: primary.count, version: version, replicas: Builder.copies(index)})
  end
end
