# Measures the forms of events and of results, with Benchee, on ad targeting (BeTree.Workload.W3).
#
#     mix run bench/benchee/events.exs [--quick]

Code.require_file("support.exs", __DIR__)

alias BeTree.Bench.Benchee, as: Support

quick = Support.quick!(System.argv())
{index, events} = Support.workload("W3", quick)
prepared = Enum.map(events, &BeTree.Event.prepare!(index, &1))

jobs =
  for {form, searched} <- [{"JSON", events}, {"prepared", prepared}], as <- [:list, :binary, :bitmap] do
    call = fn -> Enum.each(searched, &BeTree.search!(index, &1, as: as)) end
    {"#{form} to #{as}", call, length(searched), Support.fuel(index, searched, as: as)}
  end

Support.run(jobs, quick)
