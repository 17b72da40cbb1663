defmodule BeTree.PubSub.OracleTest do
  @moduledoc "Random subscriptions and events: each subscriber receives what the naive evaluator says."
  use ExUnit.Case, async: true

  import BeTree.Test.{PubSubs, Quiet}

  alias BeTree.PubSub
  alias BeTree.Test.{Attack, Nested, Random}

  @schemas Attack.size(6, 60)
  @subscriptions 120
  @subscribers 10
  @events 60

  setup :quiet

  for number <- 1..@schemas do
    test "subscribers receive what the oracle says, schema #{number}" do
      :rand.seed(:exsss, unquote(number))
      domains = Random.nested_schema()
      name = start(schema: domains)
      actors = List.to_tuple(for _number <- 1..@subscribers, do: actor())
      expressions = for id <- 1..@subscriptions, do: {id, Random.expression(domains)}

      subscribed =
        for {id, text, options} <- Random.subscriptions(expressions), do: subscribe(name, actors, id, text, options)

      compare(name, domains, actors, expressions, subscribed)
      {ended, kept} = subscribed |> Enum.shuffle() |> Enum.split(div(@subscriptions, 2))
      for {_id, actor, subscription} <- ended, do: run(actor, fn -> PubSub.unsubscribe!(name, subscription) end)
      compare(name, domains, actors, expressions, kept)
    end
  end

  defp subscribe(name, actors, id, text, constants: constants) do
    actor = elem(actors, :rand.uniform(@subscribers) - 1)
    {id, actor, run(actor, fn -> PubSub.subscribe!(name, text, tag: id, constants: constants) end)}
  end

  # Publishes some events one by one, and the rest at once.
  defp compare(name, domains, actors, expressions, subscribed) do
    events = for _number <- 1..@events, do: Random.event(domains)

    terms =
      for event <- events,
          do: for({attribute, value} <- event |> Random.dress(domains), do: {attribute, Nested.loosen(value)})

    {one_by_one, at_once} = Enum.split(terms, div(@events, 2))
    for event <- one_by_one, do: PubSub.publish!(name, event)
    PubSub.publish_many!(name, at_once)

    owners = Map.new(subscribed, fn {id, actor, _subscription} -> {id, actor} end)

    found =
      for event <- events, do: expressions |> Random.matches(Map.new(event)) |> Enum.filter(&is_map_key(owners, &1))

    for actor <- Tuple.to_list(actors) do
      received = run(actor, fn -> for(message <- messages(), do: {message.event, message.tags}) end)

      expected =
        for {event, ids} <- Enum.zip(terms, found),
            tags = Enum.filter(ids, &(owners[&1] == actor)),
            tags != [],
            do: {event, tags}

      assert received == expected
    end
  end
end
