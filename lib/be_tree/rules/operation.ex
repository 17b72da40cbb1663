defmodule BeTree.Rules.Operation do
  @moduledoc false
  # An operation that fires rules: it calls the module until everything is done or a limit ends the page.
  #
  # A call ends early, with a consistent engine, if the engine runs out of room. A call of `be_tree_room`, which must not be
  # interrupted, then makes room, and the next call continues. Effects of completed calls persist even if the process dies.

  alias BeTree.Call.{Instance, Reply, Slices}
  alias BeTree.Processes.Deadline
  alias BeTree.{Fuel, Rules, Telemetry}
  alias BeTree.Rules.{Page, Span}

  # Limits of firings in docs/contributing/abi.md that count each match as fired. With the second one facts wait again.
  @count_as_fired -2
  @count_as_fired_and_hold -3
  # The limit of docs/contributing/abi.md that allows any time of a fact.
  @any_time 0x7FFF_FFFF_FFFF_FFFF

  @derive {Inspect, only: [:kind, :position]}
  @enforce_keys [:rules, :kind, :options]
  defstruct [:rules, :kind, :argument, :input, :options, position: 0]

  @typedoc "`position` is that of the next fact of an `:assert`. A `:retract` becomes a `:run` once its fact is retracted."
  @type t :: %__MODULE__{
          rules: Rules.t(),
          kind: :assert | :retract | :advance | :run,
          argument: integer | :end | nil,
          input: binary | nil,
          options: map,
          position: non_neg_integer
        }

  @doc "Encodes facts for the module."
  @spec encode([Rules.fact()]) :: binary
  def encode(facts), do: facts |> Enum.map(&in_milliseconds/1) |> encode_term()

  # The module reads times as integers of milliseconds. It refuses wrong facts.
  defp in_milliseconds({type, %{at: %DateTime{} = at} = fields}), do: {type, %{fields | at: unix(at)}}
  defp in_milliseconds({type, %{"at" => %DateTime{} = at} = fields}), do: {type, %{fields | "at" => unix(at)}}

  defp in_milliseconds({type, [_ | _] = fields} = fact),
    do: if(date_time?(fields), do: {type, with_unix(fields)}, else: fact)

  defp in_milliseconds(fact), do: fact

  defp date_time?([{at, %DateTime{}} | _rest]) when at in [:at, "at"], do: true
  defp date_time?([_field | rest]), do: date_time?(rest)
  defp date_time?(_end), do: false

  defp with_unix([{at, %DateTime{} = time} | rest]) when at in [:at, "at"], do: [{at, unix(time)} | rest]
  defp with_unix([field | rest]), do: [field | with_unix(rest)]

  defp unix(time), do: DateTime.to_unix(time, :millisecond)

  defp encode_term(term), do: :erlang.term_to_binary(term, minor_version: 2)

  @doc "Returns options that refuse facts later than `latest`. `nil` allows any."
  @spec up_to(map, Rules.time() | nil) :: map
  def up_to(options, latest), do: %{options | latest: latest && min(latest, @any_time)}

  @doc "Returns options with which found matches do not fire."
  @spec quiet(map) :: map
  def quiet(options), do: %{options | firings: @count_as_fired}

  @doc "Returns options with which rules do not fire, and facts beyond their time wait without moving it."
  @spec held(map) :: map
  def held(options), do: %{options | firings: @count_as_fired_and_hold}

  @spec assert(Rules.t(), [Rules.fact()], map) :: Rules.outcome()
  def assert(rules, facts, options), do: assert_encoded(rules, encode(facts), options)

  @spec assert_encoded(Rules.t(), binary, map) :: Rules.outcome()
  def assert_encoded(rules, input, options) do
    input = if options.source, do: of_source(options.source, [], input), else: input
    run(%__MODULE__{rules: rules, kind: :assert, input: input, options: options})
  end

  @spec retract(Rules.t(), Rules.id(), map) :: Rules.outcome()
  def retract(rules, id, options), do: run(%__MODULE__{rules: rules, kind: :retract, argument: id, options: options})

  @spec advance(Rules.t(), integer, map) :: Rules.outcome()
  def advance(rules, now, %{source: nil} = options),
    do: run(%__MODULE__{rules: rules, kind: :advance, argument: now, options: options})

  def advance(rules, now, %{source: source} = options), do: reach(rules, source, now, options)

  @doc "Moves the event time of a source, or of facts without one, or ends the source."
  @spec reach(Rules.t(), Rules.source() | nil, integer | :end, map) :: Rules.outcome()
  def reach(rules, source, now, options) do
    input = of_source(source || [], now, encode([]))
    run(%__MODULE__{rules: rules, kind: :advance, argument: now, input: input, options: options})
  end

  # Encodes `{Source, Now, Facts}` around facts that are already encoded.
  defp of_source(source, now, <<131, facts::binary>>) do
    source = if source == [], do: [], else: to_string(source)
    <<131, source::binary>> = encode_term(source)
    <<131, now::binary>> = encode_term(now)
    <<131, 104, 3, source::binary, now::binary, facts::binary>>
  end

  @spec next(t) :: Rules.outcome()
  def next(operation), do: run(operation)

  @doc """
  Returns the fuel of the last search of a page, for the match that did not fire any more. The next call repeats that
  search.
  """
  @spec ahead(t) :: Fuel.t()
  def ahead(%{options: options} = operation) do
    case run(%{operation | options: %{options | firings: 0}}) do
      {_outcome, %Page{fuel: fuel}} -> fuel
      {:error, _the_next_call_has_it_too} -> 0
    end
  end

  # Most calls insert one fact in a microsecond or two, so each allocation here and below matters.
  defp run(%{rules: rules, options: options} = operation) do
    most = options.firings || rules.firings
    deadline = Deadline.new(options.timeout)

    case Telemetry.sink() do
      false -> calls(operation, most, options.fuel, deadline)
      sink -> Span.run(sink, rules, operation.kind, fn -> calls(operation, most, options.fuel, deadline) end)
    end
  end

  defp calls(operation, most, budget, deadline) do
    with {:ok, {reason, position, firings, last_rule, next_due, ids, notices, mismatches, late}, fuel, slices} <-
           call(operation, most, budget, deadline) do
      page = %Page{
        operation: next_operation(reason, operation, position),
        reason: if(reason in [:firings, :notices], do: reason),
        notices: notices,
        ids: ids,
        firings: firings,
        mismatches: mismatches,
        late: late,
        last_rule: last_rule,
        next_due: next_due,
        fuel: fuel,
        slices: slices
      }

      case reason do
        :done -> {:ok, page}
        :room -> with :ok <- make_room(page.operation), do: go_on(page, most, left(budget, fuel), deadline)
        _limit -> {:more, page}
      end
    end
  end

  # No rule fires while matches count as fired, so the limit stays unchanged.
  defp go_on(%{operation: operation} = page, most, budget, deadline) do
    with {outcome, %Page{} = next} <- calls(operation, most - page.firings, budget, deadline),
         do: {outcome, %{Page.join(page, next) | operation: next.operation}}
  end

  # Only the first call retracts the fact. The rules still due fire in runs, over any number of calls.
  defp next_operation(_reason, %{kind: :retract} = operation, 1), do: %{operation | kind: :run, position: 0}
  defp next_operation(:done, operation, position), do: %{operation | kind: :run, input: nil, position: position}
  defp next_operation(_reason, operation, position), do: %{operation | position: position}

  # A growing memory above this size gets large pages. The system clears each in one piece, which can take milliseconds.
  @max_sliced_growth_bytes 8 * 1_048_576

  # Small work stays off dirty schedulers, whose threads compete with the normal schedulers for the processors.
  defp make_room(%{rules: %{runtime: runtime, instance: instance}} = operation) do
    scheduler = if runtime.info(instance).memory < @max_sliced_growth_bytes, do: :whole, else: :dirty

    case Instance.call(runtime, instance, "be_tree_room", [], nil, scheduler: scheduler) do
      {:ok, _nothing} -> :ok
      {:error, error} when operation.kind == :assert -> {:error, %{error | position: operation.position}}
      {:error, error} -> {:error, error}
    end
  end

  @doc "Returns the rest of a budget for the next call, at least 1, because the module takes no call without fuel."
  @spec left(Fuel.budget(), Fuel.t()) :: Fuel.budget()
  def left(budget, used), do: with(0 <- Slices.left(budget, used), do: 1)

  defp call(%{rules: rules, options: options} = operation, most, budget, deadline) do
    %{runtime: runtime, instance: instance, fuel_per_reduction: per_reduction} = rules
    {export, arguments, input} = export(operation, most)
    timeout = Deadline.left(deadline)
    slice = Slices.fuel_of_slice(options, runtime)
    request = %{input: input, output: :binary, fuel: budget, slice: slice, scheduler: :normal, timeout: timeout}

    case runtime.call(instance, export, arguments, request) do
      {:done, status, output, fuel} ->
        Slices.charge_whole(fuel, per_reduction)
        finish(status, output, fuel, 1)

      outcome ->
        options = %{options | fuel: budget, timeout: Deadline.left(deadline)}
        outcome |> Slices.settle(Slices.new(runtime, &runtime.resume/1, per_reduction, options)) |> finish()
    end
  end

  defp export(%{kind: :assert, input: input, position: position, options: options}, most),
    do: {"be_tree_assert", [byte_size(input), position, most, options.latest || @any_time], input}

  defp export(%{kind: :advance, input: input}, most) when input != nil,
    do: {"be_tree_assert", [byte_size(input), 0, most, @any_time], input}

  defp export(%{kind: :retract, argument: id}, most), do: {"be_tree_retract", [id, most], nil}
  defp export(%{kind: :advance, argument: now}, most), do: {"be_tree_advance", [now, most], nil}
  defp export(%{kind: :run}, most), do: {"be_tree_run", [most], nil}

  defp finish({:yield, slices}), do: slices |> Slices.resume() |> finish()
  defp finish({:done, status, output, slices}), do: finish(status, output, slices.fuel, slices.count)
  defp finish({:error, error}), do: {:error, error}

  defp finish(0, output, fuel, slices) do
    with {:ok, outcome} <- Rules.Reply.outcome(output), do: {:ok, outcome, fuel, slices}
  end

  defp finish(1, refusal, _fuel, _slices), do: {:error, Reply.refusal(refusal)}
  defp finish(status, _output, _fuel, _slices), do: {:error, Reply.bad("status #{status}")}
end
