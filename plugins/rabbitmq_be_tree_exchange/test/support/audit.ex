defmodule BeTreeExchange.Test.Audit do
  @moduledoc """
  Compares the messages that a node routes with the bindings that its broker lists, which a plain evaluator tests one by one.
  """

  import ExUnit.Assertions

  alias BeTreeExchange.Test.{Broker, Client}

  # The expressions of an audited exchange are `a = n`, with n below this number.
  @values 0..400

  @doc "Audits an exchange on a node, and returns the sorted bindings that the broker lists there."
  def run(number, exchange) do
    before = bindings(number, exchange)
    client = Client.open(number)
    unroutable = for [a: a] <- Client.unroutable(client, exchange, for(a <- @values, do: [a: a])), do: a
    counted = indexed(number, exchange)
    Client.close(client)

    # The broker deletes bindings of its own accord when a node is gone.
    if bindings(number, exchange) == before do
      expected = for a <- @values, not Enum.any?(before, &true?(&1, a)), do: a
      assert {number, unroutable, counted} == {number, expected, length(before)}
      before
    else
      run(number, exchange)
    end
  end

  defp bindings(number, exchange) do
    number |> Broker.rpc(:rabbit_binding, :list_for_source, [name(exchange)]) |> Enum.sort()
  end

  defp name(exchange), do: {:resource, "/", :exchange, exchange}

  # Returns how many bindings the index of the node has.
  defp indexed(number, exchange) do
    numbers = Broker.rpc(number, BeTreeExchange.Status, :of, [name(exchange)])
    numbers[:bindings] || indexed(number, exchange)
  end

  defp true?(binding, a) do
    {"expression", :longstr, "a = " <> n} = binding |> elem(4) |> List.keyfind("expression", 0)
    String.to_integer(n) == a
  end
end
