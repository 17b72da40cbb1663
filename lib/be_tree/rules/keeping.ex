defmodule BeTree.Rules.Keeping do
  @moduledoc false
  # The operations of a server of rules, and their journal.
  #
  # A record of the journal is the external term of an operation: `{:rules, text, limits}`, the first one of a folder;
  # `{:assert, input}`, `{:retract, id}`, `{:advance, now}`; `{:assert, input, source}`, `{:advance, now, source}`, `{:end_source, source}`; `{:at, now, operation}`, which moves time first; `{:steps, operations}`, made
  # one after another; and `{:swap, text}`. A `{:cut, ...}` after an operation says how many steps it made before its fuel was used up.
  # The content of a base is the head, `%{module: digest, text: text, length: bytes}` with its length before it, and then parts of
  # the memory, each after its address and its length.

  alias BeTree.Engine.{CrashReport, Instance, Journal}
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Module, Operation, Page, Reply}

  @limits [:memory, :facts, :firings, :notices]
  # The bytes of memory that are read at a time. Zeros are left out in pieces of this size.
  @part 0x1_0000
  @zeros <<0::size(@part)-unit(8)>>

  @type operation :: tuple

  @typedoc "The part of an operation that ran out of fuel, and the number of steps that it made."
  @type cut :: {:cut, part :: non_neg_integer, steps :: non_neg_integer}

  ## Operations

  @doc """
  Makes an operation, until it has fired `most` rules. Its notices go to `notify`, page by page. `options` are those of a call; their
  `:fuel` is a budget for the whole operation. An operation that uses it up ends there, and is not undone.
  """
  @spec make(Rules.t(), operation, pos_integer, map, ([Rules.Notice.t()] -> :ok)) ::
          {:ok, Page.t()} | {:error, Error.t()} | {:error, Error.t(), cut}
  def make(rules, operation, most, options \\ Rules.default_options(), notify) do
    call = %{rules: rules, most: most, notify: notify}
    parts(parts_of(operation), 0, 0, %Page{operation: nil}, options, call)
  end

  defp parts_of({:at, now, operation}), do: [{:advance, now} | parts_of(operation)]
  defp parts_of({:steps, operations}), do: operations
  defp parts_of(operation), do: [operation]

  # `facts` is the number of facts of the parts before.
  defp parts([], _number, _facts, sum, _options, _call), do: {:ok, sum}

  defp parts([part | rest], number, facts, sum, options, call) do
    before = if options.fuel != :infinity, do: progress(call.rules)

    case part |> first(call.rules, options) |> pages(call, %Page{operation: nil}) do
      {:ok, page} ->
        options = %{options | fuel: Operation.left(options.fuel, page.fuel)}
        parts(rest, number + 1, facts + facts_of(part), Page.join(sum, page), options, call)

      {:error, %Error{kind: :out_of_fuel} = error} when before != nil ->
        now = progress(call.rules)
        position = if elem(part, 0) == :assert, do: facts + inserted(before, now)
        {:error, %{error | position: position}, {:cut, number, now.steps - before.steps}}

      {:error, %Error{position: position} = error} ->
        {:error, %{error | position: position && facts + position}}
    end
  end

  defp first({:assert, input}, rules, options), do: Operation.assert_encoded(rules, input, options)
  defp first({:assert, input, source}, rules, options), do: first({:assert, input}, rules, %{options | source: source})
  defp first({:advance, now, source}, rules, options), do: first({:advance, now}, rules, %{options | source: source})
  defp first({:end_source, source}, rules, options), do: Operation.reach(rules, source, :end, options)
  defp first({:retract, id}, rules, options), do: Operation.retract(rules, id, options)
  defp first({:advance, now}, rules, options), do: Operation.advance(rules, now, options)

  # The head of a list as an external term has its length. An empty list has none.
  defp facts_of({:assert, <<131, 108, count::32, _facts::binary>>}), do: count
  defp facts_of({:assert, input, _source}), do: facts_of({:assert, input})
  defp facts_of(_part), do: 0

  defp pages({:error, error}, _call, _sum), do: {:error, error}

  defp pages({outcome, page}, call, sum) do
    call.notify.(page.notices)
    sum = Page.join(sum, %{page | notices: []})

    cond do
      outcome == :ok -> {:ok, sum}
      sum.firings < call.most -> page.operation |> paid(page.fuel) |> Operation.next() |> pages(call, sum)
      true -> {:error, too_many(%{page | firings: sum.firings})}
    end
  end

  # Returns the operation with the rest of its budget.
  defp paid(%{options: options} = operation, fuel),
    do: %{operation | options: %{options | fuel: Operation.left(options.fuel, fuel)}}

  defp too_many(%{operation: operation} = page) do
    %Error{
      kind: :out_of_bounds,
      message: "the call fired #{page.firings} rules, as many as the option :firings allows; the next call goes on",
      position: if(operation.kind == :assert, do: operation.position)
    }
  end

  defp progress(%{runtime: runtime, instance: instance}) do
    {:ok, output} = Instance.call(runtime, instance, "be_tree_info", [], nil)
    {:ok, progress} = Reply.progress(output)
    progress
  end

  # A part that did not even begin has the number and the position of the operation before.
  defp inserted(%{operations: same}, %{operations: same}), do: 0
  defp inserted(_before, now), do: now.position

  ## Repeats

  @doc "Makes an operation again as far as it came."
  @spec repeat(Rules.t(), operation, cut | nil, pos_integer) :: :ok
  def repeat(rules, operation, nil, most) do
    _ = make(rules, operation, most, fn _notices -> :ok end)
    :ok
  end

  def repeat(rules, operation, {:cut, number, steps}, most) do
    {whole, [part | _not_begun]} = operation |> parts_of() |> Enum.split(number)
    repeat(rules, {:steps, whole}, nil, most)
    Operation.stop_after(rules, steps)
    repeat(rules, {:steps, [part]}, nil, most)
    Operation.stop_after(rules, :never)
  end

  @doc "Returns other rules with the facts of `rules`, for which they do not fire."
  @spec swapped(Rules.t(), String.t(), keyword) :: {:ok, Rules.t()} | {:error, Error.t()}
  def swapped(rules, text, options) do
    with {:ok, info} <- Rules.info(rules),
         {:ok, facts} <- all_facts(rules, Map.keys(info.types)),
         {:ok, fresh} <- Rules.new(text, options),
         :ok <- load(fresh, encoded(facts)),
         :ok <- quietly(info.now, &Operation.advance(fresh, &1, Operation.quiet(Rules.default_options()))),
         :ok <- wait_again(rules, fresh, 0),
         :ok <- reach_again(rules, fresh),
         do: {:ok, fresh}
  end

  defp load(rules, input), do: done(Operation.assert_encoded(rules, input, Operation.quiet(Rules.default_options())))

  # The facts that are read at a time.
  @page 1_000

  # Lets the facts that wait for the time of `rules` wait for that of `fresh`, in the order in which they came.
  defp wait_again(rules, fresh, from, read \\ []) do
    with {:ok, output} <- Instance.call(rules.runtime, rules.instance, "be_tree_waiting", [from, @page], nil),
         {:ok, facts} <- Reply.facts(output) do
      if length(facts) == @page,
        do: wait_again(rules, fresh, from + @page, [facts | read]),
        else: [facts | read] |> Enum.concat() |> encoded() |> hold(fresh)
    end
  end

  defp hold(input, rules),
    do: done(Operation.assert_encoded(rules, input, Operation.held(Rules.default_options())))

  # The event times of the sources, earliest first, so that time stays where it is.
  defp reach_again(rules, fresh) do
    with {:ok, output} <- Instance.call(rules.runtime, rules.instance, "be_tree_sources", [], nil),
         {:ok, floor, sources} <- Reply.sources(output),
         :ok <- quietly(floor, &Operation.advance(fresh, &1, Rules.default_options())) do
      sources
      |> Enum.sort_by(&elem(&1, 1))
      |> Enum.reduce_while(:ok, fn {source, time}, :ok ->
        case done(Operation.reach(fresh, source, time, Rules.default_options())) do
          :ok -> {:cont, :ok}
          error -> {:halt, error}
        end
      end)
    end
  end

  defp encoded(facts) do
    Operation.encode(for(fact <- Enum.sort_by(facts, & &1.id), do: {fact.type, Map.put(fact.fields, "at", fact.at)}))
  end

  defp quietly(nil, _advance), do: :ok
  defp quietly(now, advance), do: done(advance.(now))

  defp done({:ok, _page}), do: :ok
  defp done({:more, page}), do: done(Rules.next(page))
  defp done({:error, error}), do: {:error, error}

  # The facts of all types, in the order in which they came.
  defp all_facts(rules, types) do
    types
    |> Enum.reduce_while({:ok, []}, fn type, {:ok, all} ->
      case Rules.facts(rules, type) do
        {:ok, facts} -> {:cont, {:ok, facts ++ all}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  ## The journal

  @doc "Appends an operation."
  @spec append(Journal.t() | nil, operation) :: {:ok, Journal.t() | nil} | {:error, Error.t(), Journal.t()}
  def append(nil, _operation), do: {:ok, nil}
  def append(journal, operation), do: Journal.append(journal, [:erlang.term_to_binary(operation, minor_version: 2)])

  @doc "Returns the rules that the folder of the options holds, their text, and the journal."
  @spec open(map, keyword) :: {:ok, Rules.t(), String.t(), Journal.t() | nil} | {:error, Error.t()}
  def open(%{dir: nil, rules: text}, new) do
    with {:ok, rules} <- Rules.new(text, new), do: {:ok, rules, text, nil}
  end

  def open(options, new) do
    case Journal.open(IO.chardata_to_string(options.dir), identity: options.identity, durability: options.durability) do
      {:ok, journal} ->
        with {:error, error} <- recover(journal, options, new) do
          :ok = Journal.release(journal)
          {:error, error}
        end

      {:error, {:identity, _other}} ->
        message =
          "the folder #{options.dir} belongs to something else than these rules, or to other partitions; give the server another one"

        {:error, %Error{kind: :other_schema, message: message}}

      {:error, error} ->
        {:error, error}
    end
  end

  defp recover(journal, options, new) do
    with {:ok, begun} <- read_base(journal, new),
         {:ok, {begun, held}} <- Journal.reduce(journal, {begun, nil}, &repeat_all(&1, &2, new)),
         {:ok, {rules, text}} <- made(held, nil, begun, new),
         :ok <- same_lateness(rules, Rules.limit(new, :lateness)) do
      {:ok, rules, text, journal}
    else
      {:ok, nil} -> begin(journal, options, new)
      {:error, error} -> {:error, error}
    end
  end

  defp same_lateness(rules, lateness) do
    with {:ok, info} <- Rules.info(rules) do
      if info.lateness == lateness do
        :ok
      else
        message =
          "the rules of this folder have lateness: #{info.lateness}, and the server has lateness: #{lateness}; start it with the same, or give " <>
            "it another folder"

        {:error, %Error{kind: :other_schema, message: message}}
      end
    end
  end

  defp begin(journal, %{rules: text}, new) do
    with {:ok, rules} <- Rules.new(text, new),
         {:ok, journal} <- append(journal, {:rules, text, limits(new)}) do
      {:ok, rules, text, journal}
    else
      {:error, error} -> {:error, error}
      {:error, error, _journal} -> {:error, error}
    end
  end

  # All that is to be the same in a repeat, also if an option had its default.
  defp limits(new), do: new |> Keyword.take(@limits) |> Keyword.put(:lateness, Rules.limit(new, :lateness))

  # An operation is held until the next record, which may say that it was cut.
  defp repeat_all(batch, begun, new) do
    Enum.reduce_while(batch, {:ok, begun}, fn {_version, record}, {:ok, {begun, held}} ->
      case again(:erlang.binary_to_term(record, [:safe]), held, begun, new) do
        {:ok, begun_and_held} -> {:cont, {:ok, begun_and_held}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  defp again({:rules, text, limits}, nil, nil, new) do
    with {:ok, rules} <- Rules.new(text, Keyword.merge(new, limits)), do: {:ok, {{rules, text}, nil}}
  end

  defp again({:cut, _part, _steps} = cut, held, begun, new) do
    with {:ok, begun} <- made(held, cut, begun, new), do: {:ok, {begun, nil}}
  end

  defp again(operation, held, begun, new) do
    with {:ok, begun} <- made(held, nil, begun, new), do: {:ok, {begun, operation}}
  end

  defp made(nil, _cut, begun, _new), do: {:ok, begun}

  defp made({:swap, text}, _cut, {rules, _before}, new) do
    with {:ok, rules} <- swapped(rules, text, new), do: {:ok, {rules, text}}
  end

  # What was refused is refused again.
  defp made(operation, cut, {rules, text}, new) do
    :ok = repeat(rules, operation, cut, Rules.limit(new, :firings))
    {:ok, {rules, text}}
  end

  ## Bases

  @doc """
  Starts a process, linked to the calling one, that writes a base. It sends `{:kept, pid, {:ok, version} | {:error, error}}`.
  """
  @spec keep(Rules.t(), String.t(), Journal.t()) :: {:ok, pid} | {:error, Error.t()}
  def keep(%{runtime: runtime, instance: instance}, text, journal) do
    with {:ok, guest} <- Module.built_in(runtime),
         {:ok, snapshot} <- runtime.snapshot(instance, :infinity) do
      server = self()
      write = Journal.base_writer(journal)
      version = Journal.last(journal)
      length = runtime.snapshot_length(snapshot)
      head = :erlang.term_to_binary(%{module: digest(guest), text: text, length: length})

      {:ok,
       spawn_link(fn ->
         outcome =
           CrashReport.guard(fn ->
             payload = Stream.concat([[<<byte_size(head)::little-64>>, head]], memory(runtime, snapshot, length))
             with :ok <- write.(version, payload), do: {:ok, version}
           end)

         send(server, {:kept, self(), outcome})
       end)}
    end
  end

  defp memory(runtime, snapshot, length) do
    Stream.flat_map(0..(length - 1)//@part, fn address ->
      case runtime.snapshot_read(snapshot, address, min(@part, length - address)) do
        {:ok, @zeros} -> []
        {:ok, bytes} -> [[<<address::little-64, byte_size(bytes)::little-64>>, bytes]]
        {:error, error} -> raise error
      end
    end)
  end

  defp read_base(journal, new) do
    case Journal.read_base(journal) do
      {:ok, _version, <<size::little-64, head::binary-size(size), parts::binary>>} ->
        restore(:erlang.binary_to_term(head, [:safe]), parts(parts), new)

      :none ->
        {:ok, nil}

      {:error, error} ->
        {:error, error}
    end
  end

  defp parts(""), do: []

  defp parts(<<address::little-64, length::little-64, bytes::binary-size(length), rest::binary>>),
    do: [{address, bytes} | parts(rest)]

  defp restore(%{module: module, text: text, length: length}, parts, new) do
    # The options are checked, and the handle has them, as for new rules.
    with :ok <- check_memory(length, Rules.limit(new, :memory)),
         {:ok, rules} <- Rules.new("fact nothing(field: integer)", new),
         {:ok, guest} <- Module.built_in(rules.runtime),
         :ok <- same_module(digest(guest), module),
         {:ok, snapshot} <- rules.runtime.snapshot_of(length, parts),
         {:ok, instance} <- Instance.instantiate(guest, Rules.limit(new, :memory), snapshot),
         do: {:ok, {%{rules | instance: instance}, text}}
  end

  defp check_memory(length, memory) when length <= memory, do: :ok

  defp check_memory(length, memory) do
    message =
      "the facts in the folder take #{length} bytes of memory, and the server may take #{memory}; start it with memory: #{length} or more"

    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  defp same_module(digest, digest), do: :ok

  defp same_module(_this, _other) do
    message =
      "the base of this folder was written by another version of BeTree; start that version, or give the server another folder"

    {:error, %Error{kind: :bad_module, message: message}}
  end

  defp digest(guest), do: :crypto.hash(:sha256, Instance.wasm(guest))
end
