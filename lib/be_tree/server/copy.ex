defmodule BeTree.Server.Copy do
  @moduledoc false
  # Copies the present index of a server, from a replica that has applied the whole log.

  alias BeTree.{Error, Index}
  alias BeTree.Server.{Lookup, Request, Table}

  @doc "Returns the index with all acknowledged changes, the base that it continues, and its version."
  @spec take(BeTree.Server.name(), timeout) :: {:ok, {Index.t(), Table.base(), Table.version()}} | {:error, Error.t()}
  def take(name, timeout) do
    with {:ok, name} <- Request.table(name),
         {:ok, %{index: %{runtime: runtime} = index, origin: origin} = base} <- Lookup.base(name),
         {:ok, snapshot} <- runtime.snapshot(index.instance, timeout),
         {:ok, {memory, publish}} <- Table.limits(name),
         {:ok, copy} <-
           Index.new(index.guest, index.schema, snapshot, index.fuel_per_reduction, [memory: memory] ++ publish) do
      {:ok, {copy, base, origin + applied(runtime, snapshot)}}
    end
  end

  # Without a log, each change makes a base.
  defp applied(runtime, snapshot) do
    if function_exported?(runtime, :snapshot_applied, 1), do: runtime.snapshot_applied(snapshot), else: 0
  end

  @doc "Returns the index with all acknowledged changes, for its own use. The ids of such an index are integers."
  @spec index(BeTree.Server.name(), timeout) :: {:ok, Index.t()} | {:error, Error.t()}
  def index(name, timeout) do
    with {:ok, kind} <- Request.kind(name),
         :ok <- check_kind(kind),
         {:ok, {index, _base, _version}} <- take(name, timeout),
         do: {:ok, index}
  end

  defp check_kind(:integer), do: :ok

  defp check_kind(_term) do
    message =
      "an index, an image and a profile have integers for ids, and the ids of this server are terms; keep it by :dir, or follow it"

    {:error, %Error{kind: :type, message: message}}
  end
end
