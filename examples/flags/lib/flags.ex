defmodule Flags do
  @moduledoc """
  Feature flags: a flag is an expression, and a user is an event.

      iex> Flags.on(%{user_id: 42, country: "CA", plan: "team", app_version: 431})
      ["ai_search", "dark_mode", "export"]

  The flags are in an image, which `mix flags.build` writes from a text file, on this machine or another. `Flags.Store` reads a new
  image as soon as it is there.
  """

  alias Flags.{Image, Store}

  @doc "Returns the names of the flags that are on for a user. A user whose values do not fit the schema has none."
  @spec on(map) :: [String.t()]
  def on(user) do
    {index, names} = Store.fetch()
    ids = index |> search(user, []) |> Enum.map(&names[&1])
    Enum.sort(ids)
  end

  @doc "Returns whether a flag is on for a user. An unknown flag is off."
  @spec on?(String.t(), map) :: boolean
  def on?(name, user) do
    {index, _names} = Store.fetch()
    search(index, user, ids: [Image.id(name)]) != []
  end

  @doc "Explains a flag to a support engineer."
  @spec why(String.t(), map) :: {:ok, BeTree.Explanation.t()} | {:error, BeTree.Error.t()} | :no_flags
  def why(name, user) do
    case Store.fetch() do
      {nil, _names} -> :no_flags
      {index, _names} -> BeTree.explain(index, event(user), Image.id(name))
    end
  end

  @doc """
  Returns the bucket of a user, from 0 to 99.

  It depends on the user alone. So `bucket < 50` has all users that `bucket < 20` had, and a user's flags do not change between two requests.
  """
  @spec bucket(integer) :: 0..99
  def bucket(user_id), do: :erlang.phash2({"flags", user_id}, 100)

  # Without an image all flags are off, and so they are if the search fails: a page must not depend on it.
  defp search(nil, _user, _options), do: []

  defp search(index, user, options) do
    options = [timeout: Application.fetch_env!(:flags, :search_timeout)] ++ options

    case BeTree.search(index, event(user), options) do
      {:ok, ids} -> ids
      {:error, _error} -> []
    end
  end

  defp event(user), do: Map.put_new_lazy(user, :bucket, fn -> bucket(user.user_id) end)
end
