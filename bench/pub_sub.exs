# Measures `BeTree.PubSub` beside `Registry` and groups of `:pg`, in processor time of the VM.
#
#     mix run bench/pub_sub.exs [--quick] [--turns 9]
#
# - A publish to 10,000 subscribers of which 100 match, until the last message is sent, beside a dispatch to 100 of 10,000 keys and to a
#   group of 100 members, which the publisher knows by name.
# - A subscribe and an unsubscribe, by one process and by 100.
# - One equality each with 1,000,000 subscriptions of 100 processes, beside Registry with as many keys.
#
# The receivers are suspended while the publisher is measured, and must find the right messages afterwards. The variants take turns, and
# the median counts.

defmodule BeTree.Bench.PubSub do
  @moduledoc false

  alias BeTree.PubSub
  alias BeTree.Input.Describe

  @subscribers 10_000
  @matching 100
  @processes 100
  @limit 4_000_000_000

  def run(quick?, turns) do
    many = if quick?, do: 100_000, else: 1_000_000
    say("#{System.schedulers_online()} schedulers; the median of #{turns} turns; microseconds of processor time\n")
    matching(turns, if(quick?, do: 100, else: 300))
    subscribing(if(quick?, do: 2_000, else: 10_000))
    keys(many, turns, 20_000)
  end

  ## 100 of 10,000

  defp matching(turns, events) do
    start(Matching, group: :integer, price: {:float, optional: true})
    {:ok, _pid} = Registry.start_link(keys: :duplicate, name: Rooms)
    {:ok, _pid} = :pg.start_link(Groups)
    groups = div(@subscribers, @matching)

    receivers =
      receivers(@subscribers, fn number ->
        group = rem(number, groups)
        PubSub.subscribe!(Matching, "group = #{group} and price > 10.0", limit: @limit, tag: number)
        {:ok, _pid} = Registry.register(Rooms, group, nil)
        :ok = :pg.join(Groups, group, self())
      end)

    event = fn number -> %{group: rem(number, groups), price: 20.0} end

    variants = [
      publish: fn number -> PubSub.publish!(Matching, event.(number)) end,
      registry: fn number ->
        event = event.(number)
        Registry.dispatch(Rooms, event.group, fn entries -> for {pid, _value} <- entries, do: send(pid, event) end)
      end,
      pg: fn number ->
        event = event.(number)
        for pid <- :pg.get_members(Groups, event.group), do: send(pid, event)
      end
    ]

    times = in_turns(variants, receivers, turns, Enum.to_list(1..events), @matching)
    say("publish to 10,000 subscribers of which 100 match")
    row("BeTree.PubSub.publish/2", times[:publish], 150)
    row("Registry.dispatch/3 to 100 of 10,000", times[:registry])
    row(":pg, send to 100 members", times[:pg])
    end_all(receivers, Matching)
  end

  ## Subscribing

  defp subscribing(count) do
    start(Subscribing, a: :integer, b: :integer)
    text = fn number -> "a = #{number} and b > 5" end

    {time, subscriptions} = clocked(fn -> for number <- 1..count, do: PubSub.subscribe!(Subscribing, text.(number)) end)
    say("\nsubscribe")
    row("one process", time / count, 50)

    {time, _result} =
      clocked(fn -> for subscription <- subscriptions, do: PubSub.unsubscribe!(Subscribing, subscription) end)

    row("unsubscribe, one process", time / count)

    {time, receivers} =
      clocked(fn ->
        receivers(@processes, fn process ->
          for number <- 1..div(count, @processes), do: PubSub.subscribe!(Subscribing, text.(process * count + number))
        end)
      end)

    row("100 processes", time / count, 50)
    if PubSub.stats!(Subscribing).subscribers < @processes, do: Mix.raise("subscribers are missing")
    end_all(receivers, Subscribing)
  end

  ## Keys

  defp keys(count, turns, events) do
    start(Keys, key: :integer, price: {:float, optional: true})
    {:ok, _pid} = Registry.start_link(keys: :duplicate, name: KeysOfRegistry)

    receivers =
      receivers(@processes, fn process ->
        for key <- process..count//@processes do
          PubSub.subscribe!(Keys, "key = #{key}", limit: @limit)
          {:ok, _pid} = Registry.register(KeysOfRegistry, key, nil)
        end
      end)

    numbers = for _event <- 1..events, do: :rand.uniform(count)

    variants = [
      publish: fn key -> PubSub.publish!(Keys, %{key: key, price: 1.0}) end,
      registry: fn key ->
        event = %{key: key, price: 1.0}
        Registry.dispatch(KeysOfRegistry, key, fn entries -> for {pid, _value} <- entries, do: send(pid, event) end)
      end
    ]

    times = in_turns(variants, receivers, turns, numbers, 1)
    say("\none equality each, #{Describe.grouped(count)} subscriptions")
    row("BeTree.PubSub.publish/2", times[:publish])
    row("Registry.dispatch/3", times[:registry])
    ratio = times[:publish] / times[:registry]
    say("  times of Registry                         #{decimal(ratio)} (bar: 3, #{verdict(ratio, 3)})")
    end_all(receivers, Keys)
  end

  ## Measuring

  defp start(name, schema) do
    {:ok, _pid} = PubSub.start_link(name: name, schema: schema, memory: 4_000_000_000)
  end

  # Starts processes that call `subscribe` with their number, from 1, and then count their messages when they are asked.
  defp receivers(count, subscribe) do
    parent = self()

    receivers =
      for number <- 1..count do
        spawn_link(fn ->
          subscribe.(number)
          send(parent, :subscribed)
          receive_all()
        end)
      end

    for _receiver <- receivers, do: receive(do: (:subscribed -> :ok))
    receivers
  end

  defp receive_all do
    receive(do: ({:count, from} -> send(from, {:counted, count(0)})))
    receive_all()
  end

  defp count(number) do
    receive do
      %PubSub.Message{event: %{}, tags: [_tag], dropped: 0} -> count(number + 1)
      %{price: _price} -> count(number + 1)
    after
      0 -> number
    end
  end

  # Returns the median of each variant for one input. Each event must reach `matching` receivers.
  defp in_turns(variants, receivers, turns, inputs, matching) do
    times =
      for _turn <- 1..turns, {name, variant} <- variants do
        for receiver <- receivers, do: true = :erlang.suspend_process(receiver)
        {time, _result} = clocked(fn -> for input <- inputs, do: variant.(input) end)
        for receiver <- receivers, do: :erlang.resume_process(receiver)
        check(name, counted(receivers), matching * length(inputs))
        {name, time / length(inputs)}
      end

    for {name, _variant} <- variants,
        do: {name, times |> Keyword.get_values(name) |> Enum.sort() |> Enum.at(div(turns, 2))}
  end

  defp counted(receivers) do
    for receiver <- receivers, do: send(receiver, {:count, self()})
    Enum.sum(for _receiver <- receivers, do: receive(do: ({:counted, count} -> count)))
  end

  defp check(_name, count, count), do: :ok
  defp check(name, count, expected), do: Mix.raise("#{name}: #{count} messages, not #{expected}")

  # Returns the microseconds of processor time of the VM.
  defp clocked(work) do
    Task.async(fn ->
      {before, _since} = :erlang.statistics(:runtime)
      result = work.()
      {later, _since} = :erlang.statistics(:runtime)
      {1_000 * (later - before), result}
    end)
    |> Task.await(:infinity)
  end

  # Leaves no work for the next measurement.
  defp end_all(receivers, name) do
    Supervisor.stop(name)

    for receiver <- receivers do
      Process.unlink(receiver)
      Process.exit(receiver, :kill)
    end
  end

  defp row(title, time), do: say("  #{String.pad_trailing(title, 40)}  #{decimal(time)}")

  defp row(title, time, bar),
    do: say("  #{String.pad_trailing(title, 40)}  #{decimal(time)} (bar: #{bar}, #{verdict(time, bar)})")

  defp verdict(value, bar), do: if(value <= bar, do: "holds", else: "DOES NOT HOLD")
  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 2)
  defp say(text), do: IO.puts(text)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), quick: :boolean, turns: :integer)
if rest != [], do: Mix.raise("Usage: mix run bench/pub_sub.exs [--quick] [--turns 9]")
BeTree.Bench.PubSub.run(options[:quick] || false, options[:turns] || 9)
