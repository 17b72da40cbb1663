defmodule BeTree.Bench.Rules.Clips do
  @moduledoc false
  # Writes rules and facts for CLIPS in idiomatic form: equalities and constants in the slots of a pattern, which the Rete
  # network shares and hashes, and other tests as predicates of a slot.

  alias BeTree.Bench.Rules.Program

  # Returns a program that loads the rules, then RUNS times asserts the facts and runs. It prints the seconds of each run.
  @spec program(Program.t(), [String.t()], pos_integer, [String.t()]) :: iodata
  def program(program, facts, runs, counted) do
    [
      atan2(),
      Enum.map(program.types, &template/1),
      Enum.map(program.rules, &rule/1),
      ["(deffacts all\n", Enum.map(facts, &fact/1), ")\n"],
      "(set-strategy depth)\n",
      "(deffunction once () (bind ?started (time)) (reset) (run) (printout t \"seconds \" (- (time) ?started) crlf))\n",
      "(watch statistics)\n",
      "(loop-for-count #{runs} do (once))\n",
      for(type <- counted, do: "(printout t \"#{type} \" (length$ (find-all-facts ((?f #{type})) TRUE)) crlf)\n"),
      "(exit)\n"
    ]
  end

  defp atan2 do
    """
    (deffunction atan2 (?y ?x)
      (if (> ?x 0) then (return (atan (/ ?y ?x))))
      (if (< ?x 0) then (return (if (>= ?y 0) then (+ (atan (/ ?y ?x)) (pi)) else (- (atan (/ ?y ?x)) (pi)))))
      (if (> ?y 0) then (return (/ (pi) 2)))
      (if (< ?y 0) then (return (- 0 (/ (pi) 2))))
      0.0)
    """
  end

  defp template({name, fields}) do
    ["(deftemplate #{name}", for({field, _type} <- fields, do: " (slot #{field})"), ")\n"]
  end

  defp fact(line) do
    {type, fields} = Program.fact(line)
    ["  (#{type}", for({name, value} <- fields, do: " (#{name} #{constant(value)})"), ")\n"]
  end

  defp rule(rule) do
    read =
      Enum.flat_map(rule.conditions, fn {_kind, _variable, _type, tests} -> Enum.flat_map(tests, &Program.reads/1) end) ++
        (rule.actions |> Enum.flat_map(&Program.values/1) |> Enum.flat_map(&Program.reads/1))

    lets = for {:let, name, _value} <- rule.actions, do: name

    [
      "(defrule #{rule.name} (declare (salience #{rule.priority}))\n",
      rule.conditions |> Enum.with_index() |> Enum.map(&condition(&1, MapSet.new(read))),
      "  =>\n",
      Enum.map(rule.actions, &action(&1, lets)),
      ")\n"
    ]
  end

  # A slot's constraints: the variable if the field is used, and the tests with the field on their left side.
  defp condition({{kind, variable, type, tests}, position}, read) do
    own = variable || "n#{position}"
    slots = Enum.map(tests, &slot(&1, own))

    bound =
      for {^variable, field} when variable != nil <- read,
          not Enum.any?(slots, &match?({^field, _constraint}, &1)),
          do: {field, nil}

    fields = Enum.group_by(slots ++ bound, &elem(&1, 0), &elem(&1, 1))

    constraints =
      for {field, constraints} <- fields do
        constraints = Enum.reject(constraints, &is_nil/1)
        is_read = MapSet.member?(read, {variable, field}) and variable != nil
        needs_variable = is_read or Enum.any?(constraints, &String.contains?(&1, "?#{own}_#{field}"))
        first = if needs_variable, do: ["?#{own}_#{field}"], else: []
        " (#{field} #{Enum.join(first ++ constraints, "&")})"
      end

    pattern = "(#{type}#{constraints})"

    case kind do
      :none -> "  (not #{pattern})\n"
      :fact -> "  ?#{own} <- #{pattern}\n"
    end
  end

  defp slot({:field, nil, field}, _own), do: {field, "TRUE"}
  defp slot({:not, {:field, nil, field}}, _own), do: {field, "FALSE"}
  defp slot({:in, {:field, nil, field}, constants}, _own), do: {field, Enum.map_join(constants, "|", &constant/1)}

  defp slot({:operation, "=", {:field, nil, field}, {:constant, value}}, _own), do: {field, constant(value)}
  defp slot({:operation, "=", {:field, nil, field}, {:field, other, of}}, _own), do: {field, "?#{other}_#{of}"}
  defp slot({:operation, "<>", {:field, nil, field}, {:field, other, of}}, _own), do: {field, "~?#{other}_#{of}"}

  defp slot(test, own) do
    {nil, field} = test |> Program.reads() |> Enum.find(&match?({nil, _field}, &1))
    {field, ":#{expr(test, own, [])}"}
  end

  defp action({:assert, type, values}, lets), do: "  (assert (#{type}#{values(values, lets)}))\n"
  defp action({:modify, variable, values}, lets), do: "  (modify ?#{variable}#{values(values, lets)})\n"
  defp action({:retract, variable}, _lets), do: "  (retract ?#{variable})\n"
  # A notice has no counterpart, because nothing receives it.
  defp action({:notify, _name, _values}, _lets), do: ""
  defp action({:let, name, value}, lets), do: "  (bind ?#{name} #{expr(value, nil, lets)})\n"

  defp values(values, lets), do: Enum.map_join(values, fn {name, value} -> " (#{name} #{expr(value, nil, lets)})" end)

  defp expr({:constant, constant}, _own, _lets), do: constant(constant)
  defp expr({:field, nil, name}, own, lets), do: if(name in lets, do: "?#{name}", else: "?#{own}_#{name}")
  defp expr({:field, variable, field}, _own, _lets), do: "?#{variable}_#{field}"
  defp expr({:not, operand}, own, lets), do: "(not #{expr(operand, own, lets)})"

  defp expr({:operation, operator, left, right}, own, lets) do
    operator = Map.get(%{"=" => "eq", "<>" => "neq"}, operator, operator)
    "(#{operator} #{expr(left, own, lets)} #{expr(right, own, lets)})"
  end

  defp expr({:if, condition, yes, no}, own, lets) do
    "(if #{expr(condition, own, lets)} then #{expr(yes, own, lets)} else #{expr(no, own, lets)})"
  end

  defp expr({:call, function, arguments}, own, lets) do
    "(#{function} #{Enum.map_join(arguments, " ", &expr(&1, own, lets))})"
  end

  defp constant(true), do: "TRUE"
  defp constant(false), do: "FALSE"
  defp constant(text) when is_binary(text), do: inspect(text)
  defp constant(number), do: to_string(number)
end
