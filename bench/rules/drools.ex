defmodule BeTree.Bench.Rules.Drools do
  @moduledoc false
  # Writes rules for Drools.
  #
  # Drools fires by salience only. Without depth first, Manners tries rows of guests endlessly. So each fact has the number
  # of its insertion or last change, and a depth-first rule adds the newest number of its facts to its salience.

  alias BeTree.Bench.Rules.Program

  # Exceeds the numbers of any program, so that priorities dominate.
  @max_number 50_000_000

  @spec program(Program.t(), [String.t()]) :: iodata
  def program(program, depth_first) do
    [
      "package bench\nglobal java.util.concurrent.atomic.AtomicInteger numbers\n",
      Enum.map(program.types, &declaration/1),
      Enum.map(program.rules, &rule(&1, &1.name in depth_first))
    ]
  end

  # In our rules a change of a field makes a new fact.
  defp declaration({name, fields}) do
    fields = for {field, type} <- [{"number", "number"} | fields], do: "  #{field} : #{type(type)}\n"
    ["declare T_#{name} @classReactive\n", fields, "end\n"]
  end

  defp type("number"), do: "int"
  defp type("integer"), do: "long"
  defp type("float"), do: "double"
  defp type("boolean"), do: "boolean"
  defp type("string"), do: "String"

  defp rule(rule, is_depth_first) do
    tests = for {_kind, _variable, _type, tests} <- rule.conditions, test <- tests, do: test
    values = Enum.flat_map(rule.actions, &Program.values/1)
    read = (tests ++ values) |> Enum.flat_map(&Program.reads/1) |> MapSet.new()

    [
      "rule \"#{rule.name}\" salience (#{salience(rule, is_depth_first)})\nwhen\n",
      Enum.map(rule.conditions, &condition(&1, read, is_depth_first)),
      "then\n",
      rule.actions |> Enum.with_index() |> Enum.map(&action/1),
      "end\n"
    ]
  end

  defp salience(rule, false), do: rule.priority * @max_number

  defp salience(rule, true) do
    numbers = for {:fact, variable, _type, _tests} <- rule.conditions, do: "$#{variable}_number"
    "#{rule.priority * @max_number} + " <> Enum.reduce(numbers, &"Math.max(#{&1}, #{&2})")
  end

  # A pattern binds the used fields.
  defp condition({:none, _variable, type, tests}, _read, _is_depth_first) do
    "  not T_#{type}(#{Enum.map_join(tests, ", ", &test/1)})\n"
  end

  defp condition({:fact, variable, type, tests}, read, is_depth_first) do
    fields = for {^variable, field} <- read, do: field
    fields = if is_depth_first, do: ["number" | fields], else: fields
    bound = for field <- fields, do: "$#{variable}_#{field} : #{field}"
    "  $#{variable} : T_#{type}(#{Enum.join(bound ++ Enum.map(tests, &test/1), ", ")})\n"
  end

  defp test({:field, nil, field}), do: "#{field} == true"
  defp test({:not, {:field, nil, field}}), do: "#{field} == false"
  defp test(test), do: expr(test)

  defp action({{:assert, type, values}, position}) do
    new = "made#{position}"
    ["  T_#{type} #{new} = new T_#{type}();\n", set(new, values), "  insert(#{new});\n"]
  end

  # Setters do not change the values that the rule has already bound.
  defp action({{:modify, variable, values}, _position}) do
    fact = "$#{variable}"
    [set(fact, values), "  update(#{fact});\n"]
  end

  defp action({{:retract, variable}, _position}), do: "  delete($#{variable});\n"
  # A notice has no counterpart, because nothing receives it.
  defp action({{:notify, _name, _values}, _position}), do: ""
  defp action({{:let, name, value}, _position}), do: "  double #{name} = #{expr(value)};\n"

  defp set(fact, values) do
    set = for {field, value} <- values, do: "  #{fact}.set#{capital(field)}(#{expr(value)});\n"
    ["  #{fact}.setNumber(numbers.incrementAndGet());\n" | set]
  end

  defp capital(<<first, rest::binary>>), do: String.upcase(<<first>>) <> rest

  defp expr({:constant, text}) when is_binary(text), do: inspect(text)
  defp expr({:constant, constant}), do: to_string(constant)
  # A field of the pattern, or a `let`.
  defp expr({:field, nil, name}), do: name
  defp expr({:field, variable, field}), do: "$#{variable}_#{field}"
  defp expr({:not, operand}), do: "!(#{expr(operand)})"

  defp expr({:in, operand, constants}) do
    "#{expr(operand)} in (#{Enum.map_join(constants, ", ", &expr({:constant, &1}))})"
  end

  defp expr({:operation, "div", left, right}), do: "Math.floorDiv(#{expr(left)}, #{expr(right)})"
  defp expr({:operation, "mod", left, right}), do: "Math.floorMod(#{expr(left)}, #{expr(right)})"

  # A pattern's test has no brackets, so that Drools recognizes an equality and indexes it.
  defp expr({:operation, relation, left, right}) when relation in ["=", "<>", "<", "<=", ">", ">="] do
    relation = Map.get(%{"=" => "==", "<>" => "!="}, relation, relation)
    "#{expr(left)} #{relation} #{expr(right)}"
  end

  defp expr({:operation, operator, left, right}) do
    operator = Map.get(%{"and" => "&&", "or" => "||"}, operator, operator)
    "(#{expr(left)} #{operator} #{expr(right)})"
  end

  defp expr({:if, condition, yes, no}) do
    "(#{expr(condition)} ? #{expr(yes)} : #{expr(no)})"
  end

  defp expr({:call, function, arguments}) do
    "Math.#{function}(#{Enum.map_join(arguments, ", ", &expr/1)})"
  end
end
