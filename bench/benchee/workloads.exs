# Measures the workloads with Benchee: single searches, a call for many events, and prepared events.
#
#     mix run bench/benchee/workloads.exs [--quick]

Code.require_file("support.exs", __DIR__)

alias BeTree.Bench.Benchee, as: Support

quick = Support.quick!(System.argv())

jobs =
  for name <- BeTree.Workload.all() |> Map.keys() |> Enum.sort(),
      {index, events} = Support.workload(name, quick),
      prepared = Enum.map(events, &BeTree.Event.prepare!(index, &1)),
      {way, searched, call} <- [
        {"search", events, fn -> Enum.each(events, &BeTree.search!(index, &1)) end},
        {"search_many", events, fn -> BeTree.search_many!(index, events) end},
        {"search, prepared", prepared, fn -> Enum.each(prepared, &BeTree.search!(index, &1)) end}
      ] do
    {"#{name} #{way}", call, length(events), Support.fuel(index, searched)}
  end

Support.run(jobs, quick)
