defmodule BeTree.Error.Attempt do
  @moduledoc false
  # Calls a function for the elements of an enumerable until one fails. Each function here returns what the failed call returned.

  @doc "Returns `:ok` if each call returns `:ok` or `{:ok, value}`."
  @spec each(Enumerable.t(), (term -> :ok | {:ok, term} | failure)) :: :ok | failure when failure: term
  def each(enumerable, fun) do
    Enum.reduce_while(enumerable, :ok, fn element, :ok ->
      case fun.(element) do
        :ok -> {:cont, :ok}
        {:ok, _value} -> {:cont, :ok}
        failure -> {:halt, failure}
      end
    end)
  end

  @doc "Returns `{:ok, acc}` with the value of the last call. Each call gets an element and the value of the call before."
  @spec reduce(Enumerable.t(), acc, (term, acc -> {:ok, acc} | failure)) :: {:ok, acc} | failure
        when acc: term, failure: term
  def reduce(enumerable, acc, fun) do
    Enum.reduce_while(enumerable, {:ok, acc}, fn element, {:ok, acc} ->
      with {:ok, acc} <- fun.(element, acc), do: {:cont, {:ok, acc}}, else: (failure -> {:halt, failure})
    end)
  end

  @doc "Returns `{:ok, values}`, in order, if each call returns `{:ok, value}`."
  @spec map(Enumerable.t(), (term -> {:ok, value} | failure)) :: {:ok, [value]} | failure
        when value: term, failure: term
  def map(enumerable, fun) do
    add = fn element, values -> with {:ok, value} <- fun.(element), do: {:ok, [value | values]} end
    with {:ok, values} <- reduce(enumerable, [], add), do: {:ok, Enum.reverse(values)}
  end
end
