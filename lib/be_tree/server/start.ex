defmodule BeTree.Server.Start do
  @moduledoc false
  # Finds the state with which a server's process begins.
  #
  # A base in the tables means that the previous process crashed. The base and the log then have its changes, and the journal may
  # have more. Otherwise the state comes from the folder, from the option `:image` or `:load`, or is empty.

  alias BeTree.{Domain, Error, Image}
  alias BeTree.Journal.Owner
  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Processes.Callback
  alias BeTree.Server.{Builder, Changes, Lineage, Store, Table}
  alias BeTree.Target.Ids

  @enforce_keys [:base, :rows, :tree, :lineage, :journal]
  defstruct @enforce_keys

  @typedoc """
    * `:base`, `:rows` - the base, and the rows of the table's log since;
    * `:tree` - a tree with all of that;
    * `:lineage` - `:former` if the present lineage is that of an earlier process, `:begun` if this process begins one;
    * `:journal` - the journal, or `nil` without a folder.
  """
  @type t :: %__MODULE__{
          base: Table.base(),
          rows: [Table.row()],
          tree: BeTree.t(),
          lineage: :former | :begun,
          journal: Owner.t() | nil
        }

  @doc "Opens the folder, if there is one, and returns the state. The calling process owns the journal and the tables."
  @spec run(Table.t(), map) :: {:ok, t} | {:error, Error.t()}
  def run(table, options) do
    with {:ok, journal} <- open(options, table), do: begin(Table.recover(table), table, journal, options)
  end

  defp open(%{dir: nil}, _table), do: {:ok, nil}

  defp open(%{dir: dir, durability: durability, schema: schema}, table) do
    with {:ok, schema} <- Domain.parse(schema), do: Store.open(dir, schema, Ids.kind(table.ids), durability)
  end

  defp begin(nil, table, journal, options) when journal != nil do
    case Store.recover(journal, table, options) do
      {:ok, nil} -> begin_empty(journal, options)
      {:ok, recovered} -> begin_with(recovered, journal, options)
      {:error, error} -> {:error, error}
    end
  end

  defp begin(nil, _table, nil, %{image: image} = options) when image != nil do
    message = "the image has another schema than the server; give the server the schema of the image"

    with {:ok, index} <- Image.read(image, options.read),
         {:ok, schema} <- Domain.parse(options.schema),
         :ok <- check_schema(index.schema, schema, message),
         {:ok, index} <- Builder.adopt(index, options),
         do: begin_with(%{index: index, version: 0, history: [], complete: false}, nil, options)
  end

  defp begin(nil, table, nil, %{load: {module, function, arguments}} = options) do
    name = "`load:`, #{Describe.value(module)}.#{function}/#{length(arguments)},"

    # A stream calls functions of the user until its last element was read.
    read = fn ->
      case apply(module, function, arguments) do
        {:error, error} -> {:error, error}
        {:ok, subscriptions} -> Subscription.new_all(subscriptions, Ids.kind(table.ids))
        subscriptions -> Subscription.new_all(subscriptions, Ids.kind(table.ids))
      end
    end

    with {:ok, wires} <- Callback.run(name, :public, read), do: begin_loaded(wires, table, options)
  end

  defp begin(nil, _table, nil, options), do: begin_empty(nil, options)
  defp begin({base, rows}, _table, nil, options), do: begin_again(base, rows, nil, options)

  defp begin({base, rows}, table, journal, options) do
    # The process can have been killed between the journal and the log.
    with {:ok, more} <- Store.later(journal, table, base.version + length(rows)) do
      if base.version + length(rows ++ more) == Owner.last(journal) do
        for row <- more, do: append(row, table)
        begin_again(base, rows ++ more, journal, options)
      else
        # It was killed in the middle of a swap, which the folder has.
        Table.forget_texts(table)
        begin(nil, table, journal, options)
      end
    end
  end

  # The tables have the terms of a change before a replica has their numbers.
  defp append({version, deleted, wires}, %{ids: ids} = table) do
    for {key, _text, _constants} <- wires, do: Ids.put(ids, key)
    Table.append(table, version, deleted, wires)
  end

  defp begin_again(base, rows, journal, options) do
    with {:ok, tree} <- Changes.rebuild(base.index, rows, options.memory),
         do: {:ok, %__MODULE__{base: base, rows: rows, tree: tree, lineage: :former, journal: journal}}
  end

  defp begin_empty(journal, options) do
    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, index} <- Builder.publish(tree, options),
         do: begin_with(%{index: index, version: 0, history: [], complete: true}, journal, options)
  end

  defp begin_loaded(wires, table, options) do
    wires = Ids.add_keys(table.ids, wires)

    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, _count} <- Changes.insert(tree, wires),
         {:ok, index} <- Builder.publish(tree, options) do
      Table.put_texts(table, {0, [], wires})
      begin_with(%{index: index, version: 0, history: [], complete: true}, nil, options)
    end
  end

  defp begin_with(%{index: index, version: version, history: history, complete: complete}, journal, options) do
    {history, lineage} = if history == [], do: {Lineage.begin([], version), :begun}, else: {history, :former}
    base = %{history: history, index: index, version: version, origin: version, complete: complete}
    with {:ok, start} <- begin_again(base, [], journal, options), do: {:ok, %{start | lineage: lineage}}
  end

  @doc "Returns the error with this message unless both schemas are the same."
  @spec check_schema([Domain.t()], [Domain.t()], String.t()) :: :ok | {:error, Error.t()}
  def check_schema(schema, other, message) do
    if Domain.encode(schema) == Domain.encode(other),
      do: :ok,
      else: {:error, %Error{kind: :other_schema, message: message}}
  end
end
