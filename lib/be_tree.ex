defmodule BeTree do
  @moduledoc """
  Finds, among very many boolean expressions, those that an event makes true.

      iex> {:ok, tree} = BeTree.new(age: :integer, country: {:string, optional: true}, plan: {:integer, min: 0, max: 9})
      iex> :ok = BeTree.insert(tree, 1, "age >= 21 and country in ('CA', 'US')")
      iex> {:ok, 2} = BeTree.insert_all(tree, [{2, "plan = 3"}, {3, "not (age < 65)"}])
      iex> BeTree.search(tree, %{age: 30, country: "CA", plan: 1})
      {:ok, [1]}
      iex> BeTree.search(tree, {:json, ~s({"age": 70, "plan": 3})})
      {:ok, [2, 3]}

  The index and the evaluator are one WebAssembly module in a sandbox with metered fuel: no expression and no event can
  crash the VM, read another tree, or hold a scheduler up for longer than a slice of a search.

  ## Where to read on

    * `BeTree.Domain` - the attributes: their types, options and bounds;
    * `BeTree.Event` - what an event may be: a map, a keyword list, a struct, a record, JSON;
    * `publish/2` and `BeTree.Index` - searched by many processes at once;
    * `BeTree.Image` - an index as one file, for other nodes, after a restart, or outside of the BEAM;
    * `BeTree.Server` - a named index under a supervisor, changed while it is searched;
    * `search/3` and `BeTree.Search` - budgets, slices, timeouts, and searches that are run step by step;
    * `BeTree.Fuel` - fuel and reductions;
    * `explain/4` and `BeTree.Explanation` - why a subscription matches, or does not;
    * `BeTree.Error` - the one exception, with its kinds;
    * `BeTree.Guest` - another index module in place of the built-in one.

  ## Expressions

  Loosest first; names are attributes, strings stand in single or double quotes with `\\` for escapes.

    * `a or b`, `a || b`; `a and b`, `a && b`; `not a`; `(a)`; `true`, `false`; a boolean attribute's name;
    * `age > 3`, `3 < age` and so on with `<`, `<=`, `>`, `>=` for integers and floats;
    * `plan = 3`, `plan <> 3` for integers, enums, floats and strings;
    * `country in ("CA", "US")`, `country not in ("CA")`, `3 in list`, `3 not in list`;
    * `list one of (1, 2)`, `list none of (1, 2)`, `list all of (1, 2)`;
    * `x is null`, `x is not null`, `list is empty`;
    * `contains(s, "b")`, `starts_with(s, "a")`, `ends_with(s, "c")`;
    * `geo_within_radius(latitude, longitude, kilometres)`, reads the attributes `latitude` and `longitude`;
    * `segment_within(list, id, seconds)`, `segment_before(list, id, seconds)`, read `now`; without the name of the list
      they read `segments_with_timestamp`;
    * `within_frequency_cap("flight", "namespace", value, seconds)`, reads `frequency_caps`, `now` and the constant
      `flight_id` of the subscription.

  A predicate that reads an undefined attribute is false, `<>`, `not in` and `none of` included; only `is null` is true
  of it. `not` then turns that false into true: `not (age > 3)` holds where `age` is undefined, `age <= 3` does not.

  ## Handles, processes and errors

  A tree is a handle to one instance of the module. It changes in place, lives as long as something refers to it, and
  runs one operation at a time. Any process may use it, one after the other: who finds it in use waits for its turn, in
  order, as long as the call's `:timeout` says, which is `:infinity` by default. What is searched by many at once is
  published (`publish/2`); whatever searches takes a tree or a published index.

  Input that is wrong (schema, ids, expressions, constants, events) is answered by `{:error, %BeTree.Error{}}`, with a
  kind and a message that says how to mend it; a call that failed changed nothing. Options that are unknown or wrong are
  the program's fault and raise an `ArgumentError`. Each function has a variant with `!` that raises the `BeTree.Error`.
  """

  alias BeTree.{Domain, Error, Event, Explanation, Fuel, Guest, Index, Search, Stats, Tree}

  alias BeTree.Engine.{
    Answer,
    Bang,
    Batch,
    Check,
    Deadline,
    Deletion,
    Describe,
    Instance,
    Options,
    Subscription,
    Target
  }

  alias BeTree.Engine.Options.Common
  alias BeTree.Server.View

  @typedoc "A tree, see `BeTree.Tree`."
  @type t :: Tree.t()

  @typedoc "What can be searched: a tree, a published index, or a `BeTree.Server` by its name."
  @type target :: t | Index.t() | BeTree.Server.name()

  @typedoc "What a subscription is known by: an unsigned 64-bit integer."
  @type id :: 0..0xFFFF_FFFF_FFFF_FFFF

  @typedoc """
  What an expression needs to know beside its text: names like `flight_id`, and signed 64-bit integers.
  """
  @type constants :: [{atom | String.t(), integer}] | %{optional(atom | String.t()) => integer}

  @type subscription :: {id, String.t()} | {id, String.t(), constants: constants}

  @type new_option ::
          {:memory, pos_integer}
          | {:fuel_per_reduction, pos_integer}
          | {:runtime, module}
          | {:guest, binary | Guest.t()}

  @new_options Common.take([:memory, :fuel_per_reduction, :guest, :runtime])

  @insert_timeout "milliseconds that the call may wait for the tree, or `:infinity`. A change that has begun is completed " <>
                    "whatever its timeout; only a change that takes far longer than any should, as a broken guest's may, is " <>
                    "cut off"
  @insert_options [constants: [type: :any, doc: "the constants of the expression, such as `[flight_id: 10]`"]] ++
                    Common.timeout(@insert_timeout)

  @publish_options Common.take([:replicas, :queue]) ++
                     Common.timeout("milliseconds that the call may wait for the tree, or `:infinity`")

  @search_options Common.take([:fuel, :slice, :timeout, :ids, :as, :stats])

  @stream_options [
                    max_concurrency: [
                      type: :positive,
                      default_doc: "the number of online schedulers, or 1 for a tree",
                      doc:
                        "the number of processes that search at the same time. With 1 the consumer searches itself. A tree " <>
                          "runs one search at a time"
                    ]
                  ] ++ Common.take([:slice, :timeout, :ids, :as])

  @doc """
  An empty tree over `schema`, declared as `BeTree.Domain` says.

  The first tree compiles the index module, on a thread of the runtime's own; later ones take well under a millisecond.

  ## Options

  #{Options.docs(@new_options)}

  Errors by kind: `:type` and `:out_of_bounds` for the schema, `:out_of_memory`, and `:bad_module` for the guest.

      iex> {:ok, tree} = BeTree.new([{"age", :integer}, {"tags", {:string_list, optional: true}}])
      iex> BeTree.search(tree, %{"age" => 3})
      {:ok, []}

      iex> {:error, error} = BeTree.new(age: {:integer, min: 9, max: 0})
      iex> Exception.message(error)
      "min: of `age` is 9, above its max: 0"
  """
  @spec new([{atom | String.t(), Domain.spec()} | Domain.t()], [new_option]) :: {:ok, t} | {:error, Error.t()}
  def new(schema, options \\ []) do
    options = Options.validate!(options, @new_options)

    with {:ok, schema} <- Domain.parse(schema),
         {:ok, guest} <- load(options[:guest], options[:runtime]),
         {:ok, instance} <- Instance.begin(guest, schema, options[:memory]) do
      {:ok,
       %Tree{
         runtime: guest.runtime,
         instance: instance,
         fuel_per_reduction: options[:fuel_per_reduction],
         guest: guest,
         schema: schema,
         memory: options[:memory]
       }}
    end
  end

  @doc """
  `new/2` that answers the tree and raises its errors.

      iex> inspect(BeTree.new!(age: :integer)) =~ "#BeTree<0 expressions, "
      true
  """
  @spec new!([{atom | String.t(), Domain.spec()} | Domain.t()], [new_option]) :: t
  def new!(schema, options \\ []), do: Bang.unwrap!(new(schema, options))

  defp load(nil, runtime), do: Instance.built_in(runtime)
  defp load(%Guest{} = guest, _runtime), do: {:ok, guest}
  defp load(wasm, runtime) when is_binary(wasm), do: Guest.load(wasm, runtime)

  @doc """
  Inserts one subscription: `expression` under `id`.

  Runs on a dirty scheduler: about 20 microseconds, most of them for the way there and back.

  ## Options

  #{Options.docs(@insert_options)}

  Errors by kind: `:syntax` with the column, `:unknown_attribute`, `:type` for a predicate that does not fit its
  attribute, `:out_of_bounds` for its constants, `:missing_attribute` for a constant that is not given, `:duplicate_id`,
  `:out_of_memory`, `:timeout`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert(tree, 1, "age >= 21")
      :ok
      iex> {:error, error} = BeTree.insert(tree, 2, "age >= ")
      iex> {error.kind, error.text}
      {:syntax, "age >= "}
  """
  @spec insert(t, id, String.t(), constants: constants, timeout: timeout) :: :ok | {:error, Error.t()}
  def insert(tree, id, expression, options \\ []) do
    check_tree(tree)
    options = Options.validate!(options, @insert_options)

    with {:ok, subscription} <- Subscription.new(id, expression, Keyword.take(options, [:constants])) do
      case insert_encoded(tree, Subscription.encode([subscription]), options[:timeout]) do
        :ok -> :ok
        {:error, error} -> {:error, %{error | text: expression, position: nil}}
      end
    end
  end

  @doc """
  `insert/4` that raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 18_446_744_073_709_551_615, "age >= 21")
      :ok
  """
  @spec insert!(t, id, String.t(), constants: constants, timeout: timeout) :: :ok
  def insert!(tree, id, expression, options \\ []), do: Bang.unwrap!(insert(tree, id, expression, options))

  @doc """
  Inserts many subscriptions, all of them or none, and answers how many.

  They are `{id, expression}` or `{id, expression, constants: constants}`, in anything enumerable. Takes the option `:timeout`
  of `insert/4`.

  The whole is copied into the sandbox once. Runs on a dirty scheduler, about 10 microseconds a subscription.

  What events define decides how quickly subscriptions are found. A tree learns that from its searches, 256 at the least,
  for those that are inserted later.

  An error is one of `insert/4`, with the `position` of the first subscription that is wrong, from 0, and its `text`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      {:ok, 2}
      iex> {:error, error} = BeTree.insert_all(tree, [{3, "age = 1"}, {4, "size = 2"}])
      iex> {error.kind, error.attribute, error.position, error.text}
      {:unknown_attribute, "size", 1, "size = 2"}
      iex> BeTree.search(tree, %{age: 1})
      {:ok, [2]}
  """
  @spec insert_all(t, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(tree, subscriptions, options \\ []) do
    check_tree(tree)
    timeout = Check.timeout!(options)

    with {:ok, batch} <- Subscription.Batch.new(subscriptions) do
      case insert_encoded(tree, batch.input, timeout) do
        :ok -> {:ok, batch.count}
        {:error, error} -> {:error, Subscription.Batch.blame(error, batch)}
      end
    end
  end

  @doc """
  `insert_all/3` that answers the count and raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "age > \#{id}"}))
      1000
  """
  @spec insert_all!(t, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def insert_all!(tree, subscriptions, options \\ []), do: Bang.unwrap!(insert_all(tree, subscriptions, options))

  @doc """
  Deletes the subscription `id`; its id is free again.

  Runs on a dirty scheduler, about 15 microseconds. A tree that is empty then, and takes much more memory than a new one,
  gives that back: it begins anew, and what it had learned about events is forgotten. Takes the option `:timeout` of
  `insert/4`.

  Errors by kind: `:not_found`, `:timeout`, and `:type` or `:out_of_bounds` where `id` is none.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.delete(tree, 1)
      :ok
      iex> {:error, error} = BeTree.delete(tree, 1)
      iex> error.kind
      :not_found
  """
  @spec delete(t, id, timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(tree, id, options \\ []) do
    check_tree(tree)
    timeout = Check.timeout!(options)

    with :ok <- Subscription.check_id(id), do: Deletion.delete(tree, id, timeout: timeout)
  end

  @doc """
  `delete/3` that raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.delete!(tree, 1)
      :ok
  """
  @spec delete!(t, id, timeout: timeout) :: :ok
  def delete!(tree, id, options \\ []), do: Bang.unwrap!(delete(tree, id, options))

  @doc """
  Publishes what the tree holds now, as an immutable `BeTree.Index` that many processes search at once.

  Copies the tree's memory on a dirty scheduler, about 2 GB a second, and compiles nothing. The tree is held meanwhile,
  like by any change, and goes on as it was: what is changed in it later the index does not see.

  ## Options

  #{Options.docs(@publish_options)}

  Errors by kind: `:out_of_memory`; `:timeout`; `:trap` for a tree that is damaged; `:bad_module` for a guest that has
  state beside its memory (`docs/abi.md`).

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, index} = BeTree.publish(tree, replicas: 2)
      iex> BeTree.insert!(tree, 2, "age >= 30")
      iex> BeTree.search(index, %{age: 30})
      {:ok, [1]}
      iex> inspect(index) =~ "#BeTree.Index<1 expression, "
      true
  """
  @spec publish(t, [Index.option() | {:timeout, timeout}]) :: {:ok, Index.t()} | {:error, Error.t()}
  def publish(tree, options \\ []) do
    check_tree(tree)
    {timeout, limits} = options |> Options.validate!(@publish_options) |> Keyword.pop!(:timeout)
    limits = [memory: tree.memory] ++ limits

    with {:ok, snapshot} <- tree.runtime.snapshot(tree.instance, timeout),
         do: Index.new(tree.guest, tree.schema, snapshot, tree.fuel_per_reduction, limits)
  end

  @doc """
  `publish/2` that answers the index and raises its errors.

      iex> index = BeTree.publish!(BeTree.new!(age: :integer))
      iex> BeTree.search!(index, %{age: 30})
      []
  """
  @spec publish!(t, [Index.option() | {:timeout, timeout}]) :: Index.t()
  def publish!(tree, options \\ []), do: Bang.unwrap!(publish(tree, options))

  @doc """
  The ids of the subscriptions that `event` makes true, ascending.

  Runs on the calling process's own scheduler in slices, and yields to other processes between them (`BeTree.Search`).
  Beside what the index does, a search with a small event costs about 2 microseconds.
  `event` is what `BeTree.Event` says.

  ## Options

  #{Options.docs(@search_options)}

  Errors by kind: `:missing_attribute` where the event lacks a required attribute, `:type` and `:out_of_bounds` for its
  values, `:syntax` for JSON with the column, `:out_of_fuel`, `:timeout`, `:out_of_memory`, `:trap`, `:overloaded`.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "country = 'CA'"}, {3, "age > 20 and country = 'CA'"}])
      iex> BeTree.search(tree, %{"age" => 30, "country" => "CA"})
      {:ok, [1, 2, 3]}
      iex> BeTree.search(tree, [age: 30, country: "CA"], ids: [3, 2, 77])
      {:ok, [2, 3]}
      iex> {:ok, [1], %BeTree.Stats{slices: 1}} = BeTree.search(tree, %{age: 30}, stats: true)
      iex> {:error, error} = BeTree.search(tree, %{country: "CA"})
      iex> {error.kind, error.attribute}
      {:missing_attribute, "age"}
      iex> {:error, error} = BeTree.search(tree, %{age: 30}, fuel: 10)
      iex> error.kind
      :out_of_fuel
  """
  @spec search(target, Event.t(), [Search.option() | {:stats, boolean}]) ::
          {:ok, Search.found()} | {:ok, Search.found(), Stats.t()} | {:error, Error.t()}
  def search(target, event, options \\ [])

  def search(target, event, []) do
    with {:done, ids, _stats} <- Search.run(target, event), do: {:ok, ids}
  end

  def search(target, event, options) do
    {stats?, options} = options |> Options.validate!(@search_options) |> Keyword.pop!(:stats)

    with {:done, ids, stats} <- Search.run(target, event, options) do
      if stats?, do: {:ok, ids, stats}, else: {:ok, ids}
    end
  end

  @doc """
  `search/3` that answers the ids, or `{ids, stats}`, and raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search!(tree, %{age: 30})
      [1]
  """
  @spec search!(target, Event.t(), [Search.option() | {:stats, boolean}]) ::
          Search.found() | {Search.found(), Stats.t()}
  def search!(target, event, options \\ []), do: Bang.unwrap!(search(target, event, options))

  @doc """
  One list of ids for each of `events`, in order.

  Events are searched up to 256 at a time: one call, one copy in, one copy out. Each costs less so than by itself, much
  less where the index holds many dense boolean expressions, which are then evaluated for all of them at once. Where the
  answers are long, the caller's heap is enlarged first to what all of them will need, 128 MB at the most, unless it has a
  `max_heap_size`.

  Takes the options of `BeTree.Search`; a budget and a timeout are those of all events together, and `:as` is the form
  of each answer. The first event that fails ends it: its error is the answer, with the event's `position`, from 0.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search_many(tree, [%{age: 30}, [age: 3], {:json, ~s({"age": 21})}])
      {:ok, [[1], [], [1]]}
      iex> {:error, error} = BeTree.search_many(tree, [%{age: 30}, %{}])
      iex> {error.kind, error.position}
      {:missing_attribute, 1}
  """
  @spec search_many(target, Enumerable.t(), [Search.option()]) :: {:ok, [Search.found()]} | {:error, Error.t()}
  def search_many(target, events, options \\ []) do
    options = Search.check(options)

    case Target.resolve(target) do
      {:error, error} -> {:error, error}
      # Of a server the same version for all events.
      resolved -> Batch.search(resolved, events, options)
    end
  end

  @doc """
  `search_many/3` that answers the lists and raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.search_many!(tree, [%{age: 1}, %{age: 2}])
      [[], []]
  """
  @spec search_many!(target, Enumerable.t(), [Search.option()]) :: [Search.found()]
  def search_many!(target, events, options \\ []), do: Bang.unwrap!(search_many(target, events, options))

  @doc """
  A stream of answers to `events`, one for each, in order: `{:ok, ids}`, or `{:error, error}` for an event that fails.

  Nothing is searched until the stream is consumed, and then as much as is asked for: up to 256 events at a time, as
  `search_many/3` does, so memory stays bounded however many there are. Where the consumer halts, nothing is left running.

  ## Options

  #{Options.docs(@stream_options)}

  The timeout is that of each part of up to 256 events.

  An error that is no event's own, such as `:out_of_memory`, is the answer to each event that it left unanswered.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> events = Stream.map(20..1_000_000, &%{age: &1})
      iex> tree |> BeTree.stream(events) |> Enum.take(3)
      [{:ok, []}, {:ok, [1]}, {:ok, [1]}]
      iex> [{:ok, [1]}, {:error, error}, {:ok, [1]}] = Enum.to_list(BeTree.stream(tree, [%{age: 30}, %{}, %{age: 40}]))
      iex> error.kind
      :missing_attribute
  """
  @spec stream(target, Enumerable.t(), [
          {:max_concurrency, pos_integer}
          | {:slice, Fuel.budget()}
          | {:timeout, timeout}
          | {:ids, [id]}
          | {:as, Search.form()}
        ]) :: Enumerable.t()
  def stream(target, events, options \\ []) do
    with {:error, error} <- Check.enumerable(events, "events"), do: raise(ArgumentError, error.message)
    # A server is asked for its index again for each chunk.
    most = concurrency(Target.resolve(target))
    {concurrency, options} = options |> Options.validate!(@stream_options) |> Keyword.pop(:max_concurrency, most)
    Batch.stream(target, events, Search.check(options), concurrency)
  end

  defp concurrency(%Tree{}), do: 1
  defp concurrency(_index_or_server), do: System.schedulers_online()

  @doc """
  Why the subscription `id` matches `event`, or does not.

  Runs on a dirty scheduler and evaluates the whole expression. The option `:timeout` is how many milliseconds the call may
  wait for the tree or for a replica, `:infinity` by default. Errors by kind: those of `search/3` for the event,
  `:not_found` and `:timeout`.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert!(tree, 3, "age >= 21 and country in ('CA', 'US')")
      iex> {:ok, why} = BeTree.explain(tree, %{age: 30}, 3)
      iex> why.match
      false
      iex> why
      #BeTree.Explanation<3: no match
      └─ and: false
         ├─ age >= 21: true (age is 30)
         └─ country in ('CA', 'US'): false (country is undefined)>
  """
  @spec explain(target, Event.t(), id, timeout: timeout) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(target, event, id, options \\ []) do
    timeout = Check.timeout!(options)
    deadline = Deadline.new(timeout)

    with :ok <- Subscription.check_id(id),
         {:ok, format, bytes} <- Event.encode(event) do
      arguments = [format, byte_size(bytes), signed(id)]

      case explain_in(Target.resolve(target), id, arguments, bytes, deadline) do
        {:ok, answer} -> Explanation.decode(answer, id)
        {:error, error} -> {:error, %{error | text: Event.text(event)}}
      end
    end
  end

  defp explain_in({:error, error}, _id, _arguments, _bytes, _deadline), do: {:error, error}

  defp explain_in(%View{delta: nil, base: base} = view, id, arguments, bytes, deadline) do
    with :ok <- View.check_alive(view, id), do: explain_in(base, id, arguments, bytes, deadline)
  end

  defp explain_in(%View{delta: delta} = view, id, arguments, bytes, deadline) do
    with {:error, %Error{kind: :not_found}} <- explain_in(delta, id, arguments, bytes, deadline),
         do: explain_in(%{view | delta: nil}, id, arguments, bytes, deadline)
  end

  defp explain_in(%{runtime: runtime, instance: instance}, _id, arguments, bytes, deadline) do
    Instance.call(runtime, instance, "be_tree_explain", arguments, bytes, timeout: Deadline.left(deadline))
  end

  @doc """
  `explain/4` that answers the explanation and raises its errors.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 3, "age >= 21")
      iex> to_string(BeTree.explain!(tree, %{age: 30}, 3))
      "match\\n└─ age >= 21: true (age is 30)"
  """
  @spec explain!(target, Event.t(), id, timeout: timeout) :: Explanation.t()
  def explain!(target, event, id, options \\ []), do: Bang.unwrap!(explain(target, event, id, options))

  @doc """
  Counts and sizes: `:expressions`, their `:predicates` (each as often as they have it), and of what the index made of
  them `:strings` (distinct ones), `:nodes`, `:entries`, `:ungated` (entries that every search visits), `:depth`,
  `:code_bytes`, `:memory_bytes`.

  Runs on a dirty scheduler, about 15 microseconds. Of a published index they are those of the moment when it was
  published, and cost nothing. The option `:timeout` is how many milliseconds the call may wait for the tree, `:infinity` by
  default; past it the error is of kind `:timeout`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      iex> {:ok, %{expressions: 2, memory_bytes: bytes}} = BeTree.info(tree)
      iex> bytes < 10_000_000
      true
  """
  @spec info(target, timeout: timeout) :: {:ok, %{atom => non_neg_integer}} | {:error, Error.t()}
  def info(target, options \\ []) do
    timeout = Check.timeout!(options)

    case Target.resolve(target) do
      {:error, error} ->
        {:error, error}

      %Index{info: info} ->
        {:ok, info}

      %View{} = view ->
        {:ok, View.info(view)}

      tree ->
        Instance.info(tree.runtime, tree.instance, timeout)
    end
  end

  @doc """
  `info/2` that answers the map and raises its errors.

      iex> BeTree.info!(BeTree.new!(age: :integer)).expressions
      0
  """
  @spec info!(target, timeout: timeout) :: %{atom => non_neg_integer}
  def info!(target, options \\ []), do: Bang.unwrap!(info(target, options))

  defp insert_encoded(%{runtime: runtime, instance: instance}, input, timeout) do
    with {:ok, answer} <-
           Instance.call(runtime, instance, "be_tree_insert", [byte_size(input)], input, timeout: timeout),
         do: Answer.nothing(answer)
  end

  # The i64 that has the same bits: wasm knows no unsigned integers.
  defp signed(id) do
    <<signed::signed-64>> = <<id::64>>
    signed
  end

  defp check_tree(%Tree{}), do: :ok

  defp check_tree(other) do
    raise ArgumentError, "what is changed or published is a BeTree, got: #{Describe.value(other)}"
  end
end
