defmodule BeTree.Rules do
  @moduledoc ~S"""
  Stateful rules: facts and events joined, with windows, absence and aggregates, in the same sandbox and under the same fuel as a
  search.

  An expression tests one event. A rule tests many: two failed logins and then a change of the password within five minutes, or
  an order without a payment in ten minutes.

      iex> {:ok, rules} = BeTree.Rules.new(\"""
      ...> fact login(user: string, ok: boolean)
      ...> fact password_change(user: string)
      ...> rule takeover
      ...>   when a: login, not a.ok
      ...>        b: login, not b.ok and b.user = a.user, after a within 5 minutes
      ...>        c: password_change, c.user = a.user, after b within 5 minutes
      ...>   then notify takeover(user: a.user), retract a
      ...> \""")
      iex> {:ok, page} = BeTree.Rules.assert_all(rules, [
      ...>   {:login, %{user: "ann", ok: false, at: 0}},
      ...>   {:login, ~s({"user": "ann", "ok": false, "at": 60000})},
      ...>   ~s({"password_change": {"user": "ann", "at": 90000}})
      ...> ])
      iex> page.notices
      [%BeTree.Rules.Notice{rule: "takeover", name: "takeover", values: %{"user" => "ann"}}]

  [The guide](rules.md) has the language, with three worked cases.

  ## Facts

  A fact is `{type, fields}`. The type is an atom or a string, and the rules declare it. The fields are a map, a keyword list, or a string
  with a JSON object. A fact can also be a string with a JSON object like `{"login": {"user": "ann"}}`. A field is a number, a string, a boolean or undefined (`nil`, in JSON `null`). An atom stands for the string of its name.

  As in events, fields that the type does not have are skipped, with any values. A type that ends in `strict` refuses them:
  `fact login(user: string) strict`. A value does not fit its field if it has another type or lies outside the field's domain. It is refused, or
  counts as undefined in a field like `ip: string optional on_mismatch undefined`.

  The field `at` is the time of the fact in milliseconds since any moment, for instance 1970. A `DateTime` stands for its milliseconds
  since 1970, except in JSON. A fact without `at` has the latest time of its source, or of the rules if the source has none.

  ## Time

  Time moves by the times of facts and by `advance/3` only, so the same calls have the same results. A late fact keeps
  its own time. A fact expires when every use of its type has a window and all of these windows have passed. A condition without a
  window keeps its facts, and the facts that it is joined with: [the guide](rules.md#memory) says how to bound them.

  With the option `lateness: ms` of `new/2`, time is a watermark: the latest time that the rules have seen, minus the lateness. A
  fact beyond the watermark waits. When the watermark reaches its time it is inserted, so rules see facts in the order of their times,
  and facts of one time in the order in which they came. So rules fire in
  the same order however facts arrive, if no fact is later than the lateness. All rules fire later by the lateness. A fact from before
  the watermark is too late: it is inserted at once, and `late` of the page and of `info/2` counts it. With a lateness of 0, the
  default, no fact waits.

  Facts may have a source, the option `:source` of `assert/3`. Each source has a time of its own, and the watermark is the earliest time
  of the known sources, minus the lateness. Facts without a source are one more source. So a fast source does not make the facts of a
  slow one late. An idle source holds the watermark back: `advance/3` with its name moves only this source, `advance/3` without a source
  moves all, and `end_source/3` forgets it. A source is known from its first call on. To keep other sources from moving time before
  that, call `advance/3` with each name first. There may be 10,000 sources, with names of up to 255 bytes.

  ## Pages

  A call returns `{:ok, page}` with a `BeTree.Rules.Page`: the notices of the rules that fired, and more. A page is full at the option
  `:notices` of `new/2`, and at the option `:firings` of the call. If another rule is due then, the call returns `{:more, page}`, and
  `next/1` continues. Until then some facts of `assert_all/3` may not be inserted.

  ## Handles, processes and errors

  The handle refers to an instance of the rules' module. Any process may use it; calls run one at a time, in turn. A notice goes to
  the process whose call fires the rule. `BeTree.Rules.Server` is a process that owns rules, keeps them on disk, moves time by the
  clock and sends notices to other processes.

  A call runs in slices on the scheduler of its process, and the process is charged for its fuel (`BeTree.Fuel`). If a process is
  killed in the middle of a call, each fact is inserted or not, and each rule fired or not. The next call returns the notices of the
  killed one.

  A list with a wrong fact is refused and changes nothing; `position` in the `BeTree.Error` is that of the fact. Other errors stop
  the list at a fact: `:out_of_memory`, `:out_of_bounds` (too many facts), `:out_of_fuel` and `:timeout`. The facts before stand.
  """

  alias BeTree.Processes.Log
  alias BeTree.{Error, Fuel}
  alias BeTree.Call.{Instance, InstanceOptions, Slices}
  alias BeTree.Input.{Check, Limits, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Rules.{Explanation, Fact, Module, Operation, Page, Reply}

  require Limits

  @enforce_keys [:runtime, :instance, :firings, :fuel_per_reduction]
  defstruct @enforce_keys

  @typedoc "Rules and their facts. Its fields are private."
  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          firings: pos_integer,
          fuel_per_reduction: pos_integer
        }

  @typedoc "A fact to insert."
  @type fact ::
          {atom | String.t(), %{optional(atom | String.t()) => term} | [{atom | String.t(), term}] | String.t()}
          | String.t()

  @typedoc "The number of a fact."
  @type id :: pos_integer

  @typedoc "A time in milliseconds."
  @type time :: integer

  @typedoc "The name of a source of facts. An atom is the same as the string of its name."
  @type source :: atom | String.t()

  @type new_option ::
          {:memory, pos_integer}
          | {:facts, pos_integer}
          | {:firings, pos_integer}
          | {:notices, pos_integer}
          | {:fuel, Fuel.budget()}
          | {:timeout, timeout}
          | {:lateness, non_neg_integer}
          | {:fuel_per_reduction, pos_integer}
          | {:runtime, module}

  @typedoc "An option of a call."
  @type option ::
          {:fuel, Fuel.budget()} | {:slice, Fuel.budget()} | {:timeout, timeout} | {:firings, pos_integer}

  @typedoc "An option of a call with facts or a time."
  @type source_option :: option | {:source, source | nil}

  @typedoc "The outcome of a call: all is done, or `next/1` goes on, or it failed."
  @type outcome :: {:ok, Page.t()} | {:more, Page.t()} | {:error, Error.t()}

  @max_u32 0xFFFF_FFFF
  # Greater numbers have other meanings in the module.
  @max_firings 0x7FFF_FFFF

  @new_options [
                 memory: [
                   type: {:bytes, 1, Limits.max_u64()},
                   default: Limits.default_memory(),
                   default_doc: "1 GiB",
                   doc: "the bytes of memory that rules and facts may take. More is refused as `:out_of_memory`"
                 ],
                 facts: [
                   type: {:integer, 1, @max_u32},
                   default: @max_u32,
                   default_doc: "4,294,967,295",
                   doc: "the most facts. One more is refused as `:out_of_bounds`"
                 ],
                 firings: [
                   type: {:integer, 1, @max_firings},
                   default: 1_000_000,
                   default_doc: "1,000,000",
                   doc: "the most firings of a call, which then returns `{:more, page}`"
                 ],
                 notices: [
                   type: {:integer, 1, @max_u32},
                   default: 10_000,
                   default_doc: "10,000",
                   doc: "the most notices of a page"
                 ],
                 lateness: [
                   type: {:integer, 0, 8_640_000_000_000_000},
                   default: 0,
                   doc: "the milliseconds by which a fact may be late"
                 ]
               ] ++
                 Common.take([:fuel]) ++
                 Common.timeout(
                   "milliseconds that the compilation may take, or `:infinity`. Past them it ends with an error of kind `:timeout`"
                 ) ++ InstanceOptions.take([:fuel_per_reduction, :runtime])

  @options Common.take([:fuel, :slice, :timeout]) ++
             [
               firings: [
                 type: {:integer, 1, @max_firings},
                 default: nil,
                 default_doc: "the option of `new/2`",
                 doc: "the most firings of this call, which then returns `{:more, page}`"
               ]
             ]
  @source_options @options ++
                    [
                      source: [
                        type: {:nullable, {:check, "the name of a source, an atom or a string", &__MODULE__.source?/1}},
                        default: nil,
                        default_doc: "none",
                        doc: "the source of the facts, an atom or a string"
                      ]
                    ]
  @defaults Map.merge(Slices.defaults(), %{firings: nil, latest: nil, source: nil})

  @wait_options Common.timeout("milliseconds that the call may wait for its turn, or `:infinity`")
  @facts_options [
                   limit: [
                     type: {:nullable, :positive},
                     default: nil,
                     default_doc: "all",
                     doc: "the most facts"
                   ],
                   before: [
                     type: {:nullable, :positive},
                     default: nil,
                     default_doc: "none",
                     doc: "the number of a fact: only older ones are returned"
                   ]
                 ] ++ @wait_options

  @doc """
  Returns rules without facts.

  The text is compiled in slices on the scheduler of the calling process. The time is linear in the text, some microseconds for each
  rule. Texts of strangers need a budget all the same: give `:fuel` or `:timeout`.

  `new/2` logs a warning for each cycle of rules that may enable themselves or one another without end, and still returns the rules.
  `warnings/2` returns the warnings.

  ## Options

  #{Options.docs(@new_options)}

  Returns `{:error, error}` with the kind `:syntax`, `:unknown_attribute` (any unknown name), `:type`, `:out_of_bounds`,
  `:missing_attribute` or `:duplicate_id` and the place in the text, `:out_of_memory`, `:out_of_fuel`, `:timeout`, or `:bad_module` if the
  module of rules cannot be loaded. Raises an `ArgumentError` for an unknown or wrong option.

      iex> {:error, error} = BeTree.Rules.new("fact login(user: string)\\nrule r when a: logn then retract a")
      iex> {error.kind, error.line, error.column}
      {:unknown_attribute, 2, 16}
      iex> Exception.message(error)
      "`logn` is no fact type; did you mean `login`? (line 2)\\n\\n    rule r when a: logn then retract a\\n                   ^"
  """
  @spec new(String.t(), [new_option]) :: {:ok, t} | {:error, Error.t()}
  def new(text, options \\ [])

  def new(text, options) when is_binary(text) do
    options = check_new!(options)

    with {:ok, guest} <- Module.built_in(options.runtime),
         {:ok, instance, warnings} <- Module.compile(guest, options.memory, input(text, options), options) do
      Enum.each(warnings, &Log.warning/1)
      {:ok, handle(instance, options)}
    end
  end

  def new(other, _options), do: Check.expected!("the text of rules, a string", other)

  @doc "Like `new/2`, but returns the rules and raises on error."
  @spec new!(String.t(), [new_option]) :: t
  def new!(text, options \\ []), do: done!(new(text, options))

  @doc """
  Inserts a fact, and fires the rules that this makes due.

  The rules that were due before, and those that become due because time moves to the fact's time, fire first.

  ## Options

  #{Options.docs(@source_options)}

  Returns `{:error, error}` with the kind `:unknown_attribute` for an unknown type, or an unknown field of a strict type, `:type`, `:out_of_bounds` or
  `:missing_attribute` for a value that the field does not take, `:out_of_bounds` for a source too many, `:syntax` for wrong JSON, `:out_of_memory`, `:out_of_fuel`, or
  `:timeout`. Raises an `ArgumentError` for an unknown or wrong option.

      iex> rules = BeTree.Rules.new!("fact order(id: integer) rule seen when o: order then notify seen(id: o.id)")
      iex> {:ok, page} = BeTree.Rules.assert(rules, {:order, id: 7})
      iex> {page.ids, page.firings, page.notices}
      {[1], 1, [%BeTree.Rules.Notice{rule: "seen", name: "seen", values: %{"id" => 7}}]}
      iex> {:error, error} = BeTree.Rules.assert(rules, {:order, id: "7"})
      iex> error.message
      "`id` of `order` is an integer; give an integer"
  """
  @spec assert(t, fact, [source_option]) :: outcome
  def assert(rules, fact, options \\ []) do
    check!(rules)
    Operation.assert(rules, [fact], check_source_options(options))
  end

  @doc "Like `assert/3`, but returns the page and raises on error, or if there is more than a page."
  @spec assert!(t, fact, [source_option]) :: Page.t()
  def assert!(rules, fact, options \\ []), do: done!(assert(rules, fact, options))

  @doc """
  Inserts facts in their order, each as `assert/3` does. Takes the options of `assert/3`.

  All of them are checked before the first is inserted. The errors are those of `assert/3`, with `position`, and `:type` if `facts` is
  no list or other enumerable.

      iex> rules = BeTree.Rules.new!("fact order(id: integer) rule none_yet when o: order(id > 1) then retract o")
      iex> {:ok, page} = BeTree.Rules.assert_all(rules, [{:order, id: 1}, {:order, id: 2}])
      iex> {page.ids, page.firings}
      {[1, 2], 1}
      iex> {:error, error} = BeTree.Rules.assert_all(rules, [{:order, id: 1}, {:order, idd: 2}])
      iex> {error.position, error.message}
      {1, "`order` lacks `id`; give it a value or declare it optional"}
  """
  @spec assert_all(t, Enumerable.t(), [source_option]) :: outcome
  def assert_all(rules, facts, options \\ []) do
    check!(rules)
    options = check_source_options(options)

    with :ok <- Check.enumerable(facts, "facts"), do: Operation.assert(rules, Enum.to_list(facts), options)
  end

  @doc "Like `assert_all/3`, but returns the page and raises on error, or if there is more than a page."
  @spec assert_all!(t, Enumerable.t(), [source_option]) :: Page.t()
  def assert_all!(rules, facts, options \\ []), do: done!(assert_all(rules, facts, options))

  @doc """
  Retracts a fact by its number, and fires the rules that this makes due. Takes the options of `assert/3`, apart from `:source`.

  Returns `{:error, error}` with the kind `:not_found` if the fact was retracted or dropped, and with the kinds of `assert/3`.

      iex> rules = BeTree.Rules.new!("fact lock(name: string) fact job(name: string)
      ...> rule start when j: job none lock(name = j.name) then notify start(name: j.name), retract j")
      iex> {:ok, %{ids: [lock | _], notices: []}} = BeTree.Rules.assert_all(rules, [{:lock, name: "a"}, {:job, name: "a"}])
      iex> {:ok, page} = BeTree.Rules.retract(rules, lock)
      iex> hd(page.notices).values
      %{"name" => "a"}
  """
  @spec retract(t, id, [option]) :: outcome
  def retract(rules, id, options \\ [])

  def retract(rules, id, options) when Limits.is_u64(id) do
    check!(rules)
    Operation.retract(rules, id, check_options(options))
  end

  def retract(_rules, other, _options), do: Check.expected!("the number of a fact, an unsigned 64-bit integer", other)

  @doc "Like `retract/3`, but returns the page and raises on error, or if there is more than a page."
  @spec retract!(t, id, [option]) :: Page.t()
  def retract!(rules, id, options \\ []), do: done!(retract(rules, id, options))

  @doc """
  Moves time to `now` milliseconds, if that is later, and fires the rules that are due by then. Takes the options of `assert/3`.

  A `DateTime` stands for its milliseconds since 1970.

  It says that all sources have reached `now`, or with `:source` that this one has. With a lateness facts from up to as much before `now` may
  still come, so windows close and facts stop waiting up to `now` minus the lateness. If no more facts come, move to the last time
  plus the lateness.

  Returns `{:error, error}` with the kind `:out_of_bounds` for a time beyond a hundred million days, and with the kinds of
  `assert/3`.

      iex> rules = BeTree.Rules.new!("fact order(id: integer) fact payment(order: integer)
      ...> rule unpaid
      ...>   when o: order
      ...>        none payment(order = o.id) within 10 minutes after o
      ...>   then notify unpaid(order: o.id)")
      iex> {:ok, %{notices: []}} = BeTree.Rules.assert_all(rules, [{:order, id: 1, at: 0}, {:payment, order: 1, at: 60_000}])
      iex> {:ok, %{notices: []}} = BeTree.Rules.assert(rules, {:order, id: 2, at: 61_000})
      iex> {:ok, page} = BeTree.Rules.advance(rules, 700_000)
      iex> page.notices
      [%BeTree.Rules.Notice{rule: "unpaid", name: "unpaid", values: %{"order" => 2}}]
  """
  @spec advance(t, time | DateTime.t(), [source_option]) :: outcome
  def advance(rules, now, options \\ [])

  def advance(rules, now, options) when is_integer(now) do
    check!(rules)
    Operation.advance(rules, now, check_source_options(options))
  end

  def advance(rules, %DateTime{} = now, options), do: advance(rules, DateTime.to_unix(now, :millisecond), options)

  def advance(_rules, other, _options),
    do: Check.expected!("a time, an integer of milliseconds or a DateTime", other)

  @doc "Like `advance/3`, but returns the page and raises on error, or if there is more than a page."
  @spec advance!(t, time, [source_option]) :: Page.t()
  def advance!(rules, now, options \\ []), do: done!(advance(rules, now, options))

  @doc """
  Forgets a source, so that it holds time back no more, and fires the rules that this makes due. Takes the options of `retract/3`.

  An unknown source is no error. A source that sends again counts again from then on.

      iex> rules = BeTree.Rules.new!("fact click(user: string) rule seen when c: click then notify seen(user: c.user)")
      iex> {:ok, _page} = BeTree.Rules.advance(rules, 0, source: :mobile)
      iex> {:ok, %{notices: []}} = BeTree.Rules.assert(rules, {:click, user: "ann", at: 1_000}, source: :web)
      iex> BeTree.Rules.sources(rules)
      {:ok, %{"mobile" => 0, "web" => 1_000}}
      iex> {:ok, page} = BeTree.Rules.end_source(rules, :mobile)
      iex> hd(page.notices).values
      %{"user" => "ann"}
  """
  @spec end_source(t, source, [option]) :: outcome
  def end_source(rules, source, options \\ []) do
    check!(rules)
    Operation.reach(rules, check_source!(source), :end, check_options(options))
  end

  @doc "Like `end_source/3`, but returns the page and raises on error, or if there is more than a page."
  @spec end_source!(t, source, [option]) :: Page.t()
  def end_source!(rules, source, options \\ []), do: done!(end_source(rules, source, options))

  @doc """
  Returns the times of the sources that were seen, by name, that of facts without a source under `nil`.

  The option `:timeout` is the milliseconds that the call may wait for its turn.
  """
  @spec sources(t, timeout: timeout) :: {:ok, %{(String.t() | nil) => time}} | {:error, Error.t()}
  def sources(rules, options \\ []) do
    check!(rules)

    with {:ok, floor, sources} <- event_times(rules, Check.timeout!(options)),
         do: {:ok, Map.new(sources, fn {source, time} -> {source, if(floor, do: max(floor, time), else: time)} end)}
  end

  @doc false
  # The time that `advance/3` gave all sources, and the event times of the sources by their own calls.
  @spec event_times(t, timeout) :: {:ok, time | nil, %{(String.t() | nil) => time}} | {:error, Error.t()}
  def event_times(rules, timeout \\ :infinity) do
    with {:ok, output} <- read(rules, "be_tree_sources", [], nil, timeout), do: Reply.sources(output)
  end

  @doc "Like `sources/2`, but returns the map and raises on error."
  @spec sources!(t, timeout: timeout) :: %{(String.t() | nil) => time}
  def sources!(rules, options \\ []), do: done!(sources(rules, options))

  @doc """
  Goes on with the call whose page this is. Returns its next page.

  The call has the options of the first one: the same budget, limit of firings and timeout again. After the last page, it fires the
  rules that are due since.

      iex> rules = BeTree.Rules.new!("fact step(left: integer)
      ...> rule next when s: step(left > 0) then modify s(left: s.left - 1), notify at(left: s.left)", notices: 2)
      iex> {:more, page} = BeTree.Rules.assert(rules, {:step, left: 3})
      iex> Enum.map(page.notices, & &1.values["left"])
      [3, 2]
      iex> {:ok, page} = BeTree.Rules.next(page)
      iex> Enum.map(page.notices, & &1.values["left"])
      [1]
  """
  @spec next(Page.t()) :: outcome
  def next(%Page{operation: operation}), do: Operation.next(operation)
  def next(other), do: Check.expected!("a BeTree.Rules.Page", other)

  @doc "Like `next/1`, but returns the page and raises on error, or if there is more than a page."
  @spec next!(Page.t()) :: Page.t()
  def next!(page), do: done!(next(page))

  @doc """
  Returns the facts of a type, newest first, as `BeTree.Rules.Fact`. Runs in slices. Facts that wait are left out.

  ## Options

  #{Options.docs(@facts_options)}

  Returns `{:error, error}` with the kind `:unknown_attribute` for an unknown type, or `:timeout`.

      iex> rules = BeTree.Rules.new!("fact order(id: integer, paid: boolean optional)")
      iex> {:ok, _page} = BeTree.Rules.assert_all(rules, [{:order, id: 7, at: 1_000}, {:order, id: 8, paid: true}])
      iex> {:ok, facts} = BeTree.Rules.facts(rules, :order)
      iex> facts
      [
        %BeTree.Rules.Fact{id: 2, type: "order", at: 1_000, fields: %{"id" => 8, "paid" => true}},
        %BeTree.Rules.Fact{id: 1, type: "order", at: 1_000, fields: %{"id" => 7, "paid" => nil}}
      ]
      iex> BeTree.Rules.facts!(rules, :order, limit: 1, before: 2) |> Enum.map(& &1.id)
      [1]
  """
  @spec facts(t, atom | String.t(), limit: pos_integer | nil, before: id | nil, timeout: timeout) ::
          {:ok, [Fact.t()]} | {:error, Error.t()}
  def facts(rules, type, options \\ []) do
    check!(rules)
    {type, options} = check_facts!(type, options)
    pages(rules, type, options[:before] || Limits.max_u64(), options[:limit] || :infinity, options[:timeout], [])
  end

  @doc "Like `facts/3`, but returns the facts and raises on error."
  @spec facts!(t, atom | String.t(), limit: pos_integer | nil, before: id | nil, timeout: timeout) :: [Fact.t()]
  def facts!(rules, type, options \\ []), do: done!(facts(rules, type, options))

  # The most facts that are read at a time.
  @page 1_000

  defp pages(rules, type, before, limit, timeout, read) do
    most = min(limit, @page)
    arguments = [byte_size(type), min(before, Limits.max_u64()), most]

    with {:ok, output} <- read(rules, "be_tree_facts", arguments, type, timeout),
         {:ok, facts, more?} <- Reply.facts(output) do
      read = Enum.reverse(facts, read)
      left = left(limit, length(facts))

      if more? and left != 0,
        do: pages(rules, type, hd(read).id, left, timeout, read),
        else: {:ok, Enum.reverse(read)}
    end
  end

  defp left(:infinity, _read), do: :infinity
  defp left(limit, read), do: limit - read

  @doc """
  Explains a rule by its name: the facts for which it fired, or the condition that blocks it.

  Returns `{:ok, explanations}`, a `BeTree.Rules.Explanation` for each combination of the rule's alternatives, and one for a rule
  without any. The explanation is of the combination of facts that comes farthest, the newest first. Looks at no more than 200,000
  facts, in slices.

  Returns `{:error, error}` with the kind `:not_found` for an unknown rule, or `:timeout`.

      iex> rules = BeTree.Rules.new!("fact job(name: string) fact lock(name: string)
      ...> rule start
      ...>   when j: job
      ...>        none lock(name = j.name)
      ...>   then notify start(name: j.name)")
      iex> BeTree.Rules.assert_all!(rules, [{:lock, name: "a"}, {:job, name: "a"}])
      iex> {:ok, [explanation]} = BeTree.Rules.explain(rules, :start)
      iex> {explanation.verdict, explanation.line, explanation.condition, explanation.by.fields}
      {:blocked, 4, "none lock(name = j.name)", %{"name" => "a"}}
  """
  @spec explain(t, atom | String.t(), timeout: timeout) :: {:ok, [Explanation.t()]} | {:error, Error.t()}
  def explain(rules, rule, options \\ []) do
    check!(rules)
    name = check_rule!(rule)
    timeout = Check.timeout!(options)

    with {:ok, output} <- read(rules, "be_tree_explain", [byte_size(name)], name, timeout),
         do: Reply.explanations(output)
  end

  @doc "Like `explain/3`, but returns the explanations and raises on error."
  @spec explain!(t, atom | String.t(), timeout: timeout) :: [Explanation.t()]
  def explain!(rules, rule, options \\ []), do: done!(explain(rules, rule, options))

  @doc """
  Returns `{:ok, warnings}`: sentences about rules that can enable themselves or one another without end.

  A rule enables another one if it inserts or modifies a fact that the other may bind, or removes one that keeps a `none` of the other
  false. Each warning names the rules of one cycle and their lines. Cycles that certainly end have none: those that constants rule
  out, that use facts up, or that count towards a bound. Other cycles may end for a reason that the analysis does not see.

  The option `:timeout` is the milliseconds that the call may wait for its turn.

      iex> rules = BeTree.Rules.new!("fact click(user: string) fact session(user: string)
      ...> rule open when c: click none session(user = c.user) then assert session(user: c.user)
      ...> rule close when s: session then retract s")
      iex> BeTree.Rules.warnings(rules)
      {:ok, ["rules `open` (line 2) and `close` (line 3) can enable each other without end"]}
  """
  @spec warnings(t, timeout: timeout) :: {:ok, [String.t()]} | {:error, Error.t()}
  def warnings(rules, options \\ []), do: with({:ok, info} <- info(rules, options), do: {:ok, info.warnings})

  @doc "Like `warnings/2`, but returns the list and raises on error."
  @spec warnings!(t, timeout: timeout) :: [String.t()]
  def warnings!(rules, options \\ []), do: done!(warnings(rules, options))

  @doc """
  Returns counts and sizes, as a map:

    * `:rules` - the rules, each combination of alternatives counted;
    * `:warnings` - those of `warnings/2`;
    * `:facts`, `:types` - the facts, and those of each type, by name;
    * `:asserted`, `:firings` - the facts that were ever inserted, a modification counted as one, and the firings;
    * `:notices` - the notices that wait for the next call;
    * `:due` - whether rules are due;
    * `:late` - the facts that came too late, from before the rules' time;
    * `:waiting`, `:lateness` - the facts that wait for the rules' time, and the option `:lateness`;
    * `:now` - the time of the rules in milliseconds, the watermark, or `nil`; `:latest` - the latest time that they have seen, or `nil`;
    * `:next_due` - the time to which `advance/3` has to move for the next window to close or the next fact to wait no more, or `nil`;
    * `:lives` - the milliseconds after which facts of a type are dropped, by the names of the types that have them. Facts of other
      types stay until a rule or a call retracts them;
    * `:facts_bytes`, `:memory_bytes` - the bytes that facts and their indices ever took at once, and those of the memory.

  The option `:timeout` is the milliseconds that the call may wait for its turn.

      iex> rules = BeTree.Rules.new!("fact order(id: integer)")
      iex> {:ok, info} = BeTree.Rules.info(rules)
      iex> {info.facts, info.types, info.now}
      {0, %{"order" => 0}, nil}
  """
  @spec info(t, timeout: timeout) :: {:ok, map} | {:error, Error.t()}
  def info(rules, options \\ []) do
    check!(rules)
    timeout = Check.timeout!(options)
    with {:ok, output} <- read(rules, "be_tree_info", [], nil, timeout), do: Reply.info(output)
  end

  @doc "Like `info/2`, but returns the map and raises on error."
  @spec info!(t, timeout: timeout) :: map
  def info!(rules, options \\ []), do: done!(info(rules, options))

  defp read(rules, export, arguments, input, timeout) do
    Instance.call(rules.runtime, rules.instance, export, arguments, input, scheduler: :slices, timeout: timeout)
  end

  @doc false
  # Returns all options of rules.
  @spec check_new!(term) :: map
  def check_new!(options), do: options |> Options.validate!(@new_options) |> Map.new()

  @doc false
  # Returns rules as the input of the module.
  @spec input(String.t(), map) :: binary
  def input(text, options), do: :erlang.term_to_binary(List.to_tuple([text | limits(options)] ++ [options.lateness]))

  @doc false
  # Returns the limits in the order of docs/contributing/abi.md.
  @spec limits(map) :: [pos_integer]
  def limits(options), do: [options.memory, options.facts, options.firings, options.notices]

  @doc false
  # Returns the handle of an instance that has rules.
  @spec handle(BeTree.Runtime.instance(), map) :: t
  def handle(instance, options) do
    %__MODULE__{
      runtime: options.runtime,
      instance: instance,
      firings: options.firings,
      fuel_per_reduction: options.fuel_per_reduction
    }
  end

  @doc false
  # Returns the options of a call that are not given, all of them.
  @spec default_options() :: map
  def default_options, do: @defaults

  @doc false
  # Returns the name of a fact type and all options of facts/3.
  @spec check_facts!(term, term) :: {String.t(), keyword}
  def check_facts!(type, options),
    do: {name!(type, "the name of a fact type"), Options.validate!(options, @facts_options)}

  @doc false
  @spec check_rule!(term) :: String.t()
  def check_rule!(rule), do: name!(rule, "the name of a rule")

  @doc false
  # Returns an option of rules with these options.
  @spec limit([new_option], atom) :: term
  def limit(options, name), do: Map.fetch!(check_new!(options), name)

  @doc false
  @spec source?(term) :: boolean
  def source?(source), do: is_binary(source) or Limits.is_atom_name(source)

  @doc false
  @spec check_source!(term) :: source
  def check_source!(source) do
    if source?(source), do: source, else: Check.expected!("the name of a source, an atom or a string", source)
  end

  defp check_source_options([]), do: @defaults
  defp check_source_options(options), do: Options.put!(@defaults, options, @source_options)

  defp check_options([]), do: @defaults
  defp check_options(options), do: Options.put!(@defaults, options, @options)

  defp check!(%__MODULE__{}), do: :ok
  defp check!(other), do: Check.expected!("BeTree.Rules", other)

  defp name!(name, _expected) when is_binary(name), do: name
  defp name!(name, _expected) when Limits.is_atom_name(name), do: Atom.to_string(name)
  defp name!(other, expected), do: Check.expected!("#{expected}, an atom or a string", other)

  defp done!({:ok, value}), do: value
  defp done!({:error, error}), do: raise(error)

  defp done!({:more, page}) do
    raise %Error{
      kind: :out_of_bounds,
      message:
        "the call has more than a page: #{page.firings} firings and #{length(page.notices)} notices so far; take the function " <>
          "without `!` and BeTree.Rules.next/1"
    }
  end

  defimpl Inspect do
    alias BeTree.Input.Describe

    def inspect(%{runtime: runtime, instance: instance} = rules, _options) do
      info = runtime.info(instance)
      "#BeTree.Rules<#{Describe.content(info, fn -> counts(rules) end)}, #{Describe.megabytes(info.memory)}>"
    end

    defp counts(rules) do
      with {:ok, info} <- BeTree.Rules.info(rules, timeout: 0),
           do: {:ok, "#{Describe.number_of(info.rules, "rule")}, #{Describe.number_of(info.facts, "fact")}"}
    end
  end
end
