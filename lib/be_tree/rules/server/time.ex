defmodule BeTree.Rules.Server.Time do
  @moduledoc false
  # Moves the time of an engine: to that of the clock with each operation, by a timer when a window closes, and to that of all
  # partitions.
  #
  # An event during the move may fail: rules that fire one another endlessly, or no memory for a fact or a notice. Calls must not
  # depend on it. So time moves event by event, and is held before the failing event until a timer, a retraction or new rules
  # retry it.

  alias BeTree.Processes.Log
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Page
  alias BeTree.Rules.Server.{Change, Clock, Layout, Operations, Shared, State}

  # The milliseconds after which time that is held tries again, the first time and at the most.
  @first_retry 1_000
  @max_retry 60_000

  # The most milliseconds of a timer of the system.
  @max_timer 0xFFFF_FFFF

  @doc "Returns the time of the engine."
  @spec now(State.t()) :: Rules.time() | nil
  def now(state) do
    {:ok, info} = Rules.info(state.rules)
    info.latest
  end

  @doc """
  Returns the time that all partitions have with this one, and the event times of its sources. Without named sources all facts are from
  one source, whose event time is that time.
  """
  @spec shared(map) :: {Rules.time() | nil, %{(String.t() | nil) => Rules.time()}}
  def shared(state) do
    case Rules.event_times(state.rules) do
      {:ok, _floor, sources} when sources == %{} or (map_size(sources) == 1 and is_map_key(sources, nil)) ->
        {now(state), %{}}

      {:ok, floor, sources} ->
        {floor, sources}
    end
  end

  @doc """
  Moves time to the clock's, if the server has a clock, and makes the operation in the same change. If an event on the way fails,
  time is held before the event, and the operation is made there.
  """
  @spec operate_at(Change.operation(), Rules.time() | nil, State.t(), map) ::
          {{:ok, Page.t()} | {:error, Error.t()}, State.t()}
  def operate_at(operation, now, %{held: nil} = state, options) when now != nil do
    case Operations.operate({:at, now, operation}, state, options) do
      {{:error, _error}, :time, state} -> operate_at(operation, now, find_time(now, state), options)
      {reply, _stopped, state} -> {reply, state}
    end
  end

  def operate_at(operation, _now, state, options) do
    {reply, _stopped, state} = Operations.operate(operation, state, options)
    {reply, retry_after(state, operation, reply)}
  end

  @doc """
  Returns the time of the clock, or `nil` if time moves by facts alone, and the latest time that a fact may have. The facts of
  partitions are checked before they are divided.
  """
  @spec read_clock(State.t()) :: {Rules.time() | nil, Rules.time() | nil, State.t()}
  def read_clock(state) do
    {now, latest, clock} = Clock.read(state.clock)
    {now, if(state.number, do: nil, else: latest), %{state | clock: clock}}
  end

  @doc """
  Moves time to the clock's at a start. The clock goes on from the engine's time if that is far ahead.
  """
  @spec catch_up_with_clock(State.t()) :: State.t()
  def catch_up_with_clock(state) do
    {now, _latest, state} = read_clock(state)

    if now do
      {now, _latest, state} = read_clock(%{state | clock: Clock.move_to(state.clock, now(state))})
      move_to(now, state)
    else
      note_due(state)
    end
  end

  @doc "Makes the clock of a server without partitions the system's."
  @spec go_live(State.t()) :: {:ok, State.t()} | {:error, Error.t()}
  def go_live(%{clock: nil} = state) do
    with :ok <- Layout.go_live(state.options.dir) do
      {_now, _latest, state} = read_clock(%{state | clock: Clock.new(state.options)})
      {:ok, %{state | clock: Clock.move_to(state.clock, now(state))}}
    end
  end

  def go_live(state), do: {:ok, state}

  @doc """
  Moves time forward to that of all partitions.
  """
  @spec move(State.t()) :: State.t()
  def move(%{number: nil} = state), do: state

  def move(%{moved_to: moved_to} = state) do
    case Shared.time(state.options.table) do
      time when time == nil or time == moved_to -> state
      time -> %{move_to(time, state) | moved_to: time}
    end
  end

  @doc """
  Moves time to that of all partitions if a window has closed by then. Returns the reply with the pages of that move.
  """
  @spec catch_up(State.t(), reply) :: {reply, State.t()} when reply: {:ok, Page.t()} | {:error, Error.t()}
  def catch_up(%{number: nil} = state, reply), do: {reply, state}

  def catch_up(%{next_due: due} = state, reply) do
    time = Shared.time(state.options.table)

    if due != nil and time != nil and due <= time do
      {page, state} = move_counted(time, state)
      {joined(reply, page), state}
    else
      {reply, state}
    end
  end

  defp joined({:ok, page}, next), do: {:ok, Page.join(page, next)}
  defp joined({:error, error}, _next), do: {:error, error}

  @doc """
  Moves time to `time`, or to the first event that ends with an error.
  """
  @spec move_to(Rules.time(), State.t()) :: State.t()
  def move_to(time, state), do: time |> move_counted(state) |> elem(1)

  # Returns the page of the move, too.
  defp move_counted(time, %{held: %{retry: retry, at: at} = held} = state) when retry != nil and time >= at,
    do: {%Page{operation: nil, next_due: state.next_due}, %{state | held: %{held | until: max(held.until, time)}}}

  defp move_counted(time, state) do
    case Operations.operate({:advance, time}, state) do
      {{:ok, page}, _stopped, state} -> {page, state |> release() |> note_due({:ok, page})}
      {{:error, _error}, _stopped, state} -> hold(time, note_due(state), %Page{operation: nil})
    end
  end

  defp find_time(time, state), do: time |> hold(note_due(state), %Page{operation: nil}) |> elem(1)

  defp hold(until, %{next_due: due} = state, sum) do
    time = if due != nil and due < until, do: due, else: until

    case Operations.operate({:advance, time}, state) do
      {{:ok, page}, _stopped, state} when time < until ->
        hold(until, note_due(state, {:ok, page}), Page.join(sum, page))

      {{:ok, page}, _stopped, state} ->
        {Page.join(sum, page), state |> release() |> note_due({:ok, page})}

      {{:error, error}, _stopped, state} ->
        {%{sum | next_due: due}, hold_at(error, time, until, state)}
    end
  end

  defp hold_at(error, at, until, state) do
    pause = if state.held, do: min(2 * state.held.pause, @max_retry), else: @first_retry

    if state.held == nil do
      Log.error("the time of the rules of #{inspect(state.options.name)} is held at #{at}: #{Exception.message(error)}")
    end

    held = %{at: at, until: until, error: error, pause: pause, retry: :erlang.start_timer(pause, self(), :held)}
    arm(%{state | held: held})
  end

  defp release(%{held: nil} = state), do: state

  defp release(%{held: held} = state) do
    if held.retry, do: :erlang.cancel_timer(held.retry)
    %{state | held: nil}
  end

  defp retry_after(state, {:retract, _id}, {:ok, _page}), do: retry_soon(state)
  defp retry_after(state, _operation, _reply), do: state

  @doc "Lets time that is held try again at once: a retraction and other rules may remove the cause of the error."
  @spec retry_soon(State.t()) :: State.t()
  def retry_soon(%{held: nil} = state), do: state

  def retry_soon(%{held: held} = state) do
    if held.retry, do: :erlang.cancel_timer(held.retry)
    %{state | held: %{held | retry: :erlang.start_timer(0, self(), :held)}}
  end

  @doc """
  Notes when a window closes next: for the timer, and for the other partitions.
  """
  @spec note_due(State.t(), {:ok, Page.t()} | {:error, Error.t()}) :: State.t()
  def note_due(state, {:ok, %Page{next_due: next_due}}), do: put_due(state, next_due)
  def note_due(state, {:error, _error}), do: note_due(state)

  @doc "Notes when a window closes next, by the engine."
  @spec note_due(State.t()) :: State.t()
  def note_due(state) do
    case Rules.info(state.rules) do
      {:ok, info} -> put_due(state, info.next_due)
      {:error, _error} -> put_due(state, nil)
    end
  end

  defp put_due(state, next_due) do
    if state.number, do: Shared.put_due(state.options.table, state.number, next_due)
    arm(%{state | next_due: next_due})
  end

  @doc """
  Starts the timer for the next window. While time is held, another timer tries again.
  """
  @spec arm(State.t()) :: State.t()
  def arm(%{timer: {_timer, at}, next_due: at, held: nil} = state), do: state

  def arm(%{next_due: next_due, held: held} = state) do
    with {timer, _at} <- state.timer, do: :erlang.cancel_timer(timer)
    {now, _latest, state} = read_clock(%{state | timer: nil})

    # The clock is read now and then, because it may jump.
    if now && next_due && held == nil,
      do: %{state | timer: {start_timer(min(next_due - now, Clock.look(state.clock))), next_due}},
      else: state
  end

  defp start_timer(ms), do: :erlang.start_timer(ms |> max(0) |> min(@max_timer), self(), :due)
end
