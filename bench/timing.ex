defmodule BeTree.Bench.Timing do
  @moduledoc false
  # Times calls of a function in a separate process.

  # Turns of each engine. Other work on the machine then affects all engines alike.
  @turns 8

  # Calls `fun` with each of `inputs` in turn for `seconds`. Returns statistics in nanoseconds an event. `size` returns an
  # input's number of events.
  @spec run([term, ...], (term -> term), number, (term -> pos_integer)) :: map
  def run(inputs, fun, seconds, size \\ fn _input -> 1 end) do
    inputs |> times(fun, seconds, size) |> summary()
  end

  # The same for several functions, in turns, for `seconds` each.
  @spec in_turns([term, ...], [{atom, (term -> term)}], number) :: [{atom, map}]
  def in_turns(inputs, functions, seconds) do
    turns =
      for _turn <- 1..@turns, {name, fun} <- functions do
        {name, times(inputs, fun, seconds / @turns, fn _input -> 1 end)}
      end

    for {name, _fun} <- functions, do: {name, turns |> Keyword.get_values(name) |> Enum.concat() |> summary()}
  end

  defp times(inputs, fun, seconds, size) do
    inputs = List.to_tuple(inputs)

    Task.async(fn ->
      deadline = now() + round(seconds * 1_000_000_000)
      loop(inputs, 0, fun, size, deadline, [])
    end)
    |> Task.await(:infinity)
  end

  defp loop(inputs, index, fun, size, deadline, times) do
    input = elem(inputs, index)
    started = now()
    fun.(input)
    ended = now()
    times = [div(ended - started, size.(input)) | times]
    next = if index + 1 == tuple_size(inputs), do: 0, else: index + 1
    if ended < deadline, do: loop(inputs, next, fun, size, deadline, times), else: times
  end

  defp now, do: System.monotonic_time(:nanosecond)

  defp summary(times) do
    count = length(times)
    sorted = times |> Enum.sort() |> List.to_tuple()
    at = fn share -> elem(sorted, trunc(share * count)) end

    %{
      searches: count,
      total_min: at.(0.0),
      total_p50: at.(0.5),
      total_p99: at.(0.99),
      total_mean: div(Enum.sum(times), count)
    }
  end
end
