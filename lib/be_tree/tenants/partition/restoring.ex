defmodule BeTree.Tenants.Partition.Restoring do
  @moduledoc false
  # Restores of dumps: the tenant enters a shard, which accepts or refuses its expressions. Then the store gets the body and the days together,
  # and the restore is acknowledged.
  #
  # The figures of a dump become entries of their origins in the records of days (BeTree.Tenants.Day), so the copy here begins without
  # any, or keeps those that it has. Entries of its own origin are in it already.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Tenants.{Body, Copy, Day, Directory, Dump, Store, Transfer}
  alias BeTree.Tenants.Partition.{Leaving, Loading, State}

  @doc "Restores a dump. Replies to `from`."
  @spec restore(State.t(), Dump.content(), Transfer.existing(), GenServer.from()) :: State.t()
  def restore(%{directory: directory} = state, %{tenant: tenant} = content, existing, from) do
    call = %{tenant: tenant, content: content, from: from, started: System.monotonic_time()}

    case {Copy.read(directory, tenant), existing} do
      {{:ok, _body}, :error} -> fail(state, call, exists(tenant))
      {{:ok, body}, :keep} -> add_days(state, body, call)
      {{:ok, _body}, :replace} -> replace(state, call)
      {{:error, %Error{kind: :not_found}}, _any} -> enter(state, %Body{origin: Day.new_origin()}, call, true)
      {{:error, error}, _any} -> fail(state, call, error)
    end
  end

  defp exists(tenant) do
    message =
      "there is a tenant #{Describe.value(tenant)}; say with `existing:` whether its expressions stay (:keep), or those of the dump " <>
        "come in their place (:replace)"

    %Error{kind: :exists, message: message}
  end

  defp fail(state, call, error) do
    GenServer.reply(call.from, {:error, error})
    state
  end

  defp succeed(%{directory: directory} = state, body, days, call) do
    Directory.count(directory, :restores)
    State.emit(state, :restore, %{duration: System.monotonic_time() - call.started}, %{tenant: call.tenant})
    counts = %{tenant: call.tenant, expressions: map_size(body.expressions), days: length(days)}
    GenServer.reply(call.from, {:ok, counts})
    State.written(state)
  end

  # The copy stays where it is.
  defp add_days(%{directory: directory} = state, body, call) do
    case new_days(directory, body.origin, call) do
      {:ok, []} ->
        succeed(state, body, [], call)

      {:ok, days} ->
        write(state, nil, days, call, fn
          :ok, state -> succeed(state, body, days, call)
          {:error, error}, state -> fail(state, call, error)
        end)

      {:error, error} ->
        fail(state, call, error)
    end
  end

  defp replace(%{directory: directory, copies: copies} = state, %{tenant: tenant} = call) do
    enter = fn
      :ok, state ->
        case Copy.read(directory, tenant) do
          {:ok, body} -> enter(state, body, call, false)
          {:error, error} -> fail(state, call, error)
        end

      {:error, error}, state ->
        fail(state, call, error)
    end

    case copies do
      %{^tenant => copy} -> Leaving.leave(state, copy, enter)
      _cold -> enter.(:ok, state)
    end
  end

  defp enter(%{directory: directory} = state, body, %{tenant: tenant} = call, new?) do
    body = struct!(body, settings(call.content))

    with {:ok, days} <- new_days(directory, body.origin, call),
         {:ok, copy, state} <- Loading.enter(state, tenant, body) do
      # A partition that starts again after this one keeps the statistics of the copy, if the store knows the tenant.
      :ets.insert(directory.intents, {{tenant, copy.shard_id, copy.number}, :change})
      state = State.arrived(state, copy)

      case Copy.check_memory(copy, directory) do
        :ok ->
          write(state, body, days, call, fn
            :ok, state -> state |> show(copy) |> succeed(body, days, call) |> Leaving.shed(tenant)
            {:error, error}, state -> state |> take_back(copy, new?) |> State.warn(error) |> fail(call, error)
          end)

        {:error, error} ->
          state |> take_back(copy, new?) |> fail(call, error)
      end
    else
      {:error, error} -> fail(state, call, error)
      {:error, error, state} -> fail(state, call, error)
    end
  end

  defp settings(%{change: change, debt: debt}) do
    %{
      expressions: Map.new(change.put),
      stats: Map.get(change, :stats, :default),
      quota: Map.get(change, :quota, :default),
      instance: Map.get(change, :instance, :shared),
      debt: debt
    }
  end

  # Returns the days whose records the dump changes.
  defp new_days(_directory, _own, %{content: %{days: []}}), do: {:ok, []}

  defp new_days(directory, own, %{tenant: tenant, content: %{days: days}}) do
    {{first, _record}, {last, _other}} = Enum.min_max_by(days, &elem(&1, 0))

    with {:ok, records} <- Copy.days(directory, tenant, first..last) do
      {:ok,
       for {day, record} <- days,
           stored = Map.get(records, day, %{}),
           merged = Day.merge(stored, Map.delete(record, own)),
           merged != stored do
         {day, merged}
       end}
    end
  end

  defp write(%{directory: directory} = state, body, days, %{tenant: tenant}, finish) do
    reference = make_ref()
    days = for {day, record} <- days, do: {day, Day.encode(record)}

    case Store.put_all(directory.store, tenant, body && Body.encode(body), days, {self(), reference}) do
      :ok -> State.wait(state, tenant, reference, finish)
      {:error, error} -> finish.({:error, error}, state)
    end
  end

  # The copy may have been lost meanwhile, with its shard.
  defp show(%{directory: directory, copies: copies} = state, copy) do
    if Map.has_key?(copies, copy.tenant), do: Copy.show(copy, directory)
    :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
    state
  end

  defp take_back(%{directory: directory, copies: copies} = state, %{tenant: tenant} = copy, new?) do
    if new?, do: Directory.put_usage(directory, tenant, [])
    if Map.has_key?(copies, tenant), do: Leaving.discard(state, copy), else: state
  end
end
