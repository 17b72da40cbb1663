defmodule BeTree.Server.Start do
  @moduledoc false
  # Finds the state with which a server's process begins.
  #
  # A base in the tables means that the previous process crashed. The base and the log then have its changes, and the journal may
  # have more. Otherwise the state comes from the folder, from the option `:image` or `:load`, or is empty.

  alias BeTree.{Domain, Error, Image}
  alias BeTree.Domain.Difference
  alias BeTree.Journal.Owner
  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Processes.{Callback, Log}
  alias BeTree.Server.{Builder, Changes, Checks, Lineage, Migration, Primary, Store, Table}
  alias BeTree.Target.Ids

  @enforce_keys [:base, :rows, :tree, :lineage, :journal]
  defstruct @enforce_keys

  @typedoc """
    * `:base`, `:rows` - the base, and the rows of the table's log since;
    * `:tree` - a tree with all of that;
    * `:lineage` - `:former` if the present lineage is that of an earlier process, `:begun` if this process begins one, `:kept` if the
      folder has the one that this process began;
    * `:journal` - the journal, or `nil` without a folder.
  """
  @type t :: %__MODULE__{
          base: Table.base(),
          rows: [Table.row()],
          tree: BeTree.t(),
          lineage: :former | :begun | :kept,
          journal: Owner.t() | nil
        }

  @doc "Opens the folder, if there is one, and returns the state. The calling process owns the journal and the tables."
  @spec run(Table.t(), map) :: {:ok, t} | {:error, Error.t()}
  def run(table, options) do
    with {:ok, journal, schema} <- open(options, table),
         {:ok, start} <- begin(Table.recover(table), table, journal, %{options | schema: schema}),
         do: settle_schema(start, Table.schemas(table), table, options)
  end

  defp open(%{dir: nil, schema: schema}, _table), do: {:ok, nil, schema}

  defp open(%{dir: dir, durability: durability} = options, table) do
    {schema, others} = expected(Table.schemas(table), options)
    Store.open(dir, schema, others, Ids.kind(table.ids), durability)
  end

  # The schema of the options is that of the first start. `BeTree.Server.migrate/3` may have changed it since.
  defp expected(nil, %{schema: schema, schema_change: :refuse}), do: {schema, []}
  defp expected(nil, %{schema: schema, schema_change: :migrate}), do: {schema, :any}
  defp expected([schema | others], _options), do: {schema, others}

  defp begin(nil, table, journal, options) when journal != nil do
    case Store.recover(journal, table, options) do
      {:ok, nil} -> begin_empty(journal, options)
      {:ok, recovered} -> begin_with(recovered, journal, options)
      {:error, error} -> {:error, error}
    end
  end

  defp begin(nil, _table, nil, %{image: image} = options) when image != nil do
    with {:ok, index} <- Image.read(image, options.read),
         {:ok, schema} <- Domain.parse(options.schema),
         :ok <-
           check_schema(
             index.schema,
             schema,
             "the image has another schema than the server",
             "give the server that schema"
           ),
         {:ok, index} <- Builder.adopt(index, options),
         do: begin_with(%{index: index, version: 0, history: [], complete: false}, nil, options)
  end

  defp begin(nil, table, nil, %{load: {module, function, arguments}} = options) do
    name = "`load:`, #{Describe.value(module)}.#{function}/#{length(arguments)},"

    # A stream calls functions of the user until its last element was read.
    read = fn ->
      case apply(module, function, arguments) do
        {:error, error} -> {:error, error}
        {:ok, subscriptions} -> read(subscriptions, table, options)
        subscriptions -> read(subscriptions, table, options)
      end
    end

    with {:ok, wires, faults} <- Callback.run(name, :public, read), do: begin_loaded(wires, faults, table, options)
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

  defp read(subscriptions, %{ids: ids}, %{on_error: :collect}), do: Checks.read(subscriptions, Ids.kind(ids))

  defp read(subscriptions, %{ids: ids}, %{on_error: :stop}),
    do: with({:ok, wires} <- Subscription.new_all(subscriptions, Ids.kind(ids)), do: {:ok, wires, []})

  defp begin_loaded(wires, unread, table, options) do
    with {:ok, tree, wires, refused} <- load(wires, table, options),
         {:ok, index} <- Builder.publish(tree, options) do
      Table.put_texts(table, {0, [], wires})
      note_faults(unread ++ refused, table)
      begin_with(%{index: index, version: 0, history: [], complete: true}, nil, options)
    end
  end

  # Inserts all at once, and only if one is wrong, in parts.
  defp load(wires, table, %{on_error: on_error} = options) do
    keyed = Ids.add_keys(table.ids, wires)

    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, _count} <- Changes.insert(tree, keyed) do
      {:ok, tree, keyed, []}
    else
      {:error, error} ->
        if on_error == :collect and Checks.of_subscription?(error),
          do: load_right(wires, table, options),
          else: {:error, error}
    end
  end

  defp load_right(wires, table, options) do
    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, right, faults} <- Checks.separate(wires, &insert(tree, Ids.add_keys(table.ids, &1))),
         do: {:ok, tree, Ids.add_keys(table.ids, right), faults}
  end

  defp insert(tree, wires), do: with({:ok, _count} <- Changes.insert(tree, wires), do: :ok)

  defp note_faults([], _table), do: :ok

  defp note_faults(faults, %{server: server} = table) do
    # The terms of subscriptions that were left out.
    Ids.sweep(table.ids, table.texts)
    Table.put_faults(table, faults)
    Checks.report(server, :load, faults)
    name = Describe.value(server)

    text = "`load:` of the server #{name} has left out #{count(faults)}; BeTree.Server.faults(#{name}) returns them"

    Log.warning(text)
  end

  defp count([_one]), do: "1 wrong subscription"
  defp count(faults), do: "#{length(faults)} wrong subscriptions"

  defp begin_with(%{index: index, version: version, history: history, complete: complete}, journal, options) do
    {history, lineage} = if history == [], do: {Lineage.begin([], version), :begun}, else: {history, :former}
    base = %{history: history, index: index, version: version, origin: version, complete: complete}
    with {:ok, start} <- begin_again(base, [], journal, options), do: {:ok, %{start | lineage: lineage}}
  end

  ## Schemas

  # The first start may have found a folder of another schema, and moves it to that of the options. The folder has the new schema
  # before a search can.
  defp settle_schema(%{journal: journal} = start, schemas, _table, _options) when journal == nil or schemas != nil,
    do: {:ok, start}

  defp settle_schema(%{base: %{index: index}} = start, nil, table, %{schema: schema, schema_change: change} = options) do
    with {:ok, start} <- if(change == :migrate, do: migrate(start, table, options), else: {:ok, start}) do
      Table.put_schemas(table, [if(change == :migrate, do: schema, else: index.schema)])
      {:ok, start}
    end
  end

  defp migrate(%{base: %{index: index, version: last} = base} = start, table, %{schema: schema} = options) do
    with false <- Migration.done?(index, schema),
         :ok <- Migration.check_texts(base),
         {:ok, made} <- Migration.build(schema, index, table, last, options),
         {:ok, index, %Primary{tree: tree}} <- Migration.complete(made, table, last, options),
         history = if(start.lineage == :former, do: Lineage.begin(base.history, last), else: base.history),
         base = %{base | index: index, version: last + 1, origin: last + 1, history: history},
         {:ok, journal} <- Store.migrate(start.journal, table, base) do
      {:ok, %{start | base: base, rows: [], tree: tree, lineage: :kept, journal: journal}}
    else
      true -> {:ok, start}
      {:error, error} -> {:error, Migration.at_start(error)}
    end
  end

  @doc "Returns an error unless both schemas are the same: `fault`, the difference, and `mend`."
  @spec check_schema([Domain.t()], [Domain.t()], String.t(), String.t()) :: :ok | {:error, Error.t()}
  def check_schema(found, schema, fault, mend) do
    if Domain.encode(found) == Domain.encode(schema) do
      :ok
    else
      message = "#{fault}, #{Difference.text(found, schema)}; #{mend}"
      {:error, %Error{kind: :other_schema, message: message}}
    end
  end
end
