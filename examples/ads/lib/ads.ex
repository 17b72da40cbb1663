defmodule Ads do
  @moduledoc """
  An ad server: campaigns with targeting expressions, and bid requests as events.

  `BeTree` finds the campaigns whose targeting a request meets. Among these, the one with the highest price and a budget wins.
  """

  alias Ads.{Campaigns, Offers}

  @doc "Inserts or replaces a campaign. Its budget is the number of times that it may be shown."
  @spec put(BeTree.id(), String.t(), pos_integer, non_neg_integer) :: :ok | {:error, BeTree.Error.t()}
  def put(id, targeting, price, budget) do
    # The offer comes second, so a campaign with wrong targeting has none.
    with :ok <- BeTree.put(Campaigns, id, targeting), do: Offers.put(id, price, budget)
  end

  @doc "Deletes a campaign."
  @spec delete(BeTree.id()) :: :ok | {:error, BeTree.Error.t()}
  def delete(id) do
    with :ok <- BeTree.delete(Campaigns, id), do: Offers.delete(id)
  end

  @doc "Returns the campaign to show for a bid request and its price, and takes it from the budget. `nil` if there is none."
  @spec bid(BeTree.Event.t()) :: {:ok, {BeTree.id(), price :: pos_integer} | nil} | {:error, BeTree.Error.t()}
  def bid(request) do
    # An auction drops an answer that comes late, so a request has a timeout; its fuel limits its work.
    timeout = Application.fetch_env!(:ads, :bid_timeout)

    with {:ok, ids} <- BeTree.search(Campaigns, request, timeout: timeout, fuel: 10_000_000) do
      offers = ids |> Offers.of() |> Enum.sort_by(fn {_id, price, _left} -> -price end)
      {:ok, Enum.find_value(offers, fn {id, price, _left} -> if Offers.take(id), do: {id, price} end)}
    end
  end

  @doc "Explains whether a campaign's targeting meets a bid request."
  @spec why(BeTree.id(), BeTree.Event.t()) :: {:ok, BeTree.Explanation.t()} | {:error, BeTree.Error.t()}
  def why(id, request), do: BeTree.explain(Campaigns, request, id)

  @doc "Returns all campaigns: id, targeting, price and the rest of the budget."
  @spec list() :: [{BeTree.id(), String.t(), pos_integer, integer}]
  def list do
    for {id, price, left} <- Offers.of(BeTree.Server.ids!(Campaigns)),
        {:ok, targeting} <- [BeTree.Server.fetch(Campaigns, id)],
        do: {id, targeting, price, left}
  end
end
