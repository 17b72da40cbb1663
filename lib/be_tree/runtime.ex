defmodule BeTree.Runtime do
  @moduledoc """
  A runtime runs WebAssembly modules in a sandbox with metered fuel.

  A *compiled* module makes *instances*, each with its own memory. An instance runs one call at a time; a caller that finds it
  busy waits for its turn, in order. A *call* runs until it ends or the fuel of a slice is used up. It is then *suspended*, and
  `c:resume/1` continues it. A suspended call holds its instance until it ends, is cancelled, or no process refers to it any
  more.

  A runtime knows nothing of expressions. It passes bytes through two exports, whose names are given at instantiation:

    * the *inbox*, `(length: i32) -> i32`, returns the address of a buffer of at least that length;
    * the *outbox*, `() -> i32`, returns the address of two `u32`: the address of the last output, and its length. That address
      is fixed for the life of the instance.

  A runtime that cannot keep a call's stack between slices also needs the export *resume*, `() -> i32`. It continues a call that
  a trap cut off. A third `u32` of the outbox then holds the progress of the call ([the ABI, Interruption](abi.md#interruption)).

  A *snapshot* is the state of an instance at one moment: the bytes of its memory, and its exported mutable globals.
  `c:replicate/3` makes an instance that is a set of *replicas*, instances of the same compiled module whose state begins as the
  snapshot. It runs as many calls at a time as it has replicas, and is used like any instance. Calls write to the memory of a
  replica, and the next call may run in another replica.

  Instances, compiled modules, snapshots and suspended calls are opaque, and live as long as a process refers to them.

  A callback returns its errors. If it raises, throws or exits in the calling process, the caller gets that failure. In the process of a
  server the process ends and starts again, and errors and the log have the exception's class, message and place: the start of the server
  returns an error of kind `:callback`, a change one of kind `:no_server`. Exceptions that print a value, such as `MatchError`, appear
  without their message, because the value may be of an event.
  """

  alias BeTree.Error
  alias BeTree.Input.Describe

  @built_in BeTree.Runtime.Wasmtime
  @wasmex BeTree.Runtime.Wasmex

  @type compiled :: term
  @type instance :: term
  @type snapshot :: term
  @type suspended :: term
  @type place :: term

  @typedoc "The type of a value. Values of the types `:reference` and `:v128` cannot be passed."
  @type value_type :: :i32 | :i64 | :f32 | :f64 | :v128 | :reference

  @typedoc "The type of an import or export. The sizes of memories are in pages of 64 KiB, and those of tables in elements."
  @type external_type ::
          {:function, parameters :: [value_type], results :: [value_type]}
          | {:global, value_type, :constant | :mutable}
          | {:memory, bits :: 32 | 64, minimum :: non_neg_integer, maximum :: non_neg_integer | nil}
          | {:table, minimum :: non_neg_integer, maximum :: non_neg_integer | nil}
          | {:tag}

  @typedoc """
  The settings of a call. All keys but `:timeout` and `:waited` are required.

    * `:input` - bytes for the inbox, or `nil`;
    * `:output` - the form of the output. `:none` returns `nil`, and `:binary` the bytes. `:u64s` returns packed unsigned 64-bit
      integers as a list. `:u64_lists` and `:u64_binaries` return a list of many such results, as lists or as
      binaries; in the output, the length of each stands before it. With a status other than 0 the output is always a binary;
    * `:fuel` - the whole budget;
    * `:slice` - the fuel after which the call is suspended;
    * `:scheduler` - `:normal` runs each slice on the scheduler of the calling process. `:dirty` runs the call to its end on dirty
      schedulers, for any slice. If its process is killed, the call ends before its instance is free again.
      `:whole`, which only the built-in runtime takes, runs slices as `:normal` does, and cuts off a killed process's call no
      sooner than `:dirty` does;
    * `:timeout` - the milliseconds that the call may wait for its turn, `:infinity` by default. After it, or after its budget, a
      call on `:dirty` schedulers is asked by the `:stop` word to give up: a change rolls back and is refused as `:timeout` or
      `:out_of_fuel`. A module that goes on for about 0.1 seconds, and 2 microseconds for each byte of input, is cut off;
    * `:waited` - a function, or `nil`. A runtime that knows how long the call waited for its turn calls it with that time, in native
      time units, if it waited.
  """
  @type request :: %{
          required(:input) => binary | nil,
          required(:output) => :none | :binary | :u64s | :u64_lists | :u64_binaries,
          required(:fuel) => pos_integer | :infinity,
          required(:slice) => pos_integer | :infinity,
          required(:scheduler) => :normal | :dirty | :whole,
          optional(:timeout) => timeout,
          optional(:waited) => (integer -> term) | nil
        }

  @typedoc """
  The outcome of a slice.

  `fuel` is the fuel of the call, from after the input is in place until the export returns. It is the same for every slice.
  `fuel_so_far` is the fuel of the slices so far. The call used at least that, and somewhat more, because a slice ends with a
  whole block of instructions. A bulk instruction (such as `memory.fill`) costs a unit per byte: the built-in runtime divides it
  into parts of 64 KiB, and wasmex does not.
  """
  @type outcome ::
          {:done, status :: integer, output :: binary | [non_neg_integer] | [[non_neg_integer]] | [binary] | nil,
           fuel :: non_neg_integer}
          | {:yield, suspended, fuel_so_far :: non_neg_integer}
          | {:error, Error.t()}

  @doc "Returns whether this runtime can be used here."
  @callback available?() :: boolean

  @doc """
  Compiles a module, each binary once. That takes seconds, on a busy machine minutes, and runs on no scheduler.

  Errors by kind: `:bad_module`, also for a module that would take too long to compile; `:out_of_memory`; `:overloaded` when too
  many modules wait to be compiled.
  """
  @callback load(wasm :: binary) :: {:ok, compiled} | {:error, Error.t()}

  @doc """
  Returns the default fuel of a slice: that of a time slice of the BEAM if a slice holds a scheduler, and more if it holds none,
  because such a slice has a higher fixed cost.
  """
  @callback default_slice() :: pos_integer

  @doc "Returns the bytes of a compiled module. They live as long as it does."
  @callback wasm(compiled) :: binary

  @callback exports(compiled) :: [{name :: String.t(), external_type}]
  @callback imports(compiled) :: [{module :: String.t(), name :: String.t(), external_type}]

  @doc """
  Returns an instance whose memories and tables may take `:memory` bytes. A module that imports anything is refused. With a
  `:snapshot` the instance begins in that state. `:stop` names the export with the address of the word by which a change is asked to
  give up ([the ABI](abi.md)); a module may lack it, and a runtime that cannot interrupt a call ignores it.

  Errors by kind: `:bad_module`, also when the snapshot is not of this module, `:out_of_memory`, and for its start
  function `:out_of_fuel` and `:trap`.
  """
  @callback instantiate(compiled, [
              {:memory, pos_integer}
              | {:snapshot, snapshot | nil}
              | {:inbox, String.t() | nil}
              | {:outbox, String.t() | nil}
              | {:stop, String.t() | nil}
              | {:resume, String.t() | nil}
            ]) :: {:ok, instance} | {:error, Error.t()}

  @doc """
  Returns a snapshot of an instance's state, and compiles nothing. Waits while calls hold the instance, and holds it while
  the memory is copied. The instance is unchanged.

  Errors by kind: `:bad_module` when the module has state that a snapshot does not hold ([the ABI, Replicas](abi.md#replicas));
  `:out_of_memory`; `:overloaded` when the calling process itself holds the instance by a suspended call.
  """
  @callback snapshot(instance, timeout) :: {:ok, snapshot} | {:error, Error.t()}

  @doc """
  Returns a snapshot with a memory of `length` bytes, a whole number of the module's pages. The memory is zero except for
  `parts`, addresses and bytes that do not overlap. The globals are those with which the module begins.

  Errors by kind: `:bad_module` for parts that lie outside of the memory, `:out_of_memory`.
  """
  @callback snapshot_of(length :: non_neg_integer, parts :: [{address :: non_neg_integer, bytes :: binary}]) ::
              {:ok, snapshot} | {:error, Error.t()}

  @doc "Returns the bytes of memory of a snapshot."
  @callback snapshot_length(snapshot) :: non_neg_integer

  @doc "Returns `length` bytes of a snapshot's memory. Errors by kind: `:bad_module` for addresses outside of it."
  @callback snapshot_read(snapshot, address :: non_neg_integer, length :: non_neg_integer) ::
              {:ok, binary} | {:error, Error.t()}

  @doc """
  Returns an instance of up to `:replicas` replicas. A replica is made when it is needed, and compiles nothing. When all are in
  use, callers wait for their turn, in order. When `:queue` callers wait, the next one is refused as `:overloaded`. A replica that
  is lost is made again. `:memory` bounds each replica's memories and tables, including the snapshot's memory.

  Errors by kind: `:bad_module` when the module cannot be replicated. The first call returns the errors of the snapshot:
  `:bad_module` when it is not of this module, `:out_of_memory` when it exceeds the limit.
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
  Calls an export and returns its single integer result as the status, 0 if it has no result. Waits while other calls hold
  the instance.

  Errors by kind: `:out_of_fuel`; `:trap`; `:out_of_memory` when the module stopped after it was refused memory;
  `:bad_module` for an export that is missing, has a type that cannot be passed, or points outside of its memory;
  `:type` for arguments that do not fit; `:overloaded` when the calling process itself holds the instance by suspended
  calls, or when too many callers wait for a replica; `:timeout`. After an error the instance can be called again. Its memory is
  as the call left it, or that of a new replica.
  """
  @callback call(instance, export :: String.t(), arguments :: [integer | float], request) :: outcome

  @doc """
  Runs the next slice of a suspended call, in any process. Errors are those of `c:call/4`, and `:not_found` when the call
  has ended or was cancelled.
  """
  @callback resume(suspended) :: outcome

  @doc "Cancels a suspended call. Its instance is free soon after."
  @callback cancel(suspended) :: :ok

  @doc """
  Returns a map with at least `:memory`, the bytes that the memories and tables of an instance take. For replicas it counts
  shared memory once, and the memory by which each replica grew.
  """
  @callback info(instance) :: %{required(:memory) => non_neg_integer, optional(atom) => term}

  @doc """
  Returns a place for an instance that replaces another one until that one changes. The place and its instance live as long as
  a process refers to the place.

  A runtime may lack this callback and the next two.
  """
  @callback place() :: place

  @doc "Puts an instance into a place, for a version that only grows. It replaces the instance of an earlier version."
  @callback place_put(place, version :: non_neg_integer, instance) :: :ok

  @doc "Returns the instance in a place for this version, or `nil`. An instance of an earlier version is released."
  @callback place_get(place, version :: non_neg_integer) :: instance | nil

  @doc """
  Replaces the state of an instance by that of `fresh`, if the export `() -> i32` of the instance returns another value than 0.
  The instance then has the memory of `fresh` and frees its own. No call runs between the check and the replacement.

  Returns `:ok` at once. If a call has the instance, the replacement is made when that call ends, before the next one. `fresh` is
  an instance of the same module, made with the same options, that nothing else uses. It cannot be called afterwards.

  A runtime may lack this callback.

  Errors by kind: `:bad_module` for a `fresh` that cannot replace the instance, and those of a call of `fresh`. After an error
  everything is as it was.
  """
  @callback renew(instance, fresh :: instance, export :: String.t()) :: :ok | {:error, Error.t()}

  @typedoc """
  Calls that belong together: exports, their arguments, and the bytes for the inbox. Each returned 0 in another instance with the
  same state.
  """
  @type entry :: [{export :: String.t(), [integer], binary | nil}]

  @doc """
  Appends an entry to the log of an instance of replicas, and returns the length of the log.

  Each replica makes the calls of the log, in order, before its next call. So a call sees all entries that were appended before
  it began, and each of them whole. The caller pays for the calls that its replica lacks, in slices. A replica in which one of
  them fails is discarded, and the call returns that error.

  A runtime may lack this callback and the next five.

  Errors by kind: `:bad_module` for an instance that has no replicas.
  """
  @callback append(instance, entry) :: {:ok, length :: pos_integer} | {:error, Error.t()}

  @doc "Returns the number of entries of the log so far, and the greatest number of them that a free replica lacks."
  @callback lag(instance) :: {length :: non_neg_integer, lag :: non_neg_integer}

  @doc """
  Lets the free replica that lacks most entries make at most `most` of them, if it lacks at least `lag` and no caller waits for a
  replica. A replica that was unused for a thousand entries does not count. Runs in slices, for which the calling process is
  charged. Returns whether there was such a replica.
  """
  @callback catch_up(instance, lag :: pos_integer, most :: pos_integer) :: {:ok, boolean} | {:error, Error.t()}

  @doc "Returns the number of entries of the log that a snapshot of replicas contains."
  @callback snapshot_applied(snapshot) :: non_neg_integer

  @optional_callbacks place: 0, place_put: 3, place_get: 2, renew: 3
  @doc """
  Makes replicas begin with `snapshot` from now on, a snapshot of this instance. Each gets a copy of its own, in large pages.

  The entries that the snapshot contains leave the log. A replica that lacks some of them is dropped when no call has it.

  Errors by kind: `:bad_module` for a snapshot that contains fewer entries than the one before.
  """
  @callback rebase(instance, snapshot) :: :ok | {:error, Error.t()}

  @doc """
  Un-shares an instance, or one free replica: copies all pages that it shares with a snapshot, into large pages. Runs on a dirty
  scheduler, about 15 milliseconds for 35 MB. Returns whether there was such an instance or replica.
  """
  @callback settle(instance) :: {:ok, boolean} | {:error, Error.t()}

  @optional_callbacks append: 2, lag: 1, catch_up: 3, snapshot_applied: 1, rebase: 2, settle: 1

  @doc """
  Returns the default runtime.

  This is the runtime in the application's environment, `config :be_tree, runtime: BeTree.Runtime.Wasmex`; without one, the
  built-in runtime if it can be used; otherwise `BeTree.Runtime.Wasmex` if the hex package wasmex is present. With none of
  them, the error of loading a module names the ways to get one. [Runtimes](runtimes.md) compares the two.

  Raises an `ArgumentError` if the environment names no runtime.

      iex> BeTree.Runtime.default() in [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]
      true
  """
  @spec default() :: module
  def default do
    case Application.get_env(:be_tree, :runtime) do
      nil -> if not @built_in.available?() and available?(@wasmex), do: @wasmex, else: @built_in
      runtime when is_atom(runtime) -> implemented!(runtime)
      other -> raise ArgumentError, "config :be_tree, :runtime is a module, got: #{Describe.value(other)}"
    end
  end

  defp implemented!(runtime) do
    if Code.ensure_loaded?(runtime) and function_exported?(runtime, :instantiate, 2) do
      runtime
    else
      fault = if Code.ensure_loaded?(runtime), do: "which does not implement BeTree.Runtime", else: "which is not here"

      raise ArgumentError,
            "config :be_tree, runtime: #{inspect(runtime)} names a module #{fault}; add the application that has it to " <>
              "your dependencies, or remove the setting, to use a runtime of BeTree"
    end
  end

  @doc """
  Returns the runtimes of this library that can be used here.

      iex> BeTree.Runtime.available() -- [BeTree.Runtime.Wasmtime, BeTree.Runtime.Wasmex]
      []
  """
  @spec available() :: [module]
  def available, do: Enum.filter([@built_in, @wasmex], &available?/1)

  defp available?(runtime), do: runtime.available?()
end
