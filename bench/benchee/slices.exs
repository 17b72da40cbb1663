# Measures what slices cost a search, with Benchee. The fuel is the same for every slice.
#
#     mix run bench/benchee/slices.exs [--quick]

Code.require_file("support.exs", __DIR__)

alias BeTree.Bench.Benchee, as: Support

quick = Support.quick!(System.argv())

jobs =
  for name <- ["W1", "W3"],
      {index, events} = Support.workload(name, quick),
      slice <- [10_000, 100_000, BeTree.Fuel.default_slice(), :infinity] do
    call = fn -> Enum.each(events, &BeTree.search!(index, &1, slice: slice)) end
    {"#{name} slices of #{slice}", call, length(events), Support.fuel(index, events, slice: slice)}
  end

Support.run(jobs, quick)
