defmodule BeTree.Runtime.Wasmex.Call do
  @moduledoc false
  # A call, slice by slice, from the check-out of its machine to the check-in. A slice is one round of requests:
  # add fuel, run the export until it ends or traps for lack of fuel, and read the remaining fuel and the outbox.
  #
  # After such a trap the call continues as docs/contributing/abi.md specifies under Interruption: the stack pointer is restored, and
  # the third word of the outbox holds the progress and the next export to call.

  alias BeTree.{Error, Runtime}
  alias BeTree.Runtime.Wasmex.{Checkout, Instance, Machine}

  @derive {Inspect, only: []}
  @enforce_keys [:instance, :number, :id, :export, :arguments, :output, :budget, :slice, :scheduler]
  defstruct @enforce_keys

  @type t :: %__MODULE__{}

  # The most fuel that a slice gets to reach the next checkpoint, and this much more for each byte of the input: far more
  # than any step of an index takes.
  @most_slice 1_000_000_000
  @most_slice_per_byte 1_000

  # The fuel of one stretch of a call that cannot be suspended. It continues this long when its process is killed.
  @stretch 1_000_000_000

  # The number of output bytes to read before the length is known: enough for 126 ids, or somewhat more than the last output,
  # up to an amount that is copied quickly.
  @least_guess 1_024
  @most_guess 262_144

  @lists [:u64s, :u64_lists, :u64_binaries]

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

  @doc "Runs the next slice of a suspended call."
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

  @doc "Cancels a suspended call."
  @spec cancel(t) :: :ok
  def cancel(%__MODULE__{} = call) do
    if take(call), do: leave(call, :ok), else: :ok
  end

  defp take(call), do: Checkout.resume(call.instance.group, call.number, call.id)

  defp leave(call, outcome) do
    Checkout.check_in(call.instance.group, call.number)
    outcome
  end

  # `before` holds the requests that come first, `progress` the progress at the last trap, and `used` the fuel so far.
  defp run(call, machine, before, progress, slice, used) do
    poured = min(slice, call.budget - used)
    guess = guess(call, machine)
    Machine.put(machine, :torn, 1)

    [outcome, left | read] =
      machine
      |> Machine.round(before ++ [{:fuel, poured}, next(call, progress), :fuel_left] ++ reads(machine, guess))
      |> Enum.drop(length(before) + 1)

    used = used + poured - left
    if machine.memory, do: Machine.put(machine, :bytes, hd(read))

    case outcome do
      {:ok, results} ->
        Machine.put(machine, :torn, 0)
        leave(call, done(call, machine, results, read, guess, used))

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

  # The requests after the call: the size of the memory, the outbox, and the probable place of the output.
  defp reads(%{memory: nil}, _guess), do: []
  defp reads(%{outbox: nil}, _guess), do: [:size]
  defp reads(%{outbox: outbox}, nil), do: [:size, {:read, outbox, 12}]
  defp reads(%{outbox: outbox}, {address, length}), do: [:size, {:read, outbox, 12}, {:read, address, length}]

  # The probable place of the output, and the bytes to read.
  defp guess(%{output: output}, machine) when output in @lists do
    case Machine.get(machine, :result) do
      0 -> nil
      address -> {address, machine |> Machine.get(:length) |> max(@least_guess) |> min(@most_guess)}
    end
  end

  defp guess(_call, _machine), do: nil

  defp done(call, machine, results, read, guess, used) do
    with {:ok, status} <- status(results),
         {:ok, output} <- output(call, machine, status, read, guess),
         do: {:done, status, output, used}
  end

  defp status([]), do: {:ok, 0}
  defp status([status]) when is_integer(status), do: {:ok, status}

  defp status(results) do
    error(:bad_module, "a status is one integer, but the export returned #{BeTree.Input.Describe.value(results)}")
  end

  defp output(%{output: :none}, _machine, _status, _read, _guess), do: {:ok, nil}

  defp output(call, machine, status, [_size, <<address::little-32, length::little-32, _::32>> | read], guess) do
    with {:ok, bytes} <- bytes(machine, address, length, read, guess) do
      if call.output in @lists and status == 0 do
        Machine.put(machine, :result, address)
        Machine.put(machine, :length, length + div(length, 4))
        lists(call.output, bytes)
      else
        {:ok, bytes}
      end
    end
  end

  defp bytes(_machine, address, length, [read], {address, guessed}) when is_binary(read) and length <= guessed do
    {:ok, binary_part(read, 0, length)}
  end

  defp bytes(machine, address, length, _read, _guess), do: Machine.read(machine, "the outbox", address, length)

  defp lists(_output, bytes) when rem(byte_size(bytes), 8) != 0 do
    error(
      :bad_module,
      "the output has #{byte_size(bytes)} bytes, which is no whole number of 64-bit integers"
    )
  end

  defp lists(:u64s, bytes), do: {:ok, numbers(bytes)}
  defp lists(:u64_lists, bytes), do: each(bytes, &numbers/1, [])
  # A sub-binary would keep the whole binary in memory.
  defp lists(:u64_binaries, bytes), do: each(bytes, &:binary.copy/1, [])

  defp each("", _make, made), do: {:ok, Enum.reverse(made)}

  defp each(<<count::little-64, rest::binary>>, make, made) do
    left = div(byte_size(rest), 8)

    if count <= left do
      {list, rest} = :erlang.split_binary(rest, 8 * count)
      each(rest, make, [make.(list) | made])
    else
      error(:bad_module, "the output has a list of #{count} integers where #{left} are left")
    end
  end

  defp numbers(bytes), do: for(<<number::little-64 <- bytes>>, do: number)

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

  defp most_slice(machine), do: @most_slice + @most_slice_per_byte * Machine.get(machine, :input)

  defp progress([_size, <<_address::32, _length::32, progress::little-32>> | _]), do: progress
  defp progress(_no_outbox), do: nil

  defp go_on(%{slice: :infinity} = call, machine, progress, slice, used) do
    run(call, machine, Machine.stack_operations(machine), progress, slice, used)
  end

  defp go_on(call, machine, progress, slice, used) do
    for {cell, value} <- [used: used, slice: slice, progress: progress], do: Machine.put(machine, cell, value)
    Checkout.suspend(call.instance.group, call.number, call.id)
    {:yield, call, used}
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
