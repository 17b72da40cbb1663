defmodule ErlBetree.Reference do
  @moduledoc false
  # A term behind a reference. Users of erl-be-tree hold references, and tell by `is_reference/1` what an event is.
  #
  # A compiled match specification is one: it holds the term that it answers, and both are gone where nobody refers to it
  # any more. To make one takes 0.3 microseconds, to open it 0.1 and the copying of the term.

  @type kind :: :tree | :subscription | :event | :iterator | :state | :reasons

  @doc "A reference to a term of this kind."
  @spec new(kind, term) :: reference
  def new(kind, term), do: untyped(:ets.match_spec_compile([{:_, [], [{:const, {__MODULE__, kind, term}}]}]), term)

  @doc "The term of this kind behind a reference; of any other it raises a badarg."
  @spec open(kind, reference) :: term
  def open(kind, reference) do
    # No other specification answers this module's name by accident.
    case :ets.match_spec_run([[]], untyped(reference, kind)) do
      [{__MODULE__, ^kind, term}] -> term
      _other -> :erlang.error(:badarg)
    end
  end

  # To Dialyzer a compiled match specification is opaque, and no reference. In a list with any term its type is forgotten.
  defp untyped(reference, any), do: hd([reference, any])
end
