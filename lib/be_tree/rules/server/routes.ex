defmodule BeTree.Rules.Server.Routes do
  @moduledoc false
  # The partitions of facts. Instances of the module of rules, without facts, check facts and find their partitions, so that a list with
  # a wrong fact reaches no partition.
  #
  # Before it inserts a fact, an engine fires the rules that are due by its time. A partition's time may lag behind the time of all
  # partitions. That makes no difference to a fact that advances time. Before a late fact, or one without a time, the partition's
  # time is advanced to the time of all.

  import BeTree.Input.Limits, only: [is_atom_name: 1]

  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Input.Check
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Module

  @enforce_keys [:runtime, :instances, :partitions, :keys]
  defstruct @enforce_keys

  @typedoc "`keys` has the field of each fact type, or `:all`."
  @type t :: %__MODULE__{
          runtime: module,
          instances: tuple,
          partitions: pos_integer,
          keys: %{String.t() => String.t() | :all}
        }

  @typedoc "The operations of a partition, and the positions of the facts that they insert."
  @type part :: %{operations: [tuple], positions: [non_neg_integer]}

  # The number of a fact that belongs to all partitions.
  @all 0xFFFF_FFFF

  @doc "Returns whether a term is the option `:partition_by`."
  @spec key?(term) :: boolean
  def key?(nil), do: true
  def key?(field) when is_atom(field) or is_binary(field), do: name?(field)
  def key?(%{} = map) when not is_struct(map), do: map |> Map.to_list() |> key?()

  def key?([_ | _] = list) do
    Check.proper_list?(list) and Enum.all?(list, &match?({_type, _field}, &1)) and
      Enum.all?(list, fn {type, field} -> name?(type) and name?(field) end)
  end

  def key?(_other), do: false

  defp name?(name), do: is_binary(name) or is_atom_name(name)

  @doc "Returns the routes of these rules, or the error of a rule that cannot be partitioned."
  @spec new(String.t(), pos_integer, term, keyword) :: {:ok, t} | {:error, Error.t()}
  def new(text, partitions, by, options) do
    runtime = Rules.limit(options, :runtime)
    input = input(text, partitions, by, options)

    with {:ok, guest} <- Module.built_in(runtime),
         {:ok, instances} <- instances(guest, input, options, System.schedulers_online()),
         routes = %__MODULE__{runtime: runtime, instances: List.to_tuple(instances), partitions: partitions, keys: %{}},
         {:ok, types} <- types(routes),
         do: {:ok, %{routes | keys: keys(types, by)}}
  end

  defp input(text, partitions, by, options) do
    limits = options |> Rules.check_new!() |> Rules.limits()
    :erlang.term_to_binary(List.to_tuple([text | limits] ++ [partitions, named(by)]))
  end

  defp named(by) when is_atom(by) or is_binary(by), do: to_string(by)

  defp named(by),
    do: for({type, field} <- by, do: {to_string(type), if(field == :all, do: :all, else: to_string(field))})

  # One for each scheduler, because an instance makes one call at a time.
  defp instances(_guest, _input, _options, 0), do: {:ok, []}

  defp instances(guest, input, options, count) do
    with {:ok, instance, _warnings} <- Module.compile(guest, Rules.limit(options, :memory), input, budget(options)),
         {:ok, more} <- instances(guest, input, options, count - 1),
         do: {:ok, [instance | more]}
  end

  # The engines of the partitions compile the same text, and report its warnings.
  defp budget(options),
    do: %{fuel: :infinity, timeout: :infinity, fuel_per_reduction: Rules.limit(options, :fuel_per_reduction)}

  defp types(routes) do
    with {:ok, output} <- Instance.call(routes.runtime, elem(routes.instances, 0), "be_tree_info", [], nil),
         {:ok, info} <- Rules.Reply.info(output),
         do: {:ok, Map.keys(info.types)}
  end

  defp keys(types, by) when is_atom(by) or is_binary(by), do: Map.new(types, &{&1, to_string(by)})

  defp keys(types, by) do
    named = Map.new(named(by))
    Map.new(types, &{&1, Map.fetch!(named, &1)})
  end

  # The latest time of a fact in docs/contributing/abi.md that allows any.
  @any_time 0x7FFF_FFFF_FFFF_FFFF

  @typedoc "The partition, place in the input and time of each fact, as the module packs them."
  @type packed :: binary

  @doc """
  Checks facts, the input of the module, and finds their partitions in at most `timeout` milliseconds. None may have a later time than
  `latest`.
  """
  @spec pack(t, binary, Rules.time() | nil, timeout) :: {:ok, packed} | {:error, Error.t()}
  def pack(routes, input, latest, timeout) do
    instance = elem(routes.instances, rem(:erlang.system_info(:scheduler_id) - 1, tuple_size(routes.instances)))

    with {:ok, output} <-
           Instance.call(
             routes.runtime,
             instance,
             "be_tree_route",
             [byte_size(input), min(latest || @any_time, @any_time)],
             input,
             scheduler: :slices,
             timeout: timeout
           ),
         do: packed(output)
  end

  @doc "Returns whether each fact has a time."
  @spec timed?(packed) :: boolean
  def timed?(packed), do: for(<<_place::96, 0::little-32, _time::64 <- packed>>, do: :untimed) == []

  @doc """
  Returns the operations of each partition, and the event time after them. `time` is the event time before them. A fact without a time
  has the later of `time` and `now`, and 0 without either.
  """
  @spec divide(t, packed, binary, Rules.time() | nil, Rules.time() | nil) ::
          {%{non_neg_integer => part}, Rules.time() | nil}
  def divide(%{partitions: partitions}, packed, input, time, now) do
    {parts, time} = divide(packed, 0, input, partitions, time, now, %{})
    {Map.new(parts, fn {number, part} -> {number, done(part)} end), time}
  end

  defp packed(output) do
    case Reply.term(output) do
      {:ok, packed} when is_binary(packed) -> {:ok, packed}
      _other -> {:error, Reply.bad("routes of the wrong shape")}
    end
  end

  # A part in progress: a lower bound of its partition's time, the facts since the last operation, and the operations and positions
  # so far, all in reverse.
  defp divide(<<>>, _position, _input, _partitions, time, _now, parts), do: {parts, time}

  defp divide(
         <<number::little-32, start::little-32, length::little-32, timed::little-32, at::little-signed-64,
           rest::binary>>,
         position,
         input,
         partitions,
         time,
         now,
         parts
       ) do
    fact = {position, binary_part(input, start, length)}
    at = if timed == 1, do: at

    parts =
      if number == @all,
        do: Enum.reduce(0..(partitions - 1), parts, &add(&2, &1, fact, at, time)),
        else: add(parts, number, fact, at, time)

    divide(rest, position + 1, input, partitions, later(time, at || now), now, parts)
  end

  # An engine without a time has the time 0 after a fact without one.
  defp later(nil, nil), do: 0
  defp later(nil, at), do: at
  defp later(time, nil), do: time
  defp later(time, at), do: max(time, at)

  defp add(parts, number, {position, bytes}, at, time) do
    {reached, facts, operations, positions} = Map.get(parts, number, {nil, [], [], []})
    is_behind = time != nil and (at == nil or at < time) and (reached == nil or reached < time)

    {reached, facts, operations} =
      if is_behind, do: {time, [], [{:advance, time} | flushed(facts, operations)]}, else: {reached, facts, operations}

    reached = if at && (reached == nil or reached < at), do: at, else: reached
    Map.put(parts, number, {reached, [bytes | facts], operations, [position | positions]})
  end

  defp flushed([], operations), do: operations
  defp flushed(facts, operations), do: [{:assert, encoded(facts)} | operations]

  # A list as an external term.
  defp encoded(facts), do: IO.iodata_to_binary([<<131, 108, length(facts)::32>>, Enum.reverse(facts), 106])

  defp done({_reached, facts, operations, positions}),
    do: %{operations: Enum.reverse(flushed(facts, operations)), positions: Enum.reverse(positions)}
end
