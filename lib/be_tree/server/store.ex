defmodule BeTree.Server.Store do
  @moduledoc false
  # The folder of a server with the option `:dir`: a journal of its changes, and bases, from which it recovers.
  #
  # A change has the same version in the journal and in the log of the table. Its record is the external term
  # `{deleted, wires}` of its row, or `{deleted, wires, lineage}` for the first change of a lineage (BeTree.Server.Lineage). The
  # content of a base is a sequence of parts, each with its kind and its length:
  #
  #     1  the term `%{complete: boolean, history: history}`
  #     2  an image of the index (BeTree.Image)
  #     3  a list of `{id, version, text, constants}`: some rows of the table's texts
  #
  # Complete texts take precedence over the image: if another version of the index module wrote the image, the index is made from
  # the texts.

  @behaviour BeTree.Journal.Owner

  alias BeTree.{Domain, Error, Image, Index, Telemetry, Tree}
  alias BeTree.Domain.Difference
  alias BeTree.Error.Attempt
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Journal
  alias BeTree.Journal.Owner
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Builder, Changes, Copy, Lineage, Table}
  alias BeTree.Target.Ids

  @meta 1
  @image 2
  @texts 3
  @texts_per_part 1_000
  # The subscriptions that a recovery inserts with one call.
  @repeat_size 500

  # No memory of WebAssembly with addresses of 32 bits is larger.
  @max_memory 0x1_0000_0000

  # The prefix of the schema in the identity of a folder whose ids are terms.
  @terms "ids: :term\n"
  # The prefix of the identity of a folder of rules (BeTree.Rules.Server.Layout).
  @rules "BeTree rules "

  @doc """
  Opens the folder of a server with ids of this kind. The calling process owns the journal. Returns the schema of the folder, which is
  `schema`, or one of `others`, or any other one for `others` of `:any`.
  """
  @spec open(Path.t(), [Domain.t()], [[Domain.t()]] | :any, Id.kind(), Journal.durability()) ::
          {:ok, Owner.t(), [Domain.t()]} | {:error, Error.t()}
  def open(folder, schema, others, kind, durability) do
    with {:error, {:identity, found}} <- open_as(folder, identity(schema, kind), durability),
         {:ok, other} <- accepted(found, others, kind),
         {:ok, owner} <- open_as(folder, found, durability) do
      {:ok, owner, other}
    else
      {:ok, owner} -> {:ok, owner, schema}
      {:other, found} -> {:error, other(folder, schema, kind, found)}
      {:error, {:identity, found}} -> {:error, other(folder, schema, kind, found)}
      {:error, error} -> {:error, error}
    end
  end

  @doc "Returns whether a folder with this identity holds the subscriptions of a server."
  @spec subscriptions?(binary) :: boolean
  def subscriptions?(@terms <> encoded), do: subscriptions?(encoded)
  def subscriptions?(encoded), do: match?({:ok, _schema}, Reply.schema(encoded))

  defp open_as(folder, identity, durability),
    do: Owner.open(__MODULE__, folder, identity: identity, durability: durability)

  defp identity(schema, :integer), do: Domain.encode(schema)
  defp identity(schema, _terms), do: @terms <> Domain.encode(schema)

  # Returns the schema of a folder if the server can have it.
  defp accepted(found, others, kind) do
    with {:ok, encoded} <- of_kind(found, kind),
         {:ok, schema} <- Reply.schema(encoded),
         true <- others == :any or Enum.any?(others, &(Domain.encode(&1) == encoded)) do
      {:ok, schema}
    else
      _other -> {:other, found}
    end
  end

  defp of_kind(@terms <> encoded, kind) when kind != :integer, do: {:ok, encoded}
  defp of_kind(@terms <> _encoded, :integer), do: :other
  defp of_kind(encoded, :integer), do: {:ok, encoded}
  defp of_kind(_encoded, _terms), do: :other

  # Rules have no schema, so neither another schema nor a migration would help.
  defp other(folder, _schema, _kind, @rules <> _other),
    do: refuse("the folder #{folder} holds the facts of a BeTree.Rules.Server; give this server another :dir")

  defp other(folder, schema, :portable, @terms <> other) do
    case Reply.schema(other) do
      {:ok, found} -> other_schema(folder, schema, found)
      {:error, _error} -> unreadable(folder)
    end
  end

  defp other(folder, _schema, _kind, @terms <> _other),
    do: refuse("the folder #{folder} holds ids that are terms; start the server with ids: :term, or with another :dir")

  defp other(folder, schema, kind, other) do
    case Reply.schema(other) do
      {:ok, found} when kind == :integer ->
        other_schema(folder, schema, found)

      {:ok, _found} ->
        refuse(
          "the folder #{folder} holds ids that are integers; start the server without ids: :term, or with another :dir"
        )

      {:error, _error} ->
        unreadable(folder)
    end
  end

  defp other_schema(folder, schema, found) do
    refuse(
      "the folder #{folder} holds the changes of another schema, #{Difference.text(found, schema)}; start the server with that " <>
        "schema, with schema_change: :migrate, or with another :dir"
    )
  end

  defp unreadable(folder) do
    refuse(
      "the folder #{folder} holds no subscriptions of a server, or those of another version of BeTree; give the server another :dir"
    )
  end

  defp refuse(message), do: %Error{kind: :other_schema, message: message}

  ## Changes

  @doc "Returns rows as the journal keeps them. With a lineage, the first row begins it."
  @spec records([Table.row()], Lineage.id() | nil) :: [binary]
  def records([{_version, deleted, wires} | rows], lineage) when lineage != nil,
    do: [:erlang.term_to_binary({deleted, wires, lineage}, minor_version: 2) | records(rows, nil)]

  def records(rows, _lineage),
    do: for({_version, deleted, wires} <- rows, do: :erlang.term_to_binary({deleted, wires}, minor_version: 2))

  @doc "Returns the rows of the journal after `version`, for the table of the server."
  @spec later(Owner.t(), Table.t(), Table.version()) :: {:ok, [Table.row()]} | {:error, Error.t()}
  def later(journal, table, version) do
    with {:ok, found} <- Owner.repeat(journal, found(table, version)), do: {:ok, found |> changes() |> rows()}
  end

  # The content of the folder: the base, and the changes after `after`, in lists, the last list first.
  defp found(table, version), do: %{base: nil, changes: [], table: table, after: version}

  @impl Owner
  def load_base(content, found), do: {:ok, %{found | base: parts(content, no_base())}}

  @impl Owner
  def repeat(batch, found) do
    changes = for {version, _record} = change <- batch, version > found.after, do: change(change, found.table)
    {:ok, %{found | changes: [changes | found.changes]}}
  end

  # Returns each change as its row, and the lineage that it begins, or nil.
  defp changes(%{changes: parts}), do: parts |> Enum.reverse() |> Enum.concat()

  defp change({version, record}, table) do
    case decode(record, table) do
      {deleted, wires} -> {{version, deleted, wires}, nil}
      {deleted, wires, lineage} -> {{version, deleted, wires}, lineage}
    end
  end

  defp rows(changes), do: for({row, _lineage} <- changes, do: row)

  # A base may have the lineages of changes that are still in the journal.
  defp history(history, changes) do
    known = for {id, _since} <- history, do: id

    for {{version, _deleted, _wires}, id} <- changes, id != nil and id not in known, reduce: history do
      history -> Lineage.append(history, id, version - 1)
    end
  end

  # Ids that are terms may have atoms that this node has not made yet.
  defp decode(bytes, %{ids: nil}), do: :erlang.binary_to_term(bytes, [:safe])
  defp decode(bytes, _table), do: :erlang.binary_to_term(bytes)

  ## Recovery

  @typedoc "The index with all changes of the folder, its version and history, and whether all texts are known."
  @type recovered :: %{index: Index.t(), version: Table.version(), history: Lineage.t(), complete: boolean}

  @doc "Returns the index that the folder holds, or `nil` for a new folder. Fills the texts of the table."
  @spec recover(Owner.t(), Table.t(), map) :: {:ok, recovered | nil} | {:error, Error.t()}
  def recover(journal, table, options) do
    with {:ok, %{base: base} = found} <- Owner.recover(journal, found(table, 0)) do
      case changes(found) do
        [] when base == nil -> {:ok, nil}
        changes -> recover(base || no_base(), changes, Owner.last(journal), table, options)
      end
    end
  end

  defp no_base, do: %{complete: true, history: [], image: nil, texts: []}

  defp parts("", base), do: base

  defp parts(<<kind, length::little-64, part::binary-size(length), rest::binary>>, base) do
    case kind do
      @meta -> parts(rest, Map.merge(base, :erlang.binary_to_term(part, [:safe])))
      @image -> parts(rest, %{base | image: part})
      @texts -> parts(rest, %{base | texts: [part | base.texts]})
    end
  end

  defp recover(base, changes, version, table, options) do
    rows = rows(changes)
    # Another process fills the table, while this one makes the index.
    filling = Task.async(fn -> fill(table, base.texts, rows) end)
    made = make(base, rows, table, options)
    _ = Task.await(filling, :infinity)

    with {:ok, tree} <- made,
         {:ok, index} <- Builder.publish(tree, options),
         do: {:ok, %{index: index, version: version, history: history(base.history, changes), complete: base.complete}}
  end

  defp fill(table, texts, rows) do
    for part <- texts, do: Table.restore_texts(table, decode(part, table))
    for row <- rows, do: Table.put_texts(table, row)
    :ok
  end

  # A server that ran with a memory limit must start with it, though the same subscriptions take more memory in another order. Three
  # attempts: the last change of each id; all changes in their order; the last changes with twice the memory, that of a replica. After
  # the third the tree takes no insertions until it fits (BeTree.Server.Primary).
  defp make(base, rows, table, %{memory: memory} = options) do
    attempts = [{memory, &repeat_last/2}, {memory, &repeat_as_made/2}, {2 * memory, &repeat_last/2}]

    case first_fit(attempts, base, rows, table, options) do
      {:error, %Error{kind: :out_of_memory} = error} -> {:error, name_memory(error, base, rows, table, options)}
      outcome -> outcome
    end
  end

  # Each attempt begins with a tree of its own: one that did not fit has a part of the changes.
  defp first_fit(attempts, base, rows, table, options) do
    Enum.reduce_while(attempts, nil, fn {memory, repeat}, _outcome ->
      with {:ok, tree} <- tree(base, table, with_memory(options, memory)),
           :ok <- repeat.(tree, rows) do
        {:halt, {:ok, tree}}
      else
        {:error, %Error{kind: :out_of_memory}} = error -> {:cont, error}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  defp with_memory(options, memory),
    do: %{options | memory: memory, new: Keyword.put(options.new, :memory, memory)}

  # Names a sufficient limit: the memory of a tree made under a larger limit. Under that limit a tree grows in the same way.
  defp name_memory(error, base, rows, table, %{memory: memory} = options) do
    larger = memory |> Stream.iterate(&(2 * &1)) |> Stream.drop(2) |> Enum.take_while(&(&1 <= 2 * @max_memory))
    attempts = for memory <- larger, do: {min(memory, @max_memory), &repeat_last/2}

    case first_fit(attempts, base, rows, table, options) do
      {:ok, %{runtime: runtime, instance: instance}} ->
        needed = runtime.info(instance).memory

        message =
          "the subscriptions in the folder take #{needed} bytes of memory, and the server may take #{memory}; start it with " <>
            "memory: #{needed} or more"

        %Error{kind: :out_of_memory, message: message}

      _more_than_any_tree_can_take ->
        error
    end
  end

  # Makes the changes as the server made them, each list of subscriptions by one call.
  defp repeat_as_made(tree, rows) do
    Attempt.each(rows, fn {_version, deleted, wires} ->
      with :ok <- Changes.repeat_all(tree, [{0, deleted, []}]), do: Changes.insert(tree, wires)
    end)
  end

  defp repeat_last(tree, rows) do
    last = for {_version, deleted, wires} <- rows, change <- last_of(deleted, wires), into: %{}, do: change
    wires = for {_id, {_, _, _} = wire} <- last, do: wire

    with :ok <- Changes.repeat_all(tree, [{0, Map.keys(last), []}]) do
      wires
      |> Enum.sort()
      |> Enum.chunk_every(@repeat_size)
      |> Attempt.each(&Changes.repeat_all(tree, [{0, [], &1}]))
    end
  end

  defp last_of(deleted, wires),
    do: for(id <- deleted, do: {id, :deleted}) ++ for({id, _, _} = wire <- wires, do: {id, wire})

  # With all texts known, an image of another index module is ignored.
  defp tree(%{image: nil, texts: texts}, table, options), do: from_texts(texts, table, options)

  defp tree(%{image: image, complete: complete, texts: texts}, table, options) do
    read = options.read |> Keyword.take([:fuel_per_reduction, :runtime]) |> Keyword.put(:memory, options.memory)

    with {:ok, %Tree{} = tree} <- Image.read_tree({:binary, image}, read),
         true <- not complete or same_module?(tree, options) do
      {:ok, tree}
    else
      {:error, error} when not complete -> {:error, error}
      _other_module -> from_texts(texts, table, options)
    end
  end

  defp same_module?(tree, options) do
    case BeTree.new(options.schema, options.new) do
      {:ok, %{guest: guest}} -> Instance.wasm(guest) == Instance.wasm(tree.guest)
      {:error, _error} -> true
    end
  end

  defp from_texts(texts, table, options) do
    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         wires =
           for(
             part <- texts,
             {key, _version, text, constants} <- decode(part, table),
             do: {key, text, constants}
           ),
         :ok <- Changes.repeat_all(tree, [{0, [], Enum.sort(wires)}]),
         do: {:ok, tree}
  end

  ## Bases

  @impl Owner
  def base(table, _version) do
    {:ok,
     fn write, flush ->
       metadata = %{server: table.server, operation: :write}
       Telemetry.span(:base, metadata, fn -> write_present(write, table, flush) end, &measure/1)
     end}
  end

  defp write_present(write, table, flush) do
    # Replicas have a change a moment before the table has its texts. The server's process flushes when it has put them.
    with {:ok, {index, base, version}} <- Copy.take(table.tid, :infinity),
         :ok <- flush.(),
         :ok <- write_base(write, index, version, base, table, flush),
         do: {:ok, version}
  end

  defp measure({:ok, version}), do: %{version: version}
  defp measure({:error, _error}), do: %{}

  @doc "Replaces all changes by a base of an index whose texts are unknown."
  @spec replace(Owner.t() | nil, Table.base()) :: {:ok, Owner.t() | nil} | {:error, Error.t()}
  def replace(nil, _base), do: {:ok, nil}

  def replace(journal, %{index: index, version: version} = base) do
    with {:ok, image} <- Image.to_binary(index),
         do: Owner.replace(journal, version, [meta(base), part(@image, image)])
  end

  @doc "Replaces all changes by a base of another schema with all texts of the table, which are those of the version before it."
  @spec migrate(Owner.t() | nil, Table.t(), Table.base()) :: {:ok, Owner.t() | nil} | {:error, Error.t()}
  def migrate(nil, _table, _base), do: {:ok, nil}

  def migrate(journal, table, %{index: index, version: version} = base) do
    with {:ok, image} <- Image.to_binary(index) do
      content = Stream.concat([meta(base), part(@image, image)], texts(table, version))
      Owner.replace(journal, version, content, identity(index.schema, Ids.kind(table.ids)))
    end
  end

  # A text that a later change replaces or deletes during the reading of the table may be missing. The record of that change has to be
  # on the disk before the base.
  defp write_base(write, index, version, base, table, flush) do
    with {:ok, image} <- Image.to_binary(index) do
      head = [meta(base), part(@image, image)]
      write.(version, head |> Stream.concat(texts(table, version)) |> ending(flush))
    end
  end

  defp texts(table, version) do
    table
    |> Table.rows_of_texts(version, @texts_per_part)
    |> Stream.map(&part(@texts, :erlang.term_to_binary(&1, minor_version: 2)))
  end

  defp meta(%{complete: complete, history: history}),
    do: part(@meta, :erlang.term_to_binary(%{complete: complete, history: history}))

  defp ending(parts, flush) do
    Stream.concat(parts, Stream.map([:flush], fn :flush -> flushed(flush.()) end))
  end

  # The writing of a base ends with this exception, and its file is removed by the next owner.
  defp flushed(:ok), do: []
  defp flushed({:error, error}), do: raise(error)

  defp part(kind, bytes), do: [<<kind, byte_size(bytes)::little-64>>, bytes]
end
