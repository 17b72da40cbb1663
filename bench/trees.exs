# Searches many small trees in turn, and measures the memory of each. A search in turn finds its tree evicted from the caches
# of the processor. The peer is a plain loop over the same expressions as Elixir functions; both must find the same ids.
#
#     mix run bench/trees.exs [--quick] [--turns 5]

defmodule BeTree.Bench.Trees do
  @moduledoc false

  @schema [
    country: {:string, optional: true},
    plan: {:integer, optional: true},
    age: {:integer, optional: true},
    tags: {:string_list, optional: true},
    price: {:float, optional: true}
  ]
  @expressions 100
  @events 64
  @searches 40_000

  def run(sizes, turns) do
    check()
    IO.puts("#{@expressions} expressions a tree; processor time of the node, the best of #{turns} turns")
    trees = fill(Enum.max(sizes))
    IO.puts("\n" <> columns(["trees in turn", "us a search", "us an event in batches of #{@events}"]))

    for size <- [1 | sizes] do
      some = Enum.take(trees, size)
      rounds = max(div(@searches, size), 2)
      batches = max(div(rounds, @events), 1)
      singly = us(turns, size * rounds, fn -> search(some, rounds) end)
      IO.puts(columns([size, singly, us(turns, size * batches * @events, fn -> search_many(some, batches) end)]))
    end

    IO.puts(columns(["a plain loop", us(turns, 2_000, fn -> loop(2_000) end), ""]))
  end

  # Makes `count` trees. Prints the resident memory and the mappings of each.
  defp fill(count) do
    # The first tree compiles or loads the module, and starts threads.
    Enum.each(1..20, fn _ -> BeTree.new!(@schema) end)
    :erlang.garbage_collect()
    before = {resident(), mappings()}
    trees = for _ <- 1..count, do: BeTree.new!(@schema)
    IO.puts("an empty tree: #{taken(before, count)}")
    subscriptions = for {id, text, _fun} <- expressions(), do: {id, text}
    Enum.each(trees, &BeTree.insert_all!(&1, subscriptions))
    IO.puts("with its expressions: #{taken(before, count)}")
    search(trees, @events)
    IO.puts("after #{@events} searches: #{taken(before, count)}")
    trees
  end

  defp taken({resident, mappings}, count) do
    "#{Float.round((resident() - resident) / count, 1)} KB, #{Float.round((mappings() - mappings) / count, 2)} mappings"
  end

  defp resident do
    [_all, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+) kB/, File.read!("/proc/self/status"))
    String.to_integer(kilobytes)
  end

  defp mappings, do: "/proc/self/maps" |> File.stream!() |> Enum.count()

  defp check do
    tree = BeTree.new!(@schema)
    BeTree.insert_all!(tree, for({id, text, _fun} <- expressions(), do: {id, text}))

    for event <- events(), Enum.sort(BeTree.search!(tree, event)) != matches(event, expressions()) do
      IO.puts("the tree and the plain loop find different ids for #{inspect(event)}")
      System.halt(1)
    end
  end

  defp search(trees, rounds) do
    events = events() |> Stream.cycle() |> Enum.take(rounds)
    for event <- events, tree <- trees, do: BeTree.search!(tree, event)
    :ok
  end

  defp search_many(trees, rounds) do
    events = events()
    for _round <- 1..rounds, tree <- trees, do: BeTree.search_many!(tree, events)
    :ok
  end

  defp loop(count) do
    expressions = expressions()
    for event <- events() |> Stream.cycle() |> Enum.take(count), do: matches(event, expressions)
    :ok
  end

  defp matches(event, expressions), do: for({id, _text, fun} <- expressions, fun.(event), do: id)

  # Returns the least processor time of `fun`, which handles `count` events, in microseconds an event.
  defp us(turns, count, fun) do
    best = for(_turn <- 1..turns, do: milliseconds(fun)) |> Enum.min()
    Float.round(best * 1_000 / count, 2)
  end

  defp milliseconds(fun) do
    {started, _} = :erlang.statistics(:runtime)
    fun |> Task.async() |> Task.await(:infinity)
    {ended, _} = :erlang.statistics(:runtime)
    ended - started
  end

  defp events do
    for i <- 1..@events do
      %{country: "c#{rem(i, 20)}", plan: rem(i, 10), age: i, tags: ["t#{rem(i, 15)}"], price: i * 1.0}
    end
  end

  defp expressions, do: for(i <- 1..@expressions, {text, fun} = expression(i, rem(i, 4)), do: {i, text, fun})

  defp expression(i, 0) do
    {country, age} = {"c#{rem(i, 20)}", rem(i * 7, 60)}
    {"country = '#{country}' and age >= #{age}", &(&1.country == country and &1.age >= age)}
  end

  defp expression(i, 1) do
    {plan, price} = {rem(i, 10), i + 0.5}
    {"plan = #{plan} and price < #{price}", &(&1.plan == plan and &1.price < price)}
  end

  defp expression(i, 2) do
    {tag, country} = {"t#{rem(i, 15)}", "c#{rem(i, 20)}"}
    {"'#{tag}' in tags and not (country = '#{country}')", &(tag in &1.tags and &1.country != country)}
  end

  defp expression(i, 3) do
    {one, other, plan} = {"c#{rem(i, 20)}", "c#{rem(i + 3, 20)}", rem(i, 10)}
    {"country in ('#{one}', '#{other}') or plan = #{plan}", &(&1.country in [one, other] or &1.plan == plan)}
  end

  defp columns([first | others]) do
    String.pad_trailing(to_string(first), 16) <> Enum.map_join(others, &String.pad_trailing("  #{&1}", 34))
  end
end

{options, [], []} = OptionParser.parse(System.argv(), strict: [quick: :boolean, turns: :integer])
sizes = if options[:quick], do: [256, 1_000], else: [256, 512, 1_000, 2_000]
BeTree.Bench.Trees.run(sizes, Keyword.get(options, :turns, 5))
