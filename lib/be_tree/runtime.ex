defmodule BeTree.Runtime do
  @moduledoc """
  A runtime runs WebAssembly modules in a sandbox with metered fuel. This module is its behaviour.

  A *compiled* module makes *instances*, each with its own memory. An instance runs one call at a time, and other callers
  wait for their turn, in order. A *call* runs until it ends or the fuel of a slice is exhausted. Then it is *suspended*, and
  `c:resume/1` continues it. A suspended call holds its instance until it ends, is cancelled, or is referred to by no living
  process.

  A runtime knows nothing of expressions. It passes bytes through two exports whose names are given at instantiation:

    * the *inbox*, `(length: i32) -> i32`, returns the address of a buffer of at least that length;
    * the *outbox*, `() -> i32`, returns the address of two `u32`: the address of the last output, and its length. This
      address is fixed for the life of the instance.

  A runtime that cannot keep the stack of a call between slices also needs *resume*, `() -> i32`, which continues a call that
  a trap cut off. A third `u32` behind those two then holds the progress of the call (`docs/abi.md`, Interruption).

  A *snapshot* is the state of an instance at one moment: the bytes of its memory, and its exported mutable globals.
  `c:replicate/3` makes an instance that is a set of *replicas*. These are instances of the same compiled module whose state
  begins as that of the snapshot. The set runs as many calls at a time as it has replicas, and is used like any instance.
  Calls leave their writes in the memory of their replica. Do not rely on them: the next call may run in another replica.

  Instances, compiled modules, snapshots and suspended calls are opaque terms. Each lives as long as something refers to it.
  """

  alias BeTree.Error
  alias BeTree.Engine.Describe

  @built_in BeTree.Runtime.Wasmtime
  @wasmex BeTree.Runtime.Wasmex

  @type compiled :: term
  @type instance :: term
  @type snapshot :: term
  @type suspended :: term
  @type place :: term

  @typedoc "The type of a value. Values of type `:reference` and `:v128` cannot be passed."
  @type value_type :: :i32 | :i64 | :f32 | :f64 | :v128 | :reference

  @typedoc "The type of an import or export. Memory sizes are in pages of 64 KiB, and table sizes in elements."
  @type external_type ::
          {:function, parameters :: [value_type], results :: [value_type]}
          | {:global, value_type, :constant | :mutable}
          | {:memory, bits :: 32 | 64, minimum :: non_neg_integer, maximum :: non_neg_integer | nil}
          | {:table, minimum :: non_neg_integer, maximum :: non_neg_integer | nil}
          | {:tag}

  @typedoc """
  A request holds the input, the output and the limits of a call. All keys but `:timeout` are required.

    * `:input` - the bytes for the inbox, or `nil`;
    * `:output` - the form of the output that the outbox holds: `:none` (the output is `nil`), `:binary`, or `:u64s` for a
      list of the unsigned 64-bit integers in it. For many such lists, each after its length as one more integer, the form
      is `:u64_lists` for a list of lists, or `:u64_binaries` for a list of binaries. With a status other than 0 the output
      is always a binary;
    * `:fuel` - the budget of the call;
    * `:slice` - the fuel after which the call is suspended;
    * `:scheduler` - `:normal` runs each slice on the scheduler of the calling process. `:dirty` runs the call to its end on
      dirty schedulers, with any slice. If its process is killed, such a call continues to its end, and is cut off only if
      it takes much longer than a change;
    * `:timeout` - the milliseconds that the call may wait for its turn. Defaults to `:infinity`. A call on `:dirty`
      schedulers is cut off after its timeout, but not before it has used more fuel than any change needs: about 0.1
      seconds, and 2 microseconds for each byte of input. A change that is cut off is half made.
  """
  @type request :: %{
          required(:input) => binary | nil,
          required(:output) => :none | :binary | :u64s | :u64_lists | :u64_binaries,
          required(:fuel) => pos_integer | :infinity,
          required(:slice) => pos_integer | :infinity,
          required(:scheduler) => :normal | :dirty,
          optional(:timeout) => timeout
        }

  @typedoc """
  The outcome of a slice. `fuel` is the fuel of the call, the same for every slice: from the end of the input's copy until
  the export returns. `fuel_so_far` is the sum of the slices' fuel. The call used at least that, and in addition the fuel
  by which the last instructions of each slice exceeded it. That excess is small, except for a bulk instruction (such as
  `memory.fill`), which costs a unit a byte: the built-in runtime divides it into parts of 256 KiB, and wasmex does not.
  """
  @type outcome ::
          {:done, status :: integer, output :: binary | [non_neg_integer] | [[non_neg_integer]] | [binary] | nil,
           fuel :: non_neg_integer}
          | {:yield, suspended, fuel_so_far :: non_neg_integer}
          | {:error, Error.t()}

  @doc "Returns whether this node can use the runtime."
  @callback available?() :: boolean

  @doc """
  Compiles a module in seconds, outside the schedulers. Each binary is compiled once.

  Returns `{:error, error}` with the kind `:bad_module`, also for a module that would take too long to compile;
  `:out_of_memory`; `:overloaded` when too many modules wait to be compiled; `:timeout`.
  """
  @callback load(wasm :: binary) :: {:ok, compiled} | {:error, Error.t()}

  @doc "Returns the bytes of a compiled module. They live as long as the module."
  @callback wasm(compiled) :: binary

  @callback exports(compiled) :: [{name :: String.t(), external_type}]
  @callback imports(compiled) :: [{module :: String.t(), name :: String.t(), external_type}]

  @doc """
  Makes an instance, whose memories and tables may take `:memory` bytes. With a `:snapshot` the state of the instance begins
  as that of the snapshot. A module that imports anything is refused.

  Returns `{:error, error}` with the kind `:bad_module`, also for a snapshot of another module; `:out_of_memory`; and
  `:out_of_fuel` or `:trap` for the start function.
  """
  @callback instantiate(compiled, [
              {:memory, pos_integer}
              | {:snapshot, snapshot | nil}
              | {:inbox, String.t() | nil}
              | {:outbox, String.t() | nil}
              | {:resume, String.t() | nil}
            ]) :: {:ok, instance} | {:error, Error.t()}

  @doc """
  Takes a snapshot of an instance's state. It compiles nothing. The call waits while other calls hold the instance, and holds
  the instance while it copies the memory. The instance stays as it was.

  Returns `{:error, error}` with the kind `:bad_module` if the module has state that a snapshot does not hold
  (`docs/abi.md`, Replicas); `:out_of_memory`; `:overloaded` if the calling process itself holds the instance by a
  suspended call; `:timeout`.
  """
  @callback snapshot(instance, timeout) :: {:ok, snapshot} | {:error, Error.t()}

  @doc """
  Returns a snapshot with a memory of `length` bytes, a whole number of the module's pages. The memory is zero except for
  `parts`, which are pairs of an address and bytes and do not overlap. The globals have the module's initial values.

  Returns `{:error, error}` with the kind `:bad_module` for parts outside the memory, or `:out_of_memory`.
  """
  @callback snapshot_of(length :: non_neg_integer, parts :: [{address :: non_neg_integer, bytes :: binary}]) ::
              {:ok, snapshot} | {:error, Error.t()}

  @doc "Returns the number of bytes of a snapshot's memory."
  @callback snapshot_length(snapshot) :: non_neg_integer

  @doc "Reads `length` bytes of a snapshot's memory. Bytes outside it are an error of kind `:bad_module`."
  @callback snapshot_read(snapshot, address :: non_neg_integer, length :: non_neg_integer) ::
              {:ok, binary} | {:error, Error.t()}

  @doc """
  Makes an instance with up to `:replicas` replicas. A replica is made when it is needed, without compiling. When all are in
  use, callers wait for their turn, in order. When `:queue` callers wait, the next one is refused as `:overloaded`. A lost
  replica is made again. `:memory` limits the memories and tables of each replica, the memory of the snapshot included.

  Returns `{:error, error}` with the kind `:bad_module` for a module that cannot be replicated. The first call returns the
  errors of the snapshot: `:bad_module` if it is not of this module, `:out_of_memory` if it exceeds the limit.
  """
  @callback replicate(compiled, snapshot, [
              {:memory, pos_integer}
              | {:replicas, pos_integer}
              | {:queue, non_neg_integer}
              | {:inbox, String.t() | nil}
              | {:outbox, String.t() | nil}
              | {:resume, String.t() | nil}
            ]) :: {:ok, instance} | {:error, Error.t()}

  @doc """
  Calls an export, and returns its single integer result as the status (0 if it has no result). The call waits while other
  calls hold the instance.

  Returns `{:error, error}` with the kind

    * `:out_of_fuel`, `:trap` or `:timeout`;
    * `:out_of_memory` when the module stopped after it was refused memory;
    * `:bad_module` for an export that is missing, has a type that cannot be passed, or returns an address outside its
      memory;
    * `:type` for arguments that do not fit;
    * `:overloaded` when the calling process itself holds the instance by a suspended call, or when too many callers wait for
      a replica.

  After an error the instance can be called again, with the memory that the call left or with a new replica.
  """
  @callback call(instance, export :: String.t(), arguments :: [integer | float], request) :: outcome

  @doc """
  Runs the next slice of a suspended call, in any process.

  Returns `{:error, error}` with the kinds of `c:call/4`, and `:not_found` if the call has ended or was cancelled.
  """
  @callback resume(suspended) :: outcome

  @doc "Cancels a suspended call. Its instance is free soon after."
  @callback cancel(suspended) :: :ok

  @doc """
  Returns a map of counts. It has at least `:memory`, the bytes that the memories and tables of an instance take now. For
  replicas this is the shared memory once, and the growth of each replica.
  """
  @callback info(instance) :: %{required(:memory) => non_neg_integer, optional(atom) => term}

  @doc """
  Returns a place for an instance that replaces another one until that one changes. The place, and the instance that is put
  there, live as long as something refers to the place.

  A runtime may lack this callback and the next two.
  """
  @callback place() :: place

  @doc "Puts an instance into a place for a version, which only grows. It replaces the instance of an earlier version."
  @callback place_put(place, version :: non_neg_integer, instance) :: :ok

  @doc "Returns the instance for this version, or `nil`. The place drops an instance of an earlier version."
  @callback place_get(place, version :: non_neg_integer) :: instance | nil

  @doc """
  Replaces the memory of an instance by that of `fresh`, if an export of the instance allows it.

  The export, `() -> i32`, allows it by a result other than 0. The callback returns whether it replaced the memory. The
  instance then frees its own memory. No other call runs between the question and the replacement. `fresh` is an instance
  of the same module, made with the same options, that no other process uses. It cannot be called afterwards.

  A runtime may lack this callback.

  Returns `{:error, error}` with the kinds of `c:call/4`. After an error everything is as it was.
  """
  @callback renew(instance, fresh :: instance, export :: String.t(), timeout) :: {:ok, boolean} | {:error, Error.t()}

  @optional_callbacks place: 0, place_put: 3, place_get: 2, renew: 4

  @doc """
  Returns the default runtime.

  This is the module in the application's environment, such as `config :be_tree, runtime: BeTree.Runtime.Wasmex`. Without
  one it is the built-in runtime if that is compiled, or else the runtime of the hex package wasmex if that is present. If
  neither is present, loading a module returns an error that says which to add.

      iex> BeTree.Runtime.default() in [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]
      true
  """
  @spec default() :: module
  def default do
    case Application.get_env(:be_tree, :runtime) do
      nil -> if not @built_in.available?() and available?(@wasmex), do: @wasmex, else: @built_in
      runtime when is_atom(runtime) -> runtime
      other -> raise ArgumentError, "config :be_tree, :runtime is a module, got: #{Describe.value(other)}"
    end
  end

  @doc """
  Returns those of this project's runtimes that this node can use.

      iex> BeTree.Runtime.available() -- [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]
      []
  """
  @spec available() :: [module]
  def available, do: Enum.filter([@built_in, @wasmex], &available?/1)

  # The runtime for wasmex is compiled only if wasmex is present.
  defp available?(runtime), do: Code.ensure_loaded?(runtime) and runtime.available?()
end
