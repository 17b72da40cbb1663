defmodule BeTree.Runtime.Wasmex.Machine do
  @moduledoc false
  # A store of wasmex with one instance. A store executes requests in order, on wasmex's threads, and sends a reply to
  # each. The messages cost more than the work, so requests that belong together are sent at once, and then awaited
  # (`round/2`).
  #
  # For that this module, and no other, calls the private functions behind wasmex's public ones: each public function waits
  # for its reply.

  import Bitwise

  alias BeTree.Error
  alias BeTree.Runtime.Wasmex.Compiled
  alias Wasmex.{Instance, Native, Store, StoreOrCaller}

  # wasmex may be added after this module was compiled.
  @compile {:no_warn_undefined, [Instance, Native, Store, StoreOrCaller]}

  # The scheduler copies bytes to wasmex in pieces, each in less time than a slice.
  @piece 256 * 1024

  # The most fuel of a start function, and of each call of the inbox or the outbox, as in the built-in runtime.
  @convention_fuel 1_000_000_000

  @max_u64 BeTree.Input.Limits.max_u64()

  # The data about a machine between calls: one atomic number each, changed only by the holder of the machine.
  #
  #   inbox, capacity        the address and the size of the inbox; 0 if it must be requested
  #   input                  the bytes of the last input
  #   result, length         the address and the bytes of the last list of numbers, which predict those of the next one
  #   torn                   1 from the beginning of a call until it ends by itself
  #   filled                 1 if a replica equals its snapshot, except for the remains of searches
  #   bytes                  the last known size of the memory
  #   used, slice, progress  of a suspended call: the fuel so far, the fuel of the next slice, and the progress
  @cells [:inbox, :capacity, :input, :result, :length, :torn, :filled, :bytes, :used, :slice, :progress]

  @derive {Inspect, only: []}
  @enforce_keys [:store, :instance, :memory, :cells, :stack_pointer, :outbox]
  defstruct @enforce_keys

  @type t :: %__MODULE__{}

  @type operation ::
          {:fuel, non_neg_integer}
          | :fuel_left
          | {:call, String.t(), [integer | float]}
          | {:global, String.t(), number}
          | {:global, String.t()}
          | {:write, non_neg_integer, binary}
          | {:read, non_neg_integer, non_neg_integer}
          | {:grow, pages :: pos_integer}
          | :size

  # The functions that are called below, with their arities in wasmex 0.15.
  @functions [
    store_or_caller_set_fuel: 3,
    store_or_caller_get_fuel: 2,
    instance_call_exported_function: 6,
    instance_set_global_value: 5,
    instance_get_global_value: 4,
    memory_write_binary: 5,
    memory_read_binary: 5,
    memory_grow: 4,
    memory_size: 3
  ]

  @doc "Returns `:ok` if wasmex is present and has these functions, or an error with the reason."
  @spec usable() :: :ok | {:error, String.t()}
  def usable do
    cond do
      not Code.ensure_loaded?(Native) -> {:error, "the application wasmex, whose NIF it needs, cannot be loaded"}
      Enum.all?(@functions, fn {name, arity} -> function_exported?(Native, name, arity) end) -> :ok
      true -> {:error, "it takes wasmex 0.15, from 0.15.1 on"}
    end
  end

  @doc "Returns a machine with a new instance, whose memory takes at most `limit` bytes, and each table an eighth of that."
  @spec new(Compiled.engine(), Compiled.t(), pos_integer, String.t() | nil) :: {:ok, t} | {:error, Error.t()}
  def new(engine, compiled, limit, outbox) do
    limits = [memory_size: min(limit, @max_u64), table_elements: div(limit, 8), memories: 1]

    with {:ok, store} <- Store.new(struct!(Wasmex.StoreLimits, limits), engine),
         :ok <- StoreOrCaller.set_fuel(store, @convention_fuel),
         {:ok, instance} <- instance(store, compiled),
         {:ok, memory} <- memory(store, instance, compiled.exports),
         {:ok, stack_pointer} <- stack_pointer(store, instance, compiled.exports) do
      machine = %__MODULE__{
        store: store.resource,
        instance: instance.resource,
        memory: memory,
        cells: :atomics.new(length(@cells), signed: false),
        stack_pointer: stack_pointer,
        outbox: nil
      }

      measure(machine)
      find_outbox(machine, outbox)
    end
  end

  defp instance(store, compiled) do
    with {:error, reason} <- Instance.new(store, compiled.module, %{}) do
      cond do
        # wasmex drops the reason of a trap, except for this one.
        StoreOrCaller.get_fuel(store) == {:ok, 0} ->
          error(:out_of_fuel, "the start function takes more than #{@convention_fuel} fuel")

        reason =~ "wasm backtrace" ->
          error(:trap, "the start function trapped: #{reason}")

        true ->
          error(:out_of_memory, "the module starts with more memory than its limit: #{reason}")
      end
    end
  end

  defp memory(store, instance, %{"memory" => {:memory, _bits, _minimum, _maximum}}) do
    with {:ok, memory} <- Instance.memory(store, instance), do: {:ok, memory.resource}
  end

  defp memory(_store, _instance, _exports), do: {:ok, nil}

  defp stack_pointer(store, instance, %{"__stack_pointer" => {:global, type, :mutable}}) when type in [:i32, :i64] do
    Instance.get_global_value(store, instance, "__stack_pointer")
  end

  defp stack_pointer(_store, _instance, _exports), do: {:ok, nil}

  defp find_outbox(machine, nil), do: {:ok, machine}

  defp find_outbox(machine, name) do
    with {:ok, address} <- convention(machine, name, []) do
      case get(machine, :bytes) do
        size when address + 8 > size -> outside("the outbox", address, 8, size)
        _size -> {:ok, %{machine | outbox: address}}
      end
    end
  end

  @doc "Calls an export of the convention, which returns an address."
  @spec convention(t, String.t(), [integer]) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def convention(machine, name, arguments) do
    before = restore_operations(machine)
    put(machine, :torn, 1)
    replies = round(machine, before ++ [{:fuel, @convention_fuel}, {:call, name, arguments}, :size])

    case Enum.take(replies, -2) do
      [{:ok, [address]}, size] ->
        put(machine, :torn, 0)
        if is_integer(size), do: put(machine, :bytes, size)
        {:ok, address &&& 0xFFFF_FFFF}

      [{:error, reason}, _size] ->
        {:error, failure(reason)}
    end
  end

  @doc "Returns the requests that prepare a machine for a new call if the last one did not end by itself."
  @spec restore_operations(t) :: [operation]
  def restore_operations(machine) do
    case get(machine, :torn) do
      0 -> []
      1 when machine.outbox == nil -> stack_operations(machine)
      1 -> [{:write, machine.outbox + 8, <<0::32>>} | stack_operations(machine)]
    end
  end

  @doc "Returns the requests that empty the stack after a trap."
  @spec stack_operations(t) :: [operation]
  def stack_operations(%__MODULE__{stack_pointer: nil}), do: []
  def stack_operations(%__MODULE__{stack_pointer: first}), do: [{:global, "__stack_pointer", first}]

  @doc "Reads bytes of the memory. `owner` names their owner in an error, such as `the outbox`."
  @spec read(t, String.t(), non_neg_integer, non_neg_integer) :: {:ok, binary} | {:error, Error.t()}
  def read(machine, owner, address, length) do
    case round(machine, [{:read, address, length}, :size]) do
      [bytes, _size] when is_binary(bytes) -> {:ok, bytes}
      [{:error, _reason}, size] -> outside(owner, address, length, size)
    end
  end

  @doc "Requests the size of the memory, and keeps it."
  @spec measure(t) :: non_neg_integer
  def measure(%__MODULE__{memory: nil}), do: 0

  def measure(machine) do
    [size] = round(machine, [:size])
    put(machine, :bytes, size)
    size
  end

  @doc "Returns the requests that write bytes of any length."
  @spec write_operations(non_neg_integer, binary) :: [operation]
  def write_operations(address, <<piece::binary-size(@piece), rest::binary>>) when rest != "" do
    [{:write, address, piece} | write_operations(address + @piece, rest)]
  end

  def write_operations(address, bytes), do: [{:write, address, bytes}]

  @doc "Returns the number that is kept under `name`."
  @spec get(t, atom) :: non_neg_integer
  @spec put(t, atom, non_neg_integer) :: :ok
  for {name, index} <- Enum.with_index(@cells, 1) do
    def get(%__MODULE__{cells: cells}, unquote(name)), do: :atomics.get(cells, unquote(index))
    def put(%__MODULE__{cells: cells}, unquote(name), value), do: :atomics.put(cells, unquote(index), value)
  end

  @doc "Executes all requests in order, and returns their replies, with `{:error, reason}` for a failed one."
  @spec round(t, [operation]) :: [term]
  def round(machine, operations) do
    reference = make_ref()
    submit_all(operations, machine, reference, 0)
    replies(operations, reference, 0)
  end

  defp submit_all([], _machine, _reference, _number), do: :ok

  defp submit_all([operation | operations], machine, reference, number) do
    :ok = submit(operation, machine, {self(), {reference, number}})
    submit_all(operations, machine, reference, number + 1)
  end

  defp replies([], _reference, _number), do: []

  defp replies([_operation | operations], reference, number) do
    receive do
      {{^reference, ^number}, reply} -> [reply | replies(operations, reference, number + 1)]
    end
  end

  defp submit({:fuel, fuel}, machine, from), do: Native.store_or_caller_set_fuel(machine.store, fuel, from)
  defp submit(:fuel_left, machine, from), do: Native.store_or_caller_get_fuel(machine.store, from)

  defp submit({:call, export, arguments}, machine, from) do
    Native.instance_call_exported_function(machine.store, machine.instance, export, arguments, from, nil)
  end

  defp submit({:global, name, value}, machine, from) do
    Native.instance_set_global_value(machine.store, machine.instance, name, value, from)
  end

  defp submit({:global, name}, machine, from) do
    Native.instance_get_global_value(machine.store, machine.instance, name, from)
  end

  defp submit({:write, address, bytes}, machine, from) do
    Native.memory_write_binary(machine.store, machine.memory, address, bytes, from)
  end

  defp submit({:read, address, length}, machine, from) do
    Native.memory_read_binary(machine.store, machine.memory, address, length, from)
  end

  defp submit({:grow, pages}, machine, from), do: Native.memory_grow(machine.store, machine.memory, pages, from)
  defp submit(:size, machine, from), do: Native.memory_size(machine.store, machine.memory, from)

  @doc "Returns whether a call failed for lack of fuel."
  @spec out_of_fuel?(String.t()) :: boolean
  def out_of_fuel?(reason), do: String.contains?(reason, "all fuel consumed")

  @doc "Returns the error for a call that failed."
  @spec failure(String.t()) :: Error.t()
  def failure(reason) do
    if out_of_fuel?(reason) do
      %Error{kind: :out_of_fuel, message: "the call used all of its fuel; give it a larger budget"}
    else
      %Error{kind: :trap, message: trap(reason)}
    end
  end

  # Returns the name of the trap, without its place.
  defp trap(reason) do
    case Regex.run(~r/\((wasm trap: .*?)\): /, reason) do
      [_all, trap] -> trap
      nil -> reason
    end
  end

  @doc "Returns the error for bytes that the module places outside its memory."
  @spec outside(String.t(), non_neg_integer, non_neg_integer, non_neg_integer) :: {:error, Error.t()}
  def outside(owner, address, length, size) do
    error(:bad_module, "#{owner} is #{length} bytes at #{address}, outside of the memory of #{size} bytes")
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
