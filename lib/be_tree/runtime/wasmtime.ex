defmodule BeTree.Runtime.Wasmtime do
  @moduledoc """
  The built-in runtime: wasmtime inside of the VM.

  A slice runs on the scheduler of the calling process, on a stack of its own; where its fuel is exhausted, the call is
  left at that instruction and later goes on there, on any scheduler. A call that finds its instance free sends no
  message and costs about a microsecond beside what it runs.

  A call that is cancelled, or whose process dies, leaves its instance usable: memory stands as the last instruction left
  it, and `__stack_pointer` is put back.
  """

  @behaviour BeTree.Runtime

  alias BeTree.{Error, Native, Runtime}

  @most 0xFFFF_FFFF_FFFF_FFFF

  @impl Runtime
  def available?, do: Native.load() == :ok

  @impl Runtime
  def load(wasm) when is_binary(wasm) do
    with :ok <- load_library(), do: compile(:crypto.hash(:sha256, wasm), wasm)
  end

  defp load_library do
    with {:error, reason} <- Native.load() do
      error(:bad_module, "the built-in runtime cannot be used here: #{reason}; compile the project again")
    end
  end

  defp compile(digest, wasm) do
    reference = make_ref()

    with :busy <- Native.compile(reference, digest, wasm) do
      receive do
        {^reference, answer} -> answer
      end
    end
    |> case do
      {:ok, compiled} -> {:ok, compiled}
      {:error, kind, message} -> error(kind, message)
    end
  end

  @impl Runtime
  defdelegate exports(compiled), to: Native, as: :module_exports

  @impl Runtime
  defdelegate imports(compiled), to: Native, as: :module_imports

  @impl Runtime
  def instantiate(compiled, options) do
    options = Keyword.validate!(options, [:memory, inbox: nil, outbox: nil])
    memory = min(Keyword.fetch!(options, :memory), @most)
    answer(Native.instantiate(compiled, memory, options[:inbox], options[:outbox]))
  end

  @impl Runtime
  def call(instance, export, arguments, request), do: status(invoke(instance, export, arguments, request))

  @impl Runtime
  def resume(suspended), do: status(continue(suspended))

  @impl Runtime
  defdelegate cancel(suspended), to: Native

  @impl Runtime
  def info(instance) do
    {memory, limit, state, waiting} = Native.info(instance)
    %{memory: memory, limit: limit, state: state, waiting: waiting}
  end

  @doc """
  `call/4` for an export with any number of results of any type: answers `{:done, results, output, fuel}`.

  Integers are answered signed, and taken signed or unsigned. A float that is not finite is answered as `:nan`,
  `:infinity` or `:negative_infinity`. To go on after a yield there is `continue/1`.
  """
  @spec invoke(Runtime.instance(), String.t(), [integer | float], Runtime.request()) ::
          {:done, [integer | float | atom], binary | [non_neg_integer] | nil, non_neg_integer}
          | {:yield, Runtime.suspended(), non_neg_integer}
          | {:error, Error.t()}
  def invoke(instance, export, arguments, request) do
    case run(instance, nil, export, arguments, request) do
      :busy -> answer(in_turn(instance, &run(instance, &1, export, arguments, request)))
      answer -> answer(answer)
    end
  end

  @doc "`resume/1` for a call that `invoke/4` began."
  @spec continue(Runtime.suspended()) ::
          {:done, [integer | float | atom], binary | [non_neg_integer] | nil, non_neg_integer}
          | {:yield, Runtime.suspended(), non_neg_integer}
          | {:error, Error.t()}
  def continue(suspended), do: answer(Native.resume(suspended))

  @doc "Reads `length` bytes of an instance's memory, on a dirty scheduler. Waits while a call holds the instance."
  @spec read(Runtime.instance(), non_neg_integer, non_neg_integer) :: {:ok, binary} | {:error, Error.t()}
  def read(instance, address, length) do
    with :busy <- Native.read(instance, nil, address, length) do
      in_turn(instance, &Native.read(instance, &1, address, length))
    end
    |> answer()
  end

  @doc "Writes to an instance's memory, on a dirty scheduler. Waits while a call holds the instance."
  @spec write(Runtime.instance(), non_neg_integer, binary) :: :ok | {:error, Error.t()}
  def write(instance, address, bytes) do
    with :busy <- Native.write(instance, nil, address, bytes) do
      in_turn(instance, &Native.write(instance, &1, address, bytes))
    end
    |> answer()
  end

  defp run(instance, ticket, export, arguments, %{scheduler: :normal} = request) do
    %{input: input, output: output, fuel: fuel, slice: slice} = request
    Native.call(instance, ticket, export, arguments, input, output, fuel(fuel), fuel(slice))
  end

  defp run(instance, ticket, export, arguments, %{scheduler: :dirty} = request) do
    %{input: input, output: output, fuel: fuel} = request
    Native.call_dirty(instance, ticket, export, arguments, input, output, fuel(fuel))
  end

  defp fuel(fuel) when is_integer(fuel) and fuel > @most, do: @most
  defp fuel(fuel), do: fuel

  # The reference is made here, so that the receive need not look at the messages that were there before.
  defp in_turn(instance, work) do
    reference = make_ref()
    ticket = Native.queue(instance, reference)

    receive do
      {^reference, :ready} -> work.(ticket)
    end
  end

  defp answer({:error, kind, message}), do: error(kind, message)
  defp answer(answer), do: answer

  defp status({:done, [status], output, fuel}) when is_integer(status), do: {:done, status, output, fuel}
  defp status({:done, [], output, fuel}), do: {:done, 0, output, fuel}

  defp status({:done, results, _output, _fuel}) do
    error(:bad_module, "a status is one integer, but the export answered #{inspect(results)}")
  end

  defp status(answer), do: answer

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
