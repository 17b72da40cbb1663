defmodule BeTree.PubSub.Table do
  @moduledoc false
  # The data of a pubsub. The tables belong to its supervisor, so they outlive every process below it.
  #
  # `rows`, `texts` and `by_pid` have a row for each subscription, `subscribers` one for each process that subscribed. Only the
  # registrar writes them. An entry of `intents` says that the index and the rows of an id may differ: the registrar adds it before
  # it changes either, and removes it when both agree. A registrar that starts again settles the entries that it finds.
  #
  # A text is the commit point of a subscription. The registrar writes it last and deletes it first, so the index, which begins
  # with the texts when its server starts again, never has an expression that was refused.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.PubSub.Credit

  @enforce_keys [:name, :index, :scope, :rows, :texts, :by_pid, :subscribers, :intents, :full, :sequence, :counters]
  defstruct @enforce_keys ++ [:limit, :overflow]

  @typedoc """
    * `:name` - the name of the pubsub, of its supervisor, and of the table with this struct;
    * `:index` - the name of the `BeTree.Server`; `:scope` - that of the scope of `:pg`;
    * `:rows` - `{id, pid, credit, tag, why}`, the only rows that a publish reads;
    * `:texts` - `{id, expression, constants}`;
    * `:by_pid` - `{{pid, id}}`, ordered;
    * `:subscribers` - `{pid, credit, monitor}`;
    * `:intents` - `{id}`;
    * `:full` - `{pid, credit}` of the subscribers that reached their limit;
    * `:sequence` - atomics: the last id, and how often the index began with the texts;
    * `:counters` - the totals of `totals/1`;
    * `:limit`, `:overflow` - the defaults of subscribers.
  """
  @type t :: %__MODULE__{}

  @type row :: {pos_integer, pid, Credit.t(), tag :: term, why :: boolean}

  @typedoc """
  The part that a publish reads: `rows`, the index, whether unknown names are refused, `counters`, and the other nodes.
  """
  @type publishing ::
          {:publishing, :ets.tid(), atom, boolean, :counters.counters_ref(), [BeTree.PubSub.Peers.peer()]}

  @id 1
  @generation 2

  @totals [:published, :delivered, :dropped, :refused]

  @doc "Makes the tables. The calling process owns them."
  @spec new(atom, map) :: t
  def new(name, %{strict: strict, limit: limit, overflow: overflow}) do
    ^name = :ets.new(name, [:named_table, :public, read_concurrency: true])
    # Subscriptions come and go while events are published.
    concurrent = [:public, read_concurrency: true, write_concurrency: true]

    table = %__MODULE__{
      name: name,
      index: Module.concat(name, Index),
      scope: Module.concat(name, Scope),
      rows: :ets.new(:rows, concurrent),
      texts: :ets.new(:texts, [:public]),
      by_pid: :ets.new(:by_pid, [:ordered_set, :public]),
      subscribers: :ets.new(:subscribers, [:public]),
      intents: :ets.new(:intents, [:public]),
      full: :ets.new(:full, [:public]),
      sequence: :atomics.new(2, []),
      counters: :counters.new(length(@totals), [:write_concurrency]),
      limit: limit,
      overflow: overflow
    }

    :ets.insert(name, [
      {:table, table},
      {:publishing, table.rows, table.index, strict, table.counters, []}
    ])

    table
  end

  @doc "Returns the tables of the pubsub `name`."
  @spec fetch(atom) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    case :ets.lookup(name, :table) do
      [{:table, %__MODULE__{} = table}] -> {:ok, table}
      _other -> missing(name)
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> missing(name)
  end

  @doc "Returns the part of the table that a publish reads."
  @spec publishing(atom) :: publishing | {:error, Error.t()}
  def publishing(name) do
    case :ets.lookup(name, :publishing) do
      [publishing] -> publishing
      _other -> missing(name)
    end
  rescue
    ArgumentError -> missing(name)
  end

  @doc "Returns the error for a pubsub that does not run."
  @spec missing(atom) :: {:error, Error.t()}
  def missing(name) do
    message = "no BeTree.PubSub called #{Describe.value(name)} runs on this node; start one"
    {:error, %Error{kind: :no_server, message: message}}
  end

  @doc "Makes `peers` the other nodes to which a publish sends."
  @spec put_peers(t, [BeTree.PubSub.Peers.peer()]) :: true
  def put_peers(%__MODULE__{name: name}, peers), do: :ets.update_element(name, :publishing, {6, peers})

  @doc "Records the calling process under its role."
  @spec put_process(t, :registrar | :gauge) :: true
  def put_process(%__MODULE__{name: name}, role), do: :ets.insert(name, {role, self()})

  @doc "Returns the process with this role, `nil` before it first starts. Raises if there is no such table."
  @spec process(atom, :registrar | :gauge) :: pid | nil
  def process(name, role) do
    case :ets.lookup(name, role) do
      [{_role, pid}] -> pid
      [] -> nil
    end
  end

  @doc "Returns an id that is greater than all before."
  @spec next_id(t) :: pos_integer
  def next_id(%__MODULE__{sequence: sequence}), do: :atomics.add_get(sequence, @id, 1)

  @doc "Returns how often the index began with the texts."
  @spec generation(t) :: non_neg_integer
  def generation(%__MODULE__{sequence: sequence}), do: :atomics.get(sequence, @generation)

  @doc "Counts that the index begins with the texts."
  @spec next_generation(t) :: :ok
  def next_generation(%__MODULE__{sequence: sequence}), do: :atomics.add(sequence, @generation, 1)

  ## Totals

  @doc "Adds to the totals."
  @spec count(:counters.counters_ref(), :published | :delivered | :dropped | :refused, non_neg_integer) :: :ok
  for {total, position} <- Enum.with_index(@totals, 1) do
    def count(counters, unquote(total), number), do: :counters.add(counters, unquote(position), number)
  end

  @doc "Returns the totals."
  @spec totals(t) :: %{atom => non_neg_integer}
  def totals(%__MODULE__{counters: counters}) do
    for {total, position} <- Enum.with_index(@totals, 1), into: %{}, do: {total, :counters.get(counters, position)}
  end

  ## Subscriptions

  @doc "Puts the rows of a subscription that the index has."
  @spec put(t, row, String.t(), BeTree.Input.Subscription.constants()) :: true
  def put(%__MODULE__{} = table, {id, pid, _credit, _tag, _why} = row, text, constants) do
    :ets.insert(table.rows, row)
    :ets.insert(table.by_pid, {{pid, id}})
    :ets.insert(table.texts, {id, text, constants})
  end

  @doc "Returns whether the subscription is committed."
  @spec committed?(t, pos_integer) :: boolean
  def committed?(%__MODULE__{texts: texts}, id), do: :ets.member(texts, id)

  @doc "Deletes the rows of a subscription, complete or not. Returns the process that had it, or `nil`."
  @spec delete(t, pos_integer) :: pid | nil
  def delete(%__MODULE__{} = table, id) do
    :ets.delete(table.texts, id)

    case :ets.lookup(table.rows, id) do
      [{_id, pid, _credit, _tag, _why}] ->
        :ets.delete(table.by_pid, {pid, id})
        # The last one, because it leads to the others.
        :ets.delete(table.rows, id)
        pid

      [] ->
        nil
    end
  end

  @doc "Returns ids of a process, at most `count`."
  @spec ids(t, pid, pos_integer) :: [pos_integer]
  def ids(%__MODULE__{by_pid: by_pid}, pid, count) do
    case :ets.select(by_pid, [{{{pid, :"$1"}}, [], [:"$1"]}], count) do
      {ids, _continuation} -> ids
      :"$end_of_table" -> []
    end
  end
end
