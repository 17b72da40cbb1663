defmodule BeTree.Tenants.Quota do
  @moduledoc false
  # The quota of a tenant: a token bucket of fuel, and a limit of memory.
  #
  # The bucket is one number. The monotonic clock, multiplied by the rate, is the fuel that the bucket has received since it was made,
  # its *position*. `spent_until` is the position at which all fuel spent so far is paid. So `spent_until - position` is the debt,
  # `burst - debt` is the fuel that is left, and nothing has to refill the bucket. A charge moves `spent_until` forward from itself
  # or from the position, whichever is later. All of it is integer arithmetic, so two runs with the same times admit the same calls.
  #
  # The fuel of a call is known when it ends. A call is admitted while any fuel is left, and may leave a debt, which later calls wait for.

  alias BeTree.Error
  alias BeTree.Input.{Describe, Limits, Options}

  @microseconds 1_000_000

  # Fuel a second. Seconds of a year times this fit the integers of 60 bits that need no memory.
  @max_rate 10_000_000_000
  # With the greatest position the sum has 63 bits.
  @max_burst 1_000_000_000_000_000

  # Slots of the atomics of a tenant. `last_use/1` shares them.
  @last_use 1
  @spent_until 2
  @warned 3
  @slots 3

  # Percent of the burst, in the order of the numbers in the slot @warned.
  @thresholds {80, 100}

  @definitions [
    rate: [type: {:integer, 1, @max_rate}, doc: "the fuel that the bucket receives in a second"],
    burst: [
      type: {:nullable, {:integer, 1, @max_burst}},
      default: nil,
      default_doc: "the rate",
      doc: "the fuel that the bucket holds"
    ],
    memory: [
      type: {:nullable, {:bytes, 1, Limits.max_u64()}},
      default: nil,
      doc:
        "the bytes that the index and the statistics of the tenant may take, or `nil`. A change that needs more is refused"
    ],
    overflow: [
      type: {:one_of, [:error, :sample]},
      default: :error,
      doc:
        "what a match returns while the bucket is empty: `:error` an error of kind `:quota`, and `:sample` the atom `:skipped`. " <>
          "Skipped events are counted (`BeTree.Tenants.usage/2`)"
    ]
  ]

  @enforce_keys [:rate, :burst, :memory, :overflow]
  defstruct @enforce_keys

  @typedoc "`:rate` is `nil` if only memory is limited."
  @type t :: %__MODULE__{
          rate: pos_integer | nil,
          burst: pos_integer | nil,
          memory: pos_integer | nil,
          overflow: :error | :sample
        }

  @typedoc "What a match reads: the rate, the burst, the overflow, and the time at which the position was 0."
  @type bucket :: {rate :: pos_integer, burst :: pos_integer, :error | :sample, base :: integer} | nil

  @doc "Returns the documentation of the options of a quota."
  @spec docs() :: String.t()
  def docs, do: Options.docs(@definitions)

  @doc "Returns whether `value` is a quota: `nil`, or a keyword list of options."
  @spec valid?(term) :: boolean
  def valid?(value) do
    new!(value)
    true
  rescue
    ArgumentError -> false
  end

  @doc "Returns the quota of these options. Raises an `ArgumentError` for others."
  @spec new!(term) :: t | nil
  def new!(nil), do: nil

  def new!(options) do
    options = options |> Options.validate!(@definitions) |> Map.new()
    rate = Map.get(options, :rate)

    if rate == nil and options.memory == nil,
      do: raise(ArgumentError, "a quota has a :rate, a :memory or both, got: #{Describe.value([])}")

    %__MODULE__{
      rate: rate,
      burst: options.burst || rate,
      memory: options.memory,
      overflow: options.overflow
    }
  end

  @doc "Returns the option `quota:` of a quota, as `new!/1` takes it."
  @spec option(t | nil) :: keyword | nil
  def option(nil), do: nil
  def option(%__MODULE__{rate: nil} = quota), do: quota |> Map.take([:burst, :memory, :overflow]) |> Enum.sort()
  def option(%__MODULE__{} = quota), do: quota |> Map.from_struct() |> Enum.sort()

  ## The bucket

  @doc "Returns the atomics of a tenant."
  @spec new_slots() :: :atomics.atomics_ref()
  def new_slots, do: :atomics.new(@slots, signed: true)

  @doc "Returns the bucket of a quota, which begins at the time `now` with this debt."
  @spec bucket(t | nil, :atomics.atomics_ref(), debt :: non_neg_integer, now :: integer) :: bucket
  def bucket(%__MODULE__{rate: rate, burst: burst, overflow: overflow}, slots, debt, now) when rate != nil do
    :atomics.put(slots, @spent_until, debt)
    {rate, burst, overflow, now}
  end

  def bucket(_no_rate, _slots, _debt, _now), do: nil

  @doc "Returns the fuel that is left, negative for a debt beyond the burst."
  @spec left(bucket, :atomics.atomics_ref(), now :: integer) :: integer | :infinity
  def left(nil, _slots, _now), do: :infinity
  def left({_rate, burst, _overflow, _base} = bucket, slots, now), do: burst - debt(bucket, slots, now)

  @doc "Returns the fuel that was spent and is not paid yet."
  @spec debt(bucket, :atomics.atomics_ref(), now :: integer) :: non_neg_integer
  def debt(nil, _slots, _now), do: 0

  def debt({rate, _burst, _overflow, base}, slots, now),
    do: max(:atomics.get(slots, @spent_until) - position(rate, now - base), 0)

  @doc "Charges the bucket. Returns the threshold in percent of the burst that this charge reached first, or `nil`."
  @spec charge(bucket, :atomics.atomics_ref(), non_neg_integer, now :: integer) :: pos_integer | nil
  def charge(nil, _slots, _fuel, _now), do: nil

  def charge({rate, burst, _overflow, base}, slots, fuel, now) do
    position = position(rate, now - base)
    spent = spend(slots, position, fuel, :atomics.get(slots, @spent_until))
    warn(slots, level(spent - position, burst), :atomics.get(slots, @warned))
  end

  defp spend(slots, position, fuel, before) do
    spent = max(before, position) + fuel

    case :atomics.compare_exchange(slots, @spent_until, before, spent) do
      :ok -> spent
      other -> spend(slots, position, fuel, other)
    end
  end

  # Seconds and the rest apart, so that no product needs more than 60 bits.
  defp position(rate, elapsed),
    do: div(elapsed, @microseconds) * rate + div(rem(elapsed, @microseconds) * rate, @microseconds)

  defp level(debt, burst) when debt >= burst, do: 2
  defp level(debt, burst) when 5 * debt >= 4 * burst, do: 1
  defp level(debt, burst) when 2 * debt < burst, do: 0
  # Between half and 80 percent a warning stays given, so that a tenant near a threshold is not told again and again.
  defp level(_debt, _burst), do: nil

  defp warn(_slots, nil, _warned), do: nil
  defp warn(_slots, level, level), do: nil
  defp warn(_slots, 1, 2), do: nil

  defp warn(slots, level, warned) do
    # Of concurrent callers one warns.
    if :atomics.compare_exchange(slots, @warned, warned, level) == :ok and level > warned,
      do: elem(@thresholds, level - 1)
  end

  @doc "Returns the error for a call that the bucket does not admit."
  @spec refusal(bucket, :atomics.atomics_ref(), now :: integer) :: Error.t()
  def refusal({rate, burst, _overflow, _base} = bucket, slots, now) do
    owed = max(debt(bucket, slots, now) - burst, 0)
    wait = div((owed + 1) * 1_000 + rate - 1, rate)

    message =
      "the tenant has used its quota: #{-owed} of #{burst} fuel are left; at #{rate} fuel a second there is some again in #{wait} ms"

    %Error{kind: :quota, message: message, retry_after: wait}
  end

  @doc "Returns the error for a change that needs more memory than the quota allows."
  @spec memory_refusal(t, non_neg_integer) :: Error.t()
  def memory_refusal(%__MODULE__{memory: memory}, bytes) do
    message =
      "the tenant would take #{bytes} bytes, and its quota allows #{memory}; delete expressions or raise `memory:` of the quota"

    %Error{kind: :quota, message: message}
  end

  ## The last use

  @doc "Records the time of a use."
  @spec used(:atomics.atomics_ref(), now :: integer) :: :ok
  def used(slots, now), do: :atomics.put(slots, @last_use, now)

  @doc "Returns the time of the last use."
  @spec last_use(:atomics.atomics_ref()) :: integer
  def last_use(slots), do: :atomics.get(slots, @last_use)
end
