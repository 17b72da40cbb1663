defmodule BeTree.Bench.Output.Bounds do
  @moduledoc false
  # What an output does at its limits: shedding, refusals, memory beside a dead sink, the end of an overload, lateness.

  import BeTree.Bench.Run

  alias BeTree.Bench.Output.{Loops, Mailbox, Sinks}
  alias BeTree.Output
  alias BeTree.Input.Describe

  @name __MODULE__.Measured
  @megabyte 0x10_0000
  @page 16_384
  @buffer_bytes 4 * @megabyte
  # The resident memory moves by as much without an output.
  @resident_slack 8 * @megabyte

  ## Shedding

  @doc "One sender puts as fast as it can to a noop device, with small buffers."
  def shedding(options) do
    rounds = div(if(options.quick, do: 200_000, else: 1_000_000), Loops.distinct())

    rows =
      for bytes <- [25, 100], limit <- [100, 1_000, 10_000, 100_000], kind <- [:output, :mailbox] do
        runs = for _turn <- 1..options.turns, do: shed(kind, limit, Loops.messages(:binaries, bytes), rounds, bytes)
        [clock, cpu, share] = for position <- 0..2, do: median(for run <- runs, do: elem(run, position))
        ["#{bytes}", Describe.grouped(limit), title(kind), us(clock), us(cpu), decimal(100 * share, 1) <> " %"]
      end

    table(
      "Shedding (`drop_new`): one sender, a device that does nothing, #{Describe.grouped(rounds * Loops.distinct())} messages",
      ["bytes", "buffer, messages", "way", "clock, us", "processor, us", "dropped"],
      rows
    )

    []
  end

  defp title(:output), do: "put"
  defp title(:mailbox), do: "a mailbox process, 4 KB"

  defp shed(:output, limit, messages, rounds, bytes) do
    device = Sinks.device()
    start(sink: {:device, device}, buffer: [count: limit], overflow: :drop_new)

    {clock, cpu, dropped} =
      share(rounds, fn ->
        # The sender lives until its last page is written: a full queue drops the page of a process that ends.
        in_process(fn ->
          dropped = Loops.shed(@name, messages, rounds, 0)
          :ok = Output.flush(@name, 60_000)
          dropped
        end)
      end)

    stats = stats()
    count = rounds * length(messages)
    equal!("accepted, refused and pending", {stats.accepted, stats.dropped, stats.pending}, {count, dropped, 0})
    equal!("delivered", stats.delivered, count - dropped)
    counts = Sinks.counts(device)
    equal!("bytes at the device", counts.bytes, stats.delivered * bytes)
    stop()
    # The device learns of messages dropped after the last page only with another page.
    unless counts.told <= dropped, do: Mix.raise("the device was told of #{counts.told} drops instead of #{dropped}")
    Sinks.stop(device)
    {clock, cpu, dropped / count}
  end

  defp shed(:mailbox, limit, messages, rounds, bytes) do
    device = Sinks.device()
    # As in an output, several pages fit the limit.
    page = min(4_096, div(limit * bytes, 4))
    box = Mailbox.start(&:io.put_chars(device, &1), page, limit, :drop_new)

    {clock, cpu, dropped} =
      share(rounds, fn ->
        dropped = in_process(fn -> Loops.shed_posts(box, messages, rounds, 0) end)
        Mailbox.flush(box)
        dropped
      end)

    count = rounds * length(messages)
    equal!("bytes at the device", Sinks.counts(device).bytes, (count - dropped) * bytes)
    Mailbox.stop(box)
    Sinks.stop(device)
    {clock, cpu, dropped / count}
  end

  defp share(rounds, run) do
    {clock, cpu} = timed(fn -> Process.put(:result, run.()) end)
    count = rounds * Loops.distinct()
    {clock / count, cpu / count, Process.get(:result)}
  end

  defp in_process(run), do: run |> Task.async() |> Task.await(:infinity)

  ## Refusals

  @doc "A dead sink and a full buffer: what a refused message costs its sender."
  def refused(options) do
    rounds = div(if(options.quick, do: 500_000, else: 2_000_000), Loops.distinct())

    rows =
      for senders <- [1, 8], kind <- [:output, :mailbox] do
        runs = for _turn <- 1..options.turns, do: refuse(kind, senders, div(rounds, senders))
        {senders, kind, median(for {clock, _cpu} <- runs, do: clock), median(for {_clock, cpu} <- runs, do: cpu)}
      end

    table(
      "Refused messages (`drop_new`): a sink that never answers, a full buffer",
      ["senders", "way", "clock, us", "processor, us"],
      for({senders, kind, clock, cpu} <- rows, do: ["#{senders}", title(kind), us(clock), us(cpu)])
    )

    [{1, :output, _clock, cpu} | _others] = rows
    [{"a refused message, processor time of its sender", :at_most, cpu, 0.25, "us"}]
  end

  defp refuse(kind, senders, rounds) do
    device = Sinks.device()
    Sinks.hold(device)
    messages = Loops.messages(:binaries, 25)
    {shed, stop} = fill(kind, device, messages)

    {clock, cpu, dropped} =
      share(senders * rounds, fn -> senders |> concurrently(fn -> shed.(rounds) end) |> Enum.sum() end)

    count = senders * rounds * length(messages)
    # New senders have a page of up to 250 messages each that the full buffer does not count.
    unless dropped >= count - 1_000 * senders, do: Mix.raise("#{dropped} of #{count} messages were refused")
    send(device, :resume)
    stop.()
    Sinks.stop(device)
    {clock, cpu}
  end

  defp fill(:output, device, messages) do
    start(sink: {:device, device}, buffer: [count: 1_000], overflow: :drop_new)
    in_process(fn -> Loops.shed(@name, messages, 20, 0) end)
    {fn rounds -> Loops.shed(@name, messages, rounds, 0) end, &stop/0}
  end

  defp fill(:mailbox, device, messages) do
    box = Mailbox.start(&:io.put_chars(device, &1), 4_096, 1_000, :drop_new)
    in_process(fn -> Loops.shed_posts(box, messages, 20, 0) end)
    {fn rounds -> Loops.shed_posts(box, messages, rounds, 0) end, fn -> Mailbox.stop(box) end}
  end

  ## Memory

  @doc "A thousand senders and a dead sink, with each policy that keeps messages."
  def memory(options) do
    seconds = if options.quick, do: 5, else: 60
    messages = :binaries |> Loops.messages(100) |> Enum.take(20)
    senders = 1_000

    results =
      for overflow <- [:block, :drop_new] do
        :erlang.garbage_collect()
        before = resident()
        device = Sinks.device()
        Sinks.hold(device)
        start(sink: {:device, device}, overflow: overflow, timeout: :infinity)
        processes = for _number <- 1..senders, do: spawn(fn -> pace(messages) end)
        # Until each sender has a page and the queue is full.
        Process.sleep(2_000)
        samples = for _second <- 1..seconds, do: Process.sleep(1_000) && {stats(), resident()}
        for process <- processes, do: Process.exit(process, :kill)
        {last, _resident} = List.last(samples)
        send(device, :resume)
        stop()
        Sinks.stop(device)
        {overflow, Enum.map(samples, &elem(&1, 0).memory), Enum.map(samples, &(elem(&1, 1) - before)), last}
      end

    bound = @buffer_bytes + senders * @page

    table(
      "Memory with #{Describe.grouped(senders)} senders and a sink that never answers, over #{seconds} s (the buffer and a page a sender: #{megabytes(bound)} MB)",
      ["overflow", "messages pending", "dropped", "memory of `stats/1`, MB", "resident memory more than before, MB"],
      for {overflow, memory, resident, last} <- results do
        [
          "`#{overflow}`",
          Describe.grouped(last.pending),
          Describe.grouped(last.dropped),
          range(memory),
          range(resident)
        ]
      end
    )

    worst = for({_overflow, _memory, _resident, last} <- results, do: last.pending_bytes) |> Enum.max()
    growth = for({_overflow, _memory, resident, _last} <- results, do: List.last(resident) - hd(resident)) |> Enum.max()

    [
      {"bytes pending beside a dead sink, the buffer and a page a sender", :at_most, worst / @megabyte,
       bound / @megabyte, "MB"},
      {"growth of the resident memory in #{seconds} s", :at_most, growth / @megabyte, @resident_slack / @megabyte, "MB"}
    ]
  end

  defp range(numbers), do: "#{megabytes(Enum.min(numbers))} to #{megabytes(Enum.max(numbers))}"
  defp megabytes(bytes), do: decimal(bytes / @megabyte, 1)

  # Puts the messages ten times a second.
  defp pace(messages) do
    for message <- messages, do: Output.put(@name, message)
    Process.sleep(100)
    pace(messages)
  end

  ## Overload

  @doc "Measures the time from the first answer of a stuck sink to the end of the overload, with eight senders."
  def recovery(options) do
    turns = if options.quick, do: 3, else: 20

    # With `drop_old` there is always room, and no overload.
    rows =
      for overflow <- [:block, :drop_new] do
        times = for _turn <- 1..turns, do: recover(overflow)
        {overflow, median(times) / 1_000, Enum.max(times) / 1_000}
      end

    table(
      "From the first answer of the sink to the end of the overload: 8 senders, #{turns} times",
      ["overflow", "median, ms", "longest, ms"],
      for({overflow, median, longest} <- rows, do: ["`#{overflow}`", decimal(median, 2), decimal(longest, 2)])
    )

    longest = for({_overflow, _median, longest} <- rows, do: longest) |> Enum.max()
    [{"end of an overload after the sink recovers, the longest", :at_most, longest, 1_000, "ms"}]
  end

  defp recover(overflow) do
    device = Sinks.device()
    Sinks.hold(device)
    start(sink: {:device, device}, overflow: overflow, timeout: :infinity)
    # Each sender puts more than its share of the buffer at once, and then goes on at its pace.
    senders = for _number <- 1..8, do: spawn(fn -> flood() end)
    await(fn -> stats().overloaded end)

    {clock, :ok} =
      :timer.tc(fn ->
        send(device, :resume)
        await(fn -> not stats().overloaded end)
      end)

    for sender <- senders, do: Process.exit(sender, :kill)
    :ok = Output.flush(@name, 60_000)
    stats = stats()
    equal!("delivered, dropped and lost", stats.delivered + stats.dropped + stats.lost, stats.accepted)
    stop()
    Sinks.stop(device)
    clock
  end

  defp flood do
    messages = Loops.messages(:binaries, 100)
    for _round <- 1..100, message <- messages, do: Output.put(@name, message)

    # More than a page at a time: the queue notices the end of an overload when a full page comes, not when an old one does.
    pace(Enum.take(messages, 200))
  end

  defp await(condition) do
    if condition.() do
      :ok
    else
      Process.sleep(1)
      await(condition)
    end
  end

  ## Lateness

  @doc "How late a message reaches an idle sink, beside a timer of the VM in the same turns."
  def lateness(options) do
    turns = if options.quick, do: 50, else: 500

    rows =
      for linger <- [0, 1, 5, 20], load <- [0, 2 * System.schedulers_online()] do
        loads = for _number <- 1..load//1, do: spawn_link(fn -> spin(0) end)
        start(sink: {:process, self()}, linger: linger)
        {ours, timers} = Enum.unzip(for _turn <- 1..turns, do: {late(linger), timer(linger)})
        equal!("delivered", stats().delivered, turns)
        stop()

        for load <- loads do
          Process.unlink(load)
          Process.exit(load, :kill)
        end

        {linger, load, ours, timers}
      end

    table(
      "Lateness of one message to a process, beside a timer of `:linger` milliseconds: median, 99 %, longest, ms",
      ["linger", "busy processes", "the message", "the timer"],
      for({linger, load, ours, timers} <- rows, do: ["#{linger}", "#{load}", spread(ours), spread(timers)])
    )

    beyond = fn find -> for({linger, 0, ours, _timers} <- rows, do: find.(ours) - linger) |> Enum.max() end

    [
      {"idle lateness beyond linger, median", :at_most, beyond.(&median/1), 1, "ms"},
      {"idle lateness beyond linger, 99 %", :at_most, beyond.(&percentile(&1, 0.99)), 1, "ms"}
    ]
  end

  defp spread(times),
    do: Enum.map_join([median(times), percentile(times, 0.99), Enum.max(times)], ", ", &decimal(&1, 2))

  defp spin(number), do: spin(rem(number * 31 + 7, 1_000_003))

  defp late(linger) do
    idle(linger)
    started = System.monotonic_time(:microsecond)
    :ok = Output.put(@name, "message")

    receive do
      {:be_tree_output, @name, {:messages, ["message"], reference}} ->
        ended = System.monotonic_time(:microsecond)
        Output.ack(reference)
        (ended - started) / 1_000
    end
  end

  defp timer(linger) do
    idle(linger)
    started = System.monotonic_time(:microsecond)
    Process.send_after(self(), :timer, linger)

    receive do
      :timer -> (System.monotonic_time(:microsecond) - started) / 1_000
    end
  end

  # A process that a timer woke is in step with the timers of the VM, which tick each millisecond. So it goes on for a part of one.
  defp idle(linger) do
    Process.sleep(div(linger, 4) + 1)
    until(System.monotonic_time(:microsecond) + :rand.uniform(1_000))
  end

  defp until(time), do: if(System.monotonic_time(:microsecond) < time, do: until(time))

  ## Messages in flight

  @doc "The most that is pending at a time, by buffer and sink, while senders put as fast as they can."
  def flight(options) do
    count = if options.quick, do: 200_000, else: 1_000_000

    rows =
      for sink <- [:noop, :file],
          senders <- [1, 8],
          {bytes, messages} <- [{0x1_0000, 1_000}, {@megabyte, 10_000}, {@buffer_bytes, 100_000}] do
        flight(sink, senders, bytes, messages, count)
      end

    table(
      "Messages in flight (`block`): #{Describe.grouped(count)} messages of 100 bytes, sampled every 2 ms",
      [
        "sink",
        "senders",
        "buffer",
        "clock, us",
        "pending, most",
        "with the sink, most",
        "memory, MB, most",
        "lateness, ms, median and most"
      ],
      rows
    )

    []
  end

  defp flight(sink, senders, bytes, messages, count) do
    path = Path.join(folder(), "flight")
    File.rm(path)
    device = Sinks.device()

    start(
      sink: if(sink == :noop, do: {:device, device}, else: {:file, path}),
      buffer: [bytes: bytes, count: messages],
      timeout: :infinity
    )

    list = Loops.messages(:binaries, 100)
    rounds = div(count, senders * length(list))
    sampler = Task.async(fn -> sample([]) end)

    {clock, _cpu} =
      timed(fn ->
        concurrently(senders, fn -> Loops.put(@name, list, rounds) end)
        :ok = Output.flush(@name, 60_000)
      end)

    send(sampler.pid, :stop)
    samples = Task.await(sampler)
    sent = rounds * senders * length(list)
    equal!("delivered", stats().delivered, sent)

    if sink == :noop,
      do: equal!("bytes at the device", Sinks.counts(device).bytes, 100 * sent),
      else: equal!("bytes in the file", File.stat!(path).size, 100 * sent)

    stop()
    Sinks.stop(device)
    most = fn field -> samples |> Enum.map(&Map.fetch!(&1, field)) |> Enum.max() end
    late = Enum.map(samples, & &1.lateness)

    [
      "#{sink}",
      "#{senders}",
      "#{Describe.grouped(messages)}, #{div(bytes, 1_024)} KB",
      us(clock / sent),
      Describe.grouped(most.(:pending)),
      Describe.grouped(most.(:in_flight)),
      decimal(most.(:memory) / @megabyte, 2),
      "#{decimal(median(late) / 1_000, 2)}, #{decimal(Enum.max(late) / 1_000, 2)}"
    ]
  end

  defp sample(samples) do
    samples = [stats() | samples]

    receive do
      :stop -> samples
    after
      2 -> sample(samples)
    end
  end

  ## The output

  defp start(options), do: {:ok, _pid} = Output.start_link([name: @name] ++ options)
  defp stop, do: Supervisor.stop(@name)

  defp stats do
    {:ok, stats} = Output.stats(@name)
    stats
  end
end
