defmodule BeTree.Server.Table do
  @moduledoc false
  # The data of a server that must survive a crash of its process: the base, the log of later changes, and the texts of all
  # subscriptions. The tables belong to the server's supervisor.
  #
  # Every change has a version, one more than the change before. The log has a row for each version after that of the base, and
  # some before, for followers. The rows of `texts` are the subscriptions at the last version, unless the base came without its
  # texts.
  #
  # The process may be killed between any two operations here. `append/4` is the one operation that makes a change: before it,
  # the change was not made, and after it, it was. The process puts it into the replicas next, and then puts its texts: so no
  # reader finds the text of a change that searches do not see. A process that starts again does the same (`complete_texts/3`).

  alias BeTree.{Domain, Error, Index}
  alias BeTree.Error.Attempt
  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Lineage, Names}
  alias BeTree.Target.{Ids, View}

  # The row of the log with the version up to which all texts are put. Its key is behind all versions.
  @texts :texts

  @enforce_keys [:tid, :server, :log, :texts, :ids]
  defstruct @enforce_keys

  @typedoc """
  `tid` is the identifier of the table in which searches find the view, and `server` the name of the server. `ids` are the tables of
  ids that are terms. A follower has the tables before it knows whether its ids are terms.

  Processes use the identifier, not the name: a process that outlives its supervisor by a moment must not reach the tables of the
  next server of that name.
  """
  @type t :: %__MODULE__{
          tid: :ets.tid(),
          server: BeTree.Server.name(),
          log: :ets.tid(),
          texts: :ets.tid(),
          ids: Ids.t() | nil
        }
  @type version :: non_neg_integer

  @typedoc "A change: its version, the keys that it deletes, and the subscriptions that it inserts afterwards."
  @type row :: {version, [Ids.key()], [Subscription.wire()]}

  @typedoc """
  `history` has the lineages to which the versions belong. `complete` says whether the texts of all subscriptions are known. `origin`
  is the version at which the log of the replicas began.
  """
  @type base :: %{history: Lineage.t(), index: Index.t(), version: version, origin: version, complete: boolean}

  @doc "Returns the tables of a server, owned by the calling process, its supervisor. Ids of terms need tables of their own."
  @spec new(BeTree.Server.name(), Id.kind()) :: t
  def new(server, kind) do
    table = new_view(server)
    log = :ets.new(:log, [:ordered_set, :public])
    texts = :ets.new(:texts, [:public, read_concurrency: true])
    ids = if kind != :integer, do: Ids.new(kind)
    tables = %__MODULE__{tid: table, server: server, log: log, texts: texts, ids: ids}
    :ets.insert(table, {__MODULE__, tables})
    unless is_atom(server), do: Names.register(table)
    tables
  end

  defp new_view(server) when is_atom(server) do
    ^server = :ets.new(server, [:named_table, :public, read_concurrency: true])
    :ets.whereis(server)
  end

  defp new_view(_server), do: :ets.new(:be_tree_server, [:public, read_concurrency: true])

  @doc "Returns the tables of the server `name`."
  @spec fetch(BeTree.Server.name() | Names.table()) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    with {:ok, table} <- Names.table(name),
         [{__MODULE__, tables}] <- Names.lookup(table, __MODULE__) do
      {:ok, tables}
    else
      _other -> View.no_server(name)
    end
  end

  @doc "Records the tables of ids that are terms, or `nil` for a server whose ids are integers."
  @spec put_ids(t, Ids.t() | nil) :: true
  def put_ids(%__MODULE__{tid: tid}, ids), do: :ets.insert(tid, {:ids, ids})

  @doc "Returns the tables of the ids of a server, or `nil` if they are integers. Raises if there is no such table."
  @spec ids_of(Names.table()) :: Ids.t() | nil
  def ids_of(name), do: value(name, :ids)

  defp value(table, key) do
    case :ets.lookup(table, key) do
      [{_key, value}] -> value
      [] -> nil
    end
  end

  @doc "Returns whether `name` is the table of a server."
  @spec server?(Names.table()) :: boolean
  def server?(name), do: match?([{__MODULE__, %__MODULE__{}}], Names.lookup(name, __MODULE__))

  @doc "Returns whether the server's process has ever started."
  @spec started?(t) :: boolean
  def started?(%__MODULE__{tid: tid}), do: :ets.member(tid, :started)

  @spec put_started(t) :: true
  def put_started(%__MODULE__{tid: tid}), do: :ets.insert(tid, {:started})

  @doc """
  Makes the calling process the only one that changes the tables. It kills any other that still has them, and waits for its end.

  A process whose keeper was killed may still run, for example in its `init/1`, when the next keeper starts another one.
  """
  @spec claim(t) :: :ok
  def claim(%__MODULE__{tid: tid} = table) do
    unless :ets.insert_new(tid, {:owner, self()}) do
      for {:owner, pid} = owner <- :ets.lookup(tid, :owner) do
        end_process(pid)
        :ets.delete_object(tid, owner)
      end

      claim(table)
    end

    :ok
  end

  defp end_process(pid) do
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^pid, _reason} -> :ok))
  end

  @doc "Records the process of the server, to which requests go."
  @spec put_process(t, pid) :: true
  def put_process(%__MODULE__{tid: tid}, pid), do: :ets.insert(tid, {:process, pid})

  @doc "Returns the process of the server, or `nil` before it first starts. Raises if there is no such table."
  @spec process(Names.table()) :: pid | nil
  def process(name), do: value(name, :process)

  @doc "Records the memory and the other limits of indexes that are copied from the server."
  @spec put_limits(t, {pos_integer, keyword}) :: true
  def put_limits(%__MODULE__{tid: tid}, limits), do: :ets.insert(tid, {:limits, limits})

  @spec limits(Names.table()) :: {:ok, {pos_integer, keyword}} | {:error, Error.t()}
  def limits(name) do
    if limits = value(name, :limits), do: {:ok, limits}, else: View.no_server(name)
  rescue
    ArgumentError -> View.no_server(name)
  end

  @doc "Records the subscriptions that the last `load:` or `BeTree.Server.sync/3` has left out, with their errors."
  @spec put_faults(t, [{term, Error.t()}]) :: true
  def put_faults(%__MODULE__{tid: tid}, faults), do: :ets.insert(tid, {:faults, faults})

  @spec faults(t) :: [{term, Error.t()}]
  def faults(%__MODULE__{tid: tid}), do: value(tid, :faults) || []

  @doc "Records the schemas that the server's folder may have: one of them, or during a migration the new and the old one."
  @spec put_schemas(t, [[Domain.t()]]) :: true
  def put_schemas(%__MODULE__{tid: tid}, schemas), do: :ets.insert(tid, {:schemas, schemas})

  @doc "Returns the schemas that the server's folder may have, or `nil` before the first start has opened the folder."
  @spec schemas(t) :: [[Domain.t()]] | nil
  def schemas(%__MODULE__{tid: tid}), do: value(tid, :schemas)

  ## The base

  @doc """
  Makes `base` the base of the server, and `view` the handle of its searches from now on. The version of the base is one of the
  log, or a later one.

  `oldest` is the version after which the log is kept. With `:infinity` the log is emptied.
  """
  @spec put_base(t, base, struct, version | :infinity) :: :ok
  def put_base(%__MODULE__{} = table, base, view, oldest) do
    # Empties the log first, so that no recovery takes rows of another lineage for changes of this base.
    if oldest == :infinity, do: :ets.delete_all_objects(table.log)
    # Inserts both in one operation, so that a search and a recovery find the same index.
    :ets.insert(table.tid, [{:base, base}, {:view, view}])
    if oldest != :infinity, do: forget(table, oldest, :infinity)
    forget_texts(table, base)
  end

  @doc "Makes `base` the base of the server, a later state of the same replicas, so the view and the log stay as they are."
  @spec renew_base(t, base) :: :ok
  def renew_base(%__MODULE__{} = table, base) do
    :ets.insert(table.tid, {:base, base})
    forget_texts(table, base)
  end

  # Without the texts of the base, those of later changes are of no use once a base contains them.
  defp forget_texts(_table, %{complete: true}), do: :ok

  defp forget_texts(table, %{version: version}) do
    :ets.select_delete(table.texts, [{{:_, :"$1", :_, :_}, [{:"=<", :"$1", version}], [true]}])
    :ok
  end

  @doc "Drops rows of the log up to the version `oldest`, the first ones, at most `most`."
  @spec forget(t, version, non_neg_integer | :infinity) :: :ok
  def forget(%__MODULE__{log: log} = table, oldest, most) do
    case most != 0 and :ets.first(log) do
      version when is_integer(version) and version <= oldest ->
        :ets.delete(log, version)
        forget(table, oldest, if(most == :infinity, do: :infinity, else: most - 1))

      _later ->
        :ok
    end
  end

  @spec base(t) :: base | nil
  def base(%__MODULE__{tid: tid}), do: base(tid)

  def base(name), do: value(name, :base)

  ## The log

  @doc "Makes a change: appends it to the log."
  @spec append(t, version, [Ids.key()], [Subscription.wire()]) :: true
  def append(%__MODULE__{} = table, version, deleted, wires), do: :ets.insert(table.log, {version, deleted, wires})

  @doc "Returns the rows of the log after `version`, in order, at most `most`."
  @spec later(t, version, pos_integer | :infinity) :: [row]
  def later(%__MODULE__{log: log}, version, most \\ :infinity) do
    match = [{{:"$1", :_, :_}, [{:>, :"$1", version}], [:"$_"]}]

    case most do
      :infinity ->
        :ets.select(log, match)

      most ->
        case :ets.select(log, match, most) do
          {rows, _continuation} -> rows
          :"$end_of_table" -> []
        end
    end
  end

  ## Texts

  @doc "Keeps the texts, and the terms of numbers, up to date with a row of the log."
  @spec put_texts(t, row) :: :ok
  def put_texts(%__MODULE__{log: log, texts: texts, ids: ids}, {version, deleted, wires}) do
    put = MapSet.new(wires, &elem(&1, 0))
    # A replaced subscription keeps its row until the insertion overwrites it, so a reader always finds it.
    gone = for key <- deleted, key not in put, do: key
    for key <- gone, do: :ets.delete(texts, key)
    :ets.insert(texts, for({key, text, constants} <- wires, do: {Ids.put(ids, key), version, Id.copy(text), constants}))
    Ids.release(ids, gone)
    :ets.insert(log, {@texts, version})
    :ok
  end

  @doc """
  Puts the missing texts of log rows up to `version`, which a previous process appended. Searches must already see these rows.
  `base` is that of the server.
  """
  @spec complete_texts(t, base, version | :infinity) :: :ok
  def complete_texts(%__MODULE__{log: log} = table, base, version) do
    put = value(log, @texts) || 0

    # An atom is greater than each integer.
    for {at, _deleted, _wires} = row <- later(table, put), at <= version, do: put_new_texts(table, row, base)
    :ok
  end

  @doc "Like `put_texts/2`, but leaves out a row that `base` has, if the texts of that are unknown."
  @spec put_new_texts(t, row, base) :: :ok
  def put_new_texts(_table, {version, _deleted, _wires}, %{complete: false, version: of_base}) when version <= of_base,
    do: :ok

  def put_new_texts(table, row, _base), do: put_texts(table, row)

  @doc "Returns a subscription, if its text is known."
  @spec text(t, Ids.key()) :: {:ok, {String.t(), Subscription.constants()}} | :error
  def text(%__MODULE__{texts: texts}, key) do
    case :ets.lookup(texts, key) do
      [{_key, _version, text, constants}] -> {:ok, {text, constants}}
      [] -> :error
    end
  end

  @doc "Returns the keys of ids, or an error unless all of them are there."
  @spec present_keys(t, [term]) :: {:ok, [Ids.key()]} | {:error, Error.t()}
  def present_keys(%__MODULE__{ids: ids} = table, list) do
    Attempt.map(list, fn id ->
      with {:ok, key} <- Ids.present(ids, id), {:ok, _text} <- text(table, key) do
        {:ok, key}
      else
        :error -> Ids.not_found(id)
        {:error, error} -> {:error, error}
      end
    end)
  end

  @doc "Like `text/2`, for an id of the kind that the server has."
  @spec find(t, term) :: {:ok, {String.t(), Subscription.constants()}} | :error
  def find(table, id), do: with({:ok, _version, subscription} <- find_with_version(table, id), do: {:ok, subscription})

  @doc "Like `find/2`, with the version that inserted the subscription."
  @spec find_with_version(t, term) :: {:ok, version, {String.t(), Subscription.constants()}} | :error
  def find_with_version(%__MODULE__{tid: tid, texts: texts}, id) do
    keys = tid |> ids_of() |> Ids.keys(id)

    Enum.find_value(
      keys,
      :error,
      &with(
        [{_key, version, text, constants}] <- :ets.lookup(texts, &1),
        do: {:ok, version, {text, constants}},
        else: ([] -> nil)
      )
    )
  end

  @doc "Returns the version that inserted the subscription `id`, or `nil` if it is not there or its text is unknown."
  @spec version(t, term) :: version | nil
  def version(table, id),
    do: with({:ok, version, _subscription} <- find_with_version(table, id), do: version, else: (:error -> nil))

  @doc "Returns the ids of all texts at one moment, with the versions that inserted them."
  @spec versions(t) :: [{term, version}]
  def versions(%__MODULE__{texts: texts}),
    do:
      for(
        {key, version} <- :ets.select(texts, [{{:"$1", :"$2", :_, :_}, [], [{{:"$1", :"$2"}}]}]),
        do: {Ids.id(key), version}
      )

  @doc "Returns the ids of all texts at one moment, in ascending order."
  @spec ids(t) :: [term]
  def ids(%__MODULE__{texts: texts}) do
    keys = :ets.select(texts, [{{:"$1", :_, :_, :_}, [], [:"$1"]}])
    keys |> Enum.map(&Ids.id/1) |> Enum.sort()
  end

  @doc "Returns all subscriptions up to `version`, in lists of `count`. Later changes may have replaced or deleted some."
  @spec subscriptions(t, version, pos_integer) :: Enumerable.t()
  def subscriptions(%__MODULE__{texts: texts}, version, count) do
    select(texts, [{{:"$1", :"$2", :"$3", :"$4"}, [{:"=<", :"$2", version}], [{{:"$1", :"$3", :"$4"}}]}], count)
  end

  defp select(texts, match, count) do
    Stream.resource(
      fn ->
        :ets.safe_fixtable(texts, true)
        :ets.select(texts, match, count)
      end,
      fn
        :"$end_of_table" -> {:halt, :done}
        {part, continuation} -> {[part], :ets.select(continuation)}
      end,
      fn _ -> :ets.safe_fixtable(texts, false) end
    )
  end

  @doc "Returns the rows of all texts up to `version`, in lists of `count`. Later changes may have replaced or deleted some."
  @spec rows_of_texts(t, version, pos_integer) :: Enumerable.t()
  def rows_of_texts(%__MODULE__{texts: texts}, version, count) do
    select(texts, [{{:_, :"$1", :_, :_}, [{:"=<", :"$1", version}], [:"$_"]}], count)
  end

  @doc "Puts rows of `rows_of_texts/3` back."
  @spec restore_texts(t, [{Ids.key(), version, String.t(), Subscription.constants()}]) :: true
  def restore_texts(%__MODULE__{texts: texts, ids: ids}, rows) do
    :ets.insert(
      texts,
      for({key, version, text, constants} <- rows, do: {Ids.put(ids, key), version, Id.copy(text), constants})
    )
  end

  @doc """
  Replaces all texts by rows of `rows_of_texts/3`, for a base that `put_base` puts. If the calling process is killed meanwhile, the
  next one finds no base.
  """
  @spec replace_texts(t, [[{Ids.key(), version, String.t(), Subscription.constants()}]], (... -> :ok)) :: true
  def replace_texts(%__MODULE__{tid: tid} = table, parts, put_base) do
    :ets.insert(tid, {:partial})
    forget_texts(table)
    for rows <- parts, do: restore_texts(table, rows)
    put_base.()
    :ets.delete(tid, :partial)
  end

  @doc "Returns an error while the texts are not those of the base."
  @spec check_texts(t) :: :ok | {:error, Error.t()}
  def check_texts(%__MODULE__{tid: tid, server: server}) do
    if :ets.member(tid, :partial) or not :ets.member(tid, :base),
      do: {:error, %Error{kind: :not_ready, message: "the server #{Describe.value(server)} has no texts yet"}},
      else: :ok
  end

  @doc "Returns the number of texts."
  @spec count(t) :: non_neg_integer
  def count(%__MODULE__{texts: texts}), do: :ets.info(texts, :size)

  @spec forget_texts(t) :: true
  def forget_texts(%__MODULE__{texts: texts}), do: :ets.delete_all_objects(texts)

  ## Recovery

  @doc "Returns the base and the rows since, or `nil` if there is no base yet. Completes the texts of the base."
  @spec recover(t) :: {base, [row]} | nil
  def recover(%__MODULE__{} = table) do
    with false <- :ets.member(table.tid, :partial),
         %{version: version} = base <- base(table) do
      # Before the log drops the rows that the base has.
      complete_texts(table, base, version)
      {base, later(table, version)}
    else
      _no_base -> nil
    end
  end
end
