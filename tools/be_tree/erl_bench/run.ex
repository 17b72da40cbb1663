defmodule BeTree.ErlBench.Run do
  @moduledoc false
  # Evaluates the events of a file in one way, or in all of them, and keeps the times.

  alias BeTree.ErlBench.{Output, Stats, Tree, Way}
  alias BeTree.Files.Error

  # How many events are a turn: short beside what else may happen on a machine, long beside what a change of ways costs.
  @turn 100

  @typedoc "Called after every thousand of a way."
  @type progress :: (Way.t(), Stats.t() -> term)

  # All events in one way. The ids of each go to the file `output`, if there is one.
  @spec one!(Tree.t(), Path.t(), Way.t(), Path.t() | nil, progress) :: Stats.t()
  def one!(tree, path, way, output, progress) do
    Output.with_file!(output, fn write ->
      tree
      |> Tree.events(path)
      |> Enum.reduce(Stats.new(Way.title(way)), fn event, stats ->
        {ids, nanoseconds} = evaluate!(tree, path, way, event)
        write.(ids)
        stats |> Stats.add(nanoseconds) |> tell(way, progress)
      end)
      |> Stats.finish()
    end)
  end

  # All events in all ways, which take turns in an order that is drawn for each turn: what else the machine does, and what
  # a way leaves behind in its caches, then falls on all of them alike.
  @spec in_turns!(Tree.t(), Path.t(), progress) :: [{Way.t(), Stats.t()}]
  def in_turns!(tree, path, progress) do
    start = for way <- Way.all(), do: {way, Stats.new(Way.title(way))}

    measured =
      tree
      |> Tree.events(path)
      |> Stream.chunk_every(@turn)
      |> Enum.reduce(start, fn events, measured ->
        for {way, stats} <- Enum.shuffle(measured), do: {way, turn(tree, path, way, events, stats, progress)}
      end)

    for way <- Way.all(), do: {way, Stats.finish(measured[way])}
  end

  # Compares what the ways answer, event by event: how many events there were, and for each that another way than the
  # first answers differently its number, that way, the ids of the first and those of that way.
  @spec check!(Tree.t(), Path.t()) ::
          {non_neg_integer, [{pos_integer, Way.t(), [BeTree.id()], [BeTree.id()]}]}
  def check!(tree, path) do
    {count, differences} =
      tree
      |> Tree.events(path)
      |> Enum.reduce({0, []}, fn event, {count, differences} ->
        [{_first, expected} | others] =
          for way <- Way.all(), do: {way, tree |> evaluate!(path, way, event) |> elem(0) |> Enum.sort()}

        found = for {way, ids} <- others, ids != expected, do: {count + 1, way, expected, ids}
        {count + 1, Enum.reverse(found, differences)}
      end)

    {count, Enum.reverse(differences)}
  end

  defp turn(tree, path, way, events, stats, progress) do
    Enum.reduce(events, stats, fn event, stats ->
      {_ids, nanoseconds} = evaluate!(tree, path, way, event)
      stats |> Stats.add(nanoseconds) |> tell(way, progress)
    end)
  end

  # The benchmark relies on no spec of erl_betree.
  @dialyzer {:no_match, evaluate!: 4}

  # The clock runs from the list of records to the list of ids, as in erl-be-tree's runner.
  defp evaluate!(tree, path, way, {event, line}) do
    started = System.monotonic_time(:nanosecond)
    answer = Way.evaluate(way, tree.betree, event)
    ended = System.monotonic_time(:nanosecond)

    case answer do
      {:ok, ids} -> {ids, ended - started}
      {:error, {function, other}} -> refused!(path, line, "#{function} answered #{inspect(other)}")
    end
  rescue
    error in ArgumentError -> refused!(path, line, "erl_betree refuses the event: #{Exception.message(error)}")
  end

  @spec refused!(Path.t(), pos_integer, String.t()) :: no_return
  defp refused!(path, line, reason), do: raise(%Error{path: path, line: line, reason: reason})

  defp tell(stats, way, progress) do
    if rem(stats.events, Stats.events_a_sum()) == 0, do: progress.(way, stats)
    stats
  end
end
