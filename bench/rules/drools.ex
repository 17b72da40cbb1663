defmodule BeTree.Bench.Rules.Drools do
  @moduledoc false
  # Writes rules for Drools. Each field that something else reads is bound, so that Drools can index the joins. A modified fact
  # concerns all rules of its type again, as in our rules.

  alias BeTree.Bench.Rules.Program

  @spec program(Program.t()) :: iodata
  def program(program) do
    ["package bench;\n", Enum.map(program.types, &declaration/1), Enum.map(program.rules, &rule/1)]
  end

  @java %{"integer" => "long", "float" => "double", "string" => "String", "boolean" => "boolean"}

  defp declaration({name, fields}) do
    ["declare #{class(name)} @classReactive\n", for({field, type} <- fields, do: "  #{field} : #{@java[type]}\n"), "end\n"]
  end

  # Java finds a class by its name, and the program that asserts facts uses the same.
  defp class(type), do: "T_" <> type

  defp rule(rule) do
    read =
      Enum.flat_map(rule.conditions, fn {_kind, _variable, _type, tests} -> Enum.flat_map(tests, &Program.reads/1) end) ++
        (rule.actions |> Enum.flat_map(&Program.values/1) |> Enum.flat_map(&Program.reads/1))

    [
      "rule \"#{rule.name}\" salience #{rule.priority}\nwhen\n",
      Enum.map(rule.conditions, &condition(&1, Enum.uniq(read))),
      "then\n",
      rule.actions |> Enum.with_index() |> Enum.map(&action/1),
      "end\n"
    ]
  end

  defp condition({kind, variable, type, tests}, read) do
    bound = for {^variable, field} when variable != nil <- read, do: "$#{variable}_#{field} : #{field}"
    pattern = "#{class(type)}(#{Enum.join(bound ++ Enum.map(tests, &expr/1), ", ")})"

    case kind do
      :none -> "  not #{pattern}\n"
      :fact -> "  $#{variable} : #{pattern}\n"
    end
  end

  defp action({{:assert, type, values}, number}) do
    [
      "  #{class(type)} made#{number} = new #{class(type)}();",
      for({name, value} <- values, do: " made#{number}.#{setter(name)}(#{expr(value)});"),
      " insert(made#{number});\n"
    ]
  end

  defp action({{:modify, variable, values}, _number}) do
    "  modify($#{variable}) { #{Enum.map_join(values, ", ", fn {name, value} -> "#{setter(name)}(#{expr(value)})" end)} }\n"
  end

  defp action({{:retract, variable}, _number}), do: "  delete($#{variable});\n"
  defp action({{:notify, _name, _values}, _number}), do: ""
  # Every `let` of the benchmark is a float.
  defp action({{:let, name, value}, _number}), do: "  double #{name} = #{expr(value)};\n"

  defp setter(<<first::binary-size(1), rest::binary>>), do: "set#{String.upcase(first)}#{rest}"

  @operators %{"=" => "==", "<>" => "!=", "and" => "&&", "or" => "||", "div" => "/", "mod" => "%"}

  defp expr({:constant, text}) when is_binary(text), do: inspect(text)
  defp expr({:constant, constant}), do: to_string(constant)
  defp expr({:field, nil, name}), do: name
  defp expr({:field, variable, field}), do: "$#{variable}_#{field}"
  defp expr({:not, {:field, nil, field}}), do: "#{field} == false"
  defp expr({:not, operand}), do: "!(#{expr(operand)})"
  defp expr({:in, operand, constants}), do: "#{expr(operand)} in (#{Enum.map_join(constants, ", ", &expr({:constant, &1}))})"
  defp expr({:if, condition, yes, no}), do: "((#{expr(condition)}) ? #{expr(yes)} : #{expr(no)})"
  defp expr({:call, function, arguments}), do: "Math.#{function}(#{Enum.map_join(arguments, ", ", &expr/1)})"

  # A test of a pattern begins with its field, without a parenthesis.
  defp expr({:operation, operator, {:field, nil, field}, right}) when operator in ["=", "<>", "<", "<=", ">", ">="] do
    "#{field} #{Map.get(@operators, operator, operator)} #{expr(right)}"
  end

  defp expr({:operation, operator, left, right}) do
    "(#{expr(left)} #{Map.get(@operators, operator, operator)} #{expr(right)})"
  end
end
