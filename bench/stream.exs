# Compares `BeTree.stream/3` with a loop of `BeTree.search/3` in one process: for few and many events, cheap and costly
# ones, a tree, an index and a server, and with a timeout for each event. Results must be equal. The bar: a stream is never
# slower than the loop.
#
#     mix run bench/stream.exs [--quick] [--turns 7]

defmodule BeTree.Bench.Stream do
  @moduledoc false

  alias BeTree.Server
  alias BeTree.Workload.{W1, W3}
  alias BeTree.Input.Describe

  # A ratio above this counts as slower. Two runs of the same loop differ by as much.
  @slower 1.05

  def run(lengths, turns) do
    IO.puts("#{System.schedulers_online()} schedulers; the best of #{turns} turns; microseconds an event\n")
    IO.puts(columns(["", "events", "the loop", "the stream", "times"]))

    slower =
      for {title, schema, subscriptions, some} <- indexes(),
          {target, kind} <- targets(schema, subscriptions),
          length <- lengths,
          options <- [[], [timeout: 60_000]],
          row = compare("#{title}, #{kind}#{option(options)}", target, some, length, options, turns),
          row.times > @slower,
          do: row

    if slower == [],
      do: IO.puts("\nno stream is slower than the loop (bar: holds)"),
      else: IO.puts("\n#{length(slower)} streams are slower than their loops (bar: DOES NOT HOLD)")
  end

  defp option([]), do: ""
  defp option(timeout: _timeout), do: ", a timeout"

  # Searches of one microsecond, of some twenty, and of some hundred with many ids.
  defp indexes do
    for {title, workload, expressions} <- [
          {"one expression", W3, 1},
          {"20,000 of W3", W3, 20_000},
          {"2,000 of W1", W1, 2_000}
        ] do
      parameters = %{workload.defaults() | expressions: expressions, events: 256}
      subscriptions = parameters |> workload.expressions() |> Enum.with_index(&{&2, &1})
      {title, workload.schema(parameters), subscriptions, Enum.to_list(workload.events(parameters))}
    end
  end

  defp targets(schema, subscriptions) do
    tree = BeTree.new!(schema)
    BeTree.insert_all!(tree, subscriptions)
    name = :"streamed_#{length(subscriptions)}"
    {:ok, _pid} = Server.start_link(name: name, schema: schema)
    Server.insert_all!(name, subscriptions)
    [{tree, "a tree"}, {BeTree.publish!(tree), "an index"}, {name, "a server"}]
  end

  # The two take turns, so that other work on the machine affects both.
  defp compare(title, target, some, length, options, turns) do
    events = some |> Stream.cycle() |> Enum.take(length)
    # Short runs are repeated, so that each turn takes milliseconds.
    repeats = max(div(1_024, length), 1)
    loop = fn -> for event <- events, do: {event, BeTree.search(target, event, options)} end
    stream = fn -> target |> BeTree.stream(events, options) |> Enum.to_list() end
    if loop.() != stream.(), do: Mix.raise("#{title}, #{length} events: the stream has other results than the loop")

    {loop_times, stream_times} =
      Enum.unzip(for _turn <- 1..turns, do: {microseconds(loop, repeats), microseconds(stream, repeats)})

    {loop_time, stream_time} = {Enum.min(loop_times), Enum.min(stream_times)}
    times = stream_time / loop_time
    each = &decimal(&1 / (repeats * length))
    IO.puts(columns([title, Describe.grouped(length), each.(loop_time), each.(stream_time), mark(times)]))
    %{title: title, times: times}
  end

  defp mark(times) when times > @slower, do: decimal(times) <> " !"
  defp mark(times), do: decimal(times) <> "  "

  # Runs in a separate process with a new heap.
  defp microseconds(run, repeats) do
    Task.async(fn -> fn -> for _repeat <- 1..repeats, do: run.() end |> :timer.tc() |> elem(0) end)
    |> Task.await(:infinity)
  end

  defp columns([title | numbers]),
    do: String.pad_trailing(title, 40) <> Enum.map_join(numbers, &String.pad_leading(&1, 12))

  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 2)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), quick: :boolean, turns: :integer)
if rest != [], do: Mix.raise("Usage: mix run bench/stream.exs [--quick] [--turns 7]")
{lengths, turns} = if options[:quick], do: {[1, 64, 1_024], 3}, else: {[1, 4, 16, 64, 256, 1_024, 10_000], 7}
BeTree.Bench.Stream.run(lengths, options[:turns] || turns)
