defmodule ErlBetree.Domains do
  @moduledoc false
  # Domains in the form of Erlang programs: `{Name, Type, allow_undefined | disallow_undefined}`, with optional bounds at
  # the end.
  # erl-be-tree refuses an expression for too many distinct values, but not for a number out of bounds. So only counts are
  # passed on;
  # of other bounds only the types are checked.

  alias BeTree.Domain
  alias BeTree.Input.Limits

  @types %{
    bool: :boolean,
    int: :integer,
    int64: :integer,
    int_enum: :integer_enum,
    float: :float,
    bin: :string,
    int_list: :integer_list,
    bin_list: :string_list,
    segments: :segments,
    frequency_caps: :frequency_caps
  }

  @integers Limits.integers()
  # Upper bound of any tree's distinct values.
  @max_values 0xFFFF_FFFF

  @doc "Returns the domains in order. Raises a badarg for an invalid one."
  @spec parse(term) :: [Domain.t()]
  def parse(lists) do
    for list <- proper(lists), domain <- proper(list), do: declare(domain)
  end

  @doc "Returns the atom that names a domain."
  @spec name(Domain.t()) :: atom
  def name(%Domain{name: name}) do
    {:ok, [field]} = Domain.Path.fields(name)
    String.to_existing_atom(field)
  end

  defp proper(list) when length(list) >= 0, do: list
  defp proper(_other), do: :erlang.error(:badarg)

  defp declare(domain) when is_tuple(domain) and tuple_size(domain) >= 3 do
    [name, type, undefined | bounds] = Tuple.to_list(domain)

    if is_atom(name) and is_map_key(@types, type) and undefined in [:allow_undefined, :disallow_undefined] do
      type = @types[type]

      %Domain{
        # The language of erl-be-tree has no paths: any atom is the name of one attribute.
        name: Domain.Path.join([Atom.to_string(name)]),
        type: type,
        optional: undefined == :allow_undefined,
        count: count(type, bounds)
      }
    else
      :erlang.error(:badarg)
    end
  end

  defp declare(_other), do: :erlang.error(:badarg)

  # Bounds are ignored for types without bounds.
  defp count(type, [min, max])
       when type in [:integer, :integer_list] and (min not in @integers or max not in @integers) do
    :erlang.error(:badarg)
  end

  defp count(:float, [min, max]) when not (is_number(min) and is_number(max)), do: :erlang.error(:badarg)

  defp count(type, [count]) when type in [:string, :string_list, :integer_enum] do
    if is_integer(count) and count > 0, do: min(count, @max_values), else: :erlang.error(:badarg)
  end

  defp count(_type, _bounds), do: nil
end
