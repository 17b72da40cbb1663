defmodule BeTree.Runtime.Wasmex.Instance do
  @moduledoc false
  # One machine, or one for each replica, behind a checkout, with the data that all of them share.
  #
  # wasmex has no notice of a term's garbage collection. So all machines exist from the start and live as long as the instance; the
  # memory of a replica is filled at its first use.

  alias BeTree.Error
  alias BeTree.Runtime.Wasmex.{Compiled, Machine, Snapshot, Types}

  @derive {Inspect, only: []}
  @enforce_keys [:machines, :group, :compiled, :limit, :queue, :inbox, :resume, :snapshot]
  defstruct @enforce_keys

  @type t :: %__MODULE__{}

  @max_u64 BeTree.Input.Limits.max_u64()

  @outputs [:none, :binary, :u64s, :u64_lists, :u64_binaries]

  # A larger inbox is requested each time, so that the module can free the room.
  @large_inbox 1_048_576

  @doc "Returns an instance of `count` machines, each with the memory of `snapshot` unless that is nil."
  @spec new(Compiled.t(), pos_integer, Snapshot.t() | nil, keyword) :: {:ok, t} | {:error, Error.t()}
  def new(compiled, count, snapshot, options) do
    with :ok <- check_imports(compiled.imports),
         :ok <- check_conventions(compiled.exports, options),
         :ok <- Snapshot.check(snapshot, compiled),
         {:ok, engine} <- Compiled.engine(),
         {:ok, machines} <- machines(engine, compiled, count, options) do
      {:ok,
       %__MODULE__{
         machines: List.to_tuple(machines),
         group: make_ref(),
         compiled: compiled,
         limit: options[:memory],
         queue: Keyword.get(options, :queue, :infinity),
         inbox: options[:inbox],
         resume: options[:resume],
         snapshot: snapshot
       }}
    end
  end

  defp check_imports([]), do: :ok

  defp check_imports([{from, name, _type} | _rest]) do
    bad("the module imports #{from}.#{name}; a module that runs here imports nothing")
  end

  defp check_conventions(exports, options) do
    Enum.find_value([inbox: [:i32], outbox: [], resume: []], :ok, fn {convention, parameters} ->
      if name = options[convention], do: check_convention(exports, name, {:function, parameters, [:i32]})
    end)
  end

  defp check_convention(exports, name, expected) do
    case exports do
      %{^name => ^expected} ->
        nil

      %{^name => {:function, _parameters, _results} = found} ->
        bad("the function #{name} has the type #{signature(found)}, and must have #{signature(expected)}")

      %{} ->
        bad("the module exports no function #{name}")
    end
  end

  defp signature({:function, parameters, results}) do
    "(#{Enum.join(parameters, ", ")}) -> (#{Enum.join(results, ", ")})"
  end

  defp machines(_engine, _compiled, 0, _options), do: {:ok, []}

  defp machines(engine, compiled, count, options) do
    with {:ok, machine} <- Machine.new(engine, compiled, options[:memory], options[:outbox]),
         {:ok, others} <- machines(engine, compiled, count - 1, options),
         do: {:ok, [machine | others]}
  end

  @spec machine(t, non_neg_integer) :: Machine.t()
  def machine(instance, number), do: elem(instance.machines, number)

  @doc "Returns the number of calls that may run at once."
  @spec count(t) :: pos_integer
  def count(instance), do: tuple_size(instance.machines)

  @doc "Converts an amount of fuel for wasmex."
  @spec bounded(pos_integer | :infinity) :: pos_integer
  def bounded(fuel) when is_integer(fuel), do: min(fuel, @max_u64)
  def bounded(:infinity), do: @max_u64

  @doc """
  Checks that a call can be made. A wrong request raises an `ArgumentError`.
  """
  @spec check(t, String.t(), term, BeTree.Runtime.request()) :: {:ok, [integer | float]} | {:error, Error.t()}
  def check(instance, export, arguments, %{input: input, output: output, fuel: fuel, slice: slice}) do
    unless amount?(fuel) and amount?(slice) and output in @outputs and
             (is_binary(input) or input == nil) do
      raise ArgumentError, "not a request: #{BeTree.Input.Describe.value(fuel: fuel, slice: slice, output: output)}"
    end

    with :ok <- check_input(instance, input),
         :ok <- check_output(instance, output),
         do: Types.arguments(instance.compiled.exports, export, arguments)
  end

  defp amount?(amount), do: amount == :infinity or (is_integer(amount) and amount > 0)

  defp check_input(%{inbox: nil}, input) when input != nil, do: bad("the instance has no inbox for the input")
  defp check_input(_instance, _input), do: :ok

  defp check_output(instance, output) when output != :none do
    if machine(instance, 0).outbox, do: :ok, else: bad("the instance has no outbox for an output")
  end

  defp check_output(_instance, :none), do: :ok

  @doc "Returns the requests that come before a call on a machine with this input."
  @spec prepare(t, non_neg_integer, binary | nil) :: {:ok, [Machine.operation()]} | {:error, Error.t()}
  def prepare(instance, number, input) do
    machine = machine(instance, number)
    with :ok <- fill(instance, machine), do: offer(instance, machine, input)
  end

  defp fill(%{snapshot: nil}, _machine), do: :ok

  defp fill(%{snapshot: snapshot}, machine) do
    with 0 <- Machine.get(machine, :filled),
         :ok <- Snapshot.restore(snapshot, machine) do
      Machine.put(machine, :filled, 1)
    else
      1 -> :ok
      {:error, error} -> {:error, error}
    end
  end

  defp offer(_instance, machine, nothing) when nothing in [nil, ""] do
    Machine.put(machine, :input, 0)
    {:ok, []}
  end

  defp offer(instance, machine, input) do
    length = byte_size(input)
    Machine.put(machine, :input, length)

    with :ok <- open_inbox(instance, machine, length) do
      if length > @large_inbox, do: Machine.put(machine, :capacity, 0)
      {:ok, Machine.write_operations(Machine.get(machine, :inbox), input)}
    end
  end

  defp open_inbox(instance, machine, length) do
    cond do
      length <= Machine.get(machine, :capacity) -> :ok
      length > 0xFFFF_FFFF -> error(:out_of_memory, "an input of #{length} bytes is over 4 GiB")
      true -> enlarge_inbox(instance, machine, length)
    end
  end

  defp enlarge_inbox(instance, machine, length) do
    <<signed::signed-32>> = <<length::32>>
    # A call that does not return may have moved the inbox.
    Machine.put(machine, :capacity, 0)

    with {:ok, address} <- Machine.convention(machine, instance.inbox, [signed]) do
      size = Machine.get(machine, :bytes)

      cond do
        address == 0 ->
          error(:out_of_memory, "the module has no room for an input of #{length} bytes")

        address + length > size ->
          Machine.outside("the inbox", address, length, size)

        true ->
          Machine.put(machine, :inbox, address)
          Machine.put(machine, :capacity, length)
      end
    end
  end

  @doc "Marks a replica that trapped, so that it is filled again at its next use. It keeps the memory that it grew."
  @spec lose(t, non_neg_integer) :: :ok
  def lose(%{snapshot: nil}, _number), do: :ok
  def lose(instance, number), do: Machine.put(machine(instance, number), :filled, 0)

  @doc "Returns the number of machines that were used, and the last known bytes of their memories. Sends no request."
  @spec used(t) :: {pos_integer, non_neg_integer}
  def used(%{snapshot: nil} = instance), do: {1, Machine.get(machine(instance, 0), :bytes)}

  def used(instance) do
    filled = for machine <- Tuple.to_list(instance.machines), Machine.get(machine, :filled) == 1, do: machine
    {length(filled), filled |> Enum.map(&Machine.get(&1, :bytes)) |> Enum.sum()}
  end

  defp bad(message), do: error(:bad_module, message)
  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
