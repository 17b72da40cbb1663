defmodule BeTree.Bench.Output.Throughput do
  @moduledoc false
  # What a message costs by each way, for each sink.

  import BeTree.Bench.Output.Measure
  import BeTree.Bench.Run

  alias BeTree.Bench.Output.{Loops, Mailbox, Sinks}
  alias BeTree.Output
  alias BeTree.Input.Describe

  @kilobyte 1_024
  @pages [2, 4, 8, 16]
  @default_page 16
  # The bound of the peer's mailbox and of the buffers, in messages.
  @limit 100_000
  @file_name "messages"

  ## Sections. Each returns the bars that it measures: `{title, measured, limit}`

  def noop(options) do
    ratios =
      for count <- if(options.quick, do: [100_000], else: [10_000, 100_000, 1_000_000]), bytes <- [25, 100] do
        # Short runs of peers suffice, because their costs do not depend on the number.
        repeats = max(div(500_000, count), 1)
        outputs = for way <- outputs(&noop_output/1, count, options), do: Map.put(way, :repeats, repeats)
        ways = noop_peers(min(count, 100_000)) ++ outputs
        results = in_turns(ways, bytes, options.turns)

        compare(
          "A device that does nothing: #{Describe.grouped(count)} messages of #{bytes} bytes",
          results,
          "io:format"
        )

        ratios(results, "io:format")
      end

    [
      bar("single puts to a noop device, of io:format", ratios, :put, 8),
      bar("put_many of 64, of io:format", ratios, :put_many, 14)
    ]
  end

  def senders(options) do
    for senders <- [1, 8] do
      ways =
        for way <-
              noop_peers(50_000) ++ outputs(&noop_output/1, if(options.quick, do: 200_000, else: 1_000_000), options),
            do: Map.put(way, :senders, senders)

      results = in_turns(ways, 25, options.turns)
      compare("A device that does nothing: #{senders} senders, 25 bytes", results, "io:format")
    end

    []
  end

  def file(options) do
    ratios =
      for bytes <- [25, 100] do
        few = if options.quick, do: 2_000, else: 10_000
        many = if options.quick, do: 100_000, else: 1_000_000
        ways = file_peers(few, 100_000) ++ outputs(&file_output/1, many, options)
        results = in_turns(ways, bytes, options.turns)
        compare("A file: messages of #{bytes} bytes", results, "io:format")
        ratios(results, "io:format")
      end

    [bar("puts to a file, of io:format to a file device", ratios, :put, 100)]
  end

  def tcp(options) do
    ratios =
      for bytes <- [25, 100] do
        many = if options.quick, do: 200_000, else: 1_000_000
        ways = tcp_peers(if(options.quick, do: 20_000, else: 100_000), 200_000) ++ outputs(&tcp_output/1, many, options)
        results = in_turns(ways, bytes, options.turns)
        compare("A TCP socket on the loopback device: messages of #{bytes} bytes", results, "gen_tcp:send")
        ratios(results, "gen_tcp:send")
      end

    [bar("puts to a TCP socket, of a send each", ratios, :put, 25)]
  end

  @doc "Measures `user`. Standard output must be /dev/null."
  def user(options) do
    many = if options.quick, do: 100_000, else: 500_000

    for bytes <- [25, 100] do
      ways = user_peers(10_000, 100_000) ++ outputs(&user_output/1, many, options)
      {bytes, in_turns(ways, bytes, options.turns)}
    end
  end

  @doc "Prints what `user/1` returned."
  def print_user(measured) do
    ratios =
      for {bytes, results} <- measured do
        compare("`user`, with standard output to /dev/null: messages of #{bytes} bytes", results, "io:format")
        ratios(results, "io:format")
      end

    [bar("puts to `user`, of io:format", ratios, :put, 15)]
  end

  @doc "Other processes keep all schedulers busy, so only the clock tells."
  def busy(options) do
    loads = for _number <- 1..(2 * System.schedulers_online()), do: spawn_link(fn -> spin(0) end)
    ways = noop_peers(if(options.quick, do: 5_000, else: 20_000)) ++ outputs(&noop_output/1, 200_000, options)
    results = in_turns(ways, 25, options.turns)
    base = Enum.find(results, &(&1.name == "io:format"))
    rows = for result <- results, do: [result.name, us(result.clock), times(base.clock / result.clock)]

    table(
      "A busy node, #{length(loads)} processes that compute: 25 bytes to a noop device",
      ["way", "clock, us", "times less"],
      rows
    )

    for load <- loads do
      Process.unlink(load)
      Process.exit(load, :kill)
    end

    []
  end

  defp spin(number), do: spin(rem(number * 31 + 7, 1_000_003))

  ## Bars

  # The ratios of the default page, single and many.
  defp ratios(results, peer) do
    base = Enum.find(results, &(&1.name == peer))
    for %{role: role} = result when role != nil <- results, into: %{}, do: {role, base.cpu / result.cpu}
  end

  # The worst of all sizes and numbers counts.
  defp bar(title, ratios, role, limit),
    do: {title, :at_least, ratios |> Enum.map(& &1[role]) |> Enum.min(), limit, "times"}

  ## Ways

  defp way(name, form, count, fields),
    do:
      Map.merge(
        %{name: name, form: form, count: count, role: nil, drain: fn _target -> :ok end, close: fn _target -> :ok end},
        Map.new(fields)
      )

  defp outputs(output, count, options) do
    pages = if options.quick, do: [4, 16], else: @pages

    for page <- pages,
        {title, form, send, role} <- [
          {"put", :binaries, &put/3, :put},
          {"put_many 64", :chunks, &put_many/3, :put_many}
        ] do
      way("#{title}, #{page} KB", form, count, [role: if(page == @default_page, do: role), send: send] ++ output.(page))
    end
  end

  defp put({name, _sink}, messages, rounds), do: Loops.put(name, messages, rounds)
  defp put_many({name, _sink}, messages, rounds), do: Loops.put_many(name, messages, rounds)

  @name __MODULE__.Measured

  defp start(sink, page) do
    {:ok, pid} =
      Output.start_link(name: @name, sink: sink, page: page * @kilobyte, buffer: [count: @limit], timeout: 60_000)

    pid
  end

  defp drain_output(_target), do: :ok = Output.flush(@name, 60_000)
  defp stop_output(_target), do: Supervisor.stop(@name)

  # The counts of the output itself.
  defp check_output(count) do
    {:ok, stats} = Output.stats(@name)
    equal!("the counts of the output", {stats.accepted, stats.delivered, stats.pending}, {count, count, 0})
  end

  defp noop_output(page) do
    [
      open: fn _bytes ->
        device = Sinks.device()
        start({:device, device}, page)
        {@name, device}
      end,
      drain: &drain_output/1,
      check: fn {_name, device}, count, bytes ->
        check_output(count)
        equal!("bytes at the device", Sinks.counts(device).bytes, count * bytes)
      end,
      close: fn {_name, device} = target ->
        stop_output(target)
        Sinks.stop(device)
      end
    ]
  end

  defp noop_peers(count) do
    device = [
      open: fn _bytes -> Sinks.device() end,
      check: fn device, count, _bytes -> equal!("requests", Sinks.counts(device).requests, count) end
    ]

    mailbox = [
      open: fn _bytes ->
        device = Sinks.device()
        {Mailbox.start(&:io.put_chars(device, &1), 4 * @kilobyte, @limit), device}
      end,
      drain: fn {box, _device} -> Mailbox.flush(box) end,
      check: fn {_box, device}, count, bytes ->
        equal!("bytes at the device", Sinks.counts(device).bytes, count * bytes)
      end,
      close: fn {box, _device} -> Mailbox.stop(box) end
    ]

    [
      way("io:format", :strings, count, [send: &Loops.format/3] ++ device),
      way("io:put_chars", :binaries, count, [send: &Loops.put_chars/3] ++ device)
    ] ++ mailboxes(max(count, 100_000), mailbox)
  end

  defp mailboxes(count, mailbox) do
    [
      way("a mailbox process, 4 KB", :binaries, count, [send: &post/3] ++ mailbox),
      way("the same, 64 at once", :chunks, count, [send: &post_many/3] ++ mailbox)
    ]
  end

  defp post({box, _sink}, messages, rounds), do: Loops.post(box, messages, rounds)
  defp post_many({box, _sink}, messages, rounds), do: Loops.post_many(box, messages, rounds)

  defp path, do: Path.join(folder(), @file_name)
  defp check_file(count, bytes), do: equal!("bytes in the file", File.stat!(path()).size, count * bytes)

  defp file_output(page) do
    [
      open: fn _bytes ->
        File.rm(path())
        start({:file, path()}, page)
        {@name, nil}
      end,
      drain: &drain_output/1,
      check: fn _target, count, bytes ->
        check_output(count)
        check_file(count, bytes)
      end,
      close: &stop_output/1
    ]
  end

  defp file_peers(few, many) do
    delayed = {:delayed_write, 64 * @kilobyte, 2_000}
    # Closing writes what is delayed, so it belongs to the run.
    to_file = fn modes ->
      [
        open: fn _bytes ->
          File.rm(path())
          {:ok, file} = :file.open(path(), [:write | modes])
          file
        end,
        drain: fn file -> :ok = :file.close(file) end,
        check: fn _file, count, bytes -> check_file(count, bytes) end
      ]
    end

    mailbox = [
      open: fn _bytes ->
        File.rm(path())
        {Mailbox.start(&append/1, 16 * @kilobyte, @limit), nil}
      end,
      drain: fn {box, _sink} -> Mailbox.flush(box) end,
      check: fn _target, count, bytes -> check_file(count, bytes) end,
      close: fn {box, _sink} -> Mailbox.stop(box) end
    ]

    # A raw file belongs to the process that opened it, so one process opens, writes and closes.
    raw = fn modes ->
      [
        open: fn _bytes -> File.rm(path()) end,
        send: fn _target, messages, rounds ->
          {:ok, file} = :file.open(path(), [:write, :raw | modes])
          Loops.file_write(file, messages, rounds)
          :ok = :file.close(file)
        end,
        check: fn _file, count, bytes -> check_file(count, bytes) end
      ]
    end

    [
      way("io:format", :strings, few, [send: &Loops.format/3] ++ to_file.([])),
      way("io:format, delayed_write", :strings, many, [send: &Loops.format/3] ++ to_file.([delayed])),
      way("raw file:write", :binaries, 5 * few, raw.([])),
      way("raw file:write, delayed_write", :binaries, many, raw.([delayed]))
    ] ++ mailboxes(many, mailbox)
  end

  # Runs in the process of the mailbox, which keeps its file open.
  defp append(messages) do
    with nil <- Process.get(:file) do
      {:ok, file} = :file.open(path(), [:append, :raw])
      Process.put(:file, file)
    end

    :ok = :file.write(Process.get(:file), messages)
  end

  # The reader reads beside the senders, and the run ends when it has everything.
  defp connect(bytes) do
    {socket, reader} = Sinks.connect()
    Sinks.expect(reader, bytes)
    {socket, reader}
  end

  defp tcp_output(page) do
    [
      open: fn bytes ->
        {socket, reader} = connect(bytes)
        start({:tcp, socket}, page)
        {@name, {socket, reader}}
      end,
      drain: fn {_name, {_socket, reader}} = target ->
        drain_output(target)
        Process.put(:read, Sinks.await(reader))
      end,
      check: fn _target, count, bytes ->
        check_output(count)
        equal!("bytes from the socket", Process.get(:read), count * bytes)
      end,
      close: fn {_name, {socket, reader}} = target ->
        stop_output(target)
        Sinks.stop(reader)
        :gen_tcp.close(socket)
      end
    ]
  end

  defp tcp_peers(few, many) do
    read = fn {_sender, reader} -> Process.put(:read, Sinks.await(reader)) end
    check = fn _target, count, bytes -> equal!("bytes from the socket", Process.get(:read), count * bytes) end

    mailbox = [
      open: fn bytes ->
        {socket, reader} = connect(bytes)
        {Mailbox.start(&:gen_tcp.send(socket, IO.iodata_to_binary(&1)), 4 * @kilobyte, @limit), {socket, reader}}
      end,
      drain: fn {box, {_socket, reader}} ->
        Mailbox.flush(box)
        read.({box, reader})
      end,
      check: check,
      close: fn {box, {socket, reader}} ->
        Mailbox.stop(box)
        Sinks.stop(reader)
        :gen_tcp.close(socket)
      end
    ]

    each =
      way("gen_tcp:send", :binaries, few,
        open: &connect/1,
        send: fn {socket, _reader}, messages, rounds -> Loops.tcp_send(socket, messages, rounds) end,
        drain: read,
        check: check,
        close: fn {socket, reader} -> Sinks.stop(reader) && :gen_tcp.close(socket) end
      )

    [each | mailboxes(many, mailbox)]
  end

  defp user_output(page) do
    [
      open: fn _bytes ->
        start({:device, :user}, page)
        {@name, :user}
      end,
      drain: &drain_output/1,
      check: fn _target, count, _bytes -> check_output(count) end,
      close: &stop_output/1
    ]
  end

  # What reaches /dev/null cannot be counted: each call checks that `user` answered `ok`.
  defp user_peers(few, many) do
    mailbox = [
      open: fn _bytes ->
        {Mailbox.start(fn messages -> :ok = :io.put_chars(:user, messages) end, 4 * @kilobyte, @limit), :user}
      end,
      drain: fn {box, _sink} -> Mailbox.flush(box) end,
      check: fn _target, _count, _bytes -> :ok end,
      close: fn {box, _sink} -> Mailbox.stop(box) end
    ]

    plain = [open: fn _bytes -> :user end, check: fn _target, _count, _bytes -> :ok end]

    [
      way("io:format", :strings, few, [send: &Loops.format/3] ++ plain),
      way("io:put_chars", :binaries, few, [send: &Loops.put_chars/3] ++ plain)
    ] ++ mailboxes(many, mailbox)
  end
end
