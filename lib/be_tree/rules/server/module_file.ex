defmodule BeTree.Rules.Server.ModuleFile do
  @moduledoc false
  # The module of rules that a folder was written with, in a file of that folder.
  #
  # The memory in a base is that of one module, and only that module can read it. The same module also repeats the calls of a journal as
  # they were made. So a version of BeTree with another module runs the one in the folder, in the sandbox, until it has the facts.

  alias BeTree.Call.Instance
  alias BeTree.{Error, Guest}
  alias BeTree.Journal.{Fault, Files}
  alias BeTree.Rules.Module

  @typedoc "The SHA-256 of a module."
  @type digest :: binary

  @spec digest(Guest.t()) :: digest
  def digest(guest), do: :crypto.hash(:sha256, Instance.wasm(guest))

  @doc "Writes the module to the folder, if it is not there."
  @spec keep(module, Path.t(), Guest.t()) :: :ok | {:error, Error.t()}
  def keep(files, folder, guest) do
    wasm = Instance.wasm(guest)
    path = path(folder, digest(guest))

    with false <- files.size(path) == {:ok, byte_size(wasm)},
         {:ok, device} <- Files.create_whole(files, path, [{0, wasm}]) do
      _ = files.close(device)
      :ok
    else
      true -> :ok
      {:error, error} -> {:error, error}
    end
  end

  @doc "Returns the module with this digest: the present one, or that of the folder."
  @spec find(module, Path.t(), digest, runtime :: module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def find(files, folder, digest, runtime) do
    with {:ok, present} <- Module.built_in(runtime) do
      if digest(present) == digest, do: {:ok, present}, else: load(files, path(folder, digest), digest, runtime)
    end
  end

  defp load(files, path, digest, runtime) do
    with {:ok, size} <- files.size(path),
         {:ok, wasm} <- Files.with_device(files, path, &read(files, &1, path, size)) do
      if :crypto.hash(:sha256, wasm) == digest,
        do: Module.load(wasm, runtime),
        else: Fault.damaged(path, "its content has another digest than its name")
    else
      {:error, :enoent} -> missing(path)
      {:error, reason} when is_atom(reason) -> Fault.file("read", path, reason)
      {:error, error} -> {:error, error}
    end
  end

  defp read(files, device, path, size) do
    case files.pread(device, 0, size) do
      {:ok, wasm} -> {:ok, wasm}
      :eof -> Fault.damaged(path, "it is empty")
      {:error, reason} -> Fault.file("read", path, reason)
    end
  end

  defp missing(path) do
    message =
      "the facts of this folder were written by another version of BeTree, and its module #{path} is missing; take the file from a " <>
        "copy of the folder, or start that version"

    {:error, %Error{kind: :bad_module, message: message}}
  end

  @doc "Removes all modules of the folder but this one. One that cannot be removed stays until the next start."
  @spec remove_others(module, Path.t(), Guest.t()) :: :ok
  def remove_others(files, folder, guest) do
    kept = name(digest(guest))

    with {:ok, names} <- files.list(folder),
         do: for("module-" <> _digest = name <- names, name != kept, do: files.delete(Path.join(folder, name)))

    :ok
  end

  defp path(folder, digest), do: Path.join(folder, name(digest))
  defp name(digest), do: "module-#{Base.encode16(digest, case: :lower)}.wasm"
end
