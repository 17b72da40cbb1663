defmodule ErlBetree.OracleTest do
  @moduledoc "`erl_betree` against the oracle: every way of searching finds the same, and every miss has its reason."
  use ExUnit.Case, async: true

  alias BeTree.Test.{BooleanNaive, Language, Naive, Random, Reason}
  alias BeTree.Workload.W1

  @types %{
    boolean: :bool,
    integer: :int,
    float: :float,
    string: :bin,
    integer_enum: :int_enum,
    integer_list: :int_list,
    string_list: :bin_list,
    segments: :segments,
    frequency_caps: :frequency_caps
  }

  for part <- 1..2 do
    test "finds what the oracle finds over the whole language, part #{part} of 2" do
      for seed <- unquote(part)..40//2 do
        :rand.seed(:exsss, seed)
        Random.original()
        domains = Random.schema()
        # Expressions that erl-be-tree refuses are tested in its own types.
        expressions =
          for id <- 1..120, expression = Random.expression(domains), takes?(expression, domains), do: {id, expression}

        tree =
          tree(domains, for({id, expression} <- expressions, do: {id, Random.text(expression)}), Random.constants())

        events = for _ <- 1..20, do: Map.new(Random.event(domains))
        for event <- events, do: compare(tree, domains, expressions, event, Random.constants(), "seed #{seed}")
      end
    end
  end

  test "finds what the oracle finds over dense trees" do
    for attributes <- [64, 128], optional <- [false, true] do
      parameters = %{W1.defaults() | attributes: attributes, expressions: 300, events: 8}
      domains = for domain <- W1.schema(parameters), do: {domain.name, {:boolean, optional: optional}}
      texts = parameters |> W1.expressions() |> Enum.with_index()
      expressions = for {text, id} <- texts, do: {id, variables(BooleanNaive.parse(text))}
      tree = tree(domains, for({text, id} <- texts, do: {id, text}), %{})

      for {{:record, bits}, number} <- Enum.with_index(W1.events(parameters)) do
        values = for {{name, _}, index} <- Enum.with_index(domains), do: {name, Enum.at(bits, index) == 1, index}
        # Every seventh value is undefined, if its attribute is optional.
        event =
          for {name, value, index} <- values, not optional or rem(index + number, 7) > 0, into: %{}, do: {name, value}

        compare(tree, domains, expressions, event, %{}, "#{attributes} attributes")
      end
    end
  end

  defp variables({operator, left, right}), do: {operator, variables(left), variables(right)}
  defp variables({:not, operand}), do: {:not, variables(operand)}
  defp variables(name), do: {:variable, name}

  test "evaluates the rows of the conformance corpus" do
    # erl-be-tree's language has no maps.
    domains = for {name, spec} <- Language.flat_schema(), do: {Atom.to_string(name), spec}

    for {text, event, holds} <- Language.flat_rows() do
      # Values that the corpus writes differently.
      values = Map.new(event, fn {name, value} -> {to_string(name), literal(Language.flat_schema()[name], value)} end)
      {:ok, tree} = :erl_betree.betree_make([declare(domains)])

      with {:ok, sub} <- :erl_betree.betree_make_sub(tree, 1, Language.constants(), text) do
        :ok = :erl_betree.betree_insert_sub(tree, sub)

        assert {text, event, :erl_betree.betree_search(tree, record(values, domains))} ==
                 {text, event, {:ok, if(holds, do: [1], else: [])}}
      else
        # erl-be-tree lacks membership of an enum, and emptiness of scalars.
        {:error, :failed} -> assert text =~ ~r/\be (not )?in\b|(seg|caps|timestamp) is empty/
      end
    end
  end

  defp literal({:float, _}, integer) when is_integer(integer), do: integer * 1.0
  defp literal({:string, _}, atom) when is_atom(atom) and atom not in [nil, :undefined], do: Atom.to_string(atom)
  defp literal({:string_list, _}, list) when is_list(list), do: Enum.map(list, &to_string/1)
  defp literal(_spec, value), do: value

  defp takes?({:is, kind, name}, domains) when kind in [:null, :not_null], do: elem(spec(name, domains), 1)[:optional]
  defp takes?({:is, :empty, name}, domains), do: elem(spec(name, domains), 0) in [:integer_list, :string_list]
  defp takes?({:member, _, name, _}, domains), do: elem(spec(name, domains), 0) != :integer_enum
  defp takes?({:not, operand}, domains), do: takes?(operand, domains)
  defp takes?({operator, a, b}, domains) when operator in [:and, :or], do: takes?(a, domains) and takes?(b, domains)
  defp takes?(_predicate, _domains), do: true

  defp spec(name, domains), do: domains |> List.keyfind(name, 0) |> elem(1)

  defp tree(domains, texts, constants) do
    {:ok, tree} = :erl_betree.betree_make_err([declare(domains)])
    constants = for {name, value} <- constants, do: {String.to_atom(name), value}

    for {id, text} <- texts do
      assert {{:ok, sub}, ^text} = {:erl_betree.betree_make_sub_err(tree, id, constants, text), text}
      :ok = :erl_betree.betree_insert_sub_err(tree, sub)
    end

    tree
  end

  defp declare(domains) do
    for {name, {type, options}} <- domains do
      undefined = if options[:optional], do: :allow_undefined, else: :disallow_undefined
      List.to_tuple([String.to_atom(name), @types[type], undefined | List.wrap(options[:count])])
    end
  end

  defp record(event, domains) do
    values = for {name, _spec} <- domains, do: event |> Map.get(name) |> plain()
    [List.to_tuple([:event | values])]
  end

  defp plain(nil), do: :undefined
  defp plain([{{_, _, _}, _, _} | _] = caps), do: for({key, value, micros} <- caps, do: {key, value, plain(micros)})
  defp plain(value), do: value

  defp compare(tree, domains, expressions, event, constants, where) do
    ids = for {id, expression} <- expressions, Naive.eval(expression, event, constants), do: id
    record = record(event, domains)
    where = {where, record}
    same = fn expected, answer -> assert {where, answer} == {where, expected} end

    {{:ok, made}, _} = :erl_betree.betree_make_event(tree, record)
    same.({:ok, ids}, :erl_betree.betree_search(tree, record))
    same.({:ok, ids}, elem(:erl_betree.betree_search(tree, made, 1), 0))
    same.({:ok, ids != []}, :erl_betree.betree_exists(tree, record))
    half = for {id, _} <- expressions, rem(id, 2) == 0, do: id
    same.({:ok, Enum.filter(ids, &(&1 in half))}, elem(:erl_betree.betree_search_ids(tree, made, half), 0))
    same.({:ok, Enum.filter(ids, &(&1 in half))}, elem(:erl_betree.betree_search_ids_yield(tree, made, half), 0))

    {:ok, {iterator, candidates, _}} = :erl_betree.search_iterator(tree, record)
    same.({:ok, ids}, :erl_betree.search_all(iterator))
    {last, calls} = last(iterator, 1)
    same.({{:ok, ids}, max(candidates, 1)}, {last, calls})

    for threshold <- [0, 1, 1_000] do
      same.({:ok, ids}, elem(:erl_betree.search_yield_count(tree, made, 1, threshold, 0), 0))
    end

    {:ok, found, misses} = :erl_betree.betree_search_err(tree, record)
    same.(ids, found)
    same.(reasons(expressions, ids, event, constants), Map.new(elem(:erl_betree.betree_parse_reasons(misses), 1)))
    {{:ok, found, misses}, _} = :erl_betree.betree_search_ids_err(tree, made, half)
    same.(Enum.filter(ids, &(&1 in half)), found)
    among = Enum.filter(expressions, fn {id, _} -> id in half end)
    same.(reasons(among, ids, event, constants), Map.new(elem(:erl_betree.betree_parse_reasons(misses), 1)))
  end

  defp last(iterator, calls) do
    case :erl_betree.search_next(iterator) do
      {:continue, _ids} -> last(iterator, calls + 1)
      {:ok, ids} -> {{:ok, ids}, calls}
    end
  end

  defp reasons(expressions, ids, event, constants) do
    missed = Enum.reject(expressions, fn {id, _} -> id in ids end)
    Enum.group_by(missed, &reason(elem(&1, 1), event, constants), &elem(&1, 0))
  end

  defp reason(expression, event, constants) do
    {false, name} = Reason.decide(expression, event, constants)
    String.to_atom(name || "no_reason")
  end
end
