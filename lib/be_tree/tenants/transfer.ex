defmodule BeTree.Tenants.Transfer do
  @moduledoc false
  # Dumps, restores and moves, in the processes that ask for them. A partition's part is in BeTree.Tenants.Partition.Restoring and
  # BeTree.Tenants.Partition.Moving.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.Deadline
  alias BeTree.Tenants.{Copy, Directory, Dump, Request, Usage}

  # How often a tenant is sent whose bill grows meanwhile, by calls that began before the move.
  @max_attempts 5

  @type target :: {name :: atom, node}
  @type existing :: :error | :keep | :replace

  @doc """
  Returns the dump of a tenant, whose statistics are stored first. So a later crash leaves nothing behind that is in the dump and not in the
  store, which later counts of the same origin would have to follow.
  """
  @spec dump(Directory.t(), term, timeout) :: {:ok, binary} | {:error, Error.t()}
  def dump(directory, tenant, timeout) do
    with :ok <- Request.snapshot(directory, tenant, timeout), do: Dump.make(directory, tenant)
  end

  @doc "Restores a dump."
  @spec restore(Directory.t(), binary, existing, timeout) :: {:ok, map} | {:error, Error.t()}
  def restore(directory, dump, existing, timeout) do
    deadline = Deadline.new(timeout)

    with {:ok, content} <- Dump.read(directory, dump),
         do: Request.restore(directory, content, existing, Deadline.left(deadline))
  end

  @doc "Restores at the target the dump of a tenant that is not in memory here, and on which no other operation works."
  @spec send_away(Directory.t(), term, target, Deadline.t()) :: {:ok, map} | {:error, Error.t()}
  def send_away(directory, tenant, target, deadline), do: send_away(directory, tenant, target, deadline, @max_attempts)

  defp send_away(directory, tenant, target, deadline, attempts) do
    bill = bill(directory, tenant)

    with :ok <- Copy.write_bill(directory, tenant),
         {:ok, dump} <- Dump.make(directory, tenant),
         {:ok, counts} <- deliver(target, tenant, dump, Deadline.left(deadline)) do
      if attempts == 1 or bill(directory, tenant) == bill,
        do: {:ok, counts},
        else: send_away(directory, tenant, target, deadline, attempts - 1)
    end
  end

  defp bill(directory, tenant),
    do: for({day, counters, _stored} <- Directory.usage(directory, tenant), do: {day, Usage.totals(counters)})

  defp deliver({name, node} = target, tenant, dump, timeout) do
    case :erpc.call(node, __MODULE__, :arrive, [name, tenant, dump, self(), timeout], timeout) do
      {:ok, counts} -> {:ok, counts}
      {:error, %Error{} = error} -> {:error, at(target, error)}
    end
  catch
    kind, reason -> {:error, at(target, unreachable(kind, reason))}
  end

  @doc """
  Restores a dump at the target, for a process at the source. With the argument `tenant`, the runtime has made its atoms here.

  A source that has ended may have sent the tenant again meanwhile, and it may have changed, so this dump must not replace it.
  """
  @spec arrive(atom, term, binary, pid, timeout) :: {:ok, map} | {:error, Error.t()}
  def arrive(name, _tenant, dump, source, timeout) do
    monitor = Process.monitor(source)

    with {:ok, directory} <- Directory.fetch(name),
         {:ok, content} <- Dump.read(directory, dump),
         :ok <- check_source(monitor),
         do: Request.restore(directory, content, :replace, timeout)
  end

  defp check_source(monitor) do
    receive do
      {:DOWN, ^monitor, :process, _source, _reason} ->
        {:error, %Error{kind: :no_server, message: "the process that moved the tenant has ended"}}
    after
      0 -> :ok
    end
  end

  defp unreachable(:error, {:erpc, :timeout}), do: %Error{kind: :timeout, message: "it did not reply in time"}

  defp unreachable(_kind, {:erpc, _reason}),
    do: %Error{kind: :no_server, message: "its node cannot be reached, or was lost before it replied"}

  defp unreachable(kind, reason),
    do: %Error{kind: :no_server, message: "it could not reply: #{kind} #{Describe.reason(reason)}"}

  defp at({name, node}, error) do
    text = "the tenant stays here, because #{Describe.value(name)} of #{node} did not confirm that it has it"
    %{error | message: "#{text}: #{error.message}", position: nil}
  end
end
