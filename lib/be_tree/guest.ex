defmodule BeTree.Guest do
  @moduledoc """
  The index module that runs in the sandbox: loaded, checked, and called.

  The built-in one lies in the application's `priv` directory. Any WebAssembly module with the same exports can take its
  place (`docs/abi.md`): `BeTree.new/2` takes its bytes, or, where many trees share it, a guest that is compiled once:

      {:ok, guest} = BeTree.Guest.load(File.read!("my_index.wasm"))
      {:ok, tree} = BeTree.new([age: :integer], guest: guest)

  A module is refused as `:bad_module` if it imports anything, lacks an export, has one of another type, or speaks
  another version of the interface. It can reach nothing outside its memory, and what it answers is checked.
  """

  alias BeTree.{Domain, Error, Fuel}
  alias BeTree.Engine.{Answer, Check, Describe}

  @enforce_keys [:runtime, :compiled]
  defstruct @enforce_keys

  @typedoc "A module that is loaded; its fields are private."
  @type t :: %__MODULE__{runtime: module, compiled: BeTree.Runtime.compiled()}

  @abi 1

  @exports [
    {"memory", :memory},
    {"__stack_pointer", {:global, :i32, :mutable}},
    {"be_tree_abi", {:function, [], [:i32]}},
    {"be_tree_inbox", {:function, [:i32], [:i32]}},
    {"be_tree_outbox", {:function, [], [:i32]}},
    {"be_tree_schema", {:function, [:i32], [:i32]}},
    {"be_tree_insert", {:function, [:i32], [:i32]}},
    {"be_tree_delete", {:function, [:i64], [:i32]}},
    {"be_tree_search", {:function, [:i32, :i32, :i32, :i32], [:i32]}},
    {"be_tree_search_many", {:function, [:i64, :i32, :i32, :i32, :i32], [:i32]}},
    {"be_tree_more", {:function, [:i64], [:i32]}},
    {"be_tree_resume", {:function, [], [:i32]}},
    {"be_tree_prepare", {:function, [:i32, :i32], [:i32]}},
    {"be_tree_explain", {:function, [:i32, :i32, :i64], [:i32]}},
    {"be_tree_info", {:function, [], [:i32]}}
  ]

  # What a guest may lack.
  @optional [
    {"be_tree_forget", {:function, [], [:i32]}},
    {"be_tree_spent", {:function, [], [:i32]}},
    {"be_tree_check", {:function, [:i32], [:i32]}},
    {"be_tree_keep_reasons", {:function, [], [:i32]}},
    {"be_tree_reasons", {:function, [:i32, :i32, :i32], [:i32]}},
    {"be_tree_draw", {:function, [], [:i32]}}
  ]

  @conventions [inbox: "be_tree_inbox", outbox: "be_tree_outbox", resume: "be_tree_resume"]

  # Far more than any call but a search takes, and an end to a module that has none: about 2 seconds of wasm, and
  # 20 microseconds for each byte of input.
  @patience 10_000_000_000
  @patience_per_byte 100_000

  @doc """
  Compiles and checks the module in `wasm`, in seconds rather than microseconds, but not on a scheduler.

  Errors by kind: `:bad_module`, naming what is wrong, and `:out_of_memory`.

      iex> {:error, error} = BeTree.Guest.load(<<0, "asm", 1, 0, 0, 0>>)
      iex> error.kind
      :bad_module
      iex> Exception.message(error) =~ "memory, __stack_pointer, be_tree_abi"
      true
  """
  @spec load(binary, module) :: {:ok, t} | {:error, Error.t()}
  def load(wasm, runtime \\ BeTree.Runtime.default())

  def load(wasm, runtime) when is_binary(wasm) do
    Check.runtime!(runtime)

    with {:ok, compiled} <- runtime.load(wasm),
         :ok <- check_imports(runtime.imports(compiled)),
         :ok <- check_exports(Map.new(runtime.exports(compiled))),
         do: {:ok, %__MODULE__{runtime: runtime, compiled: compiled}}
  end

  def load(other, _runtime), do: Check.expected!("the bytes of a WebAssembly module", other)

  defp check_imports([]), do: :ok

  defp check_imports(imports) do
    names = Enum.map_join(imports, ", ", fn {module, name, _type} -> "#{module}.#{name}" end)
    bad("it imports #{names}; an index module imports nothing")
  end

  defp check_exports(exports) do
    missing = for {name, _type} <- @exports, not is_map_key(exports, name), do: name
    known = @exports ++ @optional
    other = for {name, type} <- known, is_map_key(exports, name), not same?(type, exports[name]), do: {name, type}

    case {missing, other} do
      {[], []} ->
        :ok

      {[], [{name, type} | _]} ->
        bad("its export #{name} is #{Describe.value(exports[name])}; expected #{Describe.value(type)}")

      {missing, _other} ->
        bad("it does not export #{Enum.join(missing, ", ")}")
    end
  end

  # How many pages a memory has is the module's own affair.
  defp same?(:memory, {:memory, 32, _minimum, _maximum}), do: true
  defp same?(type, type), do: true
  defp same?(_type, _other), do: false

  @doc false
  # The bytes of a guest's module.
  @spec wasm(t) :: binary
  def wasm(%__MODULE__{runtime: runtime, compiled: compiled}), do: runtime.wasm(compiled)

  @doc false
  # The built-in guest, read and checked once for each runtime and kept for the life of the VM.
  @spec built_in(module) :: {:ok, t} | {:error, Error.t()}
  def built_in(runtime) do
    with nil <- :persistent_term.get({__MODULE__, runtime}, nil),
         {:ok, wasm} <- read_built_in(),
         {:ok, guest} <- load(wasm, runtime) do
      :persistent_term.put({__MODULE__, runtime}, guest)
      {:ok, guest}
    else
      %__MODULE__{} = guest -> {:ok, guest}
      {:error, error} -> {:error, error}
    end
  end

  defp read_built_in do
    path = Application.app_dir(:be_tree, "priv/be_tree.wasm")

    with {:error, reason} <- File.read(path) do
      message = "cannot read #{path}: #{:file.format_error(reason)}; compile the project again"
      {:error, %Error{kind: :bad_module, message: message}}
    end
  end

  @doc false
  # A fresh instance with `memory` bytes at most, or one that begins as a snapshot, which speaks our version of the
  # interface.
  @spec instantiate(t, pos_integer, BeTree.Runtime.snapshot() | nil) ::
          {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def instantiate(%__MODULE__{runtime: runtime, compiled: compiled}, memory, snapshot \\ nil) do
    options = [memory: memory, snapshot: snapshot] ++ @conventions

    with {:ok, instance} <- runtime.instantiate(compiled, options) do
      case runtime.call(instance, "be_tree_abi", [], request(nil, :none)) do
        {:done, @abi, _output, _fuel} -> {:ok, instance}
        {:done, version, _output, _fuel} -> bad("it speaks version #{version} of the interface; expected #{@abi}")
        {:error, error} -> {:error, error}
      end
    end
  end

  @doc false
  # A fresh instance that holds an empty index over `domains`.
  @spec begin(t, [Domain.t()], pos_integer) :: {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def begin(%__MODULE__{runtime: runtime} = guest, domains, memory) do
    schema = Domain.encode(domains)

    with {:ok, instance} <- instantiate(guest, memory),
         {:ok, answer} <- call(runtime, instance, "be_tree_schema", [byte_size(schema)], schema),
         :ok <- Answer.nothing(answer),
         do: {:ok, instance}
  end

  @doc false
  # Whether an instance can tell that a new one would do as well, and go on as that one.
  @spec renews?(t) :: boolean
  def renews?(%__MODULE__{runtime: runtime} = guest),
    do: function_exported?(runtime, :renew, 4) and exports?(guest, "be_tree_spent")

  @doc false
  # An instance of replicas that begin as `snapshot`, with `memory` bytes at most each.
  @spec replicate(t, BeTree.Runtime.snapshot(), memory: pos_integer, replicas: pos_integer, queue: non_neg_integer) ::
          {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def replicate(%__MODULE__{runtime: runtime, compiled: compiled}, snapshot, options) do
    runtime.replicate(compiled, snapshot, @conventions ++ options)
  end

  @doc false
  # Any operation but a search: to its end, and its answer.
  #
  #   * `:scheduler` - `:dirty` by default. What takes some microseconds may run on the `:normal` one; in `:slices` anything
  #     may, if its runtime can suspend it: a process that is killed meanwhile cuts it short;
  #   * `:timeout` - as `BeTree.Runtime` has it.
  @spec call(module, BeTree.Runtime.instance(), String.t(), [integer], binary | nil,
          scheduler: :dirty | :normal | :slices,
          timeout: timeout
        ) :: {:ok, binary} | {:error, Error.t()}
  def call(runtime, instance, function, arguments, input, options \\ []) do
    request = input |> request(:binary) |> scheduled(Keyword.get(options, :scheduler, :dirty))
    request = Map.put(request, :timeout, Keyword.get(options, :timeout, :infinity))

    case to_end(runtime.call(instance, function, arguments, request), runtime) do
      {:done, 0, answer, _fuel} -> {:ok, answer}
      {:done, 1, refusal, _fuel} -> {:error, Answer.refusal(refusal)}
      {:done, status, _answer, _fuel} -> {:error, Answer.bad("#{function} with status #{status}")}
      {:error, error} -> {:error, error}
    end
  end

  defp scheduled(request, :slices), do: %{request | scheduler: :normal, slice: Fuel.default_slice()}
  defp scheduled(request, scheduler), do: %{request | scheduler: scheduler}

  # A slice is a time slice (BeTree.Fuel), which is 4,000 reductions.
  defp to_end({:yield, suspended, _fuel}, runtime) do
    :erlang.bump_reductions(4_000)
    to_end(runtime.resume(suspended), runtime)
  end

  defp to_end(outcome, _runtime), do: outcome

  @doc false
  # Has an instance forget all but its subscriptions, where its module knows how to.
  @spec forget(t, BeTree.Runtime.instance()) :: :ok | {:error, Error.t()}
  def forget(%__MODULE__{runtime: runtime} = guest, instance) do
    with true <- exports?(guest, "be_tree_forget"),
         {:ok, _nothing} <- call(runtime, instance, "be_tree_forget", [], nil) do
      :ok
    else
      false -> :ok
      {:error, error} -> {:error, error}
    end
  end

  defp exports?(%__MODULE__{runtime: runtime, compiled: compiled}, name) do
    List.keymember?(runtime.exports(compiled), name, 0)
  end

  @doc false
  # The version of the interface that guests have to speak.
  @spec abi() :: non_neg_integer
  def abi, do: @abi

  defp request(input, output) do
    patience = @patience + @patience_per_byte * byte_size(input || "")
    %{input: input, output: output, fuel: patience, slice: :infinity, scheduler: :dirty}
  end

  defp bad(what), do: {:error, %Error{kind: :bad_module, message: "this is no index module: #{what}"}}

  defimpl Inspect do
    def inspect(%{runtime: runtime}, _options), do: "#BeTree.Guest<#{Kernel.inspect(runtime)}>"
  end
end
