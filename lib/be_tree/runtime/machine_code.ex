defmodule BeTree.Runtime.MachineCode do
  @moduledoc false
  # The machine code of modules: loaded from the folder of the build, or from the cache, or else compiled.
  #
  # The host reads and writes the files (wasm/host/src/compile/code_files.rs). `compile_ahead/3` fills the folder of the build,
  # in a VM that `mix compile.be_tree_code` starts.

  alias BeTree.Input.Describe
  alias BeTree.Processes.Log
  alias BeTree.Runtime.Native
  alias BeTree.Telemetry.Sink

  @built "native/code"

  @typedoc "The folder of the build and the cache, if they are present."
  @type folders :: {Path.t() | nil, Path.t() | nil}

  @doc "Returns the folder of the build in a `priv` directory."
  @spec built(Path.t()) :: Path.t()
  def built(priv), do: Path.join(priv, @built)

  @doc """
  Returns the folders of this VM.

  Raises an `ArgumentError` if the application's environment names no folder as `:code_cache`.
  """
  @spec folders() :: folders
  def folders, do: {built_here(:code.priv_dir(:be_tree)), cache(Application.get_env(:be_tree, :code_cache))}

  defp built_here({:error, :bad_name}), do: nil
  defp built_here(priv), do: priv |> List.to_string() |> built()

  defp cache(nil), do: nil
  defp cache(path) when is_binary(path) and path != "", do: Path.expand(path)

  defp cache(other) do
    raise ArgumentError, "config :be_tree, :code_cache is the path of a folder, a string, got: #{Describe.value(other)}"
  end

  @doc """
  Returns the SHA-256 of a module.

  That of a module of this library is read, and the module is compared with its file: `:crypto` takes 40 milliseconds to load.
  """
  @spec digest(binary, folders) :: binary
  def digest(wasm, {built, _cache}) do
    with true <- built != nil,
         {:ok, <<digest::binary-32, file::binary>>} <- File.read(digest_file(built, wasm)),
         # Another module may have this size and checksum.
         {:ok, ^wasm} <- File.read(Path.join([built, "../..", file])) do
      digest
    else
      _other_module -> :crypto.hash(:sha256, wasm)
    end
  end

  # Its content is the digest, and the name of the module's file in the `priv` directory.
  defp digest_file(folder, wasm), do: Path.join(folder, "#{byte_size(wasm)}-#{:erlang.crc32(wasm)}.digest")

  @doc "Returns `{:ok, module}` for the module with this SHA-256, or the host's error. Waits until its code is there."
  @spec load(binary, binary, folders) :: {:ok, BeTree.Runtime.compiled()} | {:error, atom, String.t()}
  def load(digest, wasm, {_built, cache} = folders) do
    started = System.monotonic_time()

    with {:ok, module, source, fault} <- request(digest, wasm, folders) do
      if fault, do: warn(cache, fault)
      measurements = %{duration: System.monotonic_time() - started, bytes: byte_size(wasm)}
      Sink.event([:module, :compile], measurements, %{source: source})
      {:ok, module}
    end
  end

  # No timeout: a busy machine takes minutes, and the host always replies. The module leaves the queue if its callers die.
  defp request(digest, wasm, folders) do
    reference = make_ref()

    with :busy <- Native.compile(reference, digest, wasm, folders) do
      receive(do: ({^reference, reply} -> reply))
    end
  end

  defp warn(cache, fault) do
    text = "the folder #{cache} (config :be_tree, :code_cache) cannot keep the code of compiled modules: #{fault}"

    Log.warning(text)
  end

  @doc """
  Compiles the modules in `files`, and writes their code to `folder`. The host is that of a `priv` directory.

  Ends the VM, with the status 0, or with the status 1 and the reason on the standard output.
  """
  @spec compile_ahead(Path.t(), Path.t(), [Path.t()]) :: no_return
  def compile_ahead(priv, folder, files) do
    with :ok <- Native.load(priv), :ok <- compile_all(files, folder) do
      System.halt(0)
    else
      {:error, _kind, reason} ->
        IO.puts(reason)
        System.halt(1)
    end
  end

  defp compile_all(files, folder) do
    modules = for file <- files, wasm = File.read!(file), do: {Path.basename(file), wasm, :crypto.hash(:sha256, wasm)}

    replies =
      modules
      |> Enum.map(fn {_file, wasm, digest} -> Task.async(fn -> compile(wasm, digest, folder) end) end)
      |> Task.await_many(:infinity)

    with :ok <- Enum.find(replies, :ok, &(&1 != :ok)) do
      for {file, wasm, digest} <- modules, do: File.write!(digest_file(folder, wasm), digest <> file)
      :ok
    end
  end

  defp compile(wasm, digest, folder) do
    case request(digest, wasm, {nil, folder}) do
      {:ok, _module, _source, nil} -> :ok
      {:ok, _module, _source, fault} -> {:error, :file, fault}
      {:error, kind, reason} -> {:error, kind, reason}
    end
  end
end
