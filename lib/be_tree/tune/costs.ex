defmodule BeTree.Tune.Costs do
  @moduledoc false
  # The fuel of each event, and what a budget would end. Fuel is deterministic, so all of it is exact and equal on every machine.

  alias BeTree.{Error, Event}

  # The searches that a recommended budget lets end.
  @served 0.999

  # The most expensive events whose ids are kept, to count the matches that a budget would lose.
  @kept 1_000
  @named 200
  @top 10

  # The numbers of ended searches at which a budget is shown, beside those of these shares.
  @counts [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000]
  @shares [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]

  @typedoc "The cost of one event: its position from 0, and the numbers of its search."
  @type cost :: %{
          position: non_neg_integer,
          fuel: BeTree.Fuel.t(),
          visited: non_neg_integer,
          evaluated: non_neg_integer,
          matches: non_neg_integer
        }

  @doc "Searches each event once. An error has the position of its event."
  @spec measure(BeTree.target(), [Event.t()]) :: {:ok, [cost]} | {:error, Error.t()}
  def measure(target, events) do
    events
    |> Enum.with_index()
    |> Enum.reduce_while({:ok, []}, fn {event, position}, {:ok, costs} ->
      case BeTree.search(target, event, as: :binary, stats: true) do
        {:ok, ids, stats} -> {:cont, {:ok, [cost(position, ids, stats) | costs]}}
        {:error, error} -> {:halt, {:error, %{error | position: position}}}
      end
    end)
    |> then(fn result -> with {:ok, costs} <- result, do: {:ok, Enum.reverse(costs)} end)
  end

  defp cost(position, ids, stats) do
    %{
      position: position,
      fuel: stats.fuel,
      visited: stats.visited,
      evaluated: stats.evaluated,
      matches: div(byte_size(ids), 8)
    }
  end

  @typedoc "A budget, and the searches that it ends: their number, their share, and the subscriptions whose matches are lost."
  @type stop :: %{
          budget: BeTree.Fuel.t(),
          ended: non_neg_integer,
          share: float,
          lost: non_neg_integer | nil,
          subscriptions: non_neg_integer | nil,
          most: [%{id: BeTree.id(), times: pos_integer}] | nil
        }

  @type budget :: %{
          share: float,
          budget: BeTree.Fuel.t(),
          stops: [stop],
          events: [cost],
          quantiles: %{String.t() => BeTree.Fuel.t()}
        }

  @doc """
  Returns the budgets that end none, one, two and so on up to nearly all of these searches, in descending order; the least
  budget with which 99.9 % end by themselves; and the most expensive events.

  What a budget loses is known for the 1,000 most expensive events.
  """
  @spec budget(BeTree.target(), [Event.t()], [cost, ...]) :: {:ok, budget} | {:error, Error.t()}
  def budget(target, events, costs) do
    ranked = Enum.sort_by(costs, &{-&1.fuel, &1.position})
    kept = Enum.take(ranked, @kept)

    with {:ok, found} <- ids(target, List.to_tuple(events), kept) do
      fuels = costs |> Enum.map(& &1.fuel) |> Enum.sort() |> List.to_tuple()
      counts = fuels |> tuple_size() |> counts()

      {:ok,
       %{
         share: @served,
         budget: serving(fuels, @served),
         stops: stops(ranked, found, counts),
         events: Enum.take(ranked, @named),
         quantiles: quantiles(fuels)
       }}
    end
  end

  defp ids(target, events, kept) do
    kept
    |> Enum.reduce_while({:ok, []}, fn cost, {:ok, found} ->
      case BeTree.search(target, elem(events, cost.position)) do
        {:ok, ids} -> {:cont, {:ok, [ids | found]}}
        {:error, error} -> {:halt, {:error, %{error | position: cost.position}}}
      end
    end)
    |> then(fn result -> with {:ok, found} <- result, do: {:ok, Enum.reverse(found)} end)
  end

  defp counts(size) do
    shares = for share <- @shares, do: round(share * size)
    (@counts ++ shares) |> Enum.filter(&(&1 < size)) |> Enum.uniq() |> Enum.sort()
  end

  # Events of equal cost end together, so a stop may end more than its count.
  defp stops(ranked, found, counts) do
    size = length(ranked)
    fuels = ranked |> Enum.map(& &1.fuel) |> List.to_tuple()
    state = %{times: %{}, lost: 0, at: 0, found: found}

    {stops, _state} =
      counts
      |> Enum.map(&elem(fuels, &1))
      |> Enum.uniq()
      |> Enum.map_reduce(state, fn budget, state ->
        ended = Enum.count(ranked, &(&1.fuel > budget))
        state = lose(state, min(ended, length(found)))
        stop = %{budget: budget, ended: ended, share: ended / size}
        {Map.merge(stop, if(ended <= @kept, do: lost(state), else: unknown())), state}
      end)

    stops
  end

  defp lose(%{at: at} = state, at), do: state

  defp lose(state, upto) do
    {now, later} = Enum.split(state.found, upto - state.at)

    {times, lost} =
      for ids <- now, id <- ids, reduce: {state.times, state.lost} do
        {times, lost} -> {Map.update(times, id, 1, &(&1 + 1)), lost + 1}
      end

    %{times: times, lost: lost, at: upto, found: later}
  end

  defp lost(state) do
    most = state.times |> Enum.sort_by(fn {id, times} -> {-times, id} end) |> Enum.take(@top)

    %{
      lost: state.lost,
      subscriptions: map_size(state.times),
      most: for({id, times} <- most, do: %{id: id, times: times})
    }
  end

  defp unknown, do: %{lost: nil, subscriptions: nil, most: nil}

  # Returns the least fuel that at least this share of the searches does not exceed.
  defp serving(fuels, share), do: elem(fuels, max(ceil(share * tuple_size(fuels)) - 1, 0))

  defp quantiles(fuels) do
    for {name, share} <- [{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}],
        into: %{},
        do: {name, serving(fuels, share)}
  end
end
