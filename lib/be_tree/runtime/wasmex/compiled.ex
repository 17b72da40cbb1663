defmodule BeTree.Runtime.Wasmex.Compiled do
  @moduledoc false
  # Compiled modules, and the engine that all of them share. Each is made once and stays for the life of the VM.

  alias BeTree.Error
  alias BeTree.Runtime.Wasmex.{SavedGlobals, Types}

  # wasmex may be added after this module was compiled.
  @compile {:no_warn_undefined, [Wasmex.Engine, Wasmex.EngineConfig, Wasmex.Module, Wasmex.Store]}

  @derive {Inspect, only: []}
  @enforce_keys [:module, :wasm, :exports, :imports, :saved_globals]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          module: term,
          wasm: binary,
          exports: %{String.t() => BeTree.Runtime.external_type()},
          imports: [{String.t(), String.t(), BeTree.Runtime.external_type()}],
          saved_globals: {:ok, [String.t()]} | {:error, String.t()}
        }

  @typedoc "An engine of wasmex."
  @type engine :: term

  @doc "Returns a compiled module, and compiles it if necessary. wasmex runs this on a dirty scheduler."
  @spec load(binary) :: {:ok, t} | {:error, Error.t()}
  def load(wasm), do: once({__MODULE__, :crypto.hash(:sha256, wasm)}, fn -> compile(wasm) end)

  # wasmex takes the text format of WebAssembly too.
  defp compile(<<"\0asm", _rest::binary>> = wasm) do
    with {:ok, engine} <- engine(),
         {:ok, store} <- Wasmex.Store.new(nil, engine),
         {:ok, module} <- Wasmex.Module.compile(store, wasm) do
      imports = imports(module)
      # A module with imports has no instances, so there is no snapshot of one.
      saved_globals = if imports == [], do: SavedGlobals.globals(wasm), else: {:error, "it imports"}
      # The bytes may be part of a larger binary.
      wasm = :binary.copy(wasm)

      {:ok,
       %__MODULE__{module: module, wasm: wasm, exports: exports(module), imports: imports, saved_globals: saved_globals}}
    else
      {:error, reason} -> not_a_module(reason)
    end
  end

  defp compile(_other), do: not_a_module("it does not begin like one")

  defp exports(module) do
    Map.new(Wasmex.Module.exports(module), fn {name, type} -> {name, Types.external(type)} end)
  end

  defp imports(module) do
    for {from, names} <- Wasmex.Module.imports(module), {name, type} <- names, do: {from, name, Types.external(type)}
  end

  @doc "Returns the engine, with fuel and full optimization."
  @spec engine() :: {:ok, engine} | {:error, String.t()}
  def engine do
    once({__MODULE__, :engine}, fn ->
      Wasmex.EngineConfig
      |> struct!()
      |> Wasmex.EngineConfig.consume_fuel(true)
      |> Wasmex.EngineConfig.cranelift_opt_level(:speed)
      |> Wasmex.Engine.new()
    end)
  end

  defp once(key, make) do
    with nil <- :persistent_term.get(key, nil) do
      :global.trans({key, self()}, fn -> make_unless_made(key, make) end, [node()])
    end
  end

  defp make_unless_made(key, make) do
    with nil <- :persistent_term.get(key, nil),
         {:ok, _made} = made <- make.() do
      :persistent_term.put(key, made)
      made
    end
  end

  defp not_a_module(reason), do: error("not a WebAssembly module that can run here: #{reason}")

  defp error(message), do: {:error, %Error{kind: :bad_module, message: message}}
end
