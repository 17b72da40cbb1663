defmodule BeTree.ErlBench.Run do
  @moduledoc false
  # Evaluates the events of a file in one way, or in all of them, and keeps the times.

  alias BeTree.ErlBench.{Output, Stats, Tree, Way}
  alias BeTree.Files.Error

  # Events in a turn: few compared with other work of the machine, many compared with the cost of switching.
  @events_per_turn 100

  @typedoc "Called after every thousand events of a way."
  @type progress :: (Way.t(), Stats.t() -> term)

  # Evaluates all events in one way. Ids go to the file `output`, if given.
  @spec one!(Tree.t(), Path.t(), Way.t(), Path.t() | nil, progress) :: Stats.t()
  def one!(tree, path, way, output, progress) do
    Output.with_file!(output, [path], fn write ->
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

  # Evaluates all events in all ways. The ways take turns in random order, so that other work of the machine and the caches
  # affect all alike.
  @spec in_turns!(Tree.t(), Path.t(), progress) :: [{Way.t(), Stats.t()}]
  def in_turns!(tree, path, progress) do
    start = for way <- Way.all(), do: {way, Stats.new(Way.title(way))}

    measured =
      tree
      |> Tree.events(path)
      |> Stream.chunk_every(@events_per_turn)
      |> Enum.reduce(start, fn events, measured ->
        for {way, stats} <- Enum.shuffle(measured), do: {way, turn(tree, path, way, events, stats, progress)}
      end)

    for way <- Way.all(), do: {way, Stats.finish(measured[way])}
  end

  # Compares the ids of all ways, event by event. Returns the number of events, and for each difference from the first way
  # the event's number, the other way, and both lists of ids.
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

  # The clock covers the conversion from records to ids, as in erl-be-tree's runner.
  defp evaluate!(tree, path, way, {event, line}) do
    started = System.monotonic_time(:nanosecond)
    outcome = Way.evaluate(way, tree.betree, event)
    ended = System.monotonic_time(:nanosecond)

    case outcome do
      {:ok, ids} -> {ids, ended - started}
      {:error, {function, other}} -> refused!(path, line, "#{function} returned #{inspect(other)}")
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
