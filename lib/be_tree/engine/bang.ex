defmodule BeTree.Engine.Bang do
  @moduledoc false
  # The variants of public functions with an exclamation mark.

  alias BeTree.Error

  @doc "Returns the value of `{:ok, value}` and raises the error of `{:error, error}`."
  @spec unwrap!(:ok) :: :ok
  @spec unwrap!({:ok, value} | {:error, Error.t()}) :: value when value: term
  @spec unwrap!({:ok, value, more} | {:error, Error.t()}) :: {value, more} when value: term, more: term
  def unwrap!(:ok), do: :ok
  def unwrap!({:ok, value}), do: value
  def unwrap!({:ok, value, more}), do: {value, more}
  def unwrap!({:error, error}), do: raise(error)
end
