defmodule BeTree.Tenants.Declaration do
  @moduledoc false
  # A declaration of statistics: names with the kind of a figure and the attribute of the event that it reads. The guest checks it
  # too. This check names the fault in the words of the option.

  alias BeTree.{Domain, Error}
  alias BeTree.Error.Attempt
  alias BeTree.Input.{Check, Describe}

  @max_stats 16
  @max_name_bytes 255
  @default_top 10
  @max_top 100
  @default_members 100
  @max_members 1_000

  @not_counted [:frequency_caps, :object_list]
  @numbers [:integer, :integer_enum, :integer_list, :datetime, :segments, :float]

  # The default and the maximum of the parameter of a kind, nil for kinds without one.
  @kinds %{
    uniques: nil,
    sum: nil,
    top: {@default_top, @max_top},
    quantiles: nil,
    members: {@default_members, @max_members}
  }

  @typedoc "The form for the guest: name, kind, attribute, and the parameter of the kind or 0."
  @type wire :: {name :: String.t(), kind :: atom, attribute :: String.t(), parameter :: non_neg_integer}
  @type t :: [wire]

  @doc "Returns the declaration of the option `stats:`, `nil` for none."
  @spec new(term, [Domain.t()]) :: {:ok, t | nil} | {:error, Error.t()}
  def new(nil, _schema), do: {:ok, nil}

  def new(stats, schema) do
    stats = if is_map(stats) and not is_struct(stats), do: Map.to_list(stats), else: stats

    cond do
      not Check.proper_list?(stats) ->
        refuse(:type, "stats are a keyword list or a map of names with figures, got: #{Describe.kind(stats)}")

      length(stats) > @max_stats ->
        refuse(:out_of_bounds, "stats have at most #{@max_stats} figures, got: #{length(stats)}")

      true ->
        with {:ok, wires} <- Attempt.map(stats, &figure(&1, schema)), do: distinct(wires)
    end
  end

  @doc "Returns the option `stats:` of a declaration, as `new/2` takes it."
  @spec option(t | nil) :: list | nil
  def option(nil), do: nil

  def option(declaration) do
    for {name, kind, attribute, parameter} <- declaration,
        do: {name, {kind, attribute, if(@kinds[kind], do: parameter)}}
  end

  defp distinct(wires) do
    names = for {name, _kind, _attribute, _parameter} <- wires, do: name

    case names -- Enum.uniq(names) do
      [] -> {:ok, wires}
      [name | _others] -> refuse(:type, "stats have the name #{Describe.quoted(name)} twice")
    end
  end

  defp figure({name, {kind, attribute}}, schema), do: figure({name, {kind, attribute, nil}}, schema)

  defp figure({name, {kind, attribute, parameter}}, schema) when is_map_key(@kinds, kind) do
    with {:ok, name} <- text(name, "the name of a figure"),
         {:ok, attribute} <- text(attribute, "the attribute of the figure #{Describe.quoted(name)}"),
         :ok <- check_attribute(name, kind, attribute, Enum.find(schema, &(&1.name == attribute))),
         {:ok, parameter} <- parameter(name, kind, parameter),
         do: {:ok, {name, kind, attribute, parameter}}
  end

  defp figure(other, _schema) do
    kinds = @kinds |> Map.keys() |> Enum.map_join(", ", &inspect/1)
    refuse(:type, "a figure is {name, {kind, attribute}} with one of the kinds #{kinds}, got: #{Describe.value(other)}")
  end

  defp text(name, _place) when is_binary(name) and name != "" and byte_size(name) <= @max_name_bytes, do: {:ok, name}
  defp text(name, place) when is_atom(name) and name not in [nil, true, false], do: text(Atom.to_string(name), place)

  defp text(other, place) do
    refuse(:type, "#{place} is an atom or a string of 1 to #{@max_name_bytes} bytes, got: #{Describe.value(other)}")
  end

  defp check_attribute(name, _kind, attribute, nil) do
    message =
      "the figure #{Describe.quoted(name)} reads the attribute #{Describe.quoted(attribute)}, which the schema lacks"

    {:error, %Error{kind: :unknown_attribute, message: message, attribute: attribute}}
  end

  defp check_attribute(name, kind, attribute, domain) do
    if counts?(kind, domain.type) do
      :ok
    else
      message =
        "the figure #{Describe.quoted(name)} of kind #{kind} cannot count values of #{Describe.quoted(attribute)}, which has the " <>
          "type #{domain.type}"

      {:error, %Error{kind: :type, message: message, attribute: attribute}}
    end
  end

  defp counts?(_kind, type) when type in @not_counted, do: false
  defp counts?(kind, type) when kind in [:sum, :quantiles], do: type in @numbers
  defp counts?(kind, type) when kind in [:top, :members], do: type != :float
  defp counts?(:uniques, _type), do: true

  defp parameter(name, kind, parameter) do
    case {@kinds[kind], parameter} do
      {nil, nil} ->
        {:ok, 0}

      {{default, _max}, nil} ->
        {:ok, default}

      {{_default, max}, count} when is_integer(count) and count >= 1 and count <= max ->
        {:ok, count}

      {{_default, max}, other} ->
        refuse(
          :out_of_bounds,
          "the figure #{Describe.quoted(name)} takes a number from 1 to #{max}, got: #{Describe.value(other)}"
        )

      {nil, other} ->
        refuse(
          :type,
          "the figure #{Describe.quoted(name)} of kind #{kind} takes no number, got: #{Describe.value(other)}"
        )
    end
  end

  defp refuse(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
