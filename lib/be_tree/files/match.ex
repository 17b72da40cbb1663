defmodule BeTree.Files.Match do
  @moduledoc false
  # Matches a file of events against a file of expressions, and sums up the cost.

  alias BeTree.{Files, Image}
  alias BeTree.Files.{Ids, Latencies, Loaded}
  alias BeTree.Input.Describe

  import BeTree.Input.Describe, only: [grouped: 1]

  @enforce_keys [:expressions, :build]
  defstruct @enforce_keys ++
              [
                origin: "built",
                on_mismatch: :error,
                ids: nil,
                mismatches: 0,
                events: 0,
                matches: 0,
                fuel: 0,
                slices: 0,
                visited: 0,
                evaluated: 0,
                nanoseconds: 0,
                latencies: %Latencies{}
              ]

  @typedoc """
  Counts and sums over all events. `build` is the microseconds that the index took, read or built according to `origin`;
  `nanoseconds` is the time of searches; `on_mismatch` is the option of the searches, and
  `ids` has the given id of each number in the index.
  """
  @type t :: %__MODULE__{}

  # Returns an index: read from the option `:image`, with the file of `:ids` if there is one, or built from `:expressions` and the options of `BeTree.Files.load/2`.
  # `:progress` is a function of a step's name and a count or nil. A built tree is published, so that its searches take the same time as those of an image.
  @spec open(keyword) ::
          {:ok, BeTree.Index.t(), t} | {:error, BeTree.Error.t() | Files.Error.t()}
  def open(options) do
    case Keyword.pop(options, :image) do
      {nil, files} ->
        {path, others} = Keyword.pop!(files, :expressions)

        with {:ok, tree, summary} <- build(path, others),
             {:ok, index} <- BeTree.publish(tree),
             do: {:ok, index, summary}

      {image, others} ->
        with {:ok, index, summary} <- read(image),
             do: {:ok, index, %{summary | ids: others[:ids] && Ids.read!(others[:ids])}}
    end
  rescue
    error in Files.Error -> {:error, error}
  end

  # Returns a tree with the expressions in the files, and the time of their insertion. `options` are those of
  # `BeTree.Files.load/2` and `:progress` as in `open/1`, `tree_options` those of `BeTree.new/2`.
  @spec build(Path.t(), keyword, keyword) ::
          {:ok, BeTree.t(), t} | {:error, Files.Error.t()}
  def build(path, options, tree_options \\ []) do
    with {:ok, tree, summary, _subscriptions} <- build_with_subscriptions(path, options, tree_options),
         do: {:ok, tree, summary}
  end

  # Like `build/3`, but also returns the subscriptions. With the option `:check` a function of `BeTree.Files.Ids` is called before they
  # are inserted.
  @spec build_with_subscriptions(Path.t(), keyword, keyword) ::
          {:ok, BeTree.t(), t, [Files.subscription()]} | {:error, Files.Error.t()}
  def build_with_subscriptions(path, options, tree_options) do
    {progress, options} = Keyword.pop(options, :progress, fn _step, _done -> :ok end)
    {check, options} = Keyword.pop(options, :check, fn _ids -> :ok end)
    progress.("reading the expressions", nil)
    loaded = Loaded.read!(path, options)
    check.(loaded.ids)
    progress.("inserting #{Describe.grouped(length(loaded.subscriptions))} expressions", nil)

    with {:ok, tree} <- BeTree.new(loaded.schema, tree_options),
         {elapsed, {:ok, count}} <- :timer.tc(fn -> BeTree.insert_all(tree, loaded.subscriptions) end) do
      {:ok, tree, %__MODULE__{expressions: count, build: elapsed, ids: loaded.ids}, loaded.subscriptions}
    else
      {:error, error} -> {:error, Loaded.locate(loaded, error)}
      {_elapsed, {:error, error}} -> {:error, Loaded.locate(loaded, error)}
    end
  rescue
    error in Files.Error -> {:error, error}
  end

  # Returns the index in the image at `path`, and the time to read it.
  @spec read(Path.t()) :: {:ok, BeTree.Index.t(), t} | {:error, BeTree.Error.t()}
  def read(path) do
    with {elapsed, {:ok, index}} <- :timer.tc(fn -> Image.read(path) end) do
      {:ok, index, %__MODULE__{expressions: BeTree.info!(index).expressions, build: elapsed, origin: "read"}}
    else
      {_elapsed, {:error, error}} -> {:error, error}
    end
  end

  # Searches for the events in the file at `path`, one after the other. Calls `each` with the summary so far, the event and
  # its ids. The clock runs only during searches, which include decoding the event in the sandbox.
  @spec run(BeTree.target(), t, Path.t(), (t, BeTree.Event.t(), [BeTree.id()] -> term)) ::
          {:ok, t} | {:error, Files.Error.t()}
  def run(tree, %__MODULE__{} = summary, path, each) do
    path
    |> Files.events()
    |> Enum.reduce_while({:ok, summary}, fn {event, line}, {:ok, summary} ->
      started = System.monotonic_time()
      result = BeTree.search(tree, event, stats: true, on_mismatch: summary.on_mismatch)
      elapsed = System.convert_time_unit(System.monotonic_time() - started, :native, :nanosecond)

      case result do
        {:ok, ids, stats} ->
          summary = count(summary, ids, stats, elapsed)
          each.(summary, event, ids)
          {:cont, {:ok, summary}}

        {:error, error} ->
          {:halt, {:error, Files.locate_event(error, event, path, line)}}
      end
    end)
  rescue
    error in Files.Error -> {:error, error}
  end

  # Returns the profile of searches for the events in the file at `path`, with the given ids of expressions.
  @spec profile(BeTree.target(), t, Path.t()) ::
          {:ok, BeTree.Profile.t()} | {:error, BeTree.Error.t() | Files.Error.t()}
  def profile(target, summary, path) do
    events = path |> Files.events() |> Enum.to_list()
    texts = Enum.map(events, fn {event, _line} -> event end)

    case BeTree.profile(target, texts, on_mismatch: summary.on_mismatch) do
      {:ok, profile} ->
        {:ok, with_ids(profile, summary.ids)}

      {:error, %BeTree.Error{position: position} = error} when position != nil ->
        {event, line} = Enum.at(events, position)
        {:error, Files.locate_event(%{error | position: nil}, event, path, line)}

      {:error, error} ->
        {:error, error}
    end
  rescue
    error in Files.Error -> {:error, error}
  end

  # Returns the profile with the given id of each expression.
  @spec with_ids(BeTree.Profile.t(), Ids.t()) :: BeTree.Profile.t()
  def with_ids(profile, ids),
    do: %{profile | expressions: for(entry <- profile.expressions, do: %{entry | id: Ids.given(ids, entry.id)})}

  defp count(summary, ids, stats, elapsed) do
    %{
      summary
      | events: summary.events + 1,
        matches: summary.matches + length(ids),
        fuel: summary.fuel + stats.fuel,
        slices: summary.slices + stats.slices,
        visited: summary.visited + stats.visited,
        evaluated: summary.evaluated + stats.evaluated,
        mismatches: summary.mismatches + stats.mismatches,
        nanoseconds: summary.nanoseconds + elapsed,
        latencies: Latencies.add(summary.latencies, elapsed)
    }
  end

  # Returns the summary as rows of `{label, text}`.
  @spec report(t) :: iodata
  def report(%__MODULE__{} = summary) do
    table([
      {"expressions", "#{grouped(summary.expressions)}, #{summary.origin} in #{grouped(div(summary.build, 1_000))} ms"},
      {"events", "#{grouped(summary.events)}, #{grouped(per_second(summary))} a second"},
      {"matches", "#{grouped(summary.matches)}, #{per_event(summary, summary.matches)} an event (#{share(summary)} %)"},
      {"microseconds an event", "p50 #{percentile(summary, 0.5)}, p99 #{percentile(summary, 0.99)}"},
      {"fuel", "#{grouped(summary.fuel)}, #{per_event(summary, summary.fuel)} an event"},
      {"slices", "#{grouped(summary.slices)}, #{per_event(summary, summary.slices)} an event"}
      | mismatches(summary)
    ])
  end

  defp mismatches(%{mismatches: 0}), do: []
  defp mismatches(summary), do: [{"values that do not fit", grouped(summary.mismatches)}]

  # Returns rows on the index's work and size.
  @spec report_index(t, BeTree.target()) :: iodata
  def report_index(%__MODULE__{} = summary, target) do
    sizes = for {name, count} <- target |> BeTree.info!() |> Enum.sort(), do: {"index #{name}", grouped(count)}

    table(
      [
        {"entries visited", "#{grouped(summary.visited)}, #{per_event(summary, summary.visited)} an event"},
        {"expressions evaluated", "#{grouped(summary.evaluated)}, #{per_event(summary, summary.evaluated)} an event"}
      ] ++ sizes
    )
  end

  defp table(rows), do: for({label, text} <- rows, do: ["  ", String.pad_trailing(label, 23), text, "\n"])

  defp per_second(%{nanoseconds: 0}), do: 0
  defp per_second(summary), do: div(summary.events * 1_000_000_000, summary.nanoseconds)

  defp per_event(%{events: 0}, _sum), do: "0"
  defp per_event(summary, sum) when sum >= 100 * summary.events, do: grouped(round(sum / summary.events))
  defp per_event(summary, sum), do: decimals(sum / summary.events, 2)

  defp share(%{events: events, expressions: expressions}) when events == 0 or expressions == 0, do: "0"
  defp share(summary), do: decimals(100 * summary.matches / (summary.events * summary.expressions), 2)

  defp percentile(summary, share), do: decimals(Latencies.percentile(summary.latencies, share) / 1_000, 1)

  defp decimals(number, digits), do: :erlang.float_to_binary(number, decimals: digits)
end
