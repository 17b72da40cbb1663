defmodule BeTree.Rules.Operation do
  @moduledoc false
  # An operation that fires rules: its calls of the module until it is done, or until a limit makes a page of it.
  #
  # A call ends early, with the engine whole, if the engine lacks room. Then a call of `be_tree_room`, which must not be cut off,
  # makes room, and another call goes on. What the calls before did stands, whatever happens to the process.

  alias BeTree.Engine.{Deadline, Instance, Reply, Slices}
  alias BeTree.{Fuel, Rules, Telemetry}
  alias BeTree.Rules.{Page, Span}

  # The limits of firings in docs/abi.md: that of the engine, and no firing at all.
  @default -1
  @quiet -2

  @derive {Inspect, only: [:kind, :position]}
  @enforce_keys [:rules, :kind, :options]
  defstruct [:rules, :kind, :argument, :input, :options, position: 0]

  @typedoc "`position` is that of the next fact of an `:assert`, and 1 once the fact of a `:retract` is retracted."
  @type t :: %__MODULE__{
          rules: Rules.t(),
          kind: :assert | :retract | :advance | :run,
          argument: integer | nil,
          input: binary | nil,
          options: map,
          position: non_neg_integer
        }

  @doc "Returns facts as the input of the module."
  @spec encode([Rules.fact()]) :: binary
  def encode(facts), do: :erlang.term_to_binary(facts, minor_version: 2)

  @doc "Returns options with which rules do not fire for the matches that they find."
  @spec quiet(map) :: map
  def quiet(options), do: %{options | firings: @quiet}

  @spec assert(Rules.t(), [Rules.fact()], map) :: Rules.outcome()
  def assert(rules, facts, options), do: assert_encoded(rules, encode(facts), options)

  @spec assert_encoded(Rules.t(), binary, map) :: Rules.outcome()
  def assert_encoded(rules, input, options) do
    run(%__MODULE__{rules: rules, kind: :assert, input: input, options: options})
  end

  @spec retract(Rules.t(), Rules.id(), map) :: Rules.outcome()
  def retract(rules, id, options), do: run(%__MODULE__{rules: rules, kind: :retract, argument: id, options: options})

  @spec advance(Rules.t(), integer, map) :: Rules.outcome()
  def advance(rules, now, options), do: run(%__MODULE__{rules: rules, kind: :advance, argument: now, options: options})

  @spec next(t) :: Rules.outcome()
  def next(operation), do: run(operation)

  defp run(%{rules: rules, options: options} = operation) do
    deadline = Deadline.new(options.timeout)
    call = fn -> calls(operation, %Page{operation: operation}, options.fuel, deadline) end
    if sink = Telemetry.sink(), do: Span.run(sink, rules, operation.kind, call), else: call.()
  end

  # Most calls are of one fact and take a microsecond or two, so each allocation here counts.
  defp calls(operation, page, budget, deadline) do
    with {:ok, {reason, position, firings, last_rule, next_due, ids, notices}, slices} <-
           call(operation, budget, Deadline.left(deadline)) do
      page = %Page{
        operation: next_operation(reason, operation, position),
        reason: if(reason in [:firings, :notices], do: reason),
        notices: page.notices ++ notices,
        ids: page.ids ++ ids,
        firings: page.firings + firings,
        last_rule: last_rule || page.last_rule,
        next_due: next_due,
        fuel: page.fuel + slices.fuel,
        slices: page.slices + slices.count
      }

      case reason do
        :done ->
          {:ok, page}

        :room ->
          with :ok <- make_room(page.operation), do: calls(page.operation, page, left(budget, slices.fuel), deadline)

        _limit ->
          {:more, page}
      end
    end
  end

  defp next_operation(:done, operation, position), do: %{operation | kind: :run, input: nil, position: position}
  defp next_operation(_reason, operation, position), do: %{operation | position: position}

  defp make_room(%{rules: %{runtime: runtime, instance: instance}} = operation) do
    case Instance.call(runtime, instance, "be_tree_room", [], nil) do
      {:ok, _nothing} -> :ok
      {:error, error} when operation.kind == :assert -> {:error, %{error | position: operation.position}}
      {:error, error} -> {:error, error}
    end
  end

  @doc "Returns what is left of a budget for the next call, at least 1: the module takes no call without fuel."
  @spec left(Fuel.budget(), Fuel.t()) :: Fuel.budget()
  def left(budget, used), do: with(0 <- Slices.left(budget, used), do: 1)

  defp call(%{rules: rules, options: options} = operation, budget, timeout) do
    %{runtime: runtime, instance: instance} = rules
    {export, arguments, input} = export(operation, options.firings || @default)
    slice = Slices.fuel_of_slice(options, runtime)
    request = %{input: input, output: :binary, fuel: budget, slice: slice, scheduler: :normal, timeout: timeout}
    options = %{options | fuel: budget, timeout: timeout}
    slices = Slices.new(runtime, &runtime.resume/1, rules.fuel_per_reduction, options)

    instance
    |> runtime.call(export, arguments, request)
    |> Slices.settle(slices)
    |> finish()
  end

  defp export(%{kind: :assert, input: input, position: position}, most),
    do: {"be_tree_assert", [byte_size(input), position, most], input}

  defp export(%{kind: :retract, argument: id, position: 0}, most), do: {"be_tree_retract", [id, most], nil}
  defp export(%{kind: :advance, argument: now}, most), do: {"be_tree_advance", [now, most], nil}
  defp export(%{kind: kind}, most) when kind in [:retract, :run], do: {"be_tree_run", [most], nil}

  defp finish({:yield, slices}), do: finish(Slices.resume(slices))
  defp finish({:error, error}), do: {:error, error}
  defp finish({:done, 1, refusal, _slices}), do: {:error, Reply.refusal(refusal)}

  defp finish({:done, 0, output, slices}) do
    with {:ok, outcome} <- Rules.Reply.outcome(output), do: {:ok, outcome, slices}
  end

  defp finish({:done, status, _output, _slices}), do: {:error, Reply.bad("status #{status}")}
end
