defmodule BeTree.Pattern.Expression do
  @moduledoc false
  # Writes the expression of a pattern.

  alias BeTree.Domain.Path
  alias BeTree.Input.Describe
  alias BeTree.Error
  alias BeTree.Pattern.Reader

  # Precedence of operators: an operand gets parentheses if its operator binds less tightly than the one around it.
  @or_precedence 0
  @and_precedence 1
  @atom_precedence 2

  @doc "Returns the text of a pattern's expression. `arrays` are the paths of list fields."
  @spec text(Reader.t(), MapSet.t(Reader.path())) :: {:ok, String.t()} | {:error, Error.t()}
  def text(pattern, arrays) do
    {_tightness, text} = write(pattern, arrays)
    {:ok, IO.iodata_to_binary(text)}
  catch
    {:refused, error} -> {:error, error}
  end

  defp write({:and, parts}, arrays), do: join(Enum.map(parts, &write(&1, arrays)), @and_precedence)
  defp write({:or, parts}, arrays), do: join(Enum.map(parts, &write(&1, arrays)), @or_precedence)

  defp write({:field, path, tests}, arrays) do
    name = Path.join(path)

    tests
    |> gather()
    |> Enum.map(if path in arrays, do: &in_array(&1, name), else: &test(&1, name))
    |> join(@or_precedence)
  end

  # All exact strings of a field form one list, at the place of the first.
  defp gather(tests) do
    case Enum.filter(tests, &exact_string?/1) do
      [_first, _second | _more] = strings ->
        place = Enum.find_index(tests, &exact_string?/1)
        values = for {:equal, string} <- strings, do: string
        tests |> Enum.reject(&exact_string?/1) |> List.insert_at(place, {:among, values})

      _few ->
        tests
    end
  end

  defp exact_string?({:equal, string}), do: is_binary(string)
  defp exact_string?(_other), do: false

  defp join([part], _tightness), do: part

  defp join(parts, tightness) do
    word = if tightness == @and_precedence, do: " and ", else: " or "
    {tightness, Enum.map_intersperse(parts, word, &operand(&1, tightness))}
  end

  # Operators of one kind are left-associative, so an operand of the same kind needs no parentheses.
  defp operand({own, text}, around) when own < around, do: ["(", text, ")"]
  defp operand({_own, text}, _around), do: text

  defp test({:equal, nil}, name), do: single([name, " is null"])
  defp test({:equal, true}, name), do: single(name)
  defp test({:equal, false}, name), do: defined(name, [["not ", name]])
  defp test({:equal, value}, name), do: single([name, " = ", constant(value)])
  defp test({:among, values}, name), do: single([name, " in ", list(values)])
  defp test({:exists, true}, name), do: single([name, " is not null"])
  defp test({:exists, false}, name), do: single([name, " is null"])
  defp test({:cidr, network}, name), do: single([name, " in ", list([network])])
  defp test({:prefix, text}, name), do: single(call("starts_with", name, text))
  defp test({:suffix, text}, name), do: single(call("ends_with", name, text))
  defp test({:ignore_case, text}, name), do: single([lower(name), " = ", constant(text)])
  defp test({:prefix_ignore_case, text}, name), do: single(call("starts_with", lower(name), text))
  defp test({:suffix_ignore_case, text}, name), do: single(call("ends_with", lower(name), text))
  defp test({:wildcard, text}, name), do: single([name, " like ", constant(like(text))])

  defp test({:numeric, bounds}, name) do
    join(for({operator, number} <- bounds, do: single([name, " ", operator, " ", constant(number)])), @and_precedence)
  end

  defp test({:but, tests}, name) do
    case tests do
      [{:equal, value}] ->
        single([name, " <> ", constant(value)])

      [{:equal, string} | _more] when is_binary(string) ->
        single([name, " not in ", list(for {:equal, string} <- tests, do: string)])

      [{:equal, _number} | _more] ->
        join(for({:equal, number} <- tests, do: single([name, " <> ", constant(number)])), @and_precedence)

      tests ->
        defined(name, for(test <- tests, do: ["not ", operand(test(test, name), @atom_precedence)]))
    end
  end

  # A negated test of an expression is true of undefined values; no test of a pattern is.
  defp defined(name, tests), do: join(Enum.map([[name, " is not null"] | tests], &single/1), @and_precedence)

  defp in_array({:equal, nil}, name), do: single([name, " is null"])

  defp in_array({:equal, value}, name) when is_binary(value) or is_integer(value),
    do: single([name, " one of ", list([value])])

  defp in_array({:among, values}, name), do: single([name, " one of ", list(values)])
  # In a pattern an empty array has no value.
  defp in_array({:exists, true}, name),
    do: join([single([name, " is not null"]), single(["not ", name, " is empty"])], @and_precedence)

  defp in_array({:exists, false}, name),
    do: join([single([name, " is null"]), single([name, " is empty"])], @or_precedence)

  defp in_array(_other, name) do
    message = "#{Describe.quoted(name)} may have arrays, so its tests are exact strings, exact integers and exists"
    throw({:refused, %Error{kind: :type, attribute: name, message: message}})
  end

  defp single(text), do: {@atom_precedence, text}

  defp call(function, name, text), do: [function, "(", name, ", ", constant(text), ")"]
  defp lower(name), do: ["lower(", name, ")"]

  defp list(values), do: ["(", Enum.map_intersperse(values, ", ", &constant/1), ")"]

  # `?` is a wildcard in expressions only, so it is escaped.
  defp like(wildcard), do: String.replace(wildcard, "?", "\\?")

  defp constant(integer) when is_integer(integer), do: Integer.to_string(integer)
  defp constant(float) when is_float(float), do: Float.to_string(float)
  defp constant(string), do: ["'", for(<<character::utf8 <- string>>, do: escape(character)), "'"]

  defp escape(?'), do: "\\'"
  defp escape(?\\), do: "\\\\"
  defp escape(?\n), do: "\\n"
  defp escape(?\r), do: "\\r"
  defp escape(?\t), do: "\\t"
  defp escape(character), do: <<character::utf8>>
end
