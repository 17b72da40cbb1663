Code.require_file("examples/scan/scan.ex")

defmodule BeTree.WorkloadsTest do
  @moduledoc "The index in its sandbox beside a module that evaluates everything, on what is benchmarked: thousands of values."
  use ExUnit.Case, async: true

  alias BeTree.Guest
  alias BeTree.Workload.{W1, W2, W3, W4, W5}

  @moduletag timeout: 300_000

  @workloads [
    {W1, %{expressions: 800, attributes: 96}},
    {W2, %{expressions: 3_000}},
    {W3, %{expressions: 4_000}},
    {W4, %{expressions: 4_000}},
    {W5, %{expressions: 4_000, dimensions: 60}}
  ]
  @events 60

  setup_all do
    {:ok, guest} = Guest.load(Scan.wasm!())
    {:ok, guest: guest}
  end

  for {workload, parameters} <- @workloads do
    test "#{inspect(workload)}: the same is found, whatever comes and goes", %{guest: guest} do
      parameters = Map.merge(unquote(workload).defaults(), Map.put(unquote(Macro.escape(parameters)), :events, @events))
      domains = unquote(workload).domains(parameters)
      subscriptions = parameters |> unquote(workload).expressions() |> Enum.with_index(&{&2 + 1, &1})
      trees = for options <- [[], [guest: guest]], do: BeTree.new!(domains, options)
      come_and_go(trees, subscriptions, parameters |> unquote(workload).events() |> Enum.to_list())
    end
  end

  # In each wave some go that were there, and all come back: what an event matches, nine of ten, the first half.
  defp come_and_go(trees, subscriptions, events) do
    for tree <- trees, do: BeTree.insert_all!(tree, subscriptions)
    assert compare(trees, events) > 0
    matches = trees |> hd() |> BeTree.search!(hd(events))
    {first, _second} = Enum.split(subscriptions, div(length(subscriptions), 2))

    waves = [
      fn {id, _text} -> id in matches end,
      fn {id, _text} -> rem(id, 10) != 0 end,
      fn subscription -> subscription in first end
    ]

    for goes? <- waves do
      gone = Enum.filter(subscriptions, goes?)
      for tree <- trees, {id, _text} <- gone, do: BeTree.delete!(tree, id)
      compare(trees, events)
      for tree <- trees, do: BeTree.insert_all!(tree, gone)
      compare(trees, events)
    end
  end

  # How many matches there are, one event after the other and all at once.
  defp compare([tree, scan], events) do
    expected = for event <- events, do: BeTree.search!(scan, event)
    assert for(event <- events, do: BeTree.search!(tree, event)) == expected
    assert BeTree.search_many!(tree, events) == expected
    expected |> Enum.map(&length/1) |> Enum.sum()
  end
end
