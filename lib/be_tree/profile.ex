defmodule BeTree.Profile do
  @moduledoc """
  A profile tells where the fuel of searches goes: by phase, by attribute, by expression and by event.

  `BeTree.profile/3` and `mix be_tree.profile` make one. It counts fuel, not time, so it is exact and equal on every machine.

      iex> tree = BeTree.new!(device: :string, geo: :string)
      iex> {:ok, 2} = BeTree.insert_all(tree, [{1, "device = 'tv' and geo = 'CA'"}, {2, "device = 'tv' and geo = 'US'"}])
      iex> {:ok, profile} = BeTree.profile(tree, [%{device: "tv", geo: "CA"}, %{device: "pc", geo: "CA"}])
      iex> {profile.searches, Enum.sum(for {_phase, fuel} <- profile.phases, do: fuel) == profile.fuel}
      {2, true}

  ## Fields

    * `searches` - the number of events;
    * `fuel` - the fuel of all searches, as `BeTree.Stats` has it;
    * `phases` - `{phase, fuel}`, which add up to `fuel`. Phases without fuel are left out;
    * `attributes` - an entry for each attribute that leads to expressions, the one with the most candidates first;
    * `expressions` - an entry for each expression that was a candidate, the one with the most tests first;
    * `events` - an entry for each event, the one with the most fuel first.

  ## Phases

    * `:decode` - decodes the event, and clears the search's tables;
    * `:walk` - finds the nodes that the event's values lead to;
    * `:scan` - tests the entries of these nodes. Most expressions are proven or excluded here;
    * `:verify` - runs the programs of candidates: entries that passed the scan and are not proven;
    * `:dense` - evaluates the boolean expressions that are stored as columns of bits;
    * `:unindexed` - runs the expressions without an access predicate;
    * `:collect`, `:sort` - make the list of ids;
    * `:call` - the rest: start and end of the call, and the transitions between phases.

  ## Entries

  An attribute has its `name` (`"(patterns)"` for prefixes, suffixes and parts of strings, `nil` for the nodes that every
  search visits); `lookups`, how often its value was looked up; `nodes`, those found; `entries`, those scanned there;
  `proven` and `candidates`, the expressions among these entries; `failed`, the candidates that turned out false; and
  `failed_by`, the attributes of the deciding tests, as `{name, times}`.

  An expression has its `id`; `candidate`, how often it was one; `tests`, the tests run; `matched` and `failed`; and
  `decided_by`, as `{name, times}`. A proven expression is no candidate, because its program does not run.

  An event has its `position` in the list, from 0; its `fuel` and `phases`; `visited`, the entries; `evaluated`, the
  expressions; `matches`; and `reason`, a sentence on its most expensive phase.
  """

  alias BeTree.Input.Check
  alias BeTree.Profile.{Advice, Stacks}

  @enforce_keys [:searches, :fuel, :phases, :attributes, :expressions, :events]
  defstruct @enforce_keys

  @type phase :: :decode | :walk | :scan | :verify | :dense | :unindexed | :collect | :sort | :call

  @type phases :: [{phase, BeTree.Fuel.t()}]

  @typedoc "The name of an attribute, or `nil` for none."
  @type name :: String.t() | nil

  @type attribute :: %{
          name: name,
          lookups: non_neg_integer,
          nodes: non_neg_integer,
          entries: non_neg_integer,
          proven: non_neg_integer,
          candidates: non_neg_integer,
          failed: non_neg_integer,
          failed_by: [{name, pos_integer}]
        }

  @type expression :: %{
          id: BeTree.id(),
          candidate: pos_integer,
          tests: non_neg_integer,
          matched: non_neg_integer,
          failed: non_neg_integer,
          decided_by: [{name, pos_integer}]
        }

  @type event :: %{
          position: non_neg_integer,
          fuel: BeTree.Fuel.t(),
          phases: phases,
          visited: non_neg_integer,
          evaluated: non_neg_integer,
          matches: non_neg_integer,
          reason: String.t()
        }

  @type t :: %__MODULE__{
          searches: non_neg_integer,
          fuel: BeTree.Fuel.t(),
          phases: phases,
          attributes: [attribute],
          expressions: [expression],
          events: [event]
        }

  @doc """
  Returns the profile in the folded format of flame graph tools: for each stack a line with its frames, joined by
  semicolons, a space, and its fuel.

  The fuel of a phase is exact. Within a phase it is apportioned: the walk by lookups and nodes, the scan by entries,
  programs by tests. The lines add up to the fuel of the profile.

      iex> tree = BeTree.new!(device: :string)
      iex> BeTree.insert!(tree, 1, "device = 'tv'")
      iex> {:ok, profile} = BeTree.profile(tree, [%{device: "tv"}])
      iex> profile |> BeTree.Profile.folded() |> IO.iodata_to_binary() =~ ~r/^search;decode \\d+$/m
      true
  """
  @spec folded(t) :: iodata
  def folded(%__MODULE__{} = profile) do
    for {frames, fuel} <- Stacks.of(profile), do: [Enum.join(frames, ";"), " ", Integer.to_string(fuel), "\n"]
  end

  def folded(other), do: Check.expected!("a BeTree.Profile", other)

  @doc """
  Returns advice in sentences, the most important first. The list is empty for a profile without searches.

      iex> tree = BeTree.new!(device: :string, geo: :string)
      iex> BeTree.insert_all!(tree, for(id <- 1..100, do: {id, "device = 'tv' and geo = 'g\#{id}' and geo <> 'x'"}))
      iex> {:ok, profile} = BeTree.profile(tree, [%{device: "tv", geo: "g7"}])
      iex> [first | _rest] = BeTree.Profile.advice(profile)
      iex> is_binary(first)
      true
  """
  @spec advice(t) :: [String.t()]
  def advice(%__MODULE__{} = profile), do: Advice.of(profile)
  def advice(other), do: Check.expected!("a BeTree.Profile", other)

  defimpl Inspect do
    def inspect(%{searches: searches, fuel: fuel}, _options) do
      "#BeTree.Profile<#{searches} #{if searches == 1, do: "search", else: "searches"}, #{fuel} fuel>"
    end
  end
end
