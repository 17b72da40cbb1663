defmodule BeTree.Rules.Server.Clock do
  @moduledoc false
  # The clock of a server of rules: the monotonic clock plus an offset, by which it follows the system clock.
  #
  # Differences from the system clock are handled by size and direction:
  #
  #   * up to 10 milliseconds, the noise of two readings, are left as they are;
  #   * a smaller one than `max_skew` forward is followed at once;
  #   * a smaller one back is slewed: the clock runs 1 % slower until the difference is gone. The clock never goes back and never stops,
  #     so a window closes at most 1 % late. 1 % is also the most by which the VM corrects its own clocks;
  #   * a larger one, a jump, is logged, and followed once it has lasted `max_skew` by the monotonic clock: forward at once, back by
  #     slewing.
  #
  # The clock reads the system clock only when somebody reads the clock. While a timer runs, a server reads it at least every
  # `look/1` milliseconds.
  #
  # Partitions share one clock, which lies in the server's table. Each of their processes moves it on.

  alias BeTree.Processes.Log
  alias BeTree.Rules.Server.Shared

  @noise 10
  # A slewed clock loses one millisecond in this many.
  @slew 100
  @shortest_look 1_000

  @enforce_keys [:name, :system, :monotonic, :max_skew, :offset]
  defstruct @enforce_keys ++ [:slewed_to, :jump]

  @typedoc """
    * `:system`, `:monotonic` - functions that return the milliseconds of a clock;
    * `:offset` - the time minus the monotonic clock;
    * `:slewed_to` - the monotonic time up to which the offset is slewed, or `nil` if it is not;
    * `:jump` - a jump of the system clock: since when by the monotonic clock, or `:followed`, and the system clock minus the monotonic.
  """
  @type t :: %__MODULE__{
          name: BeTree.Rules.Server.name(),
          system: (... -> integer),
          monotonic: (... -> integer),
          max_skew: pos_integer,
          offset: integer,
          slewed_to: integer | nil,
          jump: {since :: integer | :followed, system_offset :: integer} | nil
        }

  @typedoc "A clock, the table of partitions that have one, or `nil` for no clock."
  @type holder :: t | {:shared, Shared.table()} | nil

  @typedoc "The functions that read the clocks of the system, for tests."
  @type sources :: {system :: (... -> integer), monotonic :: (... -> integer)}

  @typedoc "The options of a clock: a server's name, its largest correction in milliseconds, and `clocks:` of `t:sources/0`."
  @type options :: %{
          required(:name) => BeTree.Rules.Server.name(),
          required(:max_skew) => pos_integer,
          optional(atom) => term
        }

  @doc "Returns a clock that shows the system's time."
  @spec new(options) :: t
  def new(%{name: name, max_skew: max_skew} = options) do
    {system, monotonic} = Map.get(options, :clocks) || {&os_time/0, &monotonic_time/0}
    offset = system.() - monotonic.()
    %__MODULE__{name: name, system: system, monotonic: monotonic, max_skew: max_skew, offset: offset}
  end

  defp os_time, do: System.os_time(:millisecond)
  defp monotonic_time, do: System.monotonic_time(:millisecond)

  @doc "Returns the time, and the latest time that a fact may have, or `nil` without a clock; and the clock for the next reading."
  @spec read(holder) :: {integer | nil, integer | nil, holder}
  def read(nil), do: {nil, nil, nil}

  def read({:shared, table} = shared) do
    with {{now, latest}, clock, events} <- Shared.update_clock(table, &tick/1) do
      report(events, clock)
      {now, latest, shared}
    else
      nil -> {nil, nil, shared}
    end
  end

  def read(%__MODULE__{} = clock) do
    {{now, latest}, clock, events} = tick(clock)
    report(events, clock)
    {now, latest, clock}
  end

  @doc """
  Moves the clock on to the time of an engine that is more than `max_skew` ahead. From there it is slewed, as after a jump back. A
  smaller lead is left alone, because facts may lead by that much.
  """
  @spec move_to(holder, integer | nil) :: holder
  def move_to(holder, nil), do: holder

  def move_to({:shared, table} = shared, time) do
    with {_time, clock, events} <- Shared.update_clock(table, &moved(&1, time)), do: report(events, clock)
    shared
  end

  def move_to(nil, _time), do: nil

  def move_to(clock, time) do
    {_time, clock, events} = moved(clock, time)
    report(events, clock)
    clock
  end

  @doc "Returns the milliseconds after which a server that waits for a time reads its clock again at the latest."
  @spec look(holder) :: pos_integer
  def look({:shared, table}), do: table |> Shared.clock() |> look()
  def look(%__MODULE__{max_skew: max_skew}), do: max(max_skew, @shortest_look)

  ## The next state of a clock: a result, the clock, and the events that its reader logs

  defp tick(clock) do
    # The monotonic clock is read last, so that a pause of the process between the two makes time late rather than early.
    system = clock.system.()
    monotonic = clock.monotonic.()
    {clock, events} = clock |> watch(system - monotonic, monotonic) |> follow(system - monotonic, monotonic)
    now = monotonic + clock.offset
    {{now, latest(clock, now, system)}, clock, events}
  end

  # A clock that is slewed back leads the system clock. Then facts may lead the system clock by `max_skew`, not this clock.
  defp latest(%{jump: {since, _offset}} = clock, now, _system) when is_integer(since), do: now + clock.max_skew
  defp latest(clock, now, system), do: max(now, system + clock.max_skew)

  defp watch(%{jump: jump, max_skew: max_skew} = clock, offset, monotonic) do
    difference = offset - clock.offset

    cond do
      abs(difference) < max_skew ->
        {%{clock | jump: nil}, if(jump, do: [:agrees], else: [])}

      jump == nil or abs(offset - elem(jump, 1)) >= max_skew ->
        {%{clock | jump: {monotonic, offset}}, [{:jumped, difference}]}

      is_integer(elem(jump, 0)) and monotonic - elem(jump, 0) >= max_skew ->
        {%{clock | jump: {:followed, offset}}, [{:followed, difference}]}

      abs(offset - elem(jump, 1)) > @noise ->
        {%{clock | jump: put_elem(jump, 1, offset)}, []}

      true ->
        {clock, []}
    end
  end

  defp follow({%{jump: {since, _offset}} = clock, events}, _system_offset, _monotonic) when is_integer(since),
    do: {%{clock | slewed_to: nil}, events}

  defp follow({clock, events}, offset, monotonic) do
    difference = offset - clock.offset

    cond do
      # A jump that was followed is over.
      difference > @noise -> {%{clock | offset: offset, slewed_to: nil, jump: nil}, events}
      difference >= -@noise -> {%{clock | slewed_to: nil}, events}
      true -> {slew(clock, -difference, monotonic), events}
    end
  end

  defp slew(%{slewed_to: nil} = clock, _ahead, monotonic), do: %{clock | slewed_to: monotonic}

  defp slew(%{slewed_to: slewed_to} = clock, ahead, monotonic) do
    # Processes that share a clock may bring their readings in another order.
    lost = max(0, min(div(monotonic - slewed_to, @slew), ahead))
    %{clock | offset: clock.offset - lost, slewed_to: slewed_to + lost * @slew}
  end

  defp moved(clock, time) do
    {{now, _latest}, clock, events} = tick(clock)
    ahead = time - now

    if ahead > clock.max_skew do
      system_offset = clock.system.() - clock.monotonic.()
      jump = {:followed, system_offset}
      {nil, %{clock | offset: clock.offset + ahead, jump: jump, slewed_to: nil}, events ++ [{:ahead, ahead}]}
    else
      {nil, clock, events}
    end
  end

  ## The log

  defp report(events, clock), do: Enum.each(events, &log(text(&1, clock), clock))

  defp log(text, clock),
    do: Log.warning("the rules of #{inspect(clock.name)}: #{text}")

  defp text({:jumped, by}, %{max_skew: max_skew}) do
    "the system clock jumped #{abs(by)} milliseconds #{direction(by)}; time goes on by the monotonic clock, and follows the jump if it " <>
      "lasts #{max_skew} milliseconds"
  end

  defp text({:followed, by}, _clock) when by > 0, do: "time follows the system clock #{by} milliseconds forward"

  defp text({:followed, by}, _clock),
    do: "time is #{-by} milliseconds ahead of the system clock and goes 1 % slower until that has caught up"

  defp text(:agrees, _clock), do: "the system clock agrees with time again"

  defp text({:ahead, by}, _clock) do
    "the facts in the folder are #{by} milliseconds ahead of the system clock; time goes on from them, 1 % slower until that clock " <>
      "has caught up"
  end

  defp direction(by) when by > 0, do: "forward"
  defp direction(_by), do: "back"
end
