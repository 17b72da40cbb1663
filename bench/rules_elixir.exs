# Measures stateful rules from Elixir: facts in and notices out by BeTree.Rules, compared with the sandboxed module alone,
# without encoding facts and decoding results. Both run in turns, on engines of their own, with checked results. Then it
# measures servers with one, two and as many partitions as schedulers, and how late a sleeper wakes beside ten engines and
# beside ten loops of plain Elixir. Writes charts of growth to _build/bench/rules.
#
#     mix run bench/rules_elixir.exs [--quick] [--seconds 2] [--only correlation]
#
# `--only` runs one section: programs, messages, correlation, partitions or sleeper.

for file <- ~w(chart stream), do: Code.require_file("rules/#{file}.ex", __DIR__)

defmodule BeTree.Bench.RulesElixir do
  @moduledoc false

  alias BeTree.Bench.Rules.{Chart, Stream}
  alias BeTree.{Rules, RuleWorkloads}
  alias BeTree.Input.Describe

  @folder "_build/bench/rules"
  @bar 1.3
  @messages 10_000
  # Milliseconds until ten stream engines reach a steady number of facts.
  @settling 10_000

  def run(options) do
    File.mkdir_p!(@folder)
    seconds = options[:seconds]
    say("#{System.schedulers_online()} schedulers, load #{load()}; the median of runs in turns")

    for {name, section} <- sections(options[:quick], seconds), options[:only] in [nil, name], do: section.()
    say("\nload at the end: #{load()}")
  end

  @sections ~w(programs messages correlation partitions sleeper)

  def sections, do: @sections

  defp sections(is_quick, seconds) do
    stream = if is_quick, do: {100, 20}, else: {620, 100}

    [
      fn ->
        programs(:manners, if(is_quick, do: [8, 32, 128], else: [8, 16, 32, 64, 128]), seconds)
        programs(:waltzdb, if(is_quick, do: [4, 16], else: [4, 8, 12, 16, 50, 100, 200]), seconds)
      end,
      fn -> messages(seconds) end,
      fn -> alone_in_process(fn -> correlation(stream) end) end,
      fn -> partitions(stream) end,
      fn -> sleeper(seconds) end
    ]
    |> then(&Enum.zip(@sections, &1))
  end

  ## Programs: all facts in one call

  defp programs(name, sizes, seconds) do
    say("\n#{title(name)}: milliseconds")

    rows =
      for size <- sizes do
        {text, facts} = apply(RuleWorkloads, name, [size])
        input = :erlang.term_to_binary(facts, minor_version: 2)
        fresh = fn -> Rules.new!(text, firings: 10_000_000, notices: 10_000_000) end

        {alone, elixir} =
          in_turns(
            seconds,
            fn -> timed(fresh.(), &alone(&1, input), &check(name, size, &1)) end,
            fn -> timed(fresh.(), &Rules.assert_all!(&1, facts), &check(name, size, &1)) end
          )

        row(size, alone, elixir, 1.0e6)
        {size, alone / 1.0e6, elixir / 1.0e6}
      end

    lines = [
      {"sandbox", for({size, alone, _elixir} <- rows, do: {size, alone})},
      {"elixir", for({size, _alone, elixir} <- rows, do: {size, elixir})}
    ]

    path = Path.join(@folder, "#{name}_elixir.svg")
    File.write!(path, Chart.svg("#{title(name)} from Elixir", "size", lines))
    say("  chart: #{path}")
  end

  defp title(:manners), do: "Manners"
  defp title(:waltzdb), do: "Waltzdb"

  defp check(name, size, rules) do
    info = Rules.info!(rules)
    {firings, type, count} = expected(name, size)
    same!({name, size}, {firings, count}, {info.firings, info.types[type]})
  end

  defp expected(:manners, n) do
    {1 + (n - 1) + div(n * (n - 1), 2) + (n - 1) + (n - 2) + 1 + n + 1, "path", div(n * (n + 1), 2) - n}
  end

  defp expected(:waltzdb, regions), do: {803 * regions + 790, "edge_label", 422 * regions + 443}

  ## Messages

  defp messages(seconds) do
    say("\nMessages: microseconds a message, in a batch of #{Describe.grouped(@messages)}")

    for test <- [:reject, :accept, :cycle],
        bytes <- [30, 1_000],
        form <- [:json, :map],
        do: batch(test, bytes, form, seconds)

    say("\nMessages: microseconds a message, one a call")
    for test <- [:reject, :accept, :cycle], form <- [:json, :map], do: single(test, 30, form, seconds)
  end

  defp batch(test, bytes, form, seconds) do
    facts = for number <- 0..(@messages - 1), do: message(test, bytes, number, form)
    input = :erlang.term_to_binary(facts, minor_version: 2)
    check = &same!({test, bytes, form}, firings(test, @messages), Rules.info!(&1).firings)
    fresh = fn -> Rules.new!(text(test), notices: 10_000_000) end

    {alone, elixir} =
      in_turns(
        seconds,
        fn -> timed(fresh.(), &alone(&1, input), check) end,
        fn -> timed(fresh.(), &Rules.assert_all!(&1, facts), check) end
      )

    row("#{test}, #{bytes} bytes, #{form}", alone / @messages, elixir / @messages, 1.0e3)
  end

  defp single(test, bytes, form, seconds) do
    facts = for number <- 0..(@messages - 1), do: message(test, bytes, number, form)
    inputs = for fact <- facts, do: :erlang.term_to_binary([fact], minor_version: 2)
    check = &same!({test, bytes, form}, firings(test, @messages), Rules.info!(&1).firings)
    fresh = fn -> Rules.new!(text(test)) end

    {alone, elixir} =
      in_turns(
        seconds,
        fn -> timed(fresh.(), fn rules -> Enum.each(inputs, &alone(rules, &1)) end, check) end,
        fn -> timed(fresh.(), fn rules -> Enum.each(facts, &Rules.assert!(rules, &1)) end, check) end
      )

    row("#{test}, #{bytes} bytes, #{form}", alone / @messages, elixir / @messages, 1.0e3)
  end

  defp text(test) do
    actions =
      case test do
        :cycle -> "retract m, assert done(subject: m.subject, amount: m.amount)"
        _other -> "notify hit(amount: m.amount)"
      end

    rules =
      for number <- 0..29,
          do: "rule r#{number} when m: message(subject = 's#{number}', amount < 10) then #{actions}\n"

    IO.iodata_to_binary([
      "fact message(subject: string, amount: integer, padding: string optional)\nfact done(subject: string, amount: integer)\n"
      | rules
    ])
  end

  defp message(test, bytes, number, form) do
    subject = "#{if test == :reject, do: "x", else: "s"}#{rem(number, 30)}"
    amount = rem(number, 10)
    padding = if bytes > 100, do: String.duplicate("p", bytes - 30)

    case {form, padding} do
      {:map, nil} -> {:message, %{subject: subject, amount: amount}}
      {:map, padding} -> {:message, %{subject: subject, amount: amount, padding: padding}}
      {:json, nil} -> {:message, ~s({"subject":"#{subject}","amount":#{amount}})}
      {:json, padding} -> {:message, ~s({"subject":"#{subject}","amount":#{amount},"padding":"#{padding}"})}
    end
  end

  defp firings(:reject, _count), do: 0
  defp firings(_test, count), do: count

  # # Correlation: batches of a stream, on engines in steady state

  @events 10_000
  @users 100_000

  defp correlation({warm_up, batches}) do
    say(
      "\nCorrelation of a stream of logins and orders: microseconds an event, in batches of #{Describe.grouped(@events)}"
    )

    {one, other} = {Rules.new!(Stream.rules(), notices: 10_000_000), Rules.new!(Stream.rules(), notices: 10_000_000)}
    feeder = feeder()

    notices =
      for _batch <- 1..warm_up(warm_up)//1, reduce: {0, 0} do
        notices ->
          {facts, input} = next(feeder)
          added(notices, {notices(alone(one, input)), length(Rules.assert_all!(other, facts).notices)})
      end

    {times, notices} =
      Enum.map_reduce(1..batches, notices, fn batch, notices ->
        {facts, input} = next(feeder)
        alone = fn -> clocked(fn -> alone(one, input) end) end
        elixir = fn -> clocked(fn -> Rules.assert_all!(other, facts) end) end

        {{alone, outputs}, {elixir, page}} = both(batch, alone, elixir)
        {{alone, elixir}, added(notices, {notices(outputs), length(page.notices)})}
      end)

    expected = expected(feeder)
    same!(:correlation, {expected, expected}, notices)
    facts = Rules.info!(other).facts

    row(
      "#{Describe.grouped(facts)} facts live",
      median(Enum.map(times, &elem(&1, 0))) / @events,
      median(Enum.map(times, &elem(&1, 1))) / @events,
      1.0e3
    )

    say("  #{Describe.grouped(expected)} notices, as a replay without rules finds")
  end

  defp warm_up(seconds), do: div(seconds * Stream.events_a_second(), @events)

  # A process holds the stream, because garbage collections of its large state would count as time of rules.
  defp feeder, do: spawn_link(fn -> feed(Stream.new(@users)) end)

  defp feed(stream) do
    receive do
      {:next, from} ->
        {facts, stream} = Stream.facts(stream, @events)
        send(from, {:facts, facts, :erlang.term_to_binary(facts, minor_version: 2)})
        feed(stream)

      {:expected, from} ->
        send(from, {:expected, Stream.notices(stream)})
    end
  end

  # Returns the next facts, and their encoding for the module.
  defp next(feeder) do
    send(feeder, {:next, self()})
    receive(do: ({:facts, facts, input} -> {facts, input}))
  end

  # Ends the feeder, and returns the notices counted by a replay without rules.
  defp expected(feeder) do
    send(feeder, {:expected, self()})
    receive(do: ({:expected, notices} -> notices))
  end

  defp alone_in_process(work), do: Task.await(Task.async(work), :infinity)

  defp added({one, other}, {more_one, more_other}), do: {one + more_one, other + more_other}

  defp notices(outputs), do: outputs |> Enum.map(&length(elem(:erlang.binary_to_term(&1), 6))) |> Enum.sum()

  ## Partitions: the same stream in one engine, and in servers

  @keys [login: :user, password_change: :user, order: :id, payment: :order]

  defp partitions(stream) do
    say(
      "\nThe same stream by one caller, in one engine and in servers with partitions: microseconds an event, by the clock"
    )

    [{_engine, same} | _servers] =
      rows = for place <- places(), do: {place, alone_in_process(fn -> play(place, stream) end)}

    for {place, result} <- rows, do: same!(place, Map.delete(same, :time), Map.delete(result, :time))

    for {place, %{time: time}} <- rows do
      say(
        "  #{String.pad_trailing(named(place), 26)} #{number(time / 1.0e3)}, #{Describe.grouped(round(1.0e9 / time))} events a second, " <>
          "#{:erlang.float_to_binary(same.time / time, decimals: 2)} times one engine"
      )
    end

    say("  #{Describe.grouped(same.firings)} firings, the same in each")
  end

  defp places, do: [:engine | Enum.uniq([1, 2, System.schedulers_online()])]

  defp named(:engine), do: "one engine"
  defp named(1), do: "a server with 1 partition"
  defp named(partitions) when is_integer(partitions), do: "a server with #{partitions}"

  # Returns the median time of an event, and everything that must be equal in each place.
  defp play(place, {warm_up, batches}) do
    server = start(place)
    feeder = feeder()
    sums = for _batch <- 1..warm_up(warm_up)//1, do: elem(insert(server, feeder), 1)
    {times, more} = Enum.unzip(for _batch <- 1..batches, do: insert(server, feeder))
    expected = expected(feeder)
    sums = sums ++ more
    same!(place, expected, sums |> Enum.map(&elem(&1, 0)) |> Enum.sum())
    info = info(server)
    stop_server(server)
    # A sum of hashes identifies notices in any order.
    %{
      time: median(times) / @events,
      notices: sums |> Enum.map(&elem(&1, 1)) |> Enum.sum(),
      firings: info.firings,
      now: info.now
    }
  end

  defp start(:engine), do: Rules.new!(Stream.rules(), notices: 10_000_000)

  defp start(partitions) do
    name = :"bench_rules_#{partitions}"
    options = [name: name, rules: Stream.rules(), notices: 10_000_000, partitions: partitions, partition_by: @keys]
    {:ok, pid} = Rules.Server.start_link(options ++ [notify: [self()]])
    {name, pid}
  end

  # Returns the time of the next facts, and the number and hash sum of their notices.
  defp insert(server, feeder) do
    {facts, _input} = next(feeder)
    {time, notices} = clocked(fn -> assert_all(server, facts) end)
    {time, {length(notices), notices |> Enum.map(&:erlang.phash2({&1.name, &1.values})) |> Enum.sum()}}
  end

  defp assert_all(%Rules{} = rules, facts), do: Rules.assert_all!(rules, facts).notices

  defp assert_all({name, _pid}, facts) do
    {:ok, _page} = Rules.Server.assert_all(name, facts)
    received(name)
  end

  # A call sends its notices before it returns.
  defp received(name) do
    receive do
      {Rules.Server, ^name, notices} -> notices ++ received(name)
    after
      0 -> []
    end
  end

  defp info(%Rules{} = rules), do: Rules.info!(rules)
  defp info({name, _pid}), do: elem({:ok, _info} = Rules.Server.info(name), 1)

  defp stop_server(%Rules{}), do: :ok
  defp stop_server({_name, pid}), do: GenServer.stop(pid)

  ## A sleeper

  defp sleeper(seconds) do
    say("\nA process that sleeps 1 ms, beside ten others: microseconds that it wakes late")

    works = [
      {"nothing", nil, 0},
      {"plain loops", &plain/0, 0},
      {"engines, kept", &kept/0, @settling},
      {"engines, made anew", &anew/0, 0}
    ]

    # The module is compiled once.
    Rules.new!(Stream.rules())

    # Everything runs twice, in turns, because other work of the machine varies.
    for _turn <- 1..2, {name, work, settling} <- works do
      others = if work, do: for(_other <- 1..10, do: spawn_link(work)), else: []
      Process.sleep(settling)

      late =
        Task.async(fn -> late(deadline(2 * seconds), []) end) |> Task.await(:infinity) |> Enum.sort() |> List.to_tuple()

      for other <- others, do: stop(other)
      at = fn share -> Describe.grouped(elem(late, min(trunc(share * tuple_size(late)), tuple_size(late) - 1))) end

      say(
        "  #{String.pad_trailing(name, 18)} p50 #{at.(0.5)}, p90 #{at.(0.9)}, p99 #{at.(0.99)}, p99.9 #{at.(0.999)}, " <>
          "max #{at.(1.0)}, #{Describe.grouped(tuple_size(late))} times"
      )
    end
  end

  defp plain, do: loop(fn -> Enum.reduce(1..100_000, 0, &(rem(&1 * 7, 13) + &2)) end)

  # An engine that is repeatedly made, run and dropped.
  defp anew do
    {text, facts} = RuleWorkloads.waltzdb(16)
    loop(fn -> Rules.assert_all!(Rules.new!(text, notices: 10_000_000), facts) end)
  end

  # An engine that gets the same thousand events repeatedly, ten seconds later each time, so that it soon drops as many
  # facts as it inserts.
  defp kept do
    rules = Rules.new!(Stream.rules(), notices: 10_000_000)
    {facts, _stream} = Stream.facts(Stream.new(1_000), 1_000)
    keep(rules, facts, 0)
  end

  defp keep(rules, facts, number) do
    later = for {type, fields} <- facts, do: {type, later(fields, number)}
    Rules.assert_all!(rules, later)
    keep(rules, facts, number + 1)
  end

  defp later(%{at: at} = fields, number) do
    fields = %{fields | at: at + 10_000 * number}

    case fields do
      %{id: id} -> %{fields | id: id + 1_000 * number}
      %{order: order} -> %{fields | order: order + 1_000 * number}
      _user -> fields
    end
  end

  defp loop(work) do
    work.()
    loop(work)
  end

  defp late(deadline, times) do
    started = System.monotonic_time(:microsecond)
    Process.sleep(1)
    now = System.monotonic_time(:microsecond)
    times = [now - started - 1_000 | times]
    if now < deadline, do: late(deadline, times), else: times
  end

  defp deadline(seconds), do: System.monotonic_time(:microsecond) + seconds * 1_000_000

  defp stop(pid) do
    Process.unlink(pid)
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^pid, _reason} -> :ok))
  end

  ## Measuring

  # The module alone: one call without slices on encoded facts, without decoding its output.
  defp alone(%{runtime: runtime, instance: instance}, input) do
    request = %{input: input, output: :binary, fuel: 0x0FFF_FFFF_FFFF_FFFF, slice: :infinity, scheduler: :normal}

    {:done, 0, output, _fuel} =
      runtime.call(instance, "be_tree_assert", [byte_size(input), 0, -1, 0x7FFF_FFFF_FFFF_FFFF], request)

    room(output, runtime, instance, input, request, [])
  end

  # A module out of room reports that, and continues after it got more. Returns the outputs of all calls.
  defp room(output, runtime, instance, input, request, outputs) do
    case output do
      <<131, 104, 7, 97, 3, _rest::binary>> ->
        {3, position, _firings, _rule, _due, _ids, _notices} = :erlang.binary_to_term(output)

        {:done, 0, _nothing, _fuel} =
          runtime.call(instance, "be_tree_room", [], %{request | input: nil, scheduler: :dirty})

        {:done, 0, more, _fuel} =
          runtime.call(instance, "be_tree_assert", [byte_size(input), position, -1, 0x7FFF_FFFF_FFFF_FFFF], request)

        room(more, runtime, instance, input, request, [output | outputs])

      <<131, 104, 7, _rest::binary>> ->
        [output | outputs]
    end
  end

  # Runs the work on new rules and checks the result. Returns the nanoseconds.
  defp timed(rules, work, check) do
    {time, _result} = clocked(fn -> work.(rules) end)
    check.(rules)
    time
  end

  defp clocked(work) do
    :erlang.garbage_collect()
    started = System.monotonic_time(:nanosecond)
    result = work.()
    {System.monotonic_time(:nanosecond) - started, result}
  end

  # Returns the medians of two measurements that alternate in a separate process.
  defp in_turns(seconds, one, other) do
    Task.async(fn ->
      one.()
      other.()
      turns(deadline(2 * seconds), one, other, [])
    end)
    |> Task.await(:infinity)
    |> Enum.unzip()
    |> then(fn {ones, others} -> {median(ones), median(others)} end)
  end

  defp turns(deadline, one, other, times) do
    times = [both(length(times), one, other) | times]

    if System.monotonic_time(:microsecond) < deadline or length(times) < 3,
      do: turns(deadline, one, other, times),
      else: times
  end

  # Returns both results. The order alternates from turn to turn.
  defp both(turn, one, other) when rem(turn, 2) == 0 do
    first = one.()
    {first, other.()}
  end

  defp both(_turn, one, other) do
    first = other.()
    {one.(), first}
  end

  defp median(values), do: values |> Enum.sort() |> Enum.at(div(length(values), 2))

  defp row(what, alone, elixir, unit) do
    ratio = elixir / alone
    verdict = if ratio <= @bar, do: "held", else: "MISSED"

    say(
      "  #{what |> to_string() |> String.pad_trailing(26)} sandbox #{number(alone / unit)}  Elixir #{number(elixir / unit)}  " <>
        "ratio #{:erlang.float_to_binary(ratio, decimals: 2)}, bar #{@bar}: #{verdict}"
    )
  end

  defp number(time), do: (time * 1.0) |> :erlang.float_to_binary(decimals: 3) |> String.pad_leading(9)

  defp same!(_what, same, same), do: :ok
  defp same!(what, expected, found), do: Mix.raise("#{inspect(what)}: #{inspect(found)}, not #{inspect(expected)}")

  defp load, do: "/proc/loadavg" |> File.read!() |> String.split() |> Enum.take(3) |> Enum.join(" ")

  defp say(text), do: Mix.shell().info(text)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), quick: :boolean, seconds: :integer, only: :string)
if rest != [], do: Mix.raise("Usage: mix run bench/rules_elixir.exs [--quick] [--seconds 2] [--only SECTION]")
known = BeTree.Bench.RulesElixir.sections()
if options[:only] not in [nil | known], do: Mix.raise("--only is one of #{Enum.join(known, ", ")}")
options |> Keyword.put_new(:seconds, 2) |> BeTree.Bench.RulesElixir.run()
