defmodule BeTree.Tenants.Partition.State do
  @moduledoc false
  # The state of a partition (BeTree.Tenants.Partition), and its bookkeeping: the copies in memory, the operations that wait, and the
  # sizes that all partitions share.

  alias BeTree.Processes.Log
  alias BeTree.{Error, Telemetry}
  alias BeTree.Input.Describe
  alias BeTree.Tenants.{Clock, Copy, Directory, Shards, Victims}

  @enforce_keys [:directory, :partition, :shards]
  defstruct @enforce_keys ++
              [
                copies: %{},
                bytes: 0,
                busy: %{},
                pending: %{},
                leaving: %{},
                leaving_bytes: 0,
                unsaved: [],
                round_began: nil,
                victims: Victims.new(),
                error: nil,
                stuck: false,
                expired: nil
              ]

  @typedoc "Continues an operation with the reply that it waited for."
  @type finish :: (reply :: term, t -> t)

  @typedoc """
    * `:copies` - the tenants in memory; `:bytes` - the sum of their bytes;
    * `:busy` - the tenants with an operation that waits for the store or for a move, each with the operations that wait for that, last
      one first;
    * `:pending` - by the reference of an answer, the tenant or `nil`, and what happens then;
    * `:leaving` - the bytes of the copies that leave, by tenant, and `:leaving_bytes` their sum;
    * `:unsaved` - the tenants whose statistics the present round has still to write, and `:round_began` the time of its begin in
      milliseconds;
    * `:victims` - the least recently used tenants;
    * `:error` - the error of the store that was logged, `nil` after a success; `:stuck` - whether it failed since the last round, which
      stops evictions until the next;
    * `:expired` - the day on which this process last let the store remove old days.
  """
  @type t :: %__MODULE__{
          directory: Directory.t(),
          partition: non_neg_integer,
          shards: Shards.t(),
          copies: %{term => Copy.t()},
          bytes: non_neg_integer,
          busy: %{term => [{request :: tuple, GenServer.from()}]},
          pending: %{reference => {{:tenant, term} | nil, finish}},
          leaving: %{term => non_neg_integer},
          leaving_bytes: non_neg_integer,
          unsaved: [term],
          round_began: integer | nil,
          victims: Victims.t(),
          error: Error.t() | nil,
          stuck: boolean,
          expired: Clock.day() | nil
        }

  @doc "Returns the state of a partition without copies."
  @spec new(Directory.t(), non_neg_integer) :: t
  def new(directory, partition),
    do: %__MODULE__{directory: directory, partition: partition, shards: Shards.new(directory, partition)}

  ## Operations that wait

  @doc "Makes later operations of the tenant wait until this process has the answer with this reference."
  @spec wait(t, term, reference, finish) :: t
  def wait(%{busy: busy} = state, tenant, reference, finish),
    do: expect(%{state | busy: Map.put(busy, tenant, [])}, {:tenant, tenant}, reference, finish)

  @doc "Calls `finish` at the answer with this reference. No operation waits for it."
  @spec expect(t, reference, finish) :: t
  def expect(state, reference, finish), do: expect(state, nil, reference, finish)

  defp expect(state, tenant, reference, finish),
    do: %{state | pending: Map.put(state.pending, reference, {tenant, finish})}

  @doc "Finishes what waited for the answer. Returns the operations that waited for that, the first one first."
  @spec answer(t, reference, term) :: {[{request :: tuple, GenServer.from()}], t}
  def answer(%{pending: pending} = state, reference, reply) do
    case Map.pop!(pending, reference) do
      {{nil, finish}, pending} ->
        {[], finish.(reply, %{state | pending: pending})}

      {{{:tenant, tenant}, finish}, pending} ->
        {waiting, busy} = Map.pop(state.busy, tenant, [])
        {Enum.reverse(waiting), finish.(reply, %{state | pending: pending, busy: busy})}
    end
  end

  ## Copies

  @doc "Adds a copy that has entered a shard."
  @spec arrived(t, Copy.t()) :: t
  def arrived(%{copies: copies, bytes: bytes} = state, copy),
    do: put_sizes(%{state | copies: Map.put(copies, copy.tenant, copy), bytes: bytes + copy.bytes})

  @doc "Replaces a copy by what it has become."
  @spec put_copy(t, Copy.t()) :: t
  def put_copy(%{copies: copies, bytes: bytes} = state, copy) do
    bytes = bytes + copy.bytes - copies[copy.tenant].bytes
    put_sizes(%{state | copies: %{copies | copy.tenant => copy}, bytes: bytes})
  end

  @doc "Counts a copy no longer among those that stay."
  @spec leaves(t, Copy.t()) :: t
  def leaves(%{leaving: leaving} = state, %{tenant: tenant}) when is_map_key(leaving, tenant), do: state

  def leaves(%{leaving: leaving, copies: copies} = state, %{tenant: tenant}) do
    %{bytes: bytes} = Map.fetch!(copies, tenant)
    leaving = Map.put(leaving, tenant, bytes)
    put_sizes(%{state | leaving: leaving, leaving_bytes: state.leaving_bytes + bytes})
  end

  @doc "Takes `leaves/2` back."
  @spec stays(t, term) :: t
  def stays(state, tenant), do: state |> forget_leaving(tenant) |> put_sizes()

  defp forget_leaving(%{leaving: leaving, leaving_bytes: sum} = state, tenant) do
    {bytes, leaving} = Map.pop(leaving, tenant, 0)
    %{state | leaving: leaving, leaving_bytes: sum - bytes}
  end

  @doc "Removes a copy that has left its shard."
  @spec left(t, Copy.t()) :: t
  def left(%{copies: copies, bytes: bytes, shards: shards} = state, %{tenant: tenant} = copy) do
    {%{bytes: freed}, copies} = Map.pop!(copies, tenant)
    state = %{state | copies: copies, bytes: bytes - freed, shards: Shards.release(shards, copy.shard_id)}
    state |> forget_leaving(tenant) |> put_sizes()
  end

  @doc "Shows the sizes of this partition to all."
  @spec put_sizes(t) :: t
  def put_sizes(%{directory: directory, copies: copies, bytes: bytes, leaving: leaving} = state) do
    hot = map_size(copies)
    staying = {hot - map_size(leaving), bytes - state.leaving_bytes}
    :ok = Directory.put_sizes(directory, state.partition, {hot, bytes}, staying)
    state
  end

  ## Events and errors

  @doc "Emits an event of the tenants."
  @spec emit(t, atom, map, map) :: term
  def emit(%{directory: directory}, event, measurements, metadata) do
    if Telemetry.enabled?(),
      do: Telemetry.event([:tenants, event], measurements, Map.put(metadata, :tenants, directory.name))
  end

  @doc "Notes a success of the store."
  @spec written(t) :: t
  def written(state), do: %{state | error: nil}

  @doc "Notes an error of the store, and logs the first of several."
  @spec warn(t, Error.t()) :: t
  def warn(%{error: nil, directory: directory} = state, error) do
    text = "the tenants #{Describe.value(directory.name)} cannot write to their store: #{Exception.message(error)}"
    Log.error(text)
    %{state | error: error, stuck: true}
  end

  def warn(state, _error), do: %{state | stuck: true}
end
