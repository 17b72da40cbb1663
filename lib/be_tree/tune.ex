defmodule BeTree.Tune do
  @moduledoc """
  Measures an index on your own events, and recommends how to search it: slice, fuel per reduction, batch size, replicas,
  number of processes, and a budget.

  `mix be_tree.tune` does this for files, prints the result and writes it as a page with charts. From code:

      {:ok, run} = BeTree.Tune.run(tree, events, seconds: 60)
      run.verdict.paste |> IO.puts()
      File.write!("tune.html", BeTree.Tune.to_html!(run))
      File.write!("tune.json", BeTree.Tune.to_json(run))

  ## Fuel

  Fuel is the same on every machine, so every figure of fuel is exact: the fuel of each event, the searches that a budget
  (`fuel:` of `BeTree.search/3`) would end, the matches lost by that, and the profile (`BeTree.Profile`).

  ## Times

  A turn runs one configuration for a fraction of a second. Some processes search. Beside them a sleeper, one process that
  sleeps a millisecond at a time, measures how late it wakes. A round runs a turn of each configuration in random order.
  Rounds repeat until the confidence intervals are narrow enough or the time is used up. The first half of the time sweeps
  all configurations. The second half measures the best one again, beside the defaults.

  Intervals have 95 % confidence, from 400 bootstrap samples. The bootstrap draws whole turns, because the searches of one
  turn depend on each other. A recommendation promises the range from the 5th to the 95th percentile of its turns. The
  median of another run should lie in that range.

  The defaults are measured twice in each round. The verdict is `:too_noisy`, without a recommendation, if the two
  measurements differ by more than 5 %, if an interval is too wide, or if other programs take over a quarter of the
  processor time.
  """

  alias BeTree.{Error, Fuel, Index, Tree}
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Describe, Json, Limits, Options}
  import Limits, only: [is_u64: 1]

  alias BeTree.Tune.{Choice, Comparison, Costs, Document, Machine, Report, Rounds, Sweep, Turn}

  @max_events 10_000

  # An upper bound for the option `threshold`: no figure becomes a million times worse.
  @max_threshold 1_000_000

  # Milliseconds of a turn. The sleeper wakes about every two.
  @turn_ms 200
  @short_turn_ms 60

  # Total seconds below which turns are short.
  @short_run_seconds 45

  # Events in a profile. Profiling takes several times as long as searching.
  @max_profiled_events 2_000

  @options [
    seconds: [
      type: {:nullable, :positive},
      default: 120,
      doc:
        "the seconds that the measurement of times may take, more if five rounds take longer, or `nil` to measure only fuel"
    ],
    subscriptions: [
      type: :any,
      default: [],
      doc: "the subscriptions, as `BeTree.insert_all/3` takes them, whose texts the report shows"
    ],
    lines: [
      type: {:check, "a list of positive integers", &__MODULE__.lines?/1},
      default: [],
      doc: "the line of each event in its file, which the report shows"
    ],
    progress: [
      type: {:check, "a function of an atom and a number", &__MODULE__.progress?/1},
      default_doc: "no progress",
      doc:
        "a function that is called with `:fuel`, `:profile`, `:sweep` or `:confirmation`, and its progress from 0 to 1"
    ]
  ]

  @enforce_keys [:machine, :input, :costs, :budget, :profile]
  defstruct @enforce_keys ++ [:default, :sweep, :verdict, :comparison]

  @typedoc """
  A run.

    * `machine` - the processor, the schedulers and the versions;
    * `input` - the measured input: counts, digests, the texts of subscriptions by id, and the lines of events;
    * `costs` - for each event its position, fuel, visited entries, evaluated expressions and matches;
    * `budget` - how many searches each total budget would end, and the least budget within which 99.9 % of the searches
      finish;
    * `profile` - a `BeTree.Profile` of at most 2,000 events;
    * `default` - the configuration without options;
    * `sweep` - the figures of all configurations, or `nil` if only fuel was measured;
    * `verdict` - the recommendation with its reasons, or the reasons for none; `nil` if only fuel was measured;
    * `comparison` - with an earlier run, see `compare/3`.
  """
  @type t :: %__MODULE__{
          machine: map,
          input: map,
          costs: [map],
          budget: map,
          profile: BeTree.Profile.t(),
          default: map,
          sweep: map | nil,
          verdict: map | nil,
          comparison: map | nil
        }

  @doc """
  Measures searches of a tree or an index for at most 10,000 of `events`.

  Times are measured on published copies of the tree, and the calling process searches too. Run nothing else meanwhile:
  other work is detected and can prevent a recommendation.

  ## Options

  #{Options.docs(@options)}

  Returns `{:error, error}` with the kinds of `BeTree.search/3` (and the position of the event), with those of
  `BeTree.publish/2`, or with `:not_found` if there are no events.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      iex> {:ok, run} = BeTree.Tune.run(tree, [%{age: 30}, %{age: 3}], seconds: nil)
      iex> for cost <- run.costs, do: cost.matches
      [2, 1]
      iex> Enum.map(run.budget.stops, & &1.ended)
      [0, 1]
  """
  @spec run(BeTree.t() | Index.t(), Enumerable.t(), [
          {:seconds, pos_integer | nil}
          | {:subscriptions, [tuple]}
          | {:lines, [pos_integer]}
          | {:progress, (atom, float -> term)}
        ]) :: {:ok, t} | {:error, Error.t()}
  def run(target, events, options \\ []) do
    options = Options.validate!(options, @options)
    progress = options[:progress] || fn _part, _share -> :ok end

    with :ok <- Check.events(events),
         {:ok, events} <- require_events(Enum.take(events, @max_events)),
         {:ok, tree} <- tree(target),
         {:ok, run} <- fuel(tree, events, options, progress) do
      if options[:seconds], do: times(run, tree, events, options[:seconds], progress), else: {:ok, run}
    end
  end

  @doc "Like `run/3`, but returns the run and raises on error."
  @spec run!(BeTree.t() | Index.t(), Enumerable.t(), keyword) :: t
  def run!(target, events, options \\ []), do: Bang.unwrap!(run(target, events, options))

  @doc false
  def lines?(lines), do: is_list(lines) and Enum.all?(lines, &(is_integer(&1) and &1 > 0))

  @doc false
  def progress?(progress), do: is_function(progress, 2)

  defp require_events([]), do: {:error, %Error{kind: :not_found, message: "there are no events to measure with"}}
  defp require_events(events), do: {:ok, events}

  defp tree(%Tree{} = tree), do: {:ok, tree}
  defp tree(%Index{} = index), do: Index.to_tree(index, Limits.default_memory())
  defp tree(other), do: raise(ArgumentError, "expected a tree or an index, got: #{Describe.value(other)}")

  defp fuel(tree, events, options, progress) do
    progress.(:fuel, 0.0)

    with {:ok, index} <- BeTree.publish(tree),
         {:ok, costs} <- Costs.measure(index, events),
         {:ok, budget} <- Costs.budget(index, events, costs),
         progress.(:profile, 0.0),
         {:ok, profile} <- BeTree.profile(index, Enum.take(events, @max_profiled_events)) do
      {:ok,
       %__MODULE__{
         machine: Machine.describe(),
         input: input(BeTree.info!(index), events, options),
         costs: costs,
         budget: budget,
         profile: profile,
         default: Sweep.default()
       }}
    end
  end

  defp input(info, events, options) do
    subscriptions = options[:subscriptions]

    %{
      expressions: %{count: info.expressions, memory_bytes: info.memory_bytes, sha256: digest(subscriptions)},
      events: %{count: length(events), sha256: digest(events)},
      texts: Map.new(subscriptions, fn subscription -> {elem(subscription, 0), elem(subscription, 1)} end),
      lines: List.to_tuple(options[:lines]),
      event_texts: List.to_tuple(Enum.map(events, &text/1))
    }
  end

  defp digest([]), do: nil

  defp digest(terms) do
    terms
    |> Enum.reduce(:crypto.hash_init(:sha256), &:crypto.hash_update(&2, :erlang.term_to_binary(&1, minor_version: 2)))
    |> :crypto.hash_final()
    |> Base.encode16(case: :lower)
  end

  @max_text_length 300

  defp text({:json, json}), do: cut(IO.iodata_to_binary(json))
  defp text({:record, values}), do: text(values)
  defp text(event), do: event |> inspect(limit: 60, printable_limit: @max_text_length) |> cut()

  defp cut(text),
    do: if(String.length(text) > @max_text_length, do: String.slice(text, 0, @max_text_length) <> "…", else: text)

  # The sweep gets half of the time, the confirmation the other half.
  defp times(run, tree, events, seconds, progress) do
    charts = run.costs |> Enum.map(& &1.fuel) |> Enum.max() |> Sweep.charts()
    loads = charts |> Keyword.values() |> Enum.concat() |> Enum.uniq()

    limits = fn part ->
      %{
        milliseconds: if(seconds < @short_run_seconds, do: @short_turn_ms, else: @turn_ms),
        seconds: seconds / 2,
        progress: &progress.(part, &1)
      }
    end

    with {:ok, swept} <- rounds(tree, events, Enum.map(loads, &{&1, &1}), limits.(:sweep)),
         figures = Sweep.figures(swept),
         candidate = Choice.candidate(charts, figures),
         confirmation = Choice.confirmation(candidate.setting),
         {:ok, confirmed} <- rounds(tree, events, confirmation, limits.(:confirmation)) do
      {:ok,
       %{
         run
         | sweep: %{
             charts: charts,
             figures: figures,
             front: Sweep.front(figures),
             rounds: Map.delete(swept, :turns),
             candidate: candidate,
             confirmation: %{loads: confirmation, rounds: Map.delete(confirmed, :turns), turns: confirmed.turns}
           },
           verdict: Choice.decide(candidate, confirmed, run.budget)
       }}
    end
  end

  defp rounds(tree, events, loads, limits),
    do: Turn.with_stage(tree, events, Keyword.values(loads), &Rounds.run(loads, &1, limits))

  @typedoc "An earlier run, as `read/1` returns it."
  @type earlier :: %{String.t() => term}

  @doc """
  Reads the JSON of an earlier run (`to_json/1`), for `compare/3`.

  Returns `{:error, error}` with the kind `:syntax` when `json` is not the text of a run.

      iex> {:error, error} = BeTree.Tune.read("{}")
      iex> error.kind
      :syntax
  """
  @spec read(String.t()) :: {:ok, earlier} | {:error, Error.t()}
  def read(json) when is_binary(json), do: Document.read(json)
  def read(other), do: Check.expected!("the JSON of a run, a binary", other)

  @doc """
  Compares a run with an earlier one, and returns the run with the comparison.

  `threshold` is the tolerated increase as a share, such as 0.05. Fuel is compared exactly, and event by event if the events
  are the same. Times are compared if both runs are of the same machine and have a verdict. A time is worse only if its
  whole 95 % interval exceeds the threshold.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, old} = tree |> BeTree.Tune.run!([%{age: 30}], seconds: nil) |> BeTree.Tune.to_json() |> BeTree.Tune.read()
      iex> BeTree.insert_all!(tree, for(id <- 2..100, do: {id, "not (age < \#{id})"}))
      iex> run = tree |> BeTree.Tune.run!([%{age: 30}], seconds: nil) |> BeTree.Tune.compare(old, 0.05)
      iex> run.comparison.worse
      true
  """
  @spec compare(t, earlier, float) :: t
  def compare(%__MODULE__{} = run, %{"format" => _} = earlier, threshold)
      when threshold >= 0 and threshold <= @max_threshold do
    new = run |> Document.of() |> Json.encode() |> Json.decode!()
    %{run | comparison: Comparison.compare(earlier, new, threshold)}
  end

  def compare(%__MODULE__{}, %{"format" => _}, other) do
    Check.expected!("a threshold, a number from 0 to #{@max_threshold}", other)
  end

  def compare(%__MODULE__{}, other, _threshold), do: Check.expected!("a run that BeTree.Tune.read/1 returned", other)
  def compare(other, _earlier, _threshold), do: Check.expected!("a BeTree.Tune", other)

  @doc """
  Returns the run as JSON, which `read/1` reads. [Tuning](tuning.md) describes it.

      iex> tree = BeTree.new!(age: :integer)
      iex> json = tree |> BeTree.Tune.run!([%{age: 30}], seconds: nil) |> BeTree.Tune.to_json()
      iex> json =~ ~s("format":"be_tree tune 1")
      true
  """
  @spec to_json(t) :: String.t()
  def to_json(%__MODULE__{} = run), do: run |> Document.of() |> Json.encode()
  def to_json(other), do: Check.expected!("a BeTree.Tune", other)

  @doc """
  Returns the run as a self-contained HTML page with charts.

  Returns `{:error, error}` with the kind `:file` if the page's program is missing. Released packages contain it; in a
  checkout `make report` builds it with npm.
  """
  @spec to_html(t) :: {:ok, iodata} | {:error, Error.t()}
  def to_html(run), do: run |> to_json() |> Report.html()

  @doc "Like `to_html/1`, but returns the page and raises on error."
  @spec to_html!(t) :: iodata
  def to_html!(run), do: Bang.unwrap!(to_html(run))

  @doc """
  Rounds fuel up to two significant digits, so a budget has headroom.

      iex> BeTree.Tune.round_up(123_456)
      130_000
  """
  @spec round_up(Fuel.t()) :: Fuel.t()
  def round_up(fuel) when is_u64(fuel), do: Choice.up(fuel)
  def round_up(other), do: Check.expected!("fuel, an integer from 0 to 2^64 - 1", other)

  defimpl Inspect do
    def inspect(run, _options) do
      "#BeTree.Tune<#{run.input.events.count} events, #{if run.verdict, do: run.verdict.state, else: "fuel only"}>"
    end
  end
end
