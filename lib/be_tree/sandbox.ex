defmodule BeTree.Sandbox do
  @moduledoc """
  A sandbox runs any WebAssembly module as a search runs: with metered fuel, slices, reductions and limits.

  The module may loop, recurse, allocate or trap. It reaches nothing outside its own memory, and holds its scheduler for no
  longer than a slice. It need not be written for BeTree. Here is one of 104 bytes, with a memory and two functions: `sum`
  adds the numbers up to its argument in a loop, and `divide` divides:

      iex> wasm =
      ...>   Base.decode64!(
      ...>     "AGFzbQEAAAABDAJgAX8Bf2ACf38BfwMDAgABBQMBAAEHGQMGbWVtb3J5AgADc3VtAAAGZGl2aWRl" <>
      ...>       "AAEKKwIhAQF/AkADQCAARQ0BIAAgAWohASAAQQFrIQAMAAsLIAELBwAgACABbgs="
      ...>   )
      iex> {:ok, module} = BeTree.Sandbox.load(wasm)
      iex> {:ok, sandbox} = BeTree.Sandbox.new(module, memory: 1_000_000)
      iex> {:ok, [5050], stats} = BeTree.Sandbox.call(sandbox, "sum", [100])
      iex> stats
      %{fuel: 1_205, slices: 1}
      iex> {:ok, [50_005_000], %{fuel: 120_005, slices: 120}} = BeTree.Sandbox.call(sandbox, "sum", [10_000], slice: 1_000)
      iex> {:error, error} = BeTree.Sandbox.call(sandbox, "sum", [-1], fuel: 1_000_000)
      iex> error.kind
      :out_of_fuel
      iex> {:error, error} = BeTree.Sandbox.call(sandbox, "divide", [1, 0])
      iex> {error.kind, error.message}
      {:trap, "wasm trap: integer divide by zero"}
      iex> BeTree.Sandbox.call!(sandbox, "divide", [7, 2])
      [3]
      iex> {:yield, call} = BeTree.Sandbox.start(sandbox, "sum", [100], slice: 1_000)
      iex> call
      #BeTree.Sandbox.Call<1 slice, 1000 fuel>
      iex> BeTree.Sandbox.resume(call)
      {:done, [5050], %{fuel: 1_205, slices: 2}}
      iex> :ok = BeTree.Sandbox.write(sandbox, 8, "bytes")
      iex> BeTree.Sandbox.read(sandbox, 9, 4)
      {:ok, "ytes"}

  ## Imports

  A module that imports anything is an error of kind `:bad_module`: no function of the host can be given to it. It takes its
  input as arguments and through its memory.

  ## Limits

  The option `:memory` of `new/2` bounds the memories and tables of an instance together. A call has 512 KiB of stack, and
  traps beyond. An instance has at most 16 memories and 64 tables of 100,000 elements each.

  ## One call at a time

  An instance runs one call at a time. A caller that finds it busy waits for its turn, in order, while its `:timeout` runs. The
  process that itself holds a suspended call gets an error of kind `:overloaded`. Any process may resume a call, with the value
  that its last step returned. A call that no process refers to any more, as after a kill, is cancelled.

  After a trap, a used-up budget, a timeout or a cancelled call, the instance can be called again. Its memory is as the last
  instruction left it, and the global `__stack_pointer`, if it is exported, is restored. Memory that the call allocated stays
  allocated, and data that it was changing may be half changed. If that matters, make a new instance.

  A sandbox needs the built-in runtime, `BeTree.Runtime.Wasmtime`: no other runtime can stop an arbitrary module.
  """

  alias BeTree.{Error, Fuel}
  alias BeTree.Call.{InstanceOptions, Slices}
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Describe, Limits, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Sandbox.{Call, Module}

  require Limits

  @enforce_keys [:instance, :fuel_per_reduction]
  defstruct @enforce_keys

  @typedoc "An instance of a module. Its fields are private."
  @type t :: %__MODULE__{instance: BeTree.Runtime.instance(), fuel_per_reduction: pos_integer}

  @typedoc "An option of `new/2`."
  @type option :: {:memory, pos_integer} | {:fuel_per_reduction, pos_integer}

  @typedoc "An option of `call/4`."
  @type call_option :: {:fuel, Fuel.budget()} | {:slice, Fuel.budget()} | {:timeout, timeout}

  @typedoc """
  The results of an export. Integers are signed; a float that is not finite is `:nan`, `:infinity` or `:negative_infinity`.
  """
  @type results :: [integer | float | :nan | :infinity | :negative_infinity]

  @typedoc "The fuel of a call, the same for every slice, and its number of slices: 1 when it never yielded."
  @type stats :: %{fuel: Fuel.t(), slices: pos_integer}

  @typedoc "The outcome of a slice: the call yielded, is done, or failed and is gone."
  @type outcome :: {:yield, Call.t()} | {:done, results, stats} | {:error, Error.t()}

  @new_options [
                 memory: [
                   type: {:bytes, 1, Limits.max_u64()},
                   default: 64 * 0x10_0000,
                   default_doc: "64 MiB",
                   doc: "the bytes that memories and tables of the instance may take"
                 ]
               ] ++ InstanceOptions.take([:fuel_per_reduction])
  @call_options Common.take([:fuel, :slice, :timeout])
  @defaults Slices.defaults()

  @doc """
  Compiles the module in `wasm`, each binary once. Returns `{:ok, module}`.

  Compiling takes milliseconds to seconds, on a busy machine minutes, on a thread of the runtime and not on a scheduler.

  Returns `{:error, error}` with the kind `:bad_module` for bytes that are no module, or a module that imports anything,
  `:out_of_memory` or `:overloaded`.

      iex> {:ok, module} = BeTree.Sandbox.load(<<0, "asm", 1::little-32>>)
      iex> module
      #BeTree.Sandbox.Module<0 exports>
      iex> {:error, error} = BeTree.Sandbox.load("nonsense")
      iex> error.kind
      :bad_module
  """
  @spec load(binary) :: {:ok, Module.t()} | {:error, Error.t()}
  def load(wasm) when is_binary(wasm) do
    with {:ok, compiled} <- Wasmtime.load(wasm),
         :ok <- check_imports(Wasmtime.imports(compiled)),
         do: {:ok, %Module{compiled: compiled}}
  end

  def load(other), do: Check.expected!("the bytes of a WebAssembly module", other)

  @doc "Like `load/1`, but returns the module and raises on error."
  @spec load!(binary) :: Module.t()
  def load!(wasm), do: Bang.unwrap!(load(wasm))

  defp check_imports([]), do: :ok

  defp check_imports(imports) do
    names = Enum.map_join(imports, ", ", fn {module, name, _type} -> "#{module}.#{name}" end)
    {:error, %Error{kind: :bad_module, message: "the module imports #{names}; a sandbox has nothing to import"}}
  end

  @doc """
  Returns an instance of a module, with its own memory. The call runs on a dirty scheduler, for about 10 microseconds if the
  module has little data and no long start function.

  ## Options

  #{Options.docs(@new_options)}

  Returns `{:error, error}` with the kind `:out_of_memory` when the module starts with more memory, `:trap` when its start
  function traps, or `:out_of_fuel` when it takes more than about 0.2 seconds. Raises an `ArgumentError` for an unknown or
  wrong option.
  """
  @spec new(Module.t(), [option]) :: {:ok, t} | {:error, Error.t()}
  def new(module, options \\ [])

  def new(%Module{compiled: compiled}, options) do
    options = Options.validate!(options, @new_options)

    with {:ok, instance} <- Wasmtime.instantiate(compiled, memory: options[:memory]),
         do: {:ok, %__MODULE__{instance: instance, fuel_per_reduction: options[:fuel_per_reduction]}}
  end

  def new(other, _options), do: Check.expected!("a BeTree.Sandbox.Module", other)

  @doc "Like `new/2`, but returns the instance and raises on error."
  @spec new!(Module.t(), [option]) :: t
  def new!(module, options \\ []), do: Bang.unwrap!(new(module, options))

  @doc """
  Calls an export with numbers and returns `{:ok, results, stats}`, with any number of results.

  The call runs slice by slice on the scheduler of the calling process. After each slice the process is charged one reduction
  for each `fuel_per_reduction` fuel, so the scheduler preempts it as it preempts Erlang code of the same length. A call costs
  about a microsecond in addition to the work of the module. Integers are given signed or unsigned, floats as floats or integers.

  ## Options

  #{Options.docs(@call_options)}

  Returns `{:error, error}` with the kind

    * `:bad_module` for an export that is missing, is no function, or has a type that cannot be passed (vectors and references);
    * `:type` for arguments that do not fit;
    * `:trap` for a trap, a used-up stack included;
    * `:out_of_memory` when the module stopped after it was refused memory;
    * `:out_of_fuel`, `:timeout` or `:overloaded`.

  Raises an `ArgumentError` for an unknown or wrong option.
  """
  @spec call(t, String.t(), [integer | float], [call_option]) :: {:ok, results, stats} | {:error, Error.t()}
  def call(sandbox, export, arguments, options \\ []) do
    with {:done, results, stats} <- finish(start(sandbox, export, arguments, options)), do: {:ok, results, stats}
  end

  @doc "Like `call/4`, but returns the results alone and raises on error."
  @spec call!(t, String.t(), [integer | float], [call_option]) :: results
  def call!(sandbox, export, arguments, options \\ []) do
    {results, _stats} = Bang.unwrap!(call(sandbox, export, arguments, options))
    results
  end

  defp finish({:yield, call}), do: finish(resume(call))
  defp finish(ended), do: ended

  @doc "Starts a call and runs its first slice. Takes the arguments of `call/4`."
  @spec start(t, String.t(), [integer | float], [call_option]) :: outcome
  def start(sandbox, export, arguments, options \\ []) do
    instance = check_sandbox(sandbox)
    unless is_binary(export), do: Check.expected!("the name of an export, a string", export)

    options = check(options)
    %{fuel: fuel, timeout: timeout} = options
    slice = Slices.fuel_of_slice(options, Wasmtime)
    request = %{input: nil, output: :none, fuel: fuel, slice: slice, scheduler: :normal, timeout: timeout}
    slices = Slices.new(Wasmtime, &Wasmtime.continue/1, sandbox.fuel_per_reduction, options)

    instance
    |> Wasmtime.invoke(export, arguments, request)
    |> Slices.settle(slices)
    |> outcome()
  end

  @doc """
  Runs the next slice of a call that yielded.

  Returns `{:error, error}` with the kinds of `call/4`, and `:not_found` when the call is done or was cancelled.
  """
  @spec resume(Call.t()) :: outcome
  def resume(%Call{slices: slices}), do: outcome(Slices.resume(slices))
  def resume(other), do: Check.expected!("a BeTree.Sandbox.Call", other)

  @doc "Cancels a call. Its instance is free for the next one."
  @spec cancel(Call.t()) :: :ok
  def cancel(%Call{slices: slices}), do: Slices.cancel(slices)
  def cancel(other), do: Check.expected!("a BeTree.Sandbox.Call", other)

  defp outcome({:yield, slices}), do: {:yield, %Call{slices: slices}}
  defp outcome({:done, results, nil, slices}), do: {:done, results, %{fuel: slices.fuel, slices: slices.count}}
  defp outcome({:error, error}), do: {:error, error}

  defp check([]), do: @defaults
  defp check(options), do: Options.put!(@defaults, options, @call_options)

  @doc """
  Returns `length` bytes from `address` of the memory that is exported as `memory`. The call runs on a dirty scheduler for some
  microseconds.

  ## Options

  #{Options.docs(Common.timeout("milliseconds that the call may wait for the instance, or `:infinity`"))}

  Returns `{:error, error}` with the kind `:bad_module` for addresses outside the memory or a module without one, `:overloaded`
  or `:timeout`.
  """
  @spec read(t, non_neg_integer, non_neg_integer, timeout: timeout) :: {:ok, binary} | {:error, Error.t()}
  def read(sandbox, address, length, options \\ []) do
    instance = check_sandbox(sandbox)
    check_amount(:address, address)
    check_amount(:length, length)
    timeout = Check.timeout!(options)
    Wasmtime.read(instance, address, length, timeout)
  end

  @doc "Writes `bytes` at `address` of the memory. Options and errors are those of `read/4`."
  @spec write(t, non_neg_integer, binary, timeout: timeout) :: :ok | {:error, Error.t()}
  def write(sandbox, address, bytes, options \\ []) do
    instance = check_sandbox(sandbox)
    check_amount(:address, address)
    unless is_binary(bytes), do: raise(ArgumentError, "the bytes are a binary, got: #{Describe.value(bytes)}")
    timeout = Check.timeout!(options)
    Wasmtime.write(instance, address, bytes, timeout)
  end

  defp check_sandbox(%__MODULE__{instance: instance}), do: instance
  defp check_sandbox(other), do: Check.expected!("a BeTree.Sandbox", other)

  # The runtime takes any unsigned 64-bit integer, and refuses one outside of the memory.
  defp check_amount(_name, amount) when Limits.is_u64(amount), do: :ok

  defp check_amount(name, other) do
    raise ArgumentError, "the #{name} is an unsigned 64-bit integer, got: #{Describe.value(other)}"
  end

  defimpl Inspect do
    def inspect(%{instance: instance}, _options) do
      %{state: state, memory: memory, limit: limit} = BeTree.Runtime.Wasmtime.info(instance)

      "#BeTree.Sandbox<#{state}, #{String.trim_trailing(Describe.megabytes(memory), " MB")} of #{Describe.megabytes(limit)}>"
    end
  end
end
