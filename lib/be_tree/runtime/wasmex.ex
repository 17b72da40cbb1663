defmodule BeTree.Runtime.Wasmex do
  @moduledoc """
  This runtime uses the hex package wasmex, for nodes that cannot compile Rust: wasmex comes with its own library.

  A slice runs on wasmex's threads while the calling process waits. The process is charged for the fuel all the same.
  When the fuel of a slice is exhausted, the call traps and loses its stack. It continues from its last checkpoint
  ([the ABI](abi.md)) and repeats the work since. So ids are the same for every slice, and fuel includes the repeated work.
  A slice that is too small to reach the next checkpoint is doubled until it does, up to a billion fuel. A call without
  progress even then ends as `:out_of_fuel`.

  A call sends wasmex all its requests at once, and waits once. [Runtimes](runtimes.md) has the cost.

  Differences from the built-in runtime:

    * Only a call of an instance with the export `:resume` can be suspended. Any other call ends as `:out_of_fuel` with its
      slice.
    * The runtime does not notice that a suspended call is no longer referred to. Such a call holds its instance until it
      ends or is cancelled, or until the process dies that ran it last.
    * A module that stops after it was refused memory is a `:trap`.
    * An instruction that fills or copies memory runs to its end, for any length and timeout.
    * `:memory` limits the memory, and each table to an eighth of that. A module has at most one memory.
    * An emptied tree keeps its memory, because `c:BeTree.Runtime.renew/3` is missing: the runtime does not notice that the
      handle of the former store is no longer referred to.
    * A call on the `:dirty` scheduler runs to its end or to the end of its fuel. Its `:timeout` only limits the wait
      for its turn. A change that ends with its fuel is half made, but no change of the built-in module uses that much.
    * A match of a tenant runs on a dirty scheduler in the same way, and its budget is not compared.
    * All replicas exist from the start, and a used replica has its own copy of the snapshot's memory.
    * The runtime does not notice that a module's code changes its tables or drops its segments, which no snapshot holds.
  """

  @behaviour BeTree.Runtime

  alias BeTree.{Error, Runtime}
  alias BeTree.Runtime.Absent
  alias BeTree.Runtime.Wasmex.{Call, Checkout, Compiled, Instance, Machine, Snapshot}

  @impl Runtime
  def available?, do: Machine.usable() == :ok

  # A slice holds none of the BEAM's schedulers, and costs some 60 microseconds.
  @impl Runtime
  def default_slice, do: 5_000_000

  @impl Runtime
  def load(wasm) when is_binary(wasm) do
    case Machine.usable() do
      :ok -> Compiled.load(wasm)
      {:error, reason} -> Absent.wasmex(__MODULE__, reason)
    end
  end

  @impl Runtime
  def wasm(%Compiled{wasm: wasm}), do: wasm

  @impl Runtime
  def exports(%Compiled{exports: exports}), do: Map.to_list(exports)

  @impl Runtime
  def imports(%Compiled{imports: imports}), do: imports

  @impl Runtime
  def instantiate(%Compiled{} = compiled, options) do
    # Calls cannot be interrupted, so the stop word is never set.
    options = Keyword.validate!(options, [:memory, :stop, snapshot: nil, inbox: nil, outbox: nil, resume: nil])
    Keyword.fetch!(options, :memory)

    with {:ok, instance} <- Instance.new(compiled, 1, options[:snapshot], options),
         do: begin(instance, options[:snapshot])
  end

  defp begin(instance, nil), do: {:ok, instance}

  # Only a lost replica is refilled from the snapshot.
  defp begin(instance, snapshot) do
    with {:ok, _globals} <- saved_globals(instance.compiled),
         :ok <- Snapshot.restore(snapshot, Instance.machine(instance, 0)),
         do: {:ok, %{instance | snapshot: nil}}
  end

  @impl Runtime
  def snapshot(%Instance{} = instance, timeout \\ :infinity) do
    with {:ok, globals} <- saved_globals(instance.compiled),
         {:ok, number} <- enter(instance, timeout) do
      snapshot = Snapshot.take(Instance.machine(instance, number), globals)
      Checkout.check_in(instance.group, number)
      snapshot
    end
  end

  defp saved_globals(%Compiled{saved_globals: {:ok, globals}}), do: {:ok, globals}

  defp saved_globals(%Compiled{saved_globals: {:error, why}}),
    do: error(:bad_module, "the module cannot be replicated: #{why}")

  @impl Runtime
  defdelegate snapshot_of(length, parts), to: Snapshot, as: :from_parts

  @impl Runtime
  defdelegate snapshot_length(snapshot), to: Snapshot, as: :size

  @impl Runtime
  defdelegate snapshot_read(snapshot, address, length), to: Snapshot, as: :read

  @impl Runtime
  def replicate(%Compiled{} = compiled, %Snapshot{} = snapshot, options) do
    options = Keyword.validate!(options, [:memory, :replicas, :queue, inbox: nil, outbox: nil, resume: nil])
    replicas = Keyword.fetch!(options, :replicas)

    with {:ok, _globals} <- saved_globals(compiled), do: Instance.new(compiled, replicas, snapshot, options)
  end

  @impl Runtime
  def call(%Instance{} = instance, export, arguments, request) do
    with {:ok, arguments} <- Instance.check(instance, export, arguments, request),
         {:ok, number} <- enter(instance, Map.get(request, :timeout, :infinity)),
         do: Call.start(instance, number, export, arguments, request)
  end

  defp enter(instance, timeout) do
    case Checkout.check_out(instance.group, Instance.count(instance), timeout, instance.queue) do
      {:ok, number} ->
        {:ok, number}

      :held ->
        error(:overloaded, "the calling process holds the instance by a suspended call; resume or cancel that first")

      :full ->
        replicas =
          if Instance.count(instance) == 1,
            do: "the 1 replica is",
            else: "all #{Instance.count(instance)} replicas are"

        error(:overloaded, "#{replicas} in use, and the queue of #{instance.queue} callers is full")

      :timeout ->
        error(:timeout, "the call passed its timeout of #{timeout} ms while it waited for its turn")
    end
  end

  @impl Runtime
  defdelegate resume(call), to: Call

  @impl Runtime
  defdelegate cancel(call), to: Call

  @impl Runtime
  def info(%Instance{} = instance) do
    {state, waiting} = Checkout.status(instance.group, Instance.count(instance))
    {machines, memory} = Instance.used(instance)
    %{memory: memory, limit: instance.limit, state: state, waiting: waiting, machines: machines}
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
