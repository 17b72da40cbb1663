defmodule BeTree.Tenants.Partition.Rounds do
  @moduledoc false
  # The rounds of a partition: new days, the retention, and the statistics of copies that changed since the store last got them.

  alias BeTree.Error
  alias BeTree.Tenants.{Clock, Copy, Directory, Store}
  alias BeTree.Tenants.Partition.{Leaving, Loading, State}

  # The tenants saved for one message `:save`. Then the process handles the other messages in its mailbox.
  @max_saved_at_once 16
  # Saving takes at most a twentieth of the partition's time. Without this limit a round over a thousand tenants, with a hundred sketches
  # and 50 KB each, would hold up the loads and changes of all tenants.
  @save_share 20

  @doc "Begins a round. The process receives `:save` until all statistics are written."
  @spec begin(State.t()) :: State.t()
  def begin(state), do: %{state | stuck: false} |> roll() |> expire() |> begin_saving() |> Leaving.shed(nil)

  # Shows the copies on a new day, so that few matches ask for that.
  defp roll(%{directory: directory} = state) do
    today = Clock.day(directory.options.clock)

    for {tenant, copy} <- state.copies,
        {_key, _shard, _id, _number, day, _c, _s, _b, _clock} <- List.wrap(Directory.row(directory.name, tenant)),
        day < today,
        do: Copy.show(copy, directory)

    state
  end

  # One partition lets the store remove the days before the retention.
  defp expire(%{partition: 0, directory: directory} = state) do
    case Clock.day(directory.options.clock) do
      today when today == state.expired ->
        state

      today ->
        case Store.expire(directory.store, today) do
          :ok -> %{state | expired: today}
          {:error, error} -> State.warn(state, error)
        end
    end
  end

  defp expire(state), do: state

  defp begin_saving(%{unsaved: [], copies: copies, directory: directory} = state) do
    send(self(), :save)
    %{state | unsaved: for({tenant, copy} <- copies, due?(copy, directory), do: tenant), round_began: now_ms()}
  end

  # The round before has not ended.
  defp begin_saving(state), do: state

  # Without a folder the statistics would be in the same memory twice.
  defp due?(copy, %{options: %{dir: nil}}), do: Copy.tail_full?(copy)
  defp due?(copy, directory), do: Copy.changed?(copy, directory)

  defp now_ms, do: System.monotonic_time(:millisecond)

  @doc "Writes the statistics of some copies."
  @spec save(State.t()) :: State.t()
  def save(state) do
    {microseconds, state} = :timer.tc(fn -> save_some(state, @max_saved_at_once) end)

    if state.unsaved == [],
      do: Directory.put_round(state.directory, state.partition, now_ms() - state.round_began),
      else: Process.send_after(self(), :save, div(microseconds * (@save_share - 1), 1_000))

    state
  end

  defp save_some(state, count) when count == 0 or state.unsaved == [], do: state

  defp save_some(%{unsaved: [tenant | unsaved]} = state, count) do
    state = %{state | unsaved: unsaved}

    case state do
      %{busy: %{^tenant => _waiting}} -> save_some(state, count)
      %{copies: %{^tenant => copy}} -> state |> save_one(copy, Copy.tail_full?(copy)) |> save_some(count - 1)
      _cold -> save_some(state, count)
    end
  end

  # A long tail becomes a body; otherwise only the statistics are written.
  defp save_one(%{directory: directory} = state, copy, true) do
    case Copy.save(copy, directory) do
      {:ok, copy} -> state |> State.written() |> State.put_copy(copy)
      {:error, error} -> failed(state, copy, error)
    end
  end

  defp save_one(state, copy, false), do: write(state, copy, fn _reply, state -> state end)

  @doc "Writes the statistics of a copy, and continues with the reply of the store. Other operations of the tenant go on meanwhile."
  @spec write(State.t(), Copy.t(), State.finish()) :: State.t()
  def write(%{directory: directory} = state, copy, done) do
    mark = Copy.mark(copy, directory)

    with :ok <- Copy.settle(copy, directory),
         {:ok, fields} <- Copy.statistics(copy, directory),
         {:ok, copy} <- Copy.measure(copy) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})

      state
      |> State.expect(reference, fn
        :ok, state -> done.(:ok, State.written(state))
        {:error, error} = refused, state -> done.(refused, state |> unmark(copy.tenant) |> State.warn(error))
      end)
      |> State.put_copy(%{copy | mark: mark})
    else
      {:error, error} = refused -> done.(refused, failed(state, copy, error))
    end
  end

  defp failed(state, copy, %Error{} = error),
    do: state |> Loading.trapped(error, copy.shard_id) |> State.warn(error)

  defp unmark(%{copies: copies} = state, tenant) do
    case copies do
      %{^tenant => copy} -> %{state | copies: %{copies | tenant => %{copy | mark: nil}}}
      _cold -> state
    end
  end

  @doc "Writes the statistics of all copies that changed, and waits for the store, as the last act of the process."
  @spec write_last(State.t(), timeout) :: :ok
  def write_last(%{directory: directory, copies: copies}, timeout) do
    references = for {_tenant, copy} <- copies, Copy.changed?(copy, directory), do: begin_write(copy, directory)

    for reference <- references,
        is_reference(reference),
        do: receive(do: ({^reference, _reply} -> :ok), after: (timeout -> :ok))

    :ok
  end

  defp begin_write(copy, directory) do
    with :ok <- Copy.settle(copy, directory), {:ok, fields} <- Copy.statistics(copy, directory) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})
      reference
    end
  end
end
