defmodule BeTree.Rules.KeepingTest do
  # Operations that are made again are made exactly, step for step, so that what comes after them happens the same way, too.
  use ExUnit.Case, async: true

  alias BeTree.Engine.Instance
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Keeping, Operation, Reply}
  alias BeTree.Test.Runtimes

  @most 1_000

  # Searches in vain, because each job is locked; a window; and firings that make more of them.
  @rules """
  fact job(id: integer)
  fact lock(job: integer)
  fact step(left: integer)
  rule start
    when a: job
         b: job(id > a.id)
         none lock(job = a.id)
    then notify start(a: a.id, b: b.id)
  rule late priority 1
    when l: lock
         none job(id = l.job) within 10 seconds after l
    then retract l, assert step(left: 3)
  rule next priority 2
    when s: step(left > 0)
    then modify s(left: s.left - 1), notify step(left: s.left)
  """

  defp new(runtime), do: Rules.new!(@rules, notices: 20, runtime: runtime)

  defp make(rules, operation, fuel),
    do: Keeping.make(rules, operation, @most, %{Rules.default_options() | fuel: fuel}, &send_notices/1)

  defp send_notices(notices), do: send(self(), {:notices, notices})

  defp notices, do: receive(do: ({:notices, notices} -> notices ++ notices()), after: (0 -> []))

  defp encoded(facts), do: {:assert, Operation.encode(facts)}

  # A base, and a list that is cut off.
  defp base, do: encoded(for(id <- 1..6, do: {:lock, job: id, at: 1_000 * id}) ++ for(id <- 1..6, do: {:job, id: id}))

  defp cut do
    {:steps,
     [{:advance, 12_000}, encoded(for id <- 7..20, do: {if(rem(id, 3) == 0, do: :lock, else: :job), fields(id)})]}
  end

  defp fields(id) when rem(id, 3) == 0, do: [job: id - 1, at: 1_000 * id]
  defp fields(id), do: [id: id, at: 1_000 * id]

  # What comes after it: a lock goes, time moves, and another job comes.
  defp after_it, do: [{:retract, 1}, {:advance, 30_000}, encoded([{:job, id: 50}])]

  # The steps tell searches without a match, too.
  defp state(rules) do
    {:ok, output} = Instance.call(rules.runtime, rules.instance, "be_tree_info", [], nil)
    {:ok, %{steps: steps}} = Reply.progress(output)
    facts = for type <- [:job, :lock, :step], do: Rules.facts!(rules, type)
    {steps, Map.drop(Rules.info!(rules), [:facts_bytes, :memory_bytes]), facts}
  end

  # An operation that needed more memory tried one step twice.
  defp without_fuel({:ok, page}), do: {:ok, %{page | fuel: nil, slices: nil, operation: nil}}

  for runtime <- Runtimes.all() do
    @tag runtime: runtime
    test "on #{Runtimes.name(runtime)} an operation that ran out of fuel anywhere is made again step for step",
         context do
      whole = context.runtime |> with_base() |> make(cut(), :infinity) |> elem(1)

      steps =
        for number <- 1..120 do
          {rules, again} = {with_base(context.runtime), with_base(context.runtime)}

          {:error, %Error{kind: :out_of_fuel}, {:cut, _part, steps} = cut} =
            make(rules, cut(), div(whole.fuel * number, 121))

          :ok = Keeping.repeat(again, cut(), cut, @most)
          assert state(again) == state(rules)
          _of_the_cut = notices()

          for operation <- after_it() do
            [{outcome, notices}, {outcome_again, notices_again}] =
              for each <- [rules, again], do: {without_fuel(make(each, operation, :infinity)), notices()}

            assert {outcome_again, notices_again, state(again)} == {outcome, notices, state(rules)}
          end

          steps
        end

      assert Enum.count(Enum.uniq(steps)) > 40
    end
  end

  defp with_base(runtime) do
    rules = new(runtime)
    {:ok, _page} = make(rules, base(), :infinity)
    rules
  end
end
