defmodule BeTree.Bench.Rules.Program do
  @moduledoc false
  # Reads the benchmark's rules for translation to other engines. It supports the used part of the language and raises on
  # the rest. Time clauses and aggregates are not translated.

  @type expr ::
          {:constant, integer | float | boolean | String.t()}
          | {:field, variable :: String.t() | nil, name :: String.t()}
          | {:not, expr}
          | {:operation, String.t(), expr, expr}
          | {:in, expr, [integer | String.t()]}
          | {:if, expr, expr, expr}
          | {:call, String.t(), [expr]}
  @type condition :: {:fact | :none, variable :: String.t() | nil, type :: String.t(), [expr]}
  @type action ::
          {:assert, String.t(), [{String.t(), expr}]}
          | {:modify, String.t(), [{String.t(), expr}]}
          | {:retract, String.t()}
          | {:notify, String.t(), [{String.t(), expr}]}
          | {:let, String.t(), expr}
  @type rule :: %{name: String.t(), priority: integer, conditions: [condition], actions: [action]}
  @type t :: %{types: [{String.t(), [{String.t(), String.t()}]}], rules: [rule]}

  @token ~r/'(?:[^'\\]|\\.)*'|\d+\.\d+|\d+|[A-Za-z_]\w*|\.\.|<>|<=|>=|[-+*\/=<>(),.:]/

  @spec read(String.t()) :: t
  def read(text) do
    tokens = @token |> Regex.scan(String.replace(text, ~r/#.*/, "")) |> List.flatten()
    items(tokens, %{types: [], rules: []})
  end

  defp items([], program), do: %{types: Enum.reverse(program.types), rules: Enum.reverse(program.rules)}

  defp items(["fact", name, "(" | rest], program) do
    {fields, rest} = fields(rest, [])
    items(rest, %{program | types: [{name, fields} | program.types]})
  end

  defp items(["rule", name | rest], program) do
    {priority, rest} = priority(rest)
    ["when" | rest] = rest
    {conditions, rest} = conditions(rest, [])
    {actions, rest} = actions(rest, [])
    rule = %{name: name, priority: priority, conditions: conditions, actions: actions}
    items(rest, %{program | rules: [rule | program.rules]})
  end

  # A field's domain has no effect on valid facts.
  defp fields([name, ":", type | rest], fields) do
    fields = [{name, type} | fields]

    case Enum.split_while(rest, &(&1 not in [",", ")", "in"])) do
      {_domain, ["," | rest]} -> fields(rest, fields)
      {_domain, [")" | rest]} -> {Enum.reverse(fields), rest}
      {_optional, ["in", "(" | rest]} -> rest |> Enum.drop_while(&(&1 != ")")) |> tl() |> after_domain(fields)
    end
  end

  defp after_domain(["," | rest], fields), do: fields(rest, fields)
  defp after_domain([")" | rest], fields), do: {Enum.reverse(fields), rest}

  defp priority(["priority", "-", number | rest]), do: {-String.to_integer(number), rest}
  defp priority(["priority", number | rest]), do: {String.to_integer(number), rest}
  defp priority(rest), do: {0, rest}

  defp conditions(["then" | rest], conditions), do: {Enum.reverse(conditions), rest}

  defp conditions(["none", type | rest], conditions) do
    {tests, rest} = arguments(rest)
    conditions(rest, [{:none, nil, type, tests} | conditions])
  end

  defp conditions([variable, ":", type | rest], conditions) do
    {tests, rest} = arguments(rest)
    conditions(rest, [{:fact, variable, type, tests} | conditions])
  end

  defp arguments(["(" | rest]), do: tests(rest, [])
  defp arguments(rest), do: {[], rest}

  defp tests(tokens, tests) do
    {test, rest} = expression(tokens)
    tests = conjuncts(test) ++ tests

    case rest do
      ["," | rest] -> tests(rest, tests)
      [")" | rest] -> {Enum.reverse(tests), rest}
    end
  end

  defp conjuncts({:operation, "and", left, right}), do: conjuncts(right) ++ conjuncts(left)
  defp conjuncts(test), do: [test]

  defp actions(tokens, actions) do
    {action, rest} = action(tokens)

    case rest do
      ["," | rest] -> actions(rest, [action | actions])
      rest -> {Enum.reverse([action | actions]), rest}
    end
  end

  defp action(["let", name, "=" | rest]) do
    {value, rest} = expression(rest)
    {{:let, name, value}, rest}
  end

  defp action(["retract", variable | rest]), do: {{:retract, variable}, rest}

  defp action([kind, name, "(" | rest]) when kind in ["assert", "modify", "notify"] do
    {values, rest} = values(rest, [])
    {{String.to_existing_atom(kind), name, values}, rest}
  end

  defp action([kind, name | rest]) when kind in ["assert", "notify"] do
    {{String.to_existing_atom(kind), name, []}, rest}
  end

  defp values([name, ":" | rest], values) do
    {value, rest} = expression(rest)
    values = [{name, value} | values]

    case rest do
      ["," | rest] -> values(rest, values)
      [")" | rest] -> {Enum.reverse(values), rest}
    end
  end

  @levels [["or"], ["and"], ["=", "<>", "<", "<=", ">", ">="], ["+", "-"], ["*", "/", "div", "mod"]]

  defp expression(tokens), do: level(tokens, @levels)

  defp level(tokens, []), do: factor(tokens)

  defp level(["not" | rest], [["=" | _relations] | _levels] = levels) do
    {operand, rest} = level(rest, levels)
    {{:not, operand}, rest}
  end

  defp level(tokens, [operators | levels]) do
    {left, rest} = level(tokens, levels)
    more(left, rest, operators, levels)
  end

  defp more(left, ["in", "(" | rest], ["=" | _relations], _levels) do
    {constants, [")" | rest]} = Enum.split_while(rest, &(&1 != ")"))
    constants = for token <- constants, token != ",", {{:constant, constant}, []} = factor([token]), do: constant
    {{:in, left, constants}, rest}
  end

  defp more(left, [operator | rest] = tokens, operators, levels) do
    if operator in operators do
      {right, rest} = level(rest, levels)
      more({:operation, operator, left, right}, rest, operators, levels)
    else
      {left, tokens}
    end
  end

  defp more(left, [], _operators, _levels), do: {left, []}

  @functions ["abs", "min", "max", "floor", "sqrt", "atan2"]

  defp factor(["(" | rest]) do
    {inner, [")" | rest]} = expression(rest)
    {inner, rest}
  end

  defp factor(["if" | rest]) do
    {condition, ["then" | rest]} = expression(rest)
    {yes, ["else" | rest]} = expression(rest)
    {no, rest} = expression(rest)
    {{:if, condition, yes, no}, rest}
  end

  defp factor(["'" <> text | rest]), do: {{:constant, String.trim_trailing(text, "'")}, rest}
  defp factor([boolean | rest]) when boolean in ["true", "false"], do: {{:constant, boolean == "true"}, rest}

  defp factor([function, "(" | rest]) when function in @functions do
    {arguments, rest} = call(rest, [])
    {{:call, function, arguments}, rest}
  end

  defp factor([<<digit, _more::binary>> = number | rest]) when digit in ?0..?9 do
    constant = if number =~ ".", do: String.to_float(number), else: String.to_integer(number)
    {{:constant, constant}, rest}
  end

  defp factor([variable, ".", field | rest]), do: {{:field, variable, field}, rest}
  defp factor([name | rest]), do: {{:field, nil, name}, rest}

  defp call(tokens, arguments) do
    {argument, rest} = expression(tokens)

    case rest do
      ["," | rest] -> call(rest, [argument | arguments])
      [")" | rest] -> {Enum.reverse([argument | arguments]), rest}
    end
  end

  # Returns the fields of each variable in an expression. Fields without a variable have the variable `nil`.
  @spec reads(expr) :: [{String.t() | nil, String.t()}]
  def reads({:constant, _constant}), do: []
  def reads({:field, variable, field}), do: [{variable, field}]
  def reads({:not, operand}), do: reads(operand)
  def reads({:operation, _operator, left, right}), do: reads(left) ++ reads(right)
  def reads({:in, operand, _constants}), do: reads(operand)
  def reads({:if, condition, yes, no}), do: Enum.flat_map([condition, yes, no], &reads/1)
  def reads({:call, _function, arguments}), do: Enum.flat_map(arguments, &reads/1)

  # Returns the expressions of an action.
  @spec values(action) :: [expr]
  def values({kind, _name, values}) when kind in [:assert, :modify, :notify], do: Enum.map(values, &elem(&1, 1))
  def values({:let, _name, value}), do: [value]
  def values({:retract, _variable}), do: []

  # Reads a line of a fact: its type and its field values.
  @spec fact(String.t()) :: {String.t(), [{String.t(), integer | boolean | String.t()}]}
  def fact(line) do
    [type | fields] = String.split(line, "\t")

    {type,
     for field <- fields do
       [name, value] = String.split(field, "=", parts: 2)

       value =
         case value do
           "'" <> text -> String.trim_trailing(text, "'")
           boolean when boolean in ["true", "false"] -> boolean == "true"
           number -> String.to_integer(number)
         end

       {name, value}
     end}
  end
end
