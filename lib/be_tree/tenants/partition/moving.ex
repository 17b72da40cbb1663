defmodule BeTree.Tenants.Partition.Moving do
  @moduledoc false
  # Moves of tenants to other nodes: the tenant leaves memory, so that nothing of it changes. A process beside the partition restores it at the
  # target. Then it is dropped here. Other operations of the tenant wait meanwhile, and other tenants go on.
  #
  # If this process is killed before the drop, both places may have the tenant, each with an origin of its own. Another move makes one
  # of them again, and counts nothing twice.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.{CrashReport, Deadline}
  alias BeTree.Tenants.{Copy, Directory, Store, Transfer}
  alias BeTree.Tenants.Partition.{Leaving, State}

  @doc "Moves a tenant. Replies to `from`."
  @spec move(State.t(), term, Transfer.target(), Deadline.t(), GenServer.from()) :: State.t()
  def move(%{directory: directory, copies: copies} = state, tenant, target, deadline, from) do
    call = %{tenant: tenant, target: target, deadline: deadline, from: from, started: System.monotonic_time()}

    begin = fn
      :ok, state -> send_away(state, call)
      {:error, error}, state -> reply(state, call, {:error, error})
    end

    case copies do
      %{^tenant => copy} -> Leaving.leave(state, copy, begin)
      _cold -> begin.(with({:ok, _body} <- Copy.read(directory, tenant), do: :ok), state)
    end
  end

  # The process ends with this one, and has its result as its reason.
  defp send_away(%{directory: directory} = state, %{tenant: tenant, target: target, deadline: deadline} = call) do
    send_away = fn ->
      result = CrashReport.guard(fn -> Transfer.send_away(directory, tenant, target, deadline) end)
      exit({:shutdown, {__MODULE__, result}})
    end

    {_pid, reference} = :erlang.spawn_opt(send_away, [:link, :monitor])
    State.wait(state, tenant, reference, &sent(&1, &2, call))
  end

  defp sent({:shutdown, {__MODULE__, {:ok, counts}}}, %{directory: directory} = state, %{tenant: tenant} = call) do
    reference = make_ref()
    :ok = Store.drop(directory.store, tenant, {self(), reference})

    State.wait(state, tenant, reference, fn
      :ok, state ->
        Directory.put_usage(directory, tenant, [])
        metadata = %{tenant: tenant, target: call.target}
        State.emit(state, :move, %{duration: System.monotonic_time() - call.started}, metadata)
        reply(state, call, {:ok, counts})

      {:error, error}, state ->
        text = "the tenant is in #{describe(call)}, and also here, where it cannot be removed; move it again"
        reply(state, call, {:error, %{error | message: "#{text}: #{error.message}"}})
    end)
  end

  defp sent({:shutdown, {__MODULE__, {:error, error}}}, state, call), do: reply(state, call, {:error, error})

  defp sent(reason, state, call) do
    text = "a move to #{describe(call)} ended with #{Describe.reason(reason)}; move the tenant again"
    reply(state, call, {:error, %Error{kind: :no_server, message: text}})
  end

  defp describe(%{target: {name, node}}), do: "#{Describe.value(name)} of #{node}"

  defp reply(state, call, reply) do
    GenServer.reply(call.from, reply)
    state
  end
end
