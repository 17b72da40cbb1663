defmodule BeTree.Rules.Reply do
  @moduledoc false
  # Decodes the replies of the module of rules (docs/abi.md, Rules).

  alias BeTree.Call.Reply
  alias BeTree.Error
  alias BeTree.Rules.{Explanation, Fact, Notice}

  @counts [
    :warnings,
    :rules,
    :facts,
    :asserted,
    :firings,
    :notices,
    :due,
    :facts_bytes,
    :memory_bytes,
    :late,
    :waiting,
    :lateness,
    :now,
    :latest,
    :next_due,
    :types
  ]

  @typedoc "Counts: the position of the next fact precedes the firings; the last rule and the next due time follow."
  @type outcome ::
          {reason :: :done | :firings | :notices | :room, non_neg_integer, non_neg_integer, String.t() | nil,
           integer | nil, [pos_integer], [Notice.t()], non_neg_integer, non_neg_integer}

  # Indexed by the numbers of the reasons.
  @reasons {:done, :firings, :notices, :room}

  @spec outcome(binary) :: {:ok, outcome} | {:error, Error.t()}
  def outcome(binary) do
    case Reply.term(binary) do
      {:ok, {reason, position, firings, last_rule, next_due, ids, notices, mismatches, late}}
      when reason in 0..3 and is_binary(ids) and is_list(notices) ->
        {:ok,
         {elem(@reasons, reason), position, firings, nil_if_empty(last_rule), nil_if_empty(next_due), ids(ids),
          notices(notices), mismatches, late}}

      other ->
        wrong(other)
    end
  end

  defp nil_if_empty([]), do: nil
  defp nil_if_empty(value), do: value

  defp ids(<<id::little-64>>), do: [id]
  defp ids(packed), do: for(<<id::little-64 <- packed>>, do: id)

  defp notices([]), do: []
  defp notices(notices), do: Enum.map(notices, &notice/1)

  defp notice({rule, name, values}), do: %Notice{rule: rule, name: name, values: values}

  @doc "Decodes facts, and whether more follow."
  @spec facts(binary) :: {:ok, [Fact.t()], boolean} | {:error, Error.t()}
  def facts(binary) do
    case Reply.term(binary) do
      {:ok, {more, facts}} when more in 0..1 and is_list(facts) -> {:ok, Enum.map(facts, &fact/1), more == 1}
      other -> wrong(other)
    end
  end

  defp fact({id, type, at, fields}), do: %Fact{id: id, type: type, at: at, fields: fields}
  defp fact(nil), do: nil

  @spec explanations(binary) :: {:ok, [Explanation.t()]} | {:error, Error.t()}
  def explanations(binary), do: list(binary, &explanation/1)

  defp explanation({verdict, facts}), do: explanation(verdict, Enum.map(facts, &fact/1))

  defp explanation({:waits, until}, facts), do: %Explanation{verdict: :waits, until: until, facts: facts}

  defp explanation({:blocked, line, condition, by}, facts) do
    # A condition begins after the keyword in front of the conditions.
    condition = condition |> String.replace_prefix("when", "") |> String.trim()
    %Explanation{verdict: :blocked, line: line, condition: condition, by: fact(by), facts: facts}
  end

  defp explanation(verdict, facts) when verdict in [:fired, :due, :unknown],
    do: %Explanation{verdict: verdict, facts: facts}

  @doc "Decodes the warnings about rules."
  @spec warnings(binary) :: {:ok, [String.t()]} | {:error, Error.t()}
  def warnings(binary), do: list(binary, & &1)

  @doc "Decodes the counts for users."
  @spec info(binary) :: {:ok, map} | {:error, Error.t()}
  def info(binary), do: with({:ok, info} <- pairs(binary), do: counts(info))

  @doc """
  Decodes a roll-back: the time that it returns to, or `nil` for the time of the beginning, and the rules that fired
  repeatedly.
  """
  @spec rolled_back(binary) :: {:ok, integer | nil, [String.t()]} | {:error, Error.t()}
  def rolled_back(binary) do
    case Reply.term(binary) do
      {:ok, {time, cycle}} when (is_integer(time) or time == []) and is_list(cycle) -> {:ok, nil_if_empty(time), cycle}
      other -> wrong(other)
    end
  end

  @doc "Decodes the watermark, or `nil`, and the event times of the known sources."
  @spec sources(binary) :: {:ok, integer | nil, %{(String.t() | nil) => integer}} | {:error, Error.t()}
  def sources(binary) do
    case Reply.term(binary) do
      {:ok, {floor, sources}} when is_list(sources) -> {:ok, floor, Map.new(sources)}
      other -> wrong(other)
    end
  end

  defp pairs(binary) do
    case Reply.term(binary) do
      {:ok, pairs} when is_list(pairs) -> {:ok, Map.new(pairs)}
      other -> wrong(other)
    end
  end

  defp counts(info) do
    if Enum.all?(@counts, &is_map_key(info, &1)) do
      {types, info} = Map.pop!(info, :types)

      {:ok,
       Map.merge(info, %{
         due: info.due == 1,
         types: Map.new(types, fn {name, count, _life} -> {name, count} end),
         lives: for({name, _count, life} when life != nil <- types, into: %{}, do: {name, life})
       })}
    else
      wrong({:ok, info})
    end
  end

  defp list(binary, decode) do
    case Reply.term(binary) do
      {:ok, list} when is_list(list) -> {:ok, Enum.map(list, decode)}
      other -> wrong(other)
    end
  end

  defp wrong({:error, error}), do: {:error, error}
  defp wrong({:ok, _other}), do: {:error, Reply.bad("a reply of the wrong shape")}
end
