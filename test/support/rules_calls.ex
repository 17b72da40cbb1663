defmodule BeTree.Test.RulesCalls do
  @moduledoc "Random calls of a server of rules, which can be made in another node too."

  alias BeTree.Rules.Server

  @minute 60_000

  @text """
  fact order(id: integer, amount: integer)
  fact payment(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(key: o.id, amount: o.amount)
  rule late
    when o: order
         p: payment(order = o.id), after o within 1 hours
         none payment(order = o.id) within 10 minutes after o
    then notify late(key: o.id, delay: p.at - o.at)
  rule many
    when o: order
         n: count payment(order = o.id, within 30 minutes after o), n >= 2
    then notify many(key: o.id, count: n)
  rule repeated priority 5
    when a: order
         b: order(id = a.id, amount > a.amount), after a within 20 minutes
    then modify a(amount: b.amount), notify repeated(key: a.id, amount: b.amount)
  """

  @doc "The rules, and those after the swap of `calls/2`."
  def text, do: @text
  def swapped, do: @text <> "rule large when o: order(amount > 95) then notify large(key: o.id)\n"

  @doc "The option `:partition_by` for these rules."
  def partition_by, do: %{order: :id, payment: :order}

  @doc "Returns `count` random calls, the middle one a swap. With `sources?`, some facts have a source."
  def calls(count, sources?) do
    {calls, _at} =
      Enum.map_reduce(1..count, 1_000 * @minute, fn number, at ->
        at = at + :rand.uniform(2 * @minute)
        {if(number == div(count, 2), do: {:swap, swapped()}, else: call(:rand.uniform(20), at, sources?)), at}
      end)

    calls
  end

  defp call(1, at, _sources?), do: {:advance, at}
  defp call(2, _at, _sources?), do: {:retract, {:order, "id"}, :rand.uniform(30)}
  defp call(3, _at, _sources?), do: {:retract, {:payment, "order"}, :rand.uniform(30)}

  defp call(kind, at, sources?) when kind < 12,
    do: {:assert, {:payment, order: :rand.uniform(30), at: at}, source(sources?)}

  defp call(_kind, at, sources?),
    do: {:assert, {:order, id: :rand.uniform(30), amount: :rand.uniform(100), at: at}, source(sources?)}

  defp source(true), do: [source: Enum.random(["east", "west"])]
  defp source(false), do: []

  @doc "Makes a call. Returns the count of its firings, or an error."
  def make(server, {:assert, fact, options}), do: firings(Server.assert(server, fact, options))
  def make(server, {:advance, at}), do: firings(Server.advance(server, at))
  def make(server, {:swap, text}), do: Server.swap(server, text)

  # The newest such fact. Numbers of facts differ between servers, and their order does not.
  def make(server, {:retract, {type, field}, key}) do
    {:ok, facts} = Server.facts(server, type)

    case Enum.filter(facts, &(&1.fields[field] == key)) do
      [] -> :none
      found -> firings(Server.retract(server, Enum.max_by(found, & &1.id).id))
    end
  end

  defp firings({:ok, %{firings: firings}}), do: firings
  defp firings({:error, error}), do: {:error, error.kind}

  @doc "Returns all facts of a server without their numbers, in the order of these, its sources, and what else must survive."
  def state(server) do
    {:ok, sources} = Server.sources(server)
    {:ok, info} = Server.info(server)

    facts =
      for type <- [:order, :payment] do
        {:ok, facts} = Server.facts(server, type)

        facts =
          for fact <- facts,
              do: {fact.fields[if(type == :order, do: "id", else: "order")], fact.id, fact.at, fact.fields}

        # Partitions interleave their numbers.
        for {_key, _id, at, fields} <- Enum.sort(facts), do: {at, fields}
      end

    {facts, sources, Map.take(info, [:now, :next_due, :waiting, :due])}
  end
end
