defmodule Ads.Offers do
  @moduledoc """
  The price and the budget of each campaign, in a file.

  The file is a table of `:dets`, which one process opens and closes. It reads and counts in its own process, so two bids never take
  the same last impression. After a crash of the node the last seconds of counts may be missing.
  """

  use GenServer

  def start_link(path), do: GenServer.start_link(__MODULE__, path, name: __MODULE__)

  @doc "Inserts or replaces an offer."
  @spec put(BeTree.id(), pos_integer, non_neg_integer) :: :ok
  def put(id, price, budget), do: :dets.insert(__MODULE__, {id, price, budget})

  @doc "Deletes an offer."
  @spec delete(BeTree.id()) :: :ok
  def delete(id), do: :dets.delete(__MODULE__, id)

  @doc "Returns the offers with these ids: id, price and the rest of the budget."
  @spec of([BeTree.id()]) :: [{BeTree.id(), pos_integer, non_neg_integer}]
  def of(ids) do
    for id <- ids, {id, price, left} <- :dets.lookup(__MODULE__, id), do: {id, price, max(left, 0)}
  end

  @doc "Takes one impression from a budget. Returns whether there was one."
  @spec take(BeTree.id()) :: boolean
  def take(id) do
    case :dets.lookup(__MODULE__, id) do
      # Others may take the last ones meanwhile: the count then goes below zero, which counts as none.
      [{_id, _price, left}] when left > 0 -> :dets.update_counter(__MODULE__, id, {3, -1}) >= 0
      _none -> false
    end
  end

  @impl GenServer
  def init(path) do
    Process.flag(:trap_exit, true)
    {:ok, _table} = :dets.open_file(__MODULE__, file: String.to_charlist(path), auto_save: 1_000)
    {:ok, nil}
  end

  @impl GenServer
  def terminate(_reason, _state), do: :dets.close(__MODULE__)
end
