defmodule BeTree.ErlBench.Stats do
  @moduledoc false
  # Times of events as sums of a thousand, and their file of Erlang terms. It has the names of erl-be-tree's runner, so each
  # program reads the other's files.

  alias BeTree.Input.FileReader
  alias BeTree.Files.Error
  alias Mix.BeTree.Command

  @events_a_sum 1_000

  @enforce_keys [:title, :started]
  defstruct @enforce_keys ++ [:ended, events: 0, sum: 0, sums: []]

  @typedoc "Nanoseconds: the `sum` of the incomplete thousand, and the `sums` of the complete ones, latest first."
  @type t :: %__MODULE__{
          title: String.t(),
          started: :calendar.datetime(),
          ended: :calendar.datetime() | nil,
          events: non_neg_integer,
          sum: non_neg_integer,
          sums: [non_neg_integer]
        }

  @spec events_a_sum() :: pos_integer
  def events_a_sum, do: @events_a_sum

  @spec new(String.t()) :: t
  def new(title), do: %__MODULE__{title: title, started: :calendar.local_time()}

  # Adds one event that took this many nanoseconds.
  @spec add(t, non_neg_integer) :: t
  def add(%__MODULE__{} = stats, nanoseconds) do
    stats = %{stats | events: stats.events + 1, sum: stats.sum + nanoseconds}
    if rem(stats.events, @events_a_sum) == 0, do: %{stats | sum: 0, sums: [stats.sum | stats.sums]}, else: stats
  end

  @spec finish(t) :: t
  def finish(%__MODULE__{} = stats), do: %{stats | ended: :calendar.local_time()}

  # Returns the terms of the file.
  @spec to_terms(t) :: keyword
  def to_terms(%__MODULE__{} = stats) do
    seconds =
      :calendar.datetime_to_gregorian_seconds(stats.ended) - :calendar.datetime_to_gregorian_seconds(stats.started)

    {_days, duration} = :calendar.seconds_to_daystime(seconds)

    [
      start_local_time: stats.started,
      end_local_time: stats.ended,
      duration: duration,
      info: String.to_charlist(stats.title),
      n_events: stats.events,
      snapshot_freq: @events_a_sum,
      nano_diffs: Enum.reverse(stats.sums)
    ]
  end

  @spec write!(t, Path.t(), [Path.t()]) :: :ok
  def write!(%__MODULE__{} = stats, path, inputs) do
    Command.write_output!(path, for(term <- to_terms(stats), do: :io_lib.format("~tp.~n", [term])), inputs)
  end

  # Returns the sums in nanoseconds, and the number of events of each sum.
  @spec read!(Path.t()) :: {[pos_integer, ...], events_a_sum :: pos_integer}
  def read!(path) do
    case FileReader.read_file(path) do
      {:ok, bytes} ->
        sums!(for({key, value} <- bytes |> String.to_charlist() |> terms!(path), do: {key, value}), path)

      {:error, reason} ->
        raise Error.posix(path, reason)
    end
  end

  # Returns the terms of a text, like `:file.consult/1`, which only opens files.
  defp terms!(text, path) do
    case :erl_scan.string(text) do
      {:ok, tokens, _end} -> for tokens <- split(tokens), do: term!(tokens, path)
      {:error, error, _line} -> raise wrong(error, path)
    end
  end

  # The last term may lack its full stop, and is then refused.
  defp split(tokens) do
    Enum.chunk_while(
      tokens,
      [],
      fn
        {:dot, _line} = dot, term -> {:cont, Enum.reverse([dot | term]), []}
        token, term -> {:cont, [token | term]}
      end,
      fn
        [] -> {:cont, []}
        rest -> {:cont, Enum.reverse(rest), []}
      end
    )
  end

  defp term!(tokens, path) do
    case :erl_parse.parse_term(tokens) do
      {:ok, term} -> term
      {:error, error} -> raise wrong(error, path)
    end
  end

  defp wrong({line, _module, _reason} = error, path), do: %Error{path: path, line: line, reason: fault(error)}

  defp sums!(terms, path) do
    case {List.keyfind(terms, :nano_diffs, 0), List.keyfind(terms, :snapshot_freq, 0)} do
      {{_, [_ | _] = sums}, {_, size}} when is_integer(size) and size > 0 ->
        {sums, size}

      {{_, []}, _size} ->
        raise %Error{path: path, reason: "has no sums: a sum is of #{@events_a_sum} events, and there were fewer"}

      _other ->
        raise %Error{path: path, reason: "is no file of statistics: it has no nano_diffs or no snapshot_freq"}
    end
  end

  defp fault(error), do: error |> :file.format_error() |> to_string()
end
