defmodule BeTree.Workload.W8 do
  @moduledoc """
  This workload is alert routing with rules that begin with a start, an end or a part of the message.

  Of 100 rules, `:patterns` are in turn like

      starts_with(message, "kora temi") and severity >= 3
      ends_with(message, "pola risu") and severity >= 0
      contains(message, "vemo dati") and severity >= 5

  each with two words of its own, and all others are like

      service = "svc-4711" and severity >= 2 and region <> "moon"

  With `patterns: 100` a rule is its pattern alone. Two more forms are

      message like "*kora*temi*"
      source in ("10.57.112.0/24")
      message matches "(kora|kora temi)[a-z ]*(te|mi)[0-9]+.*"

  Most regular expressions of the last form have no literal that a string must contain, so each of them runs. An event has a
  message of about 60 bytes, and of 200 for `"regex"`, that begins, ends and goes on in the middle with the words of three rules among
  the first 10,000 with patterns. It also has the other attributes of a log line, about 220 bytes in all.

  ## Parameters

    * `:patterns` - the percentage of rules with patterns, 0 to 100. Defaults to 10;
    * `:form` - `"start"`, `"end"`, `"part"`, `"like"`, `"network"` or `"regex"` for rules with this form of pattern alone, or `"mixed"`, the
      default, for the first three. With `"network"` an event also has the address `source`;
    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs` and `betree_events`.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.Lines

  @services 20_000
  @severities 8
  @known 10_000
  @forms {"start", "end", "part"}
  @regions {"north", "south", "east", "west"}
  @syllables {"ka", "ro", "te", "mi", "po", "la", "ri", "su", "ve", "mo", "da", "ti", "ne", "bu", "fo", "ga", "hi",
              "ju", "xe", "zo"}

  @impl true
  def defaults, do: %{seed: 1, expressions: 100_000, events: 1_000, patterns: 10, form: "mixed"}

  @impl true
  def schema(%{form: "network"} = parameters) do
    schema(%{parameters | form: "mixed"}) ++ [%Domain{name: "source", type: :ip}]
  end

  def schema(_parameters) do
    [
      %Domain{name: "message", type: :string},
      %Domain{name: "service", type: :string},
      %Domain{name: "region", type: :string},
      %Domain{name: "severity", type: :integer, min: 0, max: @severities - 1},
      %Domain{name: "host", type: :string, optional: true},
      %Domain{name: "request", type: :string, optional: true}
    ]
  end

  @impl true
  def expressions(%{expressions: 0}), do: []
  def expressions(%{expressions: count} = parameters), do: Stream.map(0..(count - 1), &rule(&1, parameters))

  # The first of each 100 rules have patterns, numbered consecutively.
  defp rule(index, %{patterns: share, seed: seed} = parameters) do
    place = rem(index, 100)
    service = rem(index + 7_919 * seed, @services)

    if place < share do
      pattern(share * div(index, 100) + place, parameters)
    else
      ~s(service = "svc-#{service}" and severity >= #{rem(index, @severities)} and region <> "moon")
    end
  end

  defp pattern(number, %{seed: seed, form: form, patterns: share}) do
    form = if form == "mixed", do: elem(@forms, rem(number, 3)), else: form
    pattern = form(form, seed, number)
    if share == 100, do: pattern, else: "#{pattern} and severity >= #{rem(number, @severities)}"
  end

  defp form("like", seed, number), do: ~s(message like "*#{String.replace(words(seed, number), " ", "*")}*")

  defp form("regex", seed, number) do
    [one, two] = seed |> words(number) |> String.split()
    ~s<message matches "(#{one}|#{two})[a-z ]*(#{String.slice(one, 0, 2)}|#{String.slice(two, 0, 2)})[0-9a-z ]+">
  end

  defp form("network", _seed, number), do: ~s(source in \("#{network(number)}.0/24"\))

  defp form(form, seed, number) do
    function = %{"start" => "starts_with", "end" => "ends_with", "part" => "contains"}[form]
    ~s(#{function}\(message, "#{words(seed, number)}"\))
  end

  # The first three parts of the network's addresses.
  defp network(number), do: "#{10 + div(number, 65_536)}.#{rem(div(number, 256), 256)}.#{rem(number, 256)}"

  # The words of the pattern with this number.
  defp words(seed, number) do
    random = Random.new(seed, 1, number)
    {one, random} = word(random)
    {two, _random} = word(random)
    one <> " " <> two
  end

  defp word(random) do
    {count, random} = Random.between(random, 2, 4)

    Enum.reduce(1..count, {"", random}, fn _nth, {word, random} ->
      {syllable, random} = Random.pick(random, @syllables)
      {word <> syllable, random}
    end)
  end

  @impl true
  def events(%{events: 0}), do: []

  def events(%{events: count, seed: seed, form: form}) do
    Stream.map(1..count, fn index ->
      event = seed |> Random.new(2, index) |> event(seed)
      {:json, of_form(form, event, Random.new(seed, 3, index))}
    end)
  end

  defp of_form("network", event, random), do: with_source(event, random)

  # Further words in the middle of the message.
  defp of_form("regex", ~s({"message": ") <> rest, random) do
    {words, _random} = Enum.map_reduce(1..20, random, fn _nth, random -> word(random) end)
    [first, more] = String.split(rest, " ", parts: 2)
    ~s({"message": "#{first} #{Enum.join(words, " ")} #{more})
  end

  defp of_form(_form, event, _random), do: event

  defp with_source("{" <> members, random) do
    {number, random} = Random.below(random, @known)
    {last, _random} = Random.below(random, 256)
    ~s({"source": "#{network(number)}.#{last}", ) <> members
  end

  defp event(random, seed) do
    {numbers, random} = Enum.map_reduce(1..3, random, fn _nth, random -> Random.below(random, @known) end)
    {[before, behind], random} = Enum.map_reduce(1..2, random, fn _nth, random -> word(random) end)
    [first, middle, last] = for number <- numbers, do: words(seed, number)
    {service, random} = Random.below(random, @services)
    {severity, random} = Random.below(random, @severities)
    {region, random} = Random.pick(random, @regions)
    {host, random} = Random.below(random, 1_000)
    {request, _random} = Random.below(random, 1_000_000_000)

    ~s({"message": "#{first} #{before} #{middle} #{behind} #{last}", "service": "svc-#{service}", "region": "#{region}", ) <>
      ~s("severity": #{severity}, "host": "host-#{host}.#{region}.example.com", "request": "req-#{request}"})
  end

  @impl true
  def files(parameters), do: Lines.files(__MODULE__, parameters)
end
