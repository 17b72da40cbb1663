defmodule BeTree.Tenants.Store.History do
  @moduledoc false
  # The journal of a store. Its records have the places of bodies and days, which are in other files (Segments), and the changes of
  # tenants.
  #
  # A record is the external term of a list of operations (`t:BeTree.Tenants.Store.Table.operation/0`): all requests of a group. A
  # base is a sequence of parts, each with its length in 64 bits: the external term of `{format, first day, sequence}`, and then lists
  # of `{row, tail}`. Its writer reads the tables while the store goes on, so a base may have later requests than its version. A
  # recovery repeats these requests, and their sequences show that the rows have them already.

  @behaviour BeTree.Journal.Owner

  alias BeTree.Error
  alias BeTree.Journal
  alias BeTree.Journal.{Fault, Owner}
  alias BeTree.Tenants.Store.{Place, Table}

  @format 1
  # A recovery repeats some 80,000 requests with these bytes, in 0.1 s.
  @base_bytes 0x40_0000
  @rows_per_part 500

  @doc "Opens the journal of a store. The calling process owns it."
  @spec open(Path.t(), map) :: {:ok, Owner.t()} | {:error, Error.t()}
  def open(folder, options) do
    settings = [
      identity: Map.get(options, :identity, ""),
      durability: options.durability,
      lock_timeout: Map.get(options, :lock_timeout, Journal.lock_timeout()),
      files: Map.get(options, :files, Journal.Disk),
      background: Map.get(options, :background, Journal.Syncer),
      # The bytes of records bound the time of a recovery.
      base_bytes: Map.get(options, :base_bytes, @base_bytes),
      base_changes: :infinity
    ]

    with {:error, {:identity, _other}} <- Owner.open(__MODULE__, Path.join(folder, "journal"), settings) do
      message =
        "the folder #{folder} belongs to tenants with another schema; start them with that schema, or with another :dir"

      {:error, %Error{kind: :other_schema, message: message}}
    end
  end

  @doc "Appends the operations of a group, all of them or none."
  @spec append(Owner.t() | nil, [Table.operation()]) :: {:ok, Owner.t() | nil} | {:error, Error.t(), Owner.t()}
  def append(journal, []), do: {:ok, journal}
  def append(nil, _operations), do: {:ok, nil}
  def append(journal, operations), do: Owner.append(journal, [:erlang.term_to_binary(operations, minor_version: 2)])

  ## Recovery

  @doc "Fills the tables of a new store from its folder."
  @spec recover(Owner.t(), Table.t()) :: :ok | {:error, Error.t()}
  def recover(journal, table) do
    :ok = Table.clear(table)
    with {:ok, _state} <- Owner.recover(journal, {:all, table}), do: :ok
  end

  @doc """
  Makes the changes of the folder that the tables of a store lack, because its process ended before. Readers use the tables
  meanwhile, so a tenant that was dropped does not come back for a moment.
  """
  @spec complete(Owner.t(), Table.t()) :: :ok | {:error, Error.t()}
  def complete(journal, table) do
    with {:ok, {:missing, _table, missing}} <- Owner.repeat(journal, {:missing, table, []}) do
      operations = Enum.reverse(missing)
      drops = for {:drop, key, sequence} <- operations, into: %{}, do: {key, sequence}
      for operation <- operations, not dropped?(operation, drops), do: repeat_one(operation, table)
      for {key, sequence} <- drops, do: repeat_one({:drop, key, sequence}, table)
      :ok
    end
  end

  defp dropped?({:expire, _sequence, _first}, _drops), do: false
  defp dropped?({:move, _key, _kind, _from, _to}, _drops), do: false
  defp dropped?(operation, drops), do: Map.get(drops, elem(operation, 1), -1) >= elem(operation, 2)

  @impl Owner
  def load_base(content, {:all, table} = state) do
    with {:ok, {@format, first, sequence}, rest} <- part(content) do
      if first, do: Table.put(table, :first_day, first)
      Table.follow(table, sequence)
      load_parts(rest, state)
    else
      _other ->
        {:error, error} = Fault.damaged("the base of the journal", "its format is not #{@format}")
        {:error, error}
    end
  end

  defp load_parts("", state), do: {:ok, state}

  defp load_parts(content, {:all, table} = state) do
    {:ok, part, rest} = part(content)
    :ok = Table.load(table, part)
    load_parts(rest, state)
  end

  defp part(<<length::little-64, part::binary-size(length), rest::binary>>),
    do: {:ok, :erlang.binary_to_term(part, [:safe]), rest}

  defp part(_other), do: :error

  @impl Owner
  def repeat(batch, {:all, table} = state) do
    for {_version, record} <- batch, operation <- operations(record), do: repeat_one(operation, table)
    {:ok, state}
  end

  def repeat(batch, {:missing, table, missing}) do
    found =
      for {_version, record} <- batch, operation <- operations(record), not Table.done?(table, operation), do: operation

    {:ok, {:missing, table, Enum.reverse(found, missing)}}
  end

  defp repeat_one(operation, table) do
    with sequence when is_integer(sequence) <- Table.sequence_of(operation), do: Table.follow(table, sequence)
    Table.apply(table, operation)
  end

  # Records of changes are binaries here, so a record has the atoms of this module only.
  defp operations(record), do: :erlang.binary_to_term(record, [:safe])

  ## Bases

  @impl Owner
  def base(table, version) do
    {:ok,
     fn write, flush ->
       with :ok <- write.(version, content(table, flush)), do: {:ok, version}
     end}
  end

  defp content(table, flush) do
    first = Table.first_day(table)
    head = {@format, Table.get(table, :first_day), Table.sequence(table)}

    rows =
      table
      |> Table.keys()
      |> Stream.chunk_every(@rows_per_part)
      |> Stream.map(fn keys ->
        encode(for(key <- keys, found = Table.fetch(table, key), do: without_expired(found, first)))
      end)

    # The requests that a base has are on the disk before it is complete.
    [encode(head)] |> Stream.concat(rows) |> Stream.concat(Stream.map([:flush], fn :flush -> flushed(flush.()) end))
  end

  defp without_expired({row, tail}, first), do: {put_elem(row, 5, Place.from(elem(row, 5), first)), tail}

  defp encode(term) do
    bytes = :erlang.term_to_binary(term, minor_version: 2)
    [<<byte_size(bytes)::little-64>>, bytes]
  end

  # The writing of a base ends with this exception, and its file is removed by the next owner.
  defp flushed(:ok), do: []
  defp flushed({:error, error}), do: raise(error)
end
