# Writes what the tests in JavaScript compare with: the conformance cases with the results of the Elixir side, and an image.
# It also builds the package. `mix run test/browser/cases.exs`, with MIX_ENV=test.

alias BeTree.{Explanation, Image}
alias BeTree.Test.{Json, Language}

defmodule Cases do
  @max_safe 0x1F_FFFF_FFFF_FFFF

  # Integers that no number of JavaScript holds, and bytes that are no text, are objects.
  def value(integer) when is_integer(integer) and abs(integer) > @max_safe, do: %{"$integer" => "#{integer}"}
  def value(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> value()
  def value(list) when is_list(list), do: Enum.map(list, &value/1)
  def value(:undefined), do: nil
  def value(%DateTime{} = time), do: DateTime.to_iso8601(time)
  def value(%NaiveDateTime{} = time), do: NaiveDateTime.to_iso8601(time)
  def value(map) when is_map(map), do: event(map)

  def value(binary) when is_binary(binary) do
    if String.valid?(binary), do: binary, else: %{"$bytes" => :binary.bin_to_list(binary)}
  end

  def value(other), do: other

  def event(event), do: Map.new(event, fn {name, value} -> {"#{name}", value(value)} end)

  def attribute(%BeTree.Domain{name: name} = domain) do
    fields = for key <- [:min, :max, :count, :coerce], value = Map.fetch!(domain, key), do: {"#{key}", value}
    {name, Map.new([{"type", domain.type}, {"optional", domain.optional} | fields])}
  end

  def part(node) do
    fields = [{"kind", node.kind}, {"verdict", node.verdict}, {"children", Enum.map(node.children, &part/1)}]

    more =
      case node.kind do
        :predicate -> [{"attribute", node.attribute}, {"text", node.text}] ++ actual(node.actual)
        :omitted -> [{"omitted", node.omitted}]
        _other -> []
      end

    Map.new(fields ++ more)
  end

  defp actual(:undefined), do: []
  defp actual(value), do: [{"actual", value(value)}]
end

bounded = [
  small: {:integer, optional: true, min: 0, max: 9},
  low: {:float, optional: true, max: 1.5},
  two: {:string, optional: true, count: 2},
  one: {:integer_enum, optional: true, count: 1}
]

tree = BeTree.new!(Language.schema())
BeTree.insert_all!(tree, Language.subscriptions())

rows =
  for {{expression, event, holds}, id} <- Enum.with_index(Language.rows()) do
    %Explanation{match: ^holds, root: root} = BeTree.explain!(tree, event, id)

    %{
      "expression" => expression,
      "event" => Cases.event(event),
      "holds" => holds,
      "explanation" => Cases.part(root),
      "found" => BeTree.search!(tree, event)
    }
  end

refusals =
  for {expression, kind, _attribute, _column} <- Language.refusals() do
    {:error, %BeTree.Error{kind: ^kind} = error} =
      BeTree.insert(BeTree.new!(Language.schema() ++ bounded), 1, expression)

    %{
      "expression" => Cases.value(expression),
      "kind" => kind,
      "reason" => error.message,
      "attribute" => error.attribute,
      "column" => error.column,
      "message" => Exception.message(error)
    }
  end

profile = BeTree.profile!(tree, for(row <- Language.rows(), do: elem(row, 1)))

by = fn times -> for {name, times} <- times, do: %{"name" => name, "times" => times} end

profile = %{
  "searches" => profile.searches,
  "attributes" =>
    for attribute <- profile.attributes do
      {failed_by, counts} = Map.pop!(attribute, :failed_by)
      Map.new([{"failedBy", by.(failed_by)} | Enum.map(counts, fn {name, count} -> {"#{name}", count} end)])
    end,
  "expressions" =>
    for expression <- profile.expressions do
      {decided_by, counts} = Map.pop!(expression, :decided_by)
      Map.new([{"decidedBy", by.(decided_by)} | Enum.map(counts, fn {name, count} -> {"#{name}", count} end)])
    end
}

attributes = fn schema ->
  {:ok, domains} = BeTree.Domain.parse(schema)
  Enum.map(domains, fn attribute -> attribute |> Cases.attribute() |> Tuple.to_list() end)
end

cases = %{
  "schema" => attributes.(Language.schema()),
  "bounded" => attributes.(bounded),
  "constants" => Map.new(Language.constants(), fn {name, value} -> {"#{name}", value} end),
  "info" => Map.new(BeTree.info!(tree), fn {name, count} -> {"#{name}", count} end),
  "profile" => profile,
  "rows" => rows,
  "refusals" => refusals
}

folder = "_build/web"
BeTree.Web.build()
File.write!(Path.join(folder, "cases.json"), Json.encode(cases))
:ok = Image.write(tree, Path.join(folder, "cases.wasm"))
