defmodule BeTree.Server.Migration do
  @moduledoc false
  # Moves the subscriptions of a server to another schema.
  #
  # A migration compiles all texts in a tree of its own, under the new schema, while searches and changes continue in the present
  # index. Changes that come meanwhile are repeated in that tree, as for a base in another index module (BeTree.Server.Builder). A text
  # that the new schema refuses is a fault. A change that deletes or replaces the subscription removes its fault. Without faults the
  # server's process writes the new index to the folder, as a base of the new schema, and swaps it in. With faults it does neither.

  alias BeTree.{Domain, Error, Index, Tree}
  alias BeTree.Error.Attempt
  alias BeTree.Input.Describe
  alias BeTree.Server.{Builder, Changes, Primary, Request, Table}
  alias BeTree.Target.Ids

  # The subscriptions of one insertion, which takes some milliseconds.
  @insert_size 100
  # The builder repeats later changes until there are at most this many, in at most this many rounds.
  @max_lag 16
  @max_rounds 6
  # The faults that the message of the error names.
  @max_named 5
  # The faults in the error of a start.
  @max_logged 100
  # Errors of these kinds concern the tree, not a text.
  @of_tree [:trap, :out_of_fuel, :out_of_memory, :timeout, :duplicate_id, :bad_module]

  @enforce_keys [:tree, :added]
  defstruct @enforce_keys ++ [faults: %{}]

  @typedoc """
    * `:tree` - the subscriptions under the new schema, but for the faults;
    * `:added` - the version of the last change that the tree has;
    * `:faults` - the errors of the texts that do not fit, by key.
  """
  @type t :: %__MODULE__{tree: Tree.t(), added: Table.version(), faults: %{optional(Ids.key()) => Error.t()}}

  @doc "Returns whether an index has this schema already."
  @spec done?(Index.t(), [Domain.t()]) :: boolean
  def done?(%Index{schema: present}, schema), do: Domain.encode(present) == Domain.encode(schema)

  @doc "Returns an error if the server does not know the texts of a base."
  @spec check_texts(Table.base()) :: :ok | {:error, Error.t()}
  def check_texts(%{complete: true}), do: :ok

  def check_texts(%{complete: false}) do
    message =
      "the index was swapped in without its expressions, so they cannot be checked under another schema; put all " <>
        "subscriptions into a new server, or swap in an index of the new schema where the server has no :dir"

    {:error, %Error{kind: :not_found, message: message}}
  end

  @doc """
  Compiles the texts of the table up to `version` under `schema`, and repeats the changes after it until few are left. The module is
  that of `index`. The calling process is not the server's.
  """
  @spec build([Domain.t()], Index.t(), Table.t(), Table.version(), map) :: {:ok, t} | {:error, Error.t()}
  def build(schema, %Index{guest: guest}, table, version, options) do
    with {:ok, tree} <- BeTree.new(schema, Keyword.put(options.new, :guest, guest)),
         parts = Table.subscriptions(table, version, @insert_size),
         # A subscription that was replaced or deleted while the table was read may be missing until its change is repeated.
         {:ok, migration} <- Attempt.reduce(parts, %__MODULE__{tree: tree, added: version}, &insert/2),
         {:ok, migration} <- catch_up(migration, table, @max_rounds),
         :ok <- check_faults(migration),
         do: {:ok, migration}
  end

  defp catch_up(migration, table, rounds) do
    rows = Table.later(table, migration.added)

    if rounds == 0 or length(rows) <= @max_lag do
      {:ok, migration}
    else
      with {:ok, migration} <- repeat_all(rows, migration), do: catch_up(migration, table, rounds - 1)
    end
  end

  @doc """
  Repeats the last changes, up to that of `version`. Returns the index, with the limits of the server's replicas, and a primary tree
  that begins as this index; or the error that names the faults.
  """
  @spec complete(t, Table.t(), Table.version(), map) :: {:ok, Index.t(), Primary.t()} | {:error, Error.t()}
  def complete(%__MODULE__{} = migration, table, version, options) do
    rows = Table.later(table, migration.added)

    with {:ok, %{added: ^version, tree: tree} = migration} <- repeat_all(rows, migration),
         :ok <- check_faults(migration),
         {:ok, index} <- Builder.publish(tree, options),
         {:ok, tree} <- Changes.rebuild(index, [], options.memory),
         {:ok, primary} <- Primary.new(tree, options.memory),
         do: {:ok, index, primary}
  end

  ## Subscriptions

  defp repeat_all(rows, migration), do: Attempt.reduce(rows, migration, &repeat/2)

  defp repeat({version, deleted, wires}, %{tree: tree, faults: faults} = migration) do
    with :ok <- Changes.repeat_all(tree, [{version, deleted, []}]),
         migration = %{migration | added: version, faults: Map.drop(faults, deleted)},
         do: wires |> Enum.chunk_every(@insert_size) |> Attempt.reduce(migration, &insert/2)
  end

  defp insert(wires, migration) do
    case Changes.insert(migration.tree, wires) do
      {:ok, _count} -> {:ok, migration}
      {:error, error} -> if fault?(error), do: Attempt.reduce(wires, migration, &insert_one/2), else: {:error, error}
    end
  end

  defp insert_one({key, text, _constants} = wire, %{tree: tree, faults: faults} = migration) do
    case Changes.insert(tree, [wire]) do
      {:ok, 1} ->
        {:ok, migration}

      {:error, error} ->
        if fault?(error),
          do: {:ok, %{migration | faults: Map.put(faults, key, Request.alone(error, Ids.id(key), text))}},
          else: {:error, error}
    end
  end

  defp fault?(%Error{kind: kind, position: position}), do: position != nil and kind not in @of_tree

  ## Faults

  defp check_faults(%{faults: faults}) when faults == %{}, do: :ok

  defp check_faults(%{faults: faults}) do
    faults = faults |> Enum.map(fn {key, error} -> {Ids.id(key), error} end) |> Enum.sort_by(&elem(&1, 0))
    message = message(faults, "change or delete them first (the field :faults lists them)")
    {:error, %Error{kind: :schema_change, message: message, faults: faults}}
  end

  @doc """
  Returns the error of a start, when no server runs that could change the subscriptions. It has the first faults only, because
  supervisors log it several times.
  """
  @spec at_start(Error.t()) :: Error.t()
  def at_start(%Error{kind: :schema_change, faults: faults} = error) do
    mend =
      "start the server with the schema of the folder, change or delete them (the field :faults has the first), and migrate"

    %{error | message: message(faults, mend), faults: Enum.take(faults, @max_logged)}
  end

  def at_start(error), do: error

  defp message(faults, mend) do
    {named, others} = Enum.split(faults, @max_named)
    more = if others == [], do: "", else: "; and #{length(others)} more"
    list = named |> Enum.chunk_by(fn {_id, error} -> error.message end) |> Enum.map_join("; ", &named/1)
    "#{count(faults)} not fit the new schema, and nothing was changed; #{mend}: #{list}#{more}"
  end

  # Subscriptions with the same error.
  defp named([{_id, error} | _] = faults),
    do: "#{Enum.map_join(faults, ", ", fn {id, _error} -> Describe.value(id) end)}: #{error.message}"

  defp count([_one]), do: "1 subscription does"
  defp count(faults), do: "#{length(faults)} subscriptions do"
end
