if Code.ensure_loaded?(Wasmex) do
  defmodule BeTree.Runtime.Wasmex.Call do
    @moduledoc false
    # A call, from when it has a machine until it lets go of it, slice by slice. A slice is one round of questions: fuel is
    # poured, the export runs until it ends or traps for want of fuel, and what is left and the outbox are read.
    #
    # After such a trap the call goes on as docs/abi.md says under Interruption: the stack pointer is put back, and the
    # third word of the outbox tells whether there was progress, and what to call next.

    alias BeTree.{Error, Runtime}
    alias BeTree.Runtime.Wasmex.{Gate, Instance, Machine}

    @enforce_keys [:instance, :number, :id, :export, :arguments, :output, :budget, :slice, :scheduler]
    defstruct @enforce_keys

    @type t :: %__MODULE__{}

    # The most fuel that a slice is given to reach the next checkpoint, with as much more for each byte that the inbox has
    # room for: far more than any step of an index takes.
    @most_slice 1_000_000_000
    @most_slice_per_byte 1_000

    # The fuel of a stretch of a call that is not to be suspended: what its process leaves running when it is killed.
    @stretch 1_000_000_000

    # How much of the answer is read before its length is known: what holds 126 ids.
    @guess 1_024

    @doc "Calls an export on the machine with this number, which the calling process holds until the call ends."
    @spec start(Instance.t(), non_neg_integer, String.t(), [integer | float], Runtime.request()) :: Runtime.outcome()
    def start(instance, number, export, arguments, request) do
      call = %__MODULE__{
        instance: instance,
        number: number,
        id: System.unique_integer([:positive]),
        export: export,
        arguments: arguments,
        output: request.output,
        budget: Instance.bounded(request.fuel),
        slice: request.slice,
        scheduler: request.scheduler
      }

      with {:ok, before} <- Instance.prepare(instance, number, request.input) do
        machine = Instance.machine(instance, number)
        run(call, machine, Machine.restore_operations(machine) ++ before, 0, first_slice(call), 0)
      else
        {:error, error} -> leave(call, {:error, error})
      end
    end

    defp first_slice(%{scheduler: :dirty, budget: budget}), do: budget
    defp first_slice(%{slice: :infinity}), do: @stretch
    defp first_slice(%{slice: slice}), do: Instance.bounded(slice)

    @doc "Runs the next slice of a call that is suspended."
    @spec resume(t) :: Runtime.outcome()
    def resume(%__MODULE__{} = call) do
      if take(call) do
        machine = Instance.machine(call.instance, call.number)
        [used, slice, progress] = for cell <- [:used, :slice, :progress], do: Machine.get(machine, cell)
        run(call, machine, Machine.stack_operations(machine), progress, slice, used)
      else
        {:error, %Error{kind: :not_found, message: "there is nothing to resume: the call ended or was cancelled"}}
      end
    end

    @doc "Gives a suspended call up."
    @spec cancel(t) :: :ok
    def cancel(%__MODULE__{} = call) do
      if take(call), do: leave(call, :ok), else: :ok
    end

    defp take(call), do: Gate.resume(call.instance.group, call.number, call.id)

    defp leave(call, outcome) do
      Gate.leave(call.instance.group, call.number)
      outcome
    end

    # `before` is what is done first, `progress` what the last trap left in the outbox, `used` the fuel of the slices so far.
    defp run(call, machine, before, progress, slice, used) do
      poured = min(slice, call.budget - used)
      guessed = if call.output == :u64s, do: Machine.get(machine, :answer), else: 0
      Machine.put(machine, :torn, 1)

      [outcome, left | read] =
        machine
        |> Machine.round(before ++ [{:fuel, poured}, next(call, progress), :fuel_left] ++ reads(call, machine, guessed))
        |> Enum.drop(length(before) + 1)

      used = used + poured - left

      case outcome do
        {:ok, results} ->
          Machine.put(machine, :torn, 0)
          leave(call, done(call, machine, results, read, guessed, used))

        {:error, reason} ->
          if Machine.out_of_fuel?(reason) do
            exhausted(call, machine, read, progress, slice, used)
          else
            Instance.lose(call.instance, call.number)
            leave(call, {:error, Machine.failure(reason)})
          end
      end
    end

    # The inbox still holds the input of a call that had not begun.
    defp next(call, 0), do: {:call, call.export, call.arguments}
    defp next(call, _progress), do: {:call, call.instance.resume, []}

    defp reads(call, machine, guessed) do
      outbox = if machine.outbox, do: [{:read, machine.outbox, 12}], else: []
      guess = if guessed > 0, do: [{:read, guessed, @guess}], else: []
      size = if call.scheduler == :dirty and machine.memory != nil, do: [:size], else: []
      outbox ++ guess ++ size
    end

    defp done(call, machine, results, read, guessed, used) do
      if call.scheduler == :dirty and machine.memory != nil, do: Machine.put(machine, :bytes, List.last(read))

      with {:ok, status} <- status(results),
           {:ok, output} <- output(call, machine, status, read, guessed),
           do: {:done, status, output, used}
    end

    defp status([]), do: {:ok, 0}
    defp status([status]) when is_integer(status), do: {:ok, status}

    defp status(results) do
      error(:bad_module, "a status is one integer, but the export answered #{inspect(results)}")
    end

    defp output(%{output: :none}, _machine, _status, _read, _guessed), do: {:ok, nil}

    defp output(call, machine, status, [<<address::little-32, length::little-32, _::32>> | read], guessed) do
      with {:ok, bytes} <- bytes(machine, address, length, read, guessed) do
        if call.output == :u64s and status == 0 do
          Machine.put(machine, :answer, address)
          u64s(bytes)
        else
          {:ok, bytes}
        end
      end
    end

    defp bytes(_machine, address, length, [guess | _], address) when is_binary(guess) and length <= @guess do
      {:ok, binary_part(guess, 0, length)}
    end

    defp bytes(machine, address, length, _read, _guessed), do: Machine.read(machine, "the outbox", address, length)

    defp u64s(bytes) when rem(byte_size(bytes), 8) == 0, do: {:ok, for(<<number::little-64 <- bytes>>, do: number)}
    defp u64s(bytes), do: error(:bad_module, "the outbox holds #{byte_size(bytes)} bytes, which are no 64-bit integers")

    defp exhausted(call, machine, read, before, slice, used) do
      progress = progress(read)

      cond do
        used >= call.budget or call.scheduler == :dirty ->
          leave(call, error(:out_of_fuel, "the call used all of its fuel; give it a larger budget"))

        call.instance.resume == nil or progress == nil ->
          leave(call, error(:out_of_fuel, "the call used the fuel of its slice, and nothing can resume it"))

        progress == before and slice >= most_slice(machine) ->
          leave(call, error(:out_of_fuel, "the call made no progress in a slice of #{slice} fuel"))

        true ->
          slice = if progress == before, do: min(2 * slice, most_slice(machine)), else: slice
          go_on(call, machine, progress, slice, used)
      end
    end

    defp most_slice(machine), do: @most_slice + @most_slice_per_byte * Machine.get(machine, :capacity)

    defp progress([<<_address::32, _length::32, progress::little-32>> | _]), do: progress
    defp progress(_no_outbox), do: nil

    defp go_on(%{slice: :infinity} = call, machine, progress, slice, used) do
      run(call, machine, Machine.stack_operations(machine), progress, slice, used)
    end

    defp go_on(call, machine, progress, slice, used) do
      for {cell, value} <- [used: used, slice: slice, progress: progress], do: Machine.put(machine, cell, value)
      Gate.suspend(call.instance.group, call.number, call.id)
      {:yield, call, used}
    end

    defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
  end
end
