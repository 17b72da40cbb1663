defprotocol BeTree.Target do
  @moduledoc false
  # The operations of a tree, a published index, the name of a server and a cluster. `BeTree`, `BeTree.Search` and `BeTree.Event`
  # document them. Each kind of target implements them beside its own code: `tree/target.ex`, `index/target.ex`, `server/target.ex`
  # and `cluster/target.ex`. A cluster calls this protocol on its nodes with the names of its servers.

  @fallback_to_any true

  alias BeTree.{Error, Event, Explanation, Index, Search, Tree}

  @doc """
  Returns the handle of one index: a tree, a published index or the view of a server. Handles have the fields `runtime`, `instance`,
  `fuel_per_reduction` and `forgiving`. A cluster has several indexes, so it raises an `ArgumentError`, as other terms do.
  """
  @spec handle(t) :: Tree.t() | Index.t() | BeTree.Target.View.t() | {:error, Error.t()}
  def handle(target)

  @doc "Returns a snapshot of a single index, and a tree or an index that has its schema and its guest."
  @spec snapshot(t, timeout) :: {:ok, Tree.t() | Index.t(), BeTree.Runtime.snapshot()} | {:error, Error.t()}
  def snapshot(target, timeout)

  @doc "See `BeTree.insert/4`."
  @spec insert(t, BeTree.id(), String.t(), keyword) :: :ok | {:error, Error.t()}
  def insert(target, id, expression, options)

  @doc "See `BeTree.put/4`."
  @spec put(t, BeTree.id(), String.t(), keyword) :: :ok | {:error, Error.t()}
  def put(target, id, expression, options)

  @doc "See `BeTree.insert_all/3`."
  @spec insert_all(t, Enumerable.t(), keyword) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(target, subscriptions, options)

  @doc "See `BeTree.delete/3`."
  @spec delete(t, BeTree.id(), keyword) :: :ok | {:error, Error.t()}
  def delete(target, id, options)

  @doc "See `BeTree.search/3`."
  @spec search(t, Event.t(), keyword) ::
          {:ok, Search.found()} | {:ok, Search.found(), BeTree.Stats.t()} | {:error, Error.t()}
  def search(target, event, options)

  @doc "See `BeTree.Search.run/3`."
  @spec run(t, Event.t(), keyword) :: {:done, Search.found(), BeTree.Stats.t()} | {:error, Error.t()}
  def run(target, event, options)

  @doc "See `BeTree.search_many/3`."
  @spec search_many(t, Enumerable.t(), keyword) :: {:ok, [Search.found()]} | {:error, Error.t()}
  def search_many(target, events, options)

  @doc "Returns the results of a part of the events of `BeTree.stream/3`. The options were checked."
  @spec search_each(t, [Event.t()], map) :: [{:ok, Search.found()} | {:error, Error.t()}]
  def search_each(target, events, options)

  @doc "See `BeTree.explain/4`."
  @spec explain(t, Event.t(), BeTree.id(), keyword) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(target, event, id, options)

  @doc "See `BeTree.Event.prepare/3`."
  @spec prepare(t, Event.t(), keyword) :: {:ok, Event.Prepared.t()} | {:error, Error.t()}
  def prepare(target, event, options)

  @doc "See `BeTree.info/2`."
  @spec info(t, keyword) :: {:ok, map} | {:error, Error.t()}
  def info(target, options)
end
