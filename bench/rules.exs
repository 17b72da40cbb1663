# Measures stateful rules natively and in the sandbox, beside CLIPS, durable_rules and Drools if installed: Manners,
# Waltzdb, the message tests of durable_rules, correlation of a stream, and many rules. All engines get the same rules and
# facts, and their results are compared. Writes charts of growth to _build/bench/rules.
#
#     mix run bench/rules.exs [--quick] [--seconds 2] [--no-peers] [--only manners,many]

for file <- ~w(program clips drools peers chart), do: Code.require_file("rules/#{file}.ex", __DIR__)

defmodule BeTree.Bench.Rules do
  @moduledoc false

  alias BeTree.Bench.Rules.{Chart, Peers}
  alias BeTree.Input.Describe
  alias Mix.BeTree.{Crate, Toolchain}

  @folder "_build/bench/rules"

  # Each workload with its sizes, the sizes of a quick run, and the bar of each size in the sandbox: milliseconds of a
  # program, microseconds of an event.
  @workloads [
    {"manners", [8, 16, 32, 64, 128], [8, 32, 128], %{128 => 6.0}},
    {"waltzdb", [4, 8, 12, 16, 50, 100, 200], [4, 16, 50], %{16 => 20.0, 50 => 70.0, 200 => 400.0}},
    {"reject", [30], [30], %{30 => 0.5}},
    {"reject-single", [30], [30], %{30 => 1.67}},
    {"reject-1k", [30], [30], %{30 => 1.0}},
    {"accept", [30], [30], %{30 => 1.0}},
    {"accept-1k", [30], [30], %{}},
    {"cycle", [30], [30], %{30 => 2.0}},
    {"correlation", [100_000], [100_000], %{100_000 => 1.0}},
    {"many", [10, 100, 1_000, 10_000, 100_000], [10, 1_000], %{100_000 => 20.0}}
  ]

  # Types whose facts are compared.
  @counted %{"manners" => ["path", "seating", "chosen"], "waltzdb" => ["edge", "junction", "edge_label"]}
  # Rules that Drools must fire for the newest facts first; otherwise it tries all rows of guests.
  @depth_first ["find_seating"]
  # Above these sizes a peer takes minutes.
  @max_peer_sizes %{"manners" => 128, "waltzdb" => 50}

  def run(options) do
    File.mkdir_p!(@folder)
    programs = %{native: build(native()), sandbox: build(sandbox())}
    peers = if options[:peers], do: Peers.find(@folder), else: %{}
    say(machine())

    say("the mean, then the median and the 90th percentile; on the processor, CLIPS's by the clock")

    for {name, found} <- peers, do: say("#{name}: #{describe(found)}")

    for {name, sizes, quick, bars} <- workloads(options[:only]) do
      say("\n#{title(name)}")
      sizes = if options[:quick], do: quick, else: sizes
      lines = for size <- sizes, row <- rows(programs, peers, name, size, bars, options), do: row
      if length(sizes) > 1, do: chart(name, lines)
    end

    say("\nload at the end: #{load()}")
  end

  defp workloads(nil), do: @workloads

  defp workloads(text) do
    names = for {name, _sizes, _quick, _bars} <- @workloads, do: name
    only = String.split(text, ",")
    unknown = only -- names
    if unknown != [], do: Mix.raise("there is no workload #{inspect(hd(unknown))}, only #{Enum.join(names, ", ")}")
    Enum.filter(@workloads, &(elem(&1, 0) in only))
  end

  defp native do
    %Crate{
      workspace: "bench/native",
      package: "be_tree_bench_rules",
      profile: "release",
      sources: sources(),
      product: "be_tree_bench_rules",
      file: Path.join(@folder, "be_tree_bench_rules")
    }
  end

  defp sandbox do
    %Crate{
      native()
      | profile: "guest",
        target: "wasm32-unknown-unknown",
        rustflags: ~w(-C target-feature=+simd128),
        product: "be_tree_rules_jobs.wasm",
        file: Path.join(@folder, "be_tree_rules_jobs.wasm")
    }
  end

  defp sources do
    ["rules/Cargo.toml", "rules/src/**/*.rs", "../../wasm/{index,rules}/Cargo.toml"] ++
      ["../../wasm/{index,rules}/src/**/*.rs", "../../wasm/rules/tests/support/*.rs", "../../wasm/rules/workloads/*"]
  end

  defp build(crate) do
    find = if crate.target, do: &Toolchain.wasm32/0, else: &Toolchain.native/0
    Crate.compile(crate, find)
    Path.expand(crate.file)
  end

  defp describe({:ok, version, _how}), do: version
  defp describe({:skipped, reason}), do: "left out, #{reason}"

  defp title("manners"), do: "Manners: guests, milliseconds"
  defp title("waltzdb"), do: "Waltzdb: regions, milliseconds"
  defp title("reject"), do: "30 rules, lists of JSON messages of 30 bytes that match none, microseconds a message"
  defp title("reject-single"), do: "the same, each message by itself"
  defp title("reject-1k"), do: "lists of such messages of 1 KB"
  defp title("accept"), do: "30 rules, lists of messages of 50 bytes that match one and wait, microseconds a message"
  defp title("accept-1k"), do: "the same, 1 KB"
  defp title("cycle"), do: "30 rules, a message of 50 bytes, the firing and its new fact, microseconds a message"
  defp title("correlation"), do: "Correlation of a stream of logins and orders: users, microseconds an event"
  defp title("many"), do: "Ten rules share the facts of an event: rules in all, microseconds an event"

  # Returns `{engine, size, time}` of each engine, and prints them.
  defp rows(programs, peers, name, size, bars, options) do
    arguments = ["--guest", programs.sandbox, "--seconds", to_string(options[:seconds]), "#{name}:#{size}"]

    ours =
      case System.cmd(programs.native, arguments, stderr_to_stdout: true) do
        {output, 0} -> output |> String.split("\n", trim: true) |> Enum.map(&fields/1)
        {message, _status} -> Mix.raise(message)
      end

    unit = if hd(ours)["events"] == 1, do: 1_000_000, else: 1_000

    own =
      for row <- ours do
        [mean, median, p90] = for key <- ["mean", "median", "p90"], do: row[key] / row["events"] / unit
        fuel = if row["fuel"], do: "fuel #{Describe.grouped(div(row["fuel"], row["events"]))}", else: ""
        bar = if row["place"] == "sandbox", do: verdict(bars[size], mean), else: ""
        print([size, row["place"], number(mean), "#{number(median)}, #{number(p90)}", fuel, totals(row), bar])
        {row["place"], size, mean}
      end

    own ++ peer_rows(programs, peers, name, size, hd(ours), unit, options)
  end

  defp fields(line) do
    for field <- String.split(line, "\t"), [key, value] = String.split(field, "=", parts: 2), into: %{} do
      case Integer.parse(value) do
        {integer, ""} -> {key, integer}
        _text -> {key, value}
      end
    end
  end

  defp totals(row) do
    for key <- ["firings", "facts", "bytes"], row[key], into: "", do: "#{Describe.grouped(row[key])} #{key}  "
  end

  defp verdict(nil, _time), do: ""
  defp verdict(bar, time) when time <= bar, do: "bar #{bar}: held"
  defp verdict(bar, _time), do: "bar #{bar}: MISSED"

  defp peer_rows(programs, peers, name, size, ours, unit, options) do
    {output, 0} = System.cmd(programs.native, ["--text", "#{name}:#{size}"])
    [rules, facts] = String.split(output, "\n----\n")
    input = {rules, String.split(facts, "\n", trim: true)}

    for {peer, {:ok, _version, how}} <- Enum.sort(peers),
        {:ok, %{seconds: seconds, totals: totals}} <- [peer(peer, how, name, size, input, options)] do
      check(peer, name, size, totals, ours)
      [median, p90] = for share <- [50, 90], do: percentile(seconds, share) * 1.0e9 / ours["events"] / unit
      found = for {key, value} <- totals, into: "", do: "#{Describe.grouped(value)} #{key}  "

      print([
        size,
        peer,
        number(Enum.sum(seconds) * 1.0e9 / length(seconds) / ours["events"] / unit),
        "#{number(median)}, #{number(p90)}",
        "",
        found,
        ""
      ])

      {to_string(peer), size, median}
    end
  end

  defp peer(:durable, python, name, _size, {_rules, facts}, options) do
    test = message_test(name)
    if test, do: Peers.durable(python, test, facts, runs(options), @folder), else: :none
  end

  # Drools fires Waltzdb in another order, with other totals.
  defp peer(:drools, how, "manners", _size, input, options) do
    counted = @counted["manners"]
    Peers.drools(how, input, [depth_first: @depth_first, counted: counted], runs(options), @folder)
  end

  defp peer(:drools, how, name, _size, input, options) do
    if message_test(name),
      do: Peers.drools(how, input, [messages: true, counted: []], runs(options), @folder),
      else: :none
  end

  defp peer(peer, how, name, size, input, options) when is_map_key(@counted, name) do
    if peer == :clips and size <= @max_peer_sizes[name],
      do: Peers.clips(how, input, @counted[name], runs(options), @folder),
      else: :none
  end

  defp peer(_peer, _how, _name, _size, _input, _options), do: :none

  defp message_test(name), do: Enum.find(["reject", "accept", "cycle"], &String.starts_with?(name, &1))

  defp runs(options), do: if(options[:quick], do: 3, else: 7)

  # CLIPS fires in our order, and so does Drools where it is compared. So their firings are equal too.
  defp check(peer, name, size, totals, ours) do
    for type <- @counted[name] || [] do
      expected = expected(name, size)[type]

      if totals[type] != expected,
        do: Mix.raise("#{peer}, #{name} #{size}: #{totals[type]} of #{type}, not #{expected}")
    end

    if peer != :durable and totals["firings"] != ours["firings"] do
      Mix.raise("#{peer}, #{name} #{size}: #{totals["firings"]} firings, not #{ours["firings"]}")
    end

    if peer == :durable and totals["firings"] != if(name =~ "reject", do: 0, else: ours["events"]) do
      Mix.raise("#{peer}, #{name}: #{totals["firings"]} firings")
    end
  end

  defp expected("manners", n), do: %{"path" => div(n * (n + 1), 2) - n, "seating" => n, "chosen" => n - 1}

  defp expected("waltzdb", r),
    do: %{"edge" => 2 * (76 * r + 72), "junction" => 60 * (r + 1), "edge_label" => 422 * r + 443}

  defp percentile(values, share), do: values |> Enum.sort() |> Enum.at(div((length(values) - 1) * share, 100))

  defp chart(name, rows) do
    lines =
      for {engine, rows} <- Enum.group_by(rows, &elem(&1, 0)),
          do: {engine, for({_, size, time} <- rows, do: {size, time})}

    # Times of events are microseconds.
    lines =
      if name == "many",
        do: for({engine, points} <- lines, do: {engine, for({x, y} <- points, do: {x, y / 1_000})}),
        else: lines

    [title, sizes | _rest] = name |> title() |> String.split([": ", ","])
    path = Path.join(@folder, "#{name}.svg")
    File.write!(path, Chart.svg(title, sizes, lines))
    say("  chart: #{path}")
  end

  defp print([size, engine, median, range, fuel, totals, bar]) do
    columns = [
      size |> to_string() |> String.pad_leading(8),
      engine |> to_string() |> String.pad_trailing(8),
      String.pad_leading(median, 10),
      String.pad_trailing("  #{range}", 24),
      String.pad_trailing(fuel, 20),
      String.pad_trailing(totals, 50),
      bar
    ]

    say(columns |> Enum.join(" ") |> String.trim_trailing())
  end

  defp number(time) when time >= 100, do: :erlang.float_to_binary(time * 1.0, decimals: 0)
  defp number(time) when time >= 10, do: :erlang.float_to_binary(time * 1.0, decimals: 1)
  defp number(time), do: :erlang.float_to_binary(time * 1.0, decimals: 3)

  defp machine do
    model = Regex.run(~r/model name\s*: (.*)/, File.read!("/proc/cpuinfo"), capture: :all_but_first)
    "#{model}, #{System.schedulers_online()} cores, load #{load()}"
  end

  defp load, do: "/proc/loadavg" |> File.read!() |> String.split() |> Enum.take(3) |> Enum.join(" ")

  defp say(text), do: Mix.shell().info(text)
end

switches = [quick: :boolean, seconds: :integer, peers: :boolean, only: :string]
{options, rest} = Mix.BeTree.Command.parse!(System.argv(), switches)

if rest != [],
  do: Mix.raise("Usage: mix run bench/rules.exs [--quick] [--seconds 2] [--no-peers] [--only manners,many]")

options |> Keyword.put_new(:peers, true) |> Keyword.put_new(:seconds, 2) |> BeTree.Bench.Rules.run()
