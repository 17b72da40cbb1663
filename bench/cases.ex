defmodule BeTree.Bench.Cases do
  @moduledoc false
  # The cases: workloads, their parameters, engines and formats.

  alias BeTree.Workload.{W1, W2, W3, W4, W5, W8, W9}

  @sandbox ~w(guest guest-no-fuel guest-fiber guest-sliced)

  @typedoc """
  `engines` and `peers` are arguments of the programs in bench/native, each `engine:format`. `formats` are those for
  `BeTree.search/3`; the first is the most common one for such a workload.
  """
  @type t :: %{
          name: String.t(),
          workload: module,
          parameters: BeTree.Workload.parameters(),
          formats: [:record | :json | :term],
          engines: [String.t()],
          peers: [String.t()],
          churn: boolean
        }

  @names ~w(tiny W1 W3 W4 W8 W9 structures W2 W6 W5 adversaries)

  # Returns the workloads in the order in which they run.
  @spec names() :: [String.t()]
  def names, do: @names

  # Returns the cases of one workload.
  @spec of(String.t(), quick :: boolean) :: [t]
  def of("W1", quick) do
    for attributes <- if(quick, do: [128], else: [64, 96, 128]) do
      parameters = %{W1.defaults() | attributes: attributes}
      formats = if attributes == 128, do: [:record, :term, :json], else: [:record, :term]
      engines = ["bits:record" | engines(formats)] ++ decoding(formats)
      new("W1@#{attributes}", W1, parameters, formats, engines, ["a-tree:record"])
    end
  end

  def of("W3", quick) do
    for {name, expressions} <- [{"10k", 10_000}, {"100k", 100_000}, {"1M", 1_000_000}],
        not quick or expressions == 10_000 do
      peers = if expressions == 10_000, do: ["a-tree:json"], else: []
      formats = if expressions == 1_000_000, do: [:json], else: [:json, :term]
      # Decoding these events is measured with fewer expressions.
      engines = engines(formats) ++ if expressions == 1_000_000, do: [], else: decoding(formats)
      new("W3@#{name}", W3, %{W3.defaults() | expressions: expressions}, formats, engines, peers)
    end
  end

  def of("W4", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}

    for {variant, near_miss} <- [{"", false}, {" near miss", true}] do
      parameters = %{W4.defaults() | expressions: expressions, near_miss: near_miss}
      formats = [:json, :term]
      engines = engines(formats) ++ decoding(formats)
      new("W4@#{name}#{variant}", W4, parameters, formats, engines, ["quamina:json"])
    end
  end

  def of("W8", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}
    forms = [{"10 % patterns", 10, "mixed"}, {"no patterns", 0, "mixed"}]
    pure = for form <- ["start", "end", "part", "like", "network"], do: {"one #{form} each", 100, form}

    for {variant, patterns, form} <- if(quick, do: Enum.take(forms, 1), else: forms ++ pure) do
      parameters = %{W8.defaults() | expressions: expressions, patterns: patterns, form: form}
      new("W8@#{name} #{variant}", W8, parameters, [:json], engines([:json]), [])
    end ++ if(quick, do: [], else: [regexes(), alert_rules()])
  end

  def of("W9", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}

    for {variant, city} <- [{"", false}, {" city", true}], not quick or not city do
      parameters = %{W9.defaults() | expressions: expressions, city: city}
      new("W9@#{name}#{variant}", W9, parameters, [:json], engines([:json]), [])
    end
  end

  def of("W2", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}

    for sharing <- if(quick, do: [0.4], else: [0.0, 0.4, 0.8]) do
      parameters = %{W2.defaults() | expressions: expressions, sharing: sharing}
      # a-tree takes a minute to index 100,000 expressions.
      peers = if sharing == 0.4, do: ["a-tree:term"], else: []
      new("W2@#{name} sharing #{sharing}", W2, parameters, [:term], engines([:term]), peers)
    end
  end

  def of("W5", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}

    for {kind, dimensions} <- [{"dense", 100}, {"sparse", 30_000}], not quick or kind == "dense" do
      parameters = %{W5.defaults() | expressions: expressions, dimensions: dimensions}
      new("W5@#{name} #{kind}", W5, parameters, [:term], engines([:term]), [])
    end
  end

  def of("W6", quick) do
    {name, expressions} = if quick, do: {"10k", 10_000}, else: {"100k", 100_000}
    [%{new("W6@#{name}", W3, %{W3.defaults() | expressions: expressions}, [:json], [], []) | churn: true}]
  end

  defp regexes do
    parameters = %{W8.defaults() | expressions: 1_000, patterns: 100, form: "regex"}
    new("W8@1k one regex each", W8, parameters, [:json], engines([:json]), [])
  end

  defp alert_rules do
    parameters = %{W8.defaults() | expressions: 1_000_000, patterns: 0}
    new("W8@1M no patterns", W8, parameters, [:json], engines([:json]), [])
  end

  # Returns the index in every format, the plain loop, and the sandbox in each mode.
  defp engines([main | others]) do
    for(format <- [main | others], do: "index:#{format}") ++
      ["scan:#{main}"] ++
      for(engine <- @sandbox, do: "#{engine}:#{main}") ++
      for format <- others, do: "guest:#{format}"
  end

  # Returns the engine that decodes events without a search.
  defp decoding(formats), do: for(:json <- formats, do: "decode:json")

  defp new(name, workload, parameters, formats, engines, peers) do
    %{
      name: name,
      workload: workload,
      parameters: parameters,
      formats: formats,
      engines: engines,
      peers: peers,
      churn: false
    }
  end
end
