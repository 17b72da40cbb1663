defmodule BeTree.Tenants.Request do
  @moduledoc false
  # Requests to the partition of a tenant (BeTree.Tenants.Partition), from any process.
  #
  # A partition that ends is started again by its supervisor. A request that may be made twice is then made again. A change, a drop, a
  # restore and a move are not: their caller learns that they may have been made.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.Deadline
  alias BeTree.Tenants.{Body, Clock, Directory, Dump, Shards}

  # Milliseconds between two calls of a partition that starts again, and how often.
  @pause_ms 5
  @max_attempts 1_000

  @doc """
  Returns the row of a tenant, which is loaded if it is not in memory, for a match on this day. Asks again if the partition ends
  meanwhile.
  """
  @spec load(Directory.t(), term, Clock.day(), timeout) :: {:ok, Directory.row()} | {:error, Error.t()}
  def load(directory, tenant, day, timeout), do: repeat(directory, tenant, {:load, tenant, day}, timeout, @max_attempts)

  @doc """
  Returns a body with the statistics of a tenant in memory, and without expressions, when all days that ended are in the store. Returns
  `:cold` for any other tenant.
  """
  @spec statistics(Directory.t(), term, timeout) :: {:ok, Body.t()} | :cold | {:error, Error.t()}
  def statistics(directory, tenant, timeout),
    do: repeat(directory, tenant, {:statistics, tenant}, timeout, @max_attempts)

  @doc "Writes a body of a tenant."
  @spec snapshot(Directory.t(), term, timeout) :: :ok | {:error, Error.t()}
  def snapshot(directory, tenant, timeout), do: repeat(directory, tenant, {:snapshot, tenant}, timeout, @max_attempts)

  @doc "Writes what tenants have counted. All requests are under way at once, so the store takes them in few groups."
  @spec snapshot_many(Directory.t(), [term]) :: [:ok | {:error, Error.t()}]
  def snapshot_many(directory, tenants) do
    sent = for tenant <- tenants, do: {tenant, send_request(directory, {:write, tenant})}

    for {tenant, request} <- sent do
      with nil <- reply(request), do: repeat(directory, tenant, {:write, tenant}, :infinity, @max_attempts)
    end
  end

  defp send_request(directory, {_kind, tenant} = request) do
    if pid = Directory.partition_process(directory, Directory.partition(directory, tenant)),
      do: :gen_server.send_request(pid, request)
  end

  # Returns `nil` if the partition ended before it replied.
  defp reply(nil), do: nil

  defp reply(request) do
    case :gen_server.receive_response(request, :infinity) do
      {:reply, reply} -> reply
      {:error, _ended} -> nil
    end
  end

  @doc "Removes a tenant from memory. The store keeps it."
  @spec evict(Directory.t(), term, timeout) :: :ok | {:error, Error.t()}
  def evict(directory, tenant, timeout), do: repeat(directory, tenant, {:evict, tenant}, timeout, @max_attempts)

  @doc "Changes a tenant, or creates it."
  @spec change(Directory.t(), term, Body.change(), timeout) :: {:ok, map} | {:error, Error.t()}
  def change(directory, tenant, change, timeout), do: call(directory, tenant, {:change, tenant, change}, timeout)

  @doc "Forgets a tenant with all of its data."
  @spec drop(Directory.t(), term, timeout) :: :ok | {:error, Error.t()}
  def drop(directory, tenant, timeout), do: call(directory, tenant, {:drop, tenant}, timeout)

  @doc "Creates a tenant from a dump, or merges the dump with the tenant."
  @spec restore(Directory.t(), Dump.content(), :error | :keep | :replace, timeout) :: {:ok, map} | {:error, Error.t()}
  def restore(directory, %{tenant: tenant} = content, existing, timeout),
    do: call(directory, tenant, {:restore, tenant, content, existing}, timeout)

  @doc "Moves a tenant to the tenants `name` of another node."
  @spec move(Directory.t(), term, {name :: atom, node}, timeout) :: {:ok, map} | {:error, Error.t()}
  def move(directory, tenant, target, timeout),
    do: call(directory, tenant, {:move, tenant, target, Deadline.new(timeout)}, timeout)

  @doc "Forgets a shard that trapped. Its tenants are loaded into others when they are used."
  @spec lost(Directory.t(), term, Shards.id(), timeout) :: :ok | {:error, Error.t()}
  def lost(directory, tenant, id, timeout), do: repeat(directory, tenant, {:lost, id}, timeout, @max_attempts)

  # A request that may be made twice.
  defp repeat(directory, tenant, request, timeout, attempts) do
    case call(directory, tenant, request, timeout) do
      {:error, %Error{kind: :no_server}} when attempts > 1 ->
        with {:ok, _directory} <- Directory.fetch(directory.name) do
          Process.sleep(@pause_ms)
          repeat(directory, tenant, request, timeout, attempts - 1)
        end

      reply ->
        reply
    end
  end

  defp call(directory, tenant, request, timeout) do
    case Directory.partition_process(directory, Directory.partition(directory, tenant)) do
      nil -> Directory.missing(directory.name)
      pid -> GenServer.call(pid, request, timeout)
    end
  catch
    :exit, {:timeout, _call} ->
      message =
        "the tenants #{Describe.value(directory.name)} did not reply within #{timeout} ms: a change may still be made"

      {:error, %Error{kind: :timeout, message: message}}

    :exit, {reason, _call} ->
      message =
        "a process of the tenants #{Describe.value(directory.name)} ended before it replied#{Describe.because(reason)}: a change " <>
          "may have been made or not"

      {:error, %Error{kind: :no_server, message: message}}
  end
end
