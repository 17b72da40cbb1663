defmodule BeTree.Test do
  @moduledoc """
  Helpers for tests of an application that uses BeTree: events that fit a schema, and assertions that explain themselves.

      iex> schema = [age: {:integer, min: 0, max: 120}, country: {:string, optional: true}]
      iex> events = BeTree.Test.events(schema, near: ["age >= 21"], seed: 1)
      iex> ages = for event <- Enum.take(events, 200), uniq: true, do: event["age"]
      iex> Enum.all?([0, 20, 21, 22, 120], &(&1 in ages))
      true

  `events/2` needs no other package, and `generator/2` makes generators of the package `:stream_data`, which shrink. Both prefer the values at
  which code breaks: the bounds of an attribute, empty and unusual strings and lists, and with `near:` the constants of your expressions
  with the values beside them.

  `assert_matches/3` and `refute_matches/3` are for ExUnit. A failure has the explanation of each expression that is missing or unexpected.

  All functions run the real index. Expressions are parsed by the index module alone, so there is no evaluation without a runtime. The
  guide [Testing](testing.md) shows how to test the code around it without one, and servers, followers and images in tests.
  """

  alias BeTree.{Domain, Event, Explanation}
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Options}
  alias BeTree.Test.{Constants, Plan}

  @compile {:no_warn_undefined, [ExUnit.Assertions, StreamData]}

  # The largest number of expressions of each kind that a failure explains.
  @max_explained 5

  @near [
    type: {:check, "a list of expressions or subscriptions", &__MODULE__.near?/1},
    default: [],
    doc:
      "expressions, or subscriptions as `BeTree.insert_all/3` takes them, whose constants and the values beside them are preferred. " <>
        "Each is compiled, and raises a `BeTree.Error` if it is wrong"
  ]
  @event_options [
    near: @near,
    seed: [
      type: :any,
      default: nil,
      default_doc: "a seed of the process's `:rand`, which ExUnit seeds for each test with the seed that it prints",
      doc: "any term. The same seed makes the same events"
    ]
  ]
  @generator_options [near: @near]

  @doc """
  Returns an endless stream of random events for a schema, maps with strings as keys.

  Optional attributes are undefined in a quarter of the events. All values fit the schema, bounds included. An attribute `now` without
  bounds is within 1,000 seconds of #{Plan.now()}, and timestamps of segments and frequency caps are close to it, so that conditions on them
  are true at times.

  ## Options

  #{Options.docs(@event_options)}

  Raises a `BeTree.Error` for a wrong schema or expression.

      iex> [event] = Enum.take(BeTree.Test.events([user: [id: :integer, tags: :string_list]], seed: 7), 1)
      iex> %{"user" => %{"id" => id, "tags" => tags}} = event
      iex> {is_integer(id), is_list(tags)}
      {true, true}
  """
  @spec events(BeTree.schema(), near: [String.t() | tuple], seed: term) :: Enumerable.t()
  def events(schema, options \\ []) do
    options = Options.validate!(options, @event_options)
    plan = plan(schema, options[:near])
    seed = options[:seed] || :rand.uniform(0x1_0000_0000)
    # Each event has a state of its own, so it does not depend on how much randomness the events before it took.
    Stream.map(Stream.iterate(1, &(&1 + 1)), fn number ->
      Plan.event(plan, :rand.seed_s(:exsss, hash({seed, number})))
    end)
  end

  @doc """
  Returns a generator of events for a schema, for the package `:stream_data`. The events are those of `events/2`.

  A failing event shrinks to few attributes and short values.

  ## Options

  #{Options.docs(@generator_options)}

  Raises an `ArgumentError` if the package is not there, and a `BeTree.Error` for a wrong schema or expression.

      property "each adult sees the offer" do
        check all event <- BeTree.Test.generator(schema, near: ["age >= 21"]) do
          assert MyApp.offer?(event) == (event["age"] >= 21)
        end
      end
  """
  @spec generator(BeTree.schema(), near: [String.t() | tuple]) :: term
  def generator(schema, options \\ []) do
    options = Options.validate!(options, @generator_options)
    plan = plan(schema, options[:near])

    if not Code.ensure_loaded?(StreamData) do
      raise ArgumentError,
            "generator/2 needs the package :stream_data: add {:stream_data, \"~> 1.0\", only: :test} to your dependencies, or use events/2"
    end

    Plan.generator(plan)
  end

  @doc """
  Asserts that a search of `target` for `event` returns exactly the ids, in any order.

  A failure lists the missing and the unexpected ids, with the explanation of each.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age >= 65"}])
      iex> BeTree.Test.assert_matches(tree, %{age: 30}, [1])
      :ok

  Raises an `ExUnit.AssertionError`, or a `BeTree.Error` if the search returns one.
  """
  @spec assert_matches(BeTree.target(), Event.t(), [BeTree.id()]) :: :ok
  def assert_matches(target, event, ids) do
    ids!(ids)
    found = BeTree.search!(target, event)

    case {Enum.uniq(ids) -- found, found -- ids} do
      {[], []} -> :ok
      {missing, unexpected} -> fail(target, event, found, missing: missing, unexpected: unexpected)
    end
  end

  @doc """
  Asserts that a search of `target` for `event` returns none of the ids. Other ids may match.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age >= 65"}])
      iex> BeTree.Test.refute_matches(tree, %{age: 30}, [2])
      :ok

  Raises as `assert_matches/3`.
  """
  @spec refute_matches(BeTree.target(), Event.t(), [BeTree.id()]) :: :ok
  def refute_matches(target, event, ids) do
    ids!(ids)
    found = BeTree.search!(target, event)

    case Enum.filter(found, &(&1 in ids)) do
      [] -> :ok
      unexpected -> fail(target, event, found, unexpected: unexpected)
    end
  end

  defp ids!(ids), do: if(not Check.proper_list?(ids), do: Check.expected!("a list of ids", ids))

  @spec fail(BeTree.target(), Event.t(), [BeTree.id()], keyword([BeTree.id()])) :: no_return
  defp fail(target, event, found, faults) do
    parts = for {kind, [_ | _] = ids} <- faults, do: part(target, event, kind, ids)

    ExUnit.Assertions.flunk(
      "The search returned #{inspect(found, limit: 50)}.\n\n#{Enum.join(parts, "\n\n")}\n\nEvent: #{inspect(event)}"
    )
  end

  defp part(target, event, kind, ids) do
    explained = for id <- Enum.take(ids, @max_explained), do: "#{inspect(id)} is #{kind}: #{explain(target, event, id)}"
    more = length(ids) - length(explained)
    Enum.join(explained ++ if(more > 0, do: ["#{more} more are #{kind}."], else: []), "\n\n")
  end

  defp explain(target, event, id) do
    case BeTree.explain(target, event, id) do
      {:ok, why} -> Explanation.to_string(why)
      {:error, error} -> Exception.message(error)
    end
  end

  defp plan(schema, near) do
    schema = Bang.unwrap!(Domain.parse(schema))
    # The constants are read from explanations, which need an event.
    event = schema |> Plan.new(%{}) |> Plan.event(:rand.seed_s(:exsss, 0))
    Plan.new(schema, Constants.of(schema, near, event))
  end

  defp hash(term), do: :erlang.phash2(term, 0x1_0000_0000)

  @doc false
  def near?(near), do: Check.proper_list?(near) and Enum.all?(near, &(is_binary(&1) or subscription?(&1)))

  defp subscription?({_id, text}), do: is_binary(text)
  defp subscription?({_id, text, options}), do: is_binary(text) and Keyword.keyword?(options)
  defp subscription?(_other), do: false
end
