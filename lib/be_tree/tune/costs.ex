defmodule BeTree.Tune.Costs do
  @moduledoc false
  # The fuel of each event, and the searches that a budget would end. Fuel is deterministic, so all figures are exact on
  # every machine.

  alias BeTree.{Error, Event}
  alias BeTree.Error.Attempt

  # The share of searches that finish within the recommended budget.
  @served_share 0.999

  # The most expensive events whose matches are kept, to count the matches that a budget would lose.
  @max_kept_events 1_000
  @max_reported_events 200
  @max_top_subscriptions 10

  # Budgets are shown that end these numbers and these shares of the searches.
  @stop_counts [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000]
  @stop_shares [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]

  @typedoc "The cost of one event: its position from 0, and the figures of its search."
  @type cost :: %{
          position: non_neg_integer,
          fuel: BeTree.Fuel.t(),
          visited: non_neg_integer,
          evaluated: non_neg_integer,
          matches: non_neg_integer
        }

  @doc "Searches each event once. An error carries the position of its event."
  @spec measure(BeTree.target(), [Event.t()]) :: {:ok, [cost]} | {:error, Error.t()}
  def measure(target, events) do
    events
    |> Enum.with_index()
    |> Attempt.map(fn {event, position} ->
      case BeTree.search(target, event, as: :binary, stats: true) do
        {:ok, ids, stats} -> {:ok, cost(position, ids, stats)}
        {:error, error} -> {:error, %{error | position: position}}
      end
    end)
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

  @typedoc "A budget with the number and share of the searches that it ends, and the subscriptions that lose matches."
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
  Returns three things: the budgets that end none, one, two and so on up to nearly all of the searches, in descending order;
  the least budget within which 99.9 % finish; and the most expensive events.

  Lost matches are known for the 1,000 most expensive events.
  """
  @spec budget(BeTree.target(), [Event.t()], [cost, ...]) :: {:ok, budget} | {:error, Error.t()}
  def budget(target, events, costs) do
    ranked = Enum.sort_by(costs, &{-&1.fuel, &1.position})
    kept = Enum.take(ranked, @max_kept_events)

    with {:ok, found} <- ids(target, List.to_tuple(events), kept) do
      fuels = costs |> Enum.map(& &1.fuel) |> Enum.sort() |> List.to_tuple()
      counts = fuels |> tuple_size() |> counts()

      {:ok,
       %{
         share: @served_share,
         budget: serving(fuels, @served_share),
         stops: stops(ranked, found, counts),
         events: Enum.take(ranked, @max_reported_events),
         quantiles: quantiles(fuels)
       }}
    end
  end

  defp ids(target, events, kept) do
    Attempt.map(kept, fn %{position: position} ->
      with {:error, error} <- BeTree.search(target, elem(events, position)), do: {:error, %{error | position: position}}
    end)
  end

  defp counts(size) do
    shares = for share <- @stop_shares, do: round(share * size)
    (@stop_counts ++ shares) |> Enum.filter(&(&1 < size)) |> Enum.uniq() |> Enum.sort()
  end

  # Events of equal fuel end together, so a stop may end more searches than its count.
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
        {Map.merge(stop, if(ended <= @max_kept_events, do: lost(state), else: unknown())), state}
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
    most = state.times |> Enum.sort_by(fn {id, times} -> {-times, id} end) |> Enum.take(@max_top_subscriptions)

    %{
      lost: state.lost,
      subscriptions: map_size(state.times),
      most: for({id, times} <- most, do: %{id: id, times: times})
    }
  end

  defp unknown, do: %{lost: nil, subscriptions: nil, most: nil}

  # Returns the least fuel within which at least `share` of the searches finish.
  defp serving(fuels, share), do: elem(fuels, max(ceil(share * tuple_size(fuels)) - 1, 0))

  defp quantiles(fuels) do
    for {name, share} <- [{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}],
        into: %{},
        do: {name, serving(fuels, share)}
  end
end
