defmodule :erl_betree do
  @moduledoc """
  The interface of erl-be-tree, on top of `BeTree`. A program changes its dependency and keeps its code.

      {ok, Betree} = erl_betree:betree_make([[{age, int, disallow_undefined}, {country, bin, allow_undefined}]]),
      {ok, Sub} = erl_betree:betree_make_sub(Betree, 1, [], <<"age >= 21 and country = 'CA'">>),
      ok = erl_betree:betree_insert_sub(Betree, Sub),
      {ok, [1]} = erl_betree:betree_search(Betree, [{user, 30, <<"CA">>}]).

  The same in Elixir:

      iex> {:ok, tree} = :erl_betree.betree_make([[{:age, :int, :disallow_undefined}, {:country, :bin, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "age >= 21 and country = 'CA'")
      iex> :ok = :erl_betree.betree_insert_sub(tree, sub)
      iex> :erl_betree.betree_search(tree, [{:user, 30, "CA"}])
      {:ok, [1]}

  `include/erl_betree.hrl` has the clock types and thresholds. This module returns the results of erl-be-tree. New programs
  should use `BeTree`, whose errors name the fault.

  ## Domains

  Domains are a list of lists, one for each record of an event, of `{Name, Type, allow_undefined | disallow_undefined}`.
  `Type` is `bool`, `int`, `int64`, `int_enum`, `float`, `bin`, `int_list`, `bin_list`, `segments` or `frequency_caps`.
  `Min, Max` may follow for `int`, `int64`, `float` and `int_list`, without an effect on expressions. `Count`, a bound on
  the distinct values in expressions, may follow for `bin`, `bin_list` and `int_enum`.

  ## Events

  An event is a list of records, tuples that begin with a tag. The values follow in the order of the domains, list after
  list. `undefined` and missing fields at the end are undefined values. Wrong types, missing required values and too many
  fields are `error:badarg`. `betree_make_event/2` reads an event once, for every tree with the same domains.

  ## References

  Trees, subscriptions, events, iterators and states are garbage-collected references, valid in any process of their node.
  Another term, or a reference of another kind, is `error:badarg`.

  ## Times

  Elapsed times are whole microseconds. A clock type is an integer:

    * 0 is the wall clock;
    * 1, and any other integer, is monotonic time;
    * 2 is the processor time of the whole VM, in whole milliseconds, because the BEAM has no finer clock;
    * 3 is the time of a thread in erl-be-tree. Here it is monotonic time, because a search may continue on another scheduler.

  ## Schedulers

  Searches run in slices on the scheduler of the calling process, which is charged reductions for them (`BeTree.Fuel`). So
  no search blocks a scheduler, even without `yield` in its name. Functions that make or change a tree run on a dirty
  scheduler.

  A tree runs one operation at a time. When searches of several processes collide, replicas of the tree are made, which
  copies its memory (`BeTree.publish/2`). Then as many searches run at once as there are schedulers, until the next
  insertion. So insert first, then search.

  ## Differences

    * A second subscription with the same id is refused: `betree_insert_sub/2` returns `error`;
    * ids are in ascending order;
    * the reason of a miss is always that of `betree_parse_reasons/1`; erl-be-tree instead names the attribute by which its
      tree skips an expression without evaluation;
    * an iterator, and a search with a threshold of 0, run the whole search before the first step. The steps return its results
      one by one;
    * any other error (memory, a broken module) raises a `BeTree.Error`.
  """

  alias BeTree.Input.AtomicFile
  alias ErlBetree.{Candidates, Clock, Reasons, Reference, Subscriptions, Tree, Yielding}

  @monotonic 1
  @threshold 1_000

  @type betree :: reference
  @type sub :: reference
  @type event_ref :: reference
  @type iterator :: reference
  @type state :: reference

  @typedoc "For `betree_parse_reasons/1`."
  @type non_matches :: reference | []

  @type id :: BeTree.id()
  @type type :: :bool | :int | :int64 | :int_enum | :float | :bin | :int_list | :bin_list | :segments | :frequency_caps
  @type undefined :: :allow_undefined | :disallow_undefined
  @type domain ::
          {atom, type, undefined}
          | {atom, type, undefined, count :: pos_integer}
          | {atom, type, undefined, min :: number, max :: number}

  @typedoc "A list of records."
  @type event :: [tuple]

  @type clock_type :: integer

  @typedoc "Microseconds."
  @type elapsed :: non_neg_integer

  @type refusal ::
          {:error, :bad_id | :bad_constant_list | :bad_binary | :failed}
          | {:error, :bad_constant, non_neg_integer, atom}

  @doc """
  Returns an empty tree. Wrong domains are `error:badarg`.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> :erl_betree.betree_search(tree, [])
      {:ok, []}
  """
  @spec betree_make([[domain]]) :: {:ok, betree}
  def betree_make(domains), do: {:ok, Tree.make(domains, false)}

  @doc """
  Checks a subscription for a tree without inserting it, and returns a reference to it.

  Returns

    * `{error, bad_id}` for an id that is no unsigned 64-bit integer;
    * `{error, bad_constant_list}` for constants that are no list;
    * `{error, bad_constant, Index, Name}` for the first constant, from 0, that is no atom with a signed 64-bit integer.
      `Name` is `unknown` for a constant without a name;
    * `{error, bad_binary}` for an expression that is no iolist;
    * `{error, failed}` for a wrong expression.

  Each of these results has a reason:

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [flight_id: 10], ["not ", "a"])
      iex> is_reference(sub)
      true
      iex> :erl_betree.betree_make_sub(tree, 1, [{:flight_id, :ten}], "a")
      {:error, :bad_constant, 0, :flight_id}
      iex> :erl_betree.betree_make_sub(tree, 1, [], "b")
      {:error, :failed}
  """
  @spec betree_make_sub(betree, id, [{atom, integer}], iodata) :: {:ok, sub} | refusal
  def betree_make_sub(betree, id, constants, expression) do
    betree |> Tree.open() |> Subscriptions.make(id, constants, expression)
  end

  @doc """
  Inserts a subscription. Returns `error` if its id is in use, or without memory.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "a")
      iex> :erl_betree.betree_insert_sub(tree, sub)
      :ok
      iex> :erl_betree.betree_insert_sub(tree, sub)
      :error
  """
  @spec betree_insert_sub(betree, sub) :: :ok | :error
  def betree_insert_sub(betree, sub), do: betree |> Tree.open() |> Subscriptions.insert(sub)

  @doc "Like `betree_make_event/3`, with the monotonic clock."
  @spec betree_make_event(betree | {term, betree}, event) :: {{:ok, event_ref}, elapsed}
  def betree_make_event(betree, event), do: betree_make_event(betree, event, @monotonic)

  @doc """
  Decodes an event once, for every tree with the same domains.

  An event that lacks a required value is `error:badarg`. A tree that keeps reasons accepts it, and `betree_search_err/3` returns
  `error` for it.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "not a")
      iex> :ok = :erl_betree.betree_insert_sub(tree, sub)
      iex> {{:ok, event}, _elapsed} = :erl_betree.betree_make_event(tree, [{:user, false}])
      iex> {result, _elapsed} = :erl_betree.betree_search(tree, event, 1)
      iex> result
      {:ok, [1]}
  """
  @spec betree_make_event(betree | {term, betree}, event, clock_type) :: {{:ok, event_ref}, elapsed}
  def betree_make_event({_any, betree}, event, clock), do: betree_make_event(betree, event, clock)

  def betree_make_event(betree, event, clock) when is_integer(clock) do
    Clock.time(clock, fn -> {:ok, Reference.new(:event, betree |> Tree.open() |> prepare(event))} end)
  end

  def betree_make_event(_betree, _event, _clock), do: :erlang.error(:badarg)

  defp prepare(tree, event) do
    case BeTree.Event.prepare(Tree.target(tree), {:records, event}) do
      {:ok, prepared} -> prepared
      {:error, %{kind: :missing_attribute}} when tree.reasons != nil -> {:records, event}
      {:error, error} -> Tree.fail(error)
    end
  end

  @doc """
  Returns the ids of the subscriptions that `Event` makes true.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "not a")
      iex> :ok = :erl_betree.betree_insert_sub(tree, sub)
      iex> :erl_betree.betree_search(tree, [{:user, false}])
      {:ok, [1]}
  """
  @spec betree_search(betree, event) :: {:ok, [id]}
  def betree_search(betree, event), do: betree |> Tree.open() |> search(event, [])

  @doc "Like `betree_search/2`, with the elapsed time."
  @spec betree_search(betree, event | event_ref, clock_type) :: {{:ok, [id]}, elapsed}
  def betree_search(betree, event, clock) when is_integer(clock) do
    Clock.time(clock, fn -> betree |> Tree.open() |> search(event, []) end)
  end

  def betree_search(_betree, _event, _clock), do: :erlang.error(:badarg)

  @doc "Like `betree_search_ids/4`, with the monotonic clock."
  @spec betree_search_ids(betree, event | event_ref, [id]) :: {{:ok, [id]}, elapsed}
  def betree_search_ids(betree, event, ids), do: betree_search_ids(betree, event, ids, @monotonic)

  @doc """
  Like `betree_search/3`, among `Ids` only. An empty list takes no time.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "a")
      iex> :ok = :erl_betree.betree_insert_sub(tree, sub)
      iex> {result, _elapsed} = :erl_betree.betree_search_ids(tree, [{:user, true}], [2, 1], 1)
      iex> result
      {:ok, [1]}
      iex> :erl_betree.betree_search_ids(tree, [{:user, true}], [], 1)
      {{:ok, []}, 0}
  """
  @spec betree_search_ids(betree, event | event_ref, [id], clock_type) :: {{:ok, [id]}, elapsed}
  def betree_search_ids(_betree, _event, [], _clock), do: {{:ok, []}, 0}

  def betree_search_ids(betree, event, ids, clock) when is_integer(clock) do
    Clock.time(clock, fn -> betree |> Tree.open() |> search(event, ids: proper(ids)) end)
  end

  def betree_search_ids(_betree, _event, _ids, _clock), do: :erlang.error(:badarg)

  @doc """
  Returns whether `Event` makes any subscription true.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> :erl_betree.betree_exists(tree, [{:user, true}])
      {:ok, false}
  """
  @spec betree_exists(betree, event) :: {:ok, boolean}
  def betree_exists(betree, event) do
    {:ok, found} = betree |> Tree.open() |> search(event, as: :binary)
    {:ok, found != ""}
  end

  @doc """
  Writes a picture of the tree in Graphviz's language to a file. Returns `{error, failed}` if the file cannot be written.
  """
  @spec betree_write_dot(betree, charlist) :: :ok | {:error, :failed}
  def betree_write_dot(betree, file) when is_list(file) do
    picture = betree |> Tree.open() |> Tree.draw()
    with {:error, _text} <- AtomicFile.write_file(file, picture), do: {:error, :failed}
  end

  def betree_write_dot(_betree, _file), do: :erlang.error(:badarg)

  @doc """
  Returns an iterator over a search, with the number of candidates and of visited entries.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> for {id, text} <- [{1, "a"}, {2, "not a"}] do
      ...>   {:ok, sub} = :erl_betree.betree_make_sub(tree, id, [], text)
      ...>   :ok = :erl_betree.betree_insert_sub(tree, sub)
      ...> end
      iex> {:ok, {iterator, 2, _visited}} = :erl_betree.search_iterator(tree, [{:user, false}])
      iex> :erl_betree.search_next(iterator)
      {:continue, [2]}
      iex> :erl_betree.search_next(iterator)
      {:ok, [2]}
  """
  @spec search_iterator(betree, event) ::
          {:ok, {iterator, candidates :: non_neg_integer, nodes :: non_neg_integer}}
  def search_iterator(betree, event) do
    {candidates, visited} = betree |> Tree.open() |> Candidates.select(event(event))
    {:ok, {Reference.new(:iterator, candidates), Candidates.count(candidates), visited}}
  end

  @doc "Returns `{continue, Ids}` with the next candidate's id if it matches, and for the last candidate `{ok, Ids}` with all matches."
  @spec search_next(iterator) :: {:continue, [id]} | {:ok, [id]}
  def search_next(iterator), do: :iterator |> Reference.open(iterator) |> Candidates.next()

  @doc "Returns the matches of all candidates, those already returned included."
  @spec search_all(iterator) :: {:ok, [id]}
  def search_all(iterator), do: :iterator |> Reference.open(iterator) |> Candidates.all()

  @doc "Releases an iterator, which is invalid afterwards."
  @spec search_iterator_release(iterator) :: :ok
  def search_iterator_release(iterator), do: :iterator |> Reference.open(iterator) |> Candidates.release()

  @doc "Like `search_yield/4`, with a threshold of 1,000 microseconds."
  @spec search_yield(betree, event_ref, clock_type) :: {{:ok, [id]} | {:continue, state}, elapsed}
  def search_yield(betree, event, clock), do: search_yield(betree, event, clock, @threshold)

  @doc """
  Searches for `threshold` microseconds. Returns `{continue, State}` if the search has not ended; `search_next_yield/3`
  continues it.
  With a threshold of 0 it returns `{continue, State}` if there is any candidate.

  A search that reaches its threshold continues on a replica of the tree, held until the search ends or its state is
  garbage-collected. The first such search after an insertion makes the replicas and restarts on one of them, beyond its
  threshold. If replicas are impossible, the search runs to its end.

      iex> {:ok, tree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
      iex> {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "a")
      iex> :ok = :erl_betree.betree_insert_sub(tree, sub)
      iex> {{:ok, event}, _elapsed} = :erl_betree.betree_make_event(tree, [{:user, true}])
      iex> {{:continue, state}, _elapsed} = :erl_betree.search_yield(tree, event, 1, 0)
      iex> {result, _elapsed} = :erl_betree.search_next_yield(state, 1, 0)
      iex> result
      {:ok, [1]}
  """
  @spec search_yield(betree, event_ref, clock_type, threshold :: integer) ::
          {{:ok, [id]} | {:continue, state}, elapsed}
  def search_yield(betree, event, clock, threshold)
      when is_reference(event) and is_integer(clock) and is_integer(threshold) do
    betree |> Tree.open() |> Yielding.start(event(event), clock, threshold)
  end

  def search_yield(_betree, _event, _clock, _threshold), do: :erlang.error(:badarg)

  @doc """
  Continues a search for `threshold` microseconds, or with 0 for one candidate. Returns the same state if the search has not
  ended. The returned time is the sum of all calls.
  """
  @spec search_next_yield(state, clock_type, threshold :: integer) ::
          {{:ok, [id]} | {:continue, state}, elapsed}
  def search_next_yield(state, clock, threshold)
      when is_reference(state) and is_integer(clock) and is_integer(threshold) do
    Yielding.continue(state, clock, threshold)
  end

  def search_next_yield(_state, _clock, _threshold), do: :erlang.error(:badarg)

  @doc "Like `betree_search_yield/3`, with the monotonic clock."
  @spec betree_search_yield(betree, event_ref) :: {{:ok, [id]}, elapsed}
  def betree_search_yield(betree, event), do: betree_search_yield(betree, event, @monotonic)

  @doc "Like `search_yield/3`, but runs to the end of the search."
  @spec betree_search_yield(betree, event_ref, clock_type) :: {{:ok, [id]}, elapsed}
  def betree_search_yield(betree, event, clock) do
    {found, elapsed, _calls} = search_yield_count(betree, event, clock, @threshold, 0)
    {found, elapsed}
  end

  @doc "Like `search_yield_count/5`, with the monotonic clock, a threshold of 1,000 microseconds, and no earlier calls."
  @spec search_yield_count(betree, event_ref) :: {{:ok, [id]}, elapsed, calls :: pos_integer}
  def search_yield_count(betree, event), do: search_yield_count(betree, event, @monotonic, @threshold, 0)

  @doc "Like `search_yield/4`, but runs to the end. Also returns `Acc` plus the number of calls."
  @spec search_yield_count(betree, event_ref, clock_type, threshold :: integer, acc) :: {{:ok, [id]}, elapsed, acc}
        when acc: integer
  def search_yield_count(betree, event, clock, threshold, calls) when is_integer(calls) do
    betree |> search_yield(event, clock, threshold) |> count_calls(clock, threshold, calls + 1)
  end

  def search_yield_count(_betree, _event, _clock, _threshold, _calls), do: :erlang.error(:badarg)

  defp count_calls({{:ok, ids}, elapsed}, _clock, _threshold, calls), do: {{:ok, ids}, elapsed, calls}

  defp count_calls({{:continue, state}, _elapsed}, clock, threshold, calls) do
    state |> search_next_yield(clock, threshold) |> count_calls(clock, threshold, calls + 1)
  end

  @doc "Like `search_ids_yield/5`, with the monotonic clock and a threshold of 1,000 microseconds."
  @spec betree_search_ids_yield(betree, event_ref, [id]) :: {{:ok, [id]}, elapsed}
  def betree_search_ids_yield(betree, event, ids), do: search_ids_yield(betree, event, ids, @monotonic, @threshold)

  @doc "Like `search_ids_yield/5`, with a threshold of 1,000 microseconds."
  @spec betree_search_ids_yield(betree, event_ref, [id], clock_type) :: {{:ok, [id]}, elapsed}
  def betree_search_ids_yield(betree, event, ids, clock), do: search_ids_yield(betree, event, ids, clock, @threshold)

  @doc "Like `betree_search_ids/4`. Runs to its end for any threshold, and yields to other processes."
  @spec search_ids_yield(betree, event_ref, [id], clock_type, threshold :: integer) :: {{:ok, [id]}, elapsed}
  def search_ids_yield(_betree, _event, [], _clock, _threshold), do: {{:ok, []}, 0}

  def search_ids_yield(betree, event, [_ | _] = ids, clock, threshold)
      when is_reference(event) and is_integer(clock) and is_integer(threshold) do
    betree_search_ids(betree, event, ids, clock)
  end

  def search_ids_yield(_betree, _event, _ids, _clock, _threshold), do: :erlang.error(:badarg)

  @doc """
  Returns an empty tree that also keeps the reasons of misses. It takes 4 to 8 bytes more per predicate.

      iex> {:ok, tree} = :erl_betree.betree_make_err([[{:a, :bool, :disallow_undefined}, {:b, :bool, :allow_undefined}]])
      iex> for {id, text} <- [{1, "a and b"}, {2, "a or b"}, {3, "not a"}] do
      ...>   {:ok, sub} = :erl_betree.betree_make_sub_err(tree, id, [], text)
      ...>   :ok = :erl_betree.betree_insert_sub_err(tree, sub)
      ...> end
      iex> :ok = :erl_betree.betree_make_sub_ids(tree)
      iex> {:ok, [2], non_matches} = :erl_betree.betree_search_err(tree, [{:user, true, false}])
      iex> :erl_betree.betree_parse_reasons(non_matches)
      {:ok, [a: [3], b: [1]]}
      iex> {:error, [], non_matches} = :erl_betree.betree_search_err(tree, [{:user, :undefined, false}])
      iex> :erl_betree.betree_parse_reasons(non_matches)
      {:ok, [invalid_event: [1, 2, 3]]}
  """
  @spec betree_make_err([[domain]]) :: {:ok, betree}
  def betree_make_err(domains), do: {:ok, Tree.make(domains, true)}

  @doc "Like `betree_make_sub/4`, for a tree that keeps reasons."
  @spec betree_make_sub_err(betree, id, [{atom, integer}], iodata) :: {:ok, sub} | refusal
  def betree_make_sub_err(betree, id, constants, expression), do: betree_make_sub(betree, id, constants, expression)

  @doc "Like `betree_insert_sub/2`, for a tree that keeps reasons."
  @spec betree_insert_sub_err(betree, sub) :: :ok | :error
  def betree_insert_sub_err(betree, sub), do: betree_insert_sub(betree, sub)

  @doc "Does nothing. Programs for erl-be-tree call it once after the insertions."
  @spec betree_make_sub_ids(betree) :: :ok
  def betree_make_sub_ids(betree) do
    %Tree{} = Tree.open(betree)
    :ok
  end

  @doc "Like `betree_make_event/2`, for a tree that keeps reasons."
  @spec betree_make_event_err(betree | {term, betree}, event) :: {{:ok, event_ref}, elapsed}
  def betree_make_event_err(betree, event), do: betree_make_event(betree, event)

  @doc "Like `betree_make_event/3`, for a tree that keeps reasons."
  @spec betree_make_event_err(betree | {term, betree}, event, clock_type) :: {{:ok, event_ref}, elapsed}
  def betree_make_event_err(betree, event, clock), do: betree_make_event(betree, event, clock)

  @doc "Like `betree_write_dot/2`, for a tree that keeps reasons."
  @spec betree_write_dot_err(betree, charlist) :: :ok | {:error, :failed}
  def betree_write_dot_err(betree, file), do: betree_write_dot(betree, file)

  @doc """
  Returns the matching ids, and a term with all other ids for `betree_parse_reasons/1`. For an event without a required
  value it returns `{error, [], NonMatches}`. Other faults of the event, and a tree without reasons, are `error:badarg`.
  """
  @spec betree_search_err(betree, event) :: {:ok | :error, [id], non_matches}
  def betree_search_err(betree, event), do: betree |> Tree.open() |> Reasons.search(event(event), nil)

  @doc "Like `betree_search_err/2`, with the elapsed time."
  @spec betree_search_err(betree, event | event_ref, clock_type) :: {{:ok | :error, [id], non_matches}, elapsed}
  def betree_search_err(betree, event, clock) when is_integer(clock) do
    Clock.time(clock, fn -> betree_search_err(betree, event) end)
  end

  def betree_search_err(_betree, _event, _clock), do: :erlang.error(:badarg)

  @doc "Like `betree_search_ids_err/4`, with the monotonic clock."
  @spec betree_search_ids_err(betree, event | event_ref, [id]) :: {{:ok | :error, [id], non_matches}, elapsed}
  def betree_search_ids_err(betree, event, ids), do: betree_search_ids_err(betree, event, ids, @monotonic)

  @doc "Like `betree_search_err/3`, among `Ids` only. An empty list takes no time."
  @spec betree_search_ids_err(betree, event | event_ref, [id], clock_type) ::
          {{:ok | :error, [id], non_matches}, elapsed}
  def betree_search_ids_err(_betree, _event, [], _clock), do: {{:ok, [], []}, 0}

  def betree_search_ids_err(betree, event, ids, clock) when is_integer(clock) do
    Clock.time(clock, fn -> betree |> Tree.open() |> Reasons.search(event(event), proper(ids)) end)
  end

  def betree_search_ids_err(_betree, _event, _ids, _clock), do: :erlang.error(:badarg)

  @doc """
  Returns the reasons of misses: attributes with the ids of the expressions that failed on them. Predicates are evaluated
  from left to right until the result is certain; the attribute of the last one is the reason.

  Other reasons are `geo` for a geographic predicate, `no_reason` for an expression that no event makes true, and
  `invalid_event`, for all ids, if the event does not fit.
  """
  @spec betree_parse_reasons(non_matches) :: {:ok, [{atom, [id]}]}
  def betree_parse_reasons([]), do: {:ok, []}
  def betree_parse_reasons(non_matches) when is_reference(non_matches), do: {:ok, Reasons.parse(non_matches)}
  def betree_parse_reasons(_other), do: :erlang.error(:badarg)

  defp search(tree, event, options) do
    with {:error, error} <- BeTree.search(Tree.target(tree), event(event), options), do: Tree.fail(error)
  end

  defp event(records) when is_list(records), do: {:records, records}
  defp event(event) when is_reference(event), do: Reference.open(:event, event)
  defp event(_other), do: :erlang.error(:badarg)

  defp proper(list) when length(list) >= 0, do: list
  defp proper(_other), do: :erlang.error(:badarg)
end
