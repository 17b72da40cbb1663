defmodule BeTree.Runtime.Wasmtime do
  @moduledoc """
  The built-in runtime is wasmtime, inside the VM.

  A slice runs on the scheduler of the calling process, on a separate stack. When its fuel is used up, the call stops at that
  instruction and later resumes there, on any scheduler. A call that finds its instance free sends no message and costs about a
  microsecond in addition to its work.

  A call that is cancelled, or whose process dies, leaves its instance usable: its memory is as the last instruction left it, and
  `__stack_pointer` is restored. A call on dirty schedulers, a change for example, runs there in slices of about a millisecond. When
  its timeout passes, or its budget of fuel ends, the call is asked to give up between two slices (`be_tree_stop` in [the ABI](abi.md)):
  the module rolls the change back and returns an error. When its process dies, a thread of the host continues the call for about
  0.1 seconds and 2 microseconds per byte of input, and then asks it too. A module that does not give up for as long again is cut off.

  A snapshot is a copy of an instance's memory and exported mutable globals. On Linux replicas map that copy and share the pages
  that they do not write; elsewhere each replica has its own copy. A replica is made on a dirty scheduler when it is first
  needed. A replica that trapped, or stopped because it was refused memory, is dropped, and made again when it is needed.
  """

  @behaviour BeTree.Runtime

  alias BeTree.{Error, Fuel, Runtime}
  alias BeTree.Input.{Describe, Limits}
  alias BeTree.Processes.{Deadline, Heap}
  alias BeTree.Runtime.{Absent, MachineCode, Native}

  # The fuel that a call may use after it was asked to give up, and this much more per byte of its input: more than it takes to
  # roll back any change. The host has the same limits for a change that lost its process.
  @roll_back_fuel 500_000_000
  @roll_back_fuel_per_byte 10_000

  # The fuel of a slice of a change on a dirty scheduler: about a millisecond. Rescheduling takes a hundredth of it.
  @change_slice 5_000_000

  @max_u64 Limits.max_u64()

  # The values of the stop word: go on, or the reason to give up.
  @go_on 0
  @timeout 1
  @out_of_fuel 2

  @impl Runtime
  def available?, do: Native.load() == :ok

  @impl Runtime
  def default_slice, do: Fuel.default_slice()

  @impl Runtime
  def load(wasm) when is_binary(wasm) do
    with :ok <- load_library() do
      folders = MachineCode.folders()
      convert(MachineCode.load(MachineCode.digest(wasm, folders), wasm, folders))
    end
  end

  defp load_library do
    case Native.load() do
      :ok -> :ok
      {:error, :bad_module, reason} -> Absent.built_in(__MODULE__, reason)
      # The message of the host contains the remedy.
      {:error, :out_of_memory, reason} -> error(:out_of_memory, "the built-in runtime cannot be used here: #{reason}")
    end
  end

  @impl Runtime
  defdelegate wasm(compiled), to: Native, as: :module_bytes

  @impl Runtime
  defdelegate exports(compiled), to: Native, as: :module_exports

  @impl Runtime
  defdelegate imports(compiled), to: Native, as: :module_imports

  @impl Runtime
  def instantiate(compiled, options) do
    # A call keeps its stack between slices, so the export `:resume` is not needed.
    options = Keyword.validate!(options, [:memory, :resume, snapshot: nil, inbox: nil, outbox: nil, stop: nil])
    [snapshot, inbox, outbox, stop] = for key <- [:snapshot, :inbox, :outbox, :stop], do: options[key]
    convert(Native.instantiate(compiled, snapshot, bounded(Keyword.fetch!(options, :memory)), inbox, outbox, stop))
  end

  @impl Runtime
  def snapshot(instance, timeout \\ :infinity), do: copied(in_turn(instance, timeout, &Native.snapshot(instance, &1)))

  # Each part is charged a time slice.
  defp copied({:more, copying}), do: copying |> Native.snapshot_more() |> convert() |> copied()
  defp copied(outcome), do: outcome

  @impl Runtime
  def snapshot_of(length, parts), do: convert(Native.snapshot_of(length, parts))

  @impl Runtime
  defdelegate snapshot_length(snapshot), to: Native

  @impl Runtime
  def snapshot_read(snapshot, address, length), do: convert(Native.snapshot_read(snapshot, address, length))

  @impl Runtime
  def replicate(compiled, snapshot, options) do
    options = Keyword.validate!(options, [:memory, :replicas, :queue, :resume, inbox: nil, outbox: nil])
    [memory, replicas, queue] = for key <- [:memory, :replicas, :queue], do: bounded(Keyword.fetch!(options, key))
    convert(Native.pool(compiled, snapshot, memory, options[:inbox], options[:outbox], replicas, queue))
  end

  @impl Runtime
  def call(instance, export, arguments, request), do: status(invoke(instance, export, arguments, request))

  @impl Runtime
  def resume(suspended), do: status(continue(suspended))

  @doc """
  Asks a suspended call that began on the scheduler `:whole` to give up, and runs its next slice. Returns the outcomes of `c:BeTree.Runtime.resume/1`.

  The module decides whether the call ends or is completed. A call whose function does not run yet is not asked, so ask before each
  further slice.
  """
  @spec stop(Runtime.suspended(), :timeout | :out_of_fuel) :: Runtime.outcome()
  def stop(suspended, :timeout), do: suspended |> Native.resume(@timeout) |> convert() |> status()
  def stop(suspended, :out_of_fuel), do: suspended |> Native.resume(@out_of_fuel) |> convert() |> status()

  @doc "Returns the fuel within which a module with an input of `bytes` bytes gives up, once it was asked to."
  @spec grace(non_neg_integer) :: Fuel.t()
  def grace(bytes), do: @roll_back_fuel + @roll_back_fuel_per_byte * bytes

  @impl Runtime
  defdelegate cancel(suspended), to: Native

  @impl Runtime
  def info(instance) do
    {memory, limit, state, waiting, machines} = Native.info(instance)
    %{memory: memory, limit: limit, state: state, waiting: waiting, machines: machines}
  end

  @impl Runtime
  def renew(instance, fresh, export), do: convert(Native.renew(instance, fresh, export))

  @impl Runtime
  defdelegate place(), to: Native

  @impl Runtime
  defdelegate place_put(place, version, instance), to: Native

  @impl Runtime
  defdelegate place_get(place, version), to: Native

  @impl Runtime
  def append(instance, entry), do: convert(Native.append(instance, entry))

  @impl Runtime
  defdelegate lag(instance), to: Native

  @impl Runtime
  def catch_up(instance, lag, most), do: caught_up(convert(Native.catch_up(instance, lag, most)))

  # A slice is a time slice, for which the host has charged.
  defp caught_up(:none), do: {:ok, false}
  defp caught_up({:done, [], nil, _fuel}), do: {:ok, true}
  defp caught_up({:yield, suspended, _fuel}), do: caught_up(convert(Native.resume(suspended, @go_on)))
  defp caught_up({:error, error}), do: {:error, error}

  @impl Runtime
  defdelegate snapshot_applied(snapshot), to: Native

  @impl Runtime
  def rebase(instance, snapshot), do: convert(Native.rebase(instance, snapshot))

  @impl Runtime
  def settle(instance), do: in_turn(instance, :infinity, &Native.settle(instance, &1))

  @doc """
  Like `c:BeTree.Runtime.call/4`, for an export with any number of results of any type. Returns `{:done, results, output, fuel}`.

  Integers are returned signed, and taken signed or unsigned. A float that is not finite is returned as `:nan`, `:infinity` or
  `:negative_infinity`. After a yield, `continue/1` runs the next slice.
  """
  @spec invoke(Runtime.instance(), String.t(), [integer | float], Runtime.request()) ::
          {:done, [integer | float | atom], binary | [non_neg_integer] | nil, non_neg_integer}
          | {:yield, Runtime.suspended(), non_neg_integer}
          | {:error, Error.t()}
  def invoke(instance, export, arguments, request) do
    timeout = Map.get(request, :timeout, :infinity)
    deadline = Deadline.new(timeout)

    case run(instance, nil, export, arguments, request, deadline) do
      held when held in [:busy, :vacant] ->
        started = System.monotonic_time()

        in_turn(held, nil, instance, timeout, fn ticket ->
          waited = System.monotonic_time() - started
          outcome = run(instance, ticket, export, arguments, request, deadline)
          if outcome not in [:busy, :vacant], do: tell(Map.get(request, :waited), waited)
          outcome
        end)

      outcome ->
        convert(outcome)
    end
  end

  defp tell(nil, _waited), do: :ok
  defp tell(function, waited), do: function.(waited)

  @doc "Like `c:BeTree.Runtime.resume/1`, for a call that `invoke/4` began."
  @spec continue(Runtime.suspended()) ::
          {:done, [integer | float | atom], binary | [non_neg_integer] | nil, non_neg_integer}
          | {:yield, Runtime.suspended(), non_neg_integer}
          | {:error, Error.t()}
  def continue(suspended), do: convert(Native.resume(suspended, @go_on))

  @doc "Returns `length` bytes of an instance's memory, on a dirty scheduler. Waits while a call holds the instance."
  @spec read(Runtime.instance(), non_neg_integer, non_neg_integer, timeout) :: {:ok, binary} | {:error, Error.t()}
  def read(instance, address, length, timeout \\ :infinity) do
    in_turn(instance, timeout, &Native.read(instance, &1, address, length))
  end

  @doc "Writes to an instance's memory, on a dirty scheduler. Waits while a call holds the instance."
  @spec write(Runtime.instance(), non_neg_integer, binary, timeout) :: :ok | {:error, Error.t()}
  def write(instance, address, bytes, timeout \\ :infinity) do
    in_turn(instance, timeout, &Native.write(instance, &1, address, bytes))
  end

  defp run(instance, ticket, export, arguments, %{scheduler: :dirty} = request, deadline) do
    %{input: input, output: output, fuel: budget} = request
    # Checks the budget between slices, because the host cuts off a call that runs out of fuel inside the module.
    outcome = Native.change(instance, ticket, {export, arguments, input, output, :infinity, @change_slice, true})
    to_end(outcome, budget, deadline, grace(byte_size(input || "")))
  end

  defp run(instance, ticket, export, arguments, request, _deadline) do
    %{input: input, output: output, fuel: fuel, slice: slice, scheduler: scheduler} = request
    change? = scheduler == :whole
    Native.call(instance, ticket, {export, arguments, input, output, bounded(fuel), bounded(slice), change?})
  end

  # Between slices the dirty scheduler serves other processes, and a killed process ends.
  defp to_end({:yield, suspended, fuel}, budget, deadline, grace) do
    cond do
      fuel >= budget -> give_up(Native.resume_change(suspended, @out_of_fuel), @out_of_fuel, fuel + grace)
      Deadline.passed?(deadline) -> give_up(Native.resume_change(suspended, @timeout), @timeout, fuel + grace)
      true -> to_end(Native.resume_change(suspended, @go_on), budget, deadline, grace)
    end
  end

  defp to_end(outcome, _budget, _deadline, _grace), do: outcome

  # Continues a call that was asked to give up until it ends, or cuts it off when it has used `last` fuel. It is asked again before
  # each slice, because a call whose input is still being copied has not been asked.
  defp give_up({:yield, suspended, fuel}, reason, last) when fuel > last do
    Native.cancel(suspended)

    case reason do
      @timeout -> {:error, :timeout, "the call passed its timeout, did not stop when it was asked to, and was cut off"}
      @out_of_fuel -> {:error, :out_of_fuel, "the call used all of its fuel and was cut off; give it a larger budget"}
    end
  end

  defp give_up({:yield, suspended, _fuel}, reason, last),
    do: give_up(Native.resume_change(suspended, reason), reason, last)

  defp give_up(outcome, _reason, _last), do: outcome

  # Returns an amount that the host accepts, a u64 or :infinity.
  defp bounded(amount) when is_integer(amount) and amount > @max_u64, do: @max_u64
  defp bounded(amount), do: amount

  # Calls `work` with a ticket, now or when its turn comes.
  defp in_turn(instance, timeout, work), do: enter(instance, nil, timeout, work)

  defp in_turn(:busy, _ticket, instance, timeout, work), do: wait(instance, timeout, work)
  defp in_turn(:vacant, ticket, instance, timeout, work), do: fill(instance, ticket, timeout, work)
  defp in_turn(outcome, _ticket, _instance, _timeout, _work), do: convert(outcome)

  # The reference is made here, so that the receive skips all earlier messages in the mailbox.
  defp wait(instance, timeout, work) do
    reference = make_ref()

    with {:ok, ticket} <- Native.queue(instance, reference) do
      receive do
        {^reference, :ready} -> enter(instance, ticket, timeout, work)
      after
        timeout -> leave_queue(reference, ticket, timeout)
      end
    else
      error -> convert(error)
    end
  end

  # The turn has come; the caller may still have to make a replica.
  defp enter(instance, ticket, timeout, work), do: in_turn(work.(ticket), ticket, instance, timeout, work)

  defp fill(instance, ticket, timeout, work) do
    case Native.fill(instance, ticket) do
      # A turn is not tied to a replica. If another caller took this replica, the caller makes a new one.
      {:ok, ticket} -> enter(instance, ticket, timeout, work)
      # Another process made the replica, or released one.
      :busy -> enter(instance, ticket, timeout, work)
      error -> convert(error)
    end
  end

  defp leave_queue(reference, ticket, timeout) do
    Native.withdraw(ticket)

    receive do
      {^reference, :ready} -> :ok
    after
      0 -> :ok
    end

    error(:timeout, "the call passed its timeout of #{timeout} ms while it waited for its turn")
  end

  # Converts the result of a NIF.
  defp convert({:error, kind, message}), do: error(kind, message)
  defp convert({:done, results, {:packed, output}, fuel}), do: {:done, results, unpack(output), fuel}
  defp convert(result), do: result

  # A long list is made part by part, because making it at once would block the scheduler.
  defp unpack(packed) when is_binary(packed) do
    count = div(byte_size(packed), 8)
    Heap.with_room_in_time(2 * count, fn -> unpack(packed, count, []) end)
  end

  defp unpack(lists), do: Enum.map(lists, &if(is_binary(&1), do: unpack(&1), else: &1))

  defp unpack(_packed, 0, list), do: list

  defp unpack(packed, left, list) do
    {list, left} = Native.unpack(packed, left, list)
    unpack(packed, left, list)
  end

  defp status({:done, [status], output, fuel}) when is_integer(status), do: {:done, status, output, fuel}
  defp status({:done, [], output, fuel}), do: {:done, 0, output, fuel}

  defp status({:done, results, _output, _fuel}) do
    error(:bad_module, "a status is one integer, but the export returned #{Describe.value(results)}")
  end

  defp status(outcome), do: outcome

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
