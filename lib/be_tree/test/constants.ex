defmodule BeTree.Test.Constants do
  @moduledoc false
  # Finds the constants of expressions. The index module reads the expressions: an explanation has the text of each predicate in canonical
  # form, with one space between words and strings in single quotes, so a regular expression finds the constants.

  alias BeTree.Domain
  alias BeTree.Explanation.Node

  # A string, or a number that is no part of a name.
  @literal ~r/'((?:[^'\\]|\\.)*)'|(?<![\w.-])(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\w)/s

  # The attributes that a function reads without naming them.
  @implied %{"geo_within_radius" => ["latitude", "longitude"], "within_frequency_cap" => ["frequency_caps"]}

  @typedoc "A predicate: its function or nil, its constants in order, and the constants of its subscription."
  @type predicate :: %{
          function: String.t() | nil,
          literals: [String.t() | number],
          constants: %{optional(String.t()) => integer}
        }

  @doc "Returns the predicates of expressions or subscriptions, by the names of the attributes that they read."
  @spec of([Domain.t()], [String.t() | tuple], map) :: %{optional(String.t()) => [predicate]}
  def of(_schema, [], _event), do: %{}

  def of(schema, near, event) do
    tree = BeTree.new!(schema)
    names = for domain <- schema, do: {domain.name, name_in_text(domain.name)}

    for subscription <- near,
        {text, options} = split(subscription),
        :ok = BeTree.put!(tree, 0, text, options),
        text <- Enum.uniq(texts(BeTree.explain!(tree, event, 0).root)),
        predicate = read(text, options),
        name <- attributes(text, predicate, names),
        reduce: %{} do
      found -> Map.update(found, name, [predicate], &[predicate | &1])
    end
  end

  defp split(text) when is_binary(text), do: {text, []}
  defp split({_id, text}), do: {text, []}
  defp split({_id, text, options}), do: {text, options}

  defp texts(%Node{kind: :predicate, text: text}), do: [text]
  defp texts(%Node{children: children}), do: Enum.flat_map(children, &texts/1)

  defp read(text, options) do
    function = with [name] <- Regex.run(~r/\A\w+(?=\()/, text), do: name
    constants = for {name, value} <- options[:constants] || [], into: %{}, do: {to_string(name), value}
    literals = for literal <- Regex.scan(@literal, text), do: value(literal)
    %{function: function, literals: literals, constants: constants}
  end

  defp value([_quoted, string]), do: unescape(string)

  defp value([_all, "", number]) do
    case Integer.parse(number) do
      {integer, ""} -> integer
      _float -> number |> Float.parse() |> elem(0)
    end
  end

  defp unescape(string) do
    Regex.replace(~r/\\(.)/s, string, fn
      _all, "n" -> "\n"
      _all, "r" -> "\r"
      _all, "t" -> "\t"
      _all, other -> other
    end)
  end

  defp attributes(text, predicate, names) do
    implied = Map.get(@implied, predicate.function, [])
    for {name, pattern} <- names, name in implied or text =~ pattern, do: name
  end

  # A condition on the objects of a list names their attributes without the list.
  defp name_in_text(name) do
    {:ok, fields} = Domain.Path.fields(name)
    spellings = for count <- 1..length(fields), do: Regex.escape(Domain.Path.join(Enum.take(fields, -count)))
    Regex.compile!("(?<![\\w`.-])(?:#{Enum.join(spellings, "|")})(?![\\w`-])")
  end
end
