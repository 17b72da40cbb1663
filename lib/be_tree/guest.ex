defmodule BeTree.Guest do
  @moduledoc """
  A guest is an index module, loaded and checked, ready to run in the sandbox.

  The built-in module lies in the application's `priv` directory. Any WebAssembly module with the same exports can replace
  it ([the ABI](abi.md)). `BeTree.new/2` takes the bytes of a module, or a guest, which is compiled once for many trees:

      {:ok, guest} = BeTree.Guest.load(File.read!("my_index.wasm"))
      {:ok, tree} = BeTree.new([age: :integer], guest: guest)

  Errors have the kind `:bad_module`: the module imports anything, lacks an export, or has one of another type or interface
  version. A guest reaches nothing outside its memory, and its results are checked.
  """

  alias BeTree.Input.{Check, Describe}
  alias BeTree.Error

  @enforce_keys [:runtime, :compiled]
  defstruct @enforce_keys

  @typedoc "A loaded module. Its fields are private."
  @type t :: %__MODULE__{runtime: module, compiled: BeTree.Runtime.compiled()}

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

  # A guest may lack these exports.
  @optional [
    {"be_tree_forget", {:function, [], [:i32]}},
    {"be_tree_spent", {:function, [], [:i32]}},
    {"be_tree_check", {:function, [:i32], [:i32]}},
    {"be_tree_check_as_erl", {:function, [:i32], [:i32]}},
    {"be_tree_put", {:function, [:i32], [:i32]}},
    {"be_tree_change", {:function, [:i32], [:i32]}},
    {"be_tree_has", {:function, [:i64], [:i32]}},
    {"be_tree_ids", {:function, [], [:i32]}},
    {"be_tree_keep_reasons", {:function, [], [:i32]}},
    {"be_tree_reasons", {:function, [:i32, :i32, :i32], [:i32]}},
    {"be_tree_draw", {:function, [], [:i32]}},
    {"be_tree_profile", {:function, [:i32, :i32], [:i32]}},
    {"be_tree_profile_part", {:function, [], [:i32]}},
    {"be_tree_profile_counts", {:function, [], [:i32]}},
    {"be_tree_shard", {:function, [:i32], [:i32]}},
    {"be_tree_tenant_change", {:function, [:i32, :i32], [:i32]}},
    {"be_tree_tenant_drop", {:function, [:i32], [:i32]}},
    {"be_tree_tenant_search", {:function, [:i32, :i32, :i32, :i32], [:i32]}},
    {"be_tree_tenant_match", {:function, [:i32, :i32, :i32, :i32, :i32], [:i32]}},
    {"be_tree_tenant_match_many", {:function, [:i32, :i32, :i32, :i32, :i32], [:i32]}},
    {"be_tree_tenant_statistics", {:function, [:i32], [:i32]}},
    {"be_tree_tenant_sealed", {:function, [:i32], [:i32]}},
    {"be_tree_tenant_release", {:function, [:i32, :i32], [:i32]}},
    {"be_tree_tenant_restore", {:function, [:i32, :i32], [:i32]}},
    {"be_tree_tenant_freeze", {:function, [:i32], [:i32]}},
    {"be_tree_tenant_info", {:function, [:i32], [:i32]}},
    {"be_tree_report", {:function, [:i32], [:i32]}},
    {"be_tree_merge", {:function, [:i32], [:i32]}}
  ]

  @doc """
  Compiles and checks the module in `wasm`. Returns `{:ok, guest}`.

  Compiling takes seconds, minutes on a busy machine. It runs on a thread of the runtime, not on a scheduler.

  Returns `{:error, error}` with the kind `:bad_module` and the fault in the message, `:out_of_memory` or `:overloaded`.

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

  # The size of the memory is not checked.
  defp same?(:memory, {:memory, 32, _minimum, _maximum}), do: true
  defp same?(type, type), do: true
  defp same?(_type, _other), do: false

  @doc false
  # Returns whether `value` is valid for the option `:guest`.
  @spec option?(term) :: boolean
  def option?(guest), do: guest == nil or is_binary(guest) or is_struct(guest, __MODULE__)

  defp bad(fault), do: {:error, %Error{kind: :bad_module, message: "this is no index module: #{fault}"}}

  defimpl Inspect do
    def inspect(%{runtime: runtime}, _options), do: "#BeTree.Guest<#{Kernel.inspect(runtime)}>"
  end
end
