if Code.ensure_loaded?(Wasmex) do
  defmodule BeTree.Runtime.Wasmex do
    @moduledoc """
    The runtime of the hex package wasmex, for where nothing is to be compiled: wasmex brings its own library along.

    A slice runs on wasmex's own threads while the calling process waits; that is charged for the fuel all the same. Where
    the fuel of a slice is exhausted the call traps and loses its stack. It goes on from its last checkpoint, as
    `docs/abi.md` says, and does again what it did since: ids are the same whatever the slice, and fuel is what was burnt.
    A slice that is too small to reach the next checkpoint is doubled until it is not, up to a billion fuel; a call that
    makes no progress even then ends as `:out_of_fuel`.

    A call asks wasmex for all that it needs at once, and waits once. `docs/runtimes.md` tells what that costs.

    What differs from the built-in runtime:

      * only a call of an instance that has the export `:resume` can be suspended; another ends as `:out_of_fuel` where its
        slice does;
      * nothing tells that a suspended call is no longer referred to: it holds its instance until it ends, is cancelled, or
        the process dies that ran it last;
      * a module that stops after more memory was refused is a `:trap`;
      * an instruction that fills or copies memory runs to its end, whatever its length and the timeout;
      * `:memory` bounds the memory, and each table to an eighth of it; a module has one memory at most;
      * a tree that is emptied keeps its memory, as `c:BeTree.Runtime.renew/4` is missing: nothing tells when the handle that
        names the former store is no longer referred to;
      * a call on the `:dirty` scheduler runs to its end or to the end of its fuel, and its `:timeout` ends the wait for its
        turn;
      * all replicas exist from the start, and one that is used has the whole memory of the snapshot to itself;
      * it is not noticed that the code of a module changes its tables or drops its segments, which no snapshot carries.
    """

    @behaviour BeTree.Runtime

    alias BeTree.{Error, Runtime}
    alias BeTree.Runtime.Wasmex.{Call, Compiled, Gate, Instance, Machine, Snapshot}

    @impl Runtime
    def available?, do: Machine.available?()

    @impl Runtime
    def load(wasm) when is_binary(wasm), do: Compiled.load(wasm)

    @impl Runtime
    def wasm(%Compiled{wasm: wasm}), do: wasm

    @impl Runtime
    def exports(%Compiled{exports: exports}), do: Map.to_list(exports)

    @impl Runtime
    def imports(%Compiled{imports: imports}), do: imports

    @impl Runtime
    def instantiate(%Compiled{} = compiled, options) do
      options = Keyword.validate!(options, [:memory, snapshot: nil, inbox: nil, outbox: nil, resume: nil])
      Keyword.fetch!(options, :memory)

      with {:ok, instance} <- Instance.new(compiled, 1, options[:snapshot], options),
           do: begin(instance, options[:snapshot])
    end

    defp begin(instance, nil), do: {:ok, instance}

    # Only a replica that is lost begins as the snapshot again.
    defp begin(instance, snapshot) do
      with {:ok, _globals} <- carried(instance.compiled),
           :ok <- Snapshot.restore(snapshot, Instance.machine(instance, 0)),
           do: {:ok, %{instance | snapshot: nil}}
    end

    @impl Runtime
    def snapshot(%Instance{} = instance, timeout \\ :infinity) do
      with {:ok, globals} <- carried(instance.compiled),
           {:ok, number} <- enter(instance, timeout) do
        snapshot = Snapshot.take(Instance.machine(instance, number), globals)
        Gate.leave(instance.group, number)
        snapshot
      end
    end

    defp carried(%Compiled{carried: {:ok, globals}}), do: {:ok, globals}
    defp carried(%Compiled{carried: {:error, why}}), do: error(:bad_module, "the module cannot be replicated: #{why}")

    @impl Runtime
    defdelegate snapshot_of(length, parts), to: Snapshot, as: :of

    @impl Runtime
    defdelegate snapshot_length(snapshot), to: Snapshot, as: :size

    @impl Runtime
    defdelegate snapshot_read(snapshot, address, length), to: Snapshot, as: :read

    @impl Runtime
    def replicate(%Compiled{} = compiled, %Snapshot{} = snapshot, options) do
      options = Keyword.validate!(options, [:memory, :replicas, :queue, inbox: nil, outbox: nil, resume: nil])
      replicas = Keyword.fetch!(options, :replicas)

      with {:ok, _globals} <- carried(compiled), do: Instance.new(compiled, replicas, snapshot, options)
    end

    @impl Runtime
    def call(%Instance{} = instance, export, arguments, request) do
      with {:ok, arguments} <- Instance.check(instance, export, arguments, request),
           {:ok, number} <- enter(instance, Map.get(request, :timeout, :infinity)),
           do: Call.start(instance, number, export, arguments, request)
    end

    defp enter(instance, timeout) do
      case Gate.enter(instance.group, Instance.count(instance), timeout, instance.queue) do
        {:ok, number} ->
          {:ok, number}

        :held ->
          error(:overloaded, "the calling process holds the instance by a suspended call; resume or cancel that first")

        :full ->
          replicas =
            if Instance.count(instance) == 1,
              do: "the 1 replica is",
              else: "all #{Instance.count(instance)} replicas are"

          error(:overloaded, "#{replicas} in use, and as many callers wait as may")

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
      {state, waiting} = Gate.standing(instance.group, Instance.count(instance))
      {machines, memory} = Instance.used(instance)
      %{memory: memory, limit: instance.limit, state: state, waiting: waiting, machines: machines}
    end

    defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
  end
end
