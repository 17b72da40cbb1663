defmodule Mix.Tasks.BeTree.Rules do
  @shortdoc "Runs rules over a file of facts"
  @moduledoc """
  Runs rules over a file of facts, and prints what they did and what that cost.

      mix be_tree.rules run RULES FACTS [--until MILLISECONDS] [--memory BYTES] [--top NUMBER] [--quiet]

  `RULES` is a text of rules (`BeTree.Rules`), and `FACTS` has a fact a line: a JSON object of one name, the type, whose value is
  the object of fields, `{"login": {"user": "ann", "ok": false, "at": 1000}}`. Empty lines are skipped.

  ## Example

      mix be_tree.rules run examples/rules/orders.rules examples/rules/orders.jsonl --until 3600000

  The task prints each notice as a line, its name and a JSON object of its values. At the end it prints the numbers of facts,
  firings and notices, the fuel (`BeTree.Fuel`) of the insertions and of the firings, the most expensive rules, and the fact types that no
  window bounds. The fuel of a firing includes the search for its match. Rules fire one at a time for that, and each match is searched
  three times, which the fuel does not include. Before anything else, the task prints the warnings of
  `BeTree.Rules.warnings/2` to standard error.

  ## Options

    * `--until` - move time to these milliseconds after the last fact, so that windows close;
    * `--memory` - the bytes of memory that rules and facts may take, 1 GiB by default;
    * `--top` - the number of rules in the list of the most expensive ones, 10 by default;
    * `--quiet` - print no notices.

  Each file may be a pipe or `/dev/stdin`: it is opened and read once.

  On an error in a file the task prints the file, the line and the place, and ends with status 1.
  """

  use Mix.Task

  alias BeTree.Input.Describe
  alias BeTree.Input.Json
  alias BeTree.{Error, Files, Rules}
  alias BeTree.Files.Reader
  alias BeTree.Rules.Operation
  alias Mix.BeTree.Command

  @requirements ["app.start"]

  @switches [until: :integer, memory: :integer, top: :integer, quiet: :boolean]
  @usage "mix be_tree.rules run RULES FACTS [--until MILLISECONDS] [--memory BYTES] [--top NUMBER] [--quiet]"
  # Facts between two lines of progress on a terminal.
  @progress 1_000

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, ["run", rules_file, facts_file]) do
    for name <- [:top, :memory], do: Command.check_count!(options, name)
    rules = open!(rules_file, options)
    for warning <- Rules.warnings!(rules), do: Mix.shell().error("#{rules_file}: warning: #{warning}")
    sum = %{facts: 0, firings: 0, notices: 0, fuel: 0, rules: %{}}
    started = System.monotonic_time()
    sum = insert_all(facts_file, sum, rules, options)
    sum = if until = options[:until], do: until(rules, until, sum, options), else: sum
    elapsed = System.convert_time_unit(System.monotonic_time() - started, :native, :millisecond)
    Mix.shell().info(summary(sum, Rules.info!(rules), elapsed, Keyword.get(options, :top, 10)))
  end

  defp run(_options, rest) do
    fault =
      case rest do
        ["run" | files] -> "run takes two files, got #{length(files)}"
        [other | _rest] -> "#{inspect(other)} is no command. Did you mean run?"
        [] -> "the command is missing"
      end

    Mix.raise("#{fault}\n\nUsage: #{@usage}")
  end

  defp open!(path, options) do
    case Rules.new(Command.read_text!(path), Keyword.take(options, [:memory])) do
      {:ok, rules} -> rules
      {:error, error} -> Mix.raise("#{path}: #{Exception.message(error)}")
    end
  end

  defp insert_all(path, sum, rules, options) do
    path |> Reader.lines() |> Enum.reduce(sum, &insert(&1, &2, rules, path, options))
  rescue
    error in Files.Error -> Mix.raise(Exception.message(error))
  end

  defp insert({fact, line}, sum, rules, path, options) do
    case rules |> Rules.assert(fact, firings: 1) |> pages(sum, options) do
      {:ok, sum} ->
        show(sum)
        %{sum | facts: sum.facts + 1}

      {:error, %Error{column: column} = error} ->
        place = if column, do: "#{path}:#{line}:#{column}", else: "#{path}:#{line}"
        Mix.raise("#{place}: #{error.message}")
    end
  end

  defp until(rules, until, sum, options) do
    rules |> Rules.advance(until, firings: 1) |> pages(sum, options) |> Command.ok!()
  end

  # A page has at most one firing, so its fuel is that rule's, except for the search for the next match, which the next page
  # repeats.
  defp pages({:error, error}, _sum, _options), do: {:error, error}

  defp pages({outcome, page}, sum, options) do
    ahead = if outcome == :more, do: Operation.ahead(page.operation), else: 0
    sum = count(%{page | fuel: max(page.fuel - ahead, 0)}, sum)
    unless options[:quiet], do: Enum.each(page.notices, &print/1)
    if outcome == :more, do: page |> Rules.next() |> pages(sum, options), else: {:ok, sum}
  end

  defp count(%{firings: 0} = page, sum), do: %{sum | fuel: sum.fuel + page.fuel}

  defp count(page, sum) do
    rules =
      Map.update(sum.rules, page.last_rule, {1, page.fuel}, fn {firings, fuel} -> {firings + 1, fuel + page.fuel} end)

    %{sum | firings: sum.firings + page.firings, notices: sum.notices + length(page.notices), rules: rules}
  end

  defp print(notice), do: Mix.shell().info("#{notice.name || "failed " <> notice.rule} #{Json.encode(notice.values)}")

  defp show(%{facts: facts}) do
    if rem(facts, @progress) == 0 and Command.terminal?(),
      do: IO.write(["\r", String.pad_trailing("#{Describe.grouped(facts)} facts", 40), "\r"])
  end

  defp summary(sum, info, elapsed, top) do
    of_firings = for({_rule, {_firings, fuel}} <- sum.rules, do: fuel) |> Enum.sum()

    lines =
      [
        "",
        "#{Describe.grouped(sum.facts)} facts inserted, #{Describe.grouped(info.facts)} kept, in #{Describe.grouped(elapsed)} ms",
        "#{Describe.grouped(sum.firings)} firings, #{Describe.grouped(sum.notices)} notices",
        "#{Describe.grouped(sum.fuel)} fuel for insertions and time, #{per(sum.fuel, sum.facts)} a fact",
        "#{Describe.grouped(of_firings)} fuel for firings, #{per(of_firings, sum.firings)} a firing"
      ] ++ expensive(sum.rules, top) ++ unbounded(info)

    Enum.join(lines, "\n")
  end

  # Facts of these types stay until something retracts them.
  defp unbounded(info) do
    case Enum.sort(Map.keys(info.types) -- Map.keys(info.lives)) do
      [] ->
        []

      types ->
        ["no window bounds the facts of #{Enum.join(types, ", ")}: they are kept until a rule or a call retracts them"]
    end
  end

  defp per(_fuel, 0), do: "0"
  defp per(fuel, count), do: Describe.grouped(div(fuel, count))

  defp expensive(rules, top) do
    costly = rules |> Enum.sort_by(fn {rule, {_firings, fuel}} -> {-fuel, rule} end) |> Enum.take(top)

    for {rule, {firings, fuel}} <- costly do
      "  #{rule}: #{Describe.grouped(firings)} firings, #{per(fuel, firings)} fuel each"
    end
  end
end
