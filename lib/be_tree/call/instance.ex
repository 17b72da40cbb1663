defmodule BeTree.Call.Instance do
  @moduledoc false
  # Makes instances of an index module, and runs every call into one except searches.

  alias BeTree.{Domain, Error, Guest}
  alias BeTree.Call.Reply
  alias BeTree.Runtime.Wasmtime

  @abi 1

  @conventions [inbox: "be_tree_inbox", outbox: "be_tree_outbox", resume: "be_tree_resume"]
  @stop "be_tree_stop"

  # Fuel limit of calls except searches, far above their need: about 2 seconds of wasm plus 20 microseconds per byte of input. At the
  # limit a change rolls back, if its module supports that (`be_tree_stop`), and an endless loop is cut off.
  @max_fuel 10_000_000_000
  @max_fuel_per_byte 100_000

  # Returns the bytes of a guest's module.
  @spec wasm(Guest.t()) :: binary
  def wasm(%Guest{runtime: runtime, compiled: compiled}), do: runtime.wasm(compiled)

  # Returns the built-in guest.
  @spec built_in(module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime), do: built_in(runtime, "be_tree.wasm", &Guest.load/2)

  # Returns the guest that `load` makes from a module in the application's priv directory and a runtime. Each runtime loads a
  # module once, for the life of the VM.
  @spec built_in(module, String.t(), (binary, module -> {:ok, Guest.t()} | {:error, Error.t()})) ::
          {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime, file, load) do
    with nil <- :persistent_term.get({__MODULE__, file, runtime}, nil),
         {:ok, wasm} <- read_built_in(file),
         {:ok, guest} <- load.(wasm, runtime) do
      :persistent_term.put({__MODULE__, file, runtime}, guest)
      {:ok, guest}
    else
      %Guest{} = guest -> {:ok, guest}
      {:error, error} -> {:error, error}
    end
  end

  defp read_built_in(name) do
    path = Application.app_dir(:be_tree, "priv/#{name}")

    with {:error, reason} <- File.read(path) do
      message =
        "cannot read #{path}: #{:file.format_error(reason)}; compile BeTree again (mix deps.compile be_tree --force)"

      {:error, %Error{kind: :bad_module, message: message}}
    end
  end

  # Returns a new instance with at most `memory` bytes, or one that begins as a snapshot. An instance of another version of
  # the interface is refused.
  @spec instantiate(Guest.t(), pos_integer, BeTree.Runtime.snapshot() | nil) ::
          {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def instantiate(%Guest{runtime: runtime, compiled: compiled}, memory, snapshot \\ nil) do
    options = [memory: memory, snapshot: snapshot, stop: @stop] ++ @conventions

    with {:ok, instance} <- runtime.instantiate(compiled, options) do
      case runtime.call(instance, "be_tree_abi", [], request(nil, :none)) do
        {:done, @abi, _output, _fuel} -> {:ok, instance}
        {:done, version, _output, _fuel} -> bad("it has version #{version} of the interface; expected #{@abi}")
        {:error, error} -> {:error, error}
      end
    end
  end

  # Returns a new instance with an empty index over `schema`.
  @spec begin(Guest.t(), [Domain.t()], pos_integer) :: {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def begin(%Guest{runtime: runtime} = guest, schema, memory) do
    schema = Domain.encode(schema)

    with {:ok, instance} <- instantiate(guest, memory),
         {:ok, output} <- call(runtime, instance, "be_tree_schema", [byte_size(schema)], schema),
         :ok <- Reply.nothing(output),
         do: {:ok, instance}
  end

  # Returns the counts and sizes of the index in an instance, as `BeTree.info/2` does.
  @spec info(module, BeTree.Runtime.instance(), timeout) :: {:ok, %{atom => non_neg_integer}} | {:error, Error.t()}
  def info(runtime, instance, timeout \\ :infinity) do
    with {:ok, output} <- call(runtime, instance, "be_tree_info", [], nil, timeout: timeout), do: Reply.info(output)
  end

  # Returns whether an instance can report that a new one would take less memory, and move to it.
  @spec renews?(Guest.t()) :: boolean
  def renews?(%Guest{runtime: runtime} = guest),
    do: function_exported?(runtime, :renew, 3) and exports?(guest, "be_tree_spent")

  # Returns an instance of replicas that begin as `snapshot`, with at most `memory` bytes each.
  @spec replicate(Guest.t(), BeTree.Runtime.snapshot(),
          memory: pos_integer,
          replicas: pos_integer,
          queue: non_neg_integer
        ) ::
          {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def replicate(%Guest{runtime: runtime, compiled: compiled}, snapshot, options) do
    runtime.replicate(compiled, snapshot, @conventions ++ options)
  end

  # Runs any operation but a search to its end, and returns its output.
  #
  #   * `:scheduler` - `:dirty` by default. An operation of some microseconds may run on `:normal`. Any operation may run in
  #     `:slices`, if its runtime can suspend it; killing its process then cuts it off. `:whole` is for operations that must not
  #     be cut off: they run in slices, or on a dirty scheduler if the runtime cannot suspend them;
  #   * `:timeout` - as in `BeTree.Runtime`: on `:dirty` schedulers a change that passes it rolls back.
  @spec call(module, BeTree.Runtime.instance(), String.t(), [integer], binary | nil,
          scheduler: :dirty | :normal | :slices | :whole,
          timeout: timeout
        ) :: {:ok, binary} | {:error, Error.t()}
  def call(runtime, instance, function, arguments, input, options \\ []) do
    request = input |> request(:binary) |> scheduled(Keyword.get(options, :scheduler, :dirty), runtime)
    request = Map.put(request, :timeout, Keyword.get(options, :timeout, :infinity))

    case to_end(runtime.call(instance, function, arguments, request), runtime) do
      {:done, 0, output, _fuel} -> {:ok, output}
      {:done, 1, refusal, _fuel} -> {:error, Reply.refusal(refusal)}
      {:done, status, _output, _fuel} -> {:error, Reply.bad("#{function} with status #{status}")}
      {:error, error} -> {:error, error}
    end
  end

  # These operations mostly write new memory, whose page faults cost time but no fuel.
  @fuel_of_growth_slice 100_000

  defp scheduled(request, :slices, runtime), do: %{request | scheduler: :normal, slice: runtime.default_slice()}
  defp scheduled(request, :whole, Wasmtime), do: %{request | scheduler: :whole, slice: @fuel_of_growth_slice}
  defp scheduled(request, :whole, _runtime), do: %{request | scheduler: :dirty}
  defp scheduled(request, scheduler, _runtime), do: %{request | scheduler: scheduler}

  # Each slice is charged a time slice, 4,000 reductions.
  defp to_end({:yield, suspended, _fuel}, runtime) do
    :erlang.bump_reductions(4_000)
    to_end(runtime.resume(suspended), runtime)
  end

  defp to_end(outcome, _runtime), do: outcome

  # Wipes everything in an instance except its subscriptions, if its module exports that.
  @spec forget(Guest.t(), BeTree.Runtime.instance()) :: :ok | {:error, Error.t()}
  def forget(%Guest{runtime: runtime} = guest, instance) do
    with true <- exports?(guest, "be_tree_forget"),
         {:ok, _nothing} <- call(runtime, instance, "be_tree_forget", [], nil) do
      :ok
    else
      false -> :ok
      {:error, error} -> {:error, error}
    end
  end

  # Returns whether the module of a guest has this optional export.
  @spec exports?(Guest.t(), String.t()) :: boolean
  def exports?(%Guest{runtime: runtime, compiled: compiled}, name) do
    List.keymember?(runtime.exports(compiled), name, 0)
  end

  # Returns the version of the interface that guests must have.
  @spec abi() :: non_neg_integer
  def abi, do: @abi

  # Returns the most fuel of a call with this input, except for searches.
  @spec max_fuel(binary | nil) :: pos_integer
  def max_fuel(input), do: @max_fuel + @max_fuel_per_byte * byte_size(input || "")

  defp request(input, output) do
    %{input: input, output: output, fuel: max_fuel(input), slice: :infinity, scheduler: :dirty}
  end

  defp bad(reason), do: {:error, %Error{kind: :bad_module, message: "this is no index module: #{reason}"}}
end
