defmodule BeTree.Error.Bang do
  @moduledoc false
  # Converts a result into the return value or exception of a function with an exclamation mark.

  alias BeTree.Error

  @doc "Returns the value of `{:ok, value}`, a pair for `{:ok, value, more}`, and raises the error of `{:error, error}`."
  @spec unwrap!(:ok | {:ok, term} | {:ok, term, term} | {:error, Error.t()}) :: term
  def unwrap!(:ok), do: :ok
  def unwrap!({:ok, value}), do: value
  def unwrap!({:ok, value, more}), do: {value, more}
  def unwrap!({:error, error}), do: raise(error)
end
