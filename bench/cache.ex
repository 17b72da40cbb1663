defmodule BeTree.Bench.Cache do
  @moduledoc false
  # The files of a case, written once per parameters and generating code. `domains` and `expressions` are in be-tree's
  # lines.
  # `events.json` and the like have the events of one format, each after its length in 4 little-endian bytes.

  alias BeTree.Input.Json
  alias BeTree.Event
  alias BeTree.Tune.Calibration.{AdTargeting, Dense, Random}
  alias BeTree.Workload.Lines

  @root "_build/bench"

  @generators [Dense, AdTargeting, Random, Lines, Event, __MODULE__]

  # Returns the folder of the case. Generates its files if they are missing.
  @spec folder(BeTree.Bench.Cases.t()) :: Path.t()
  def folder(bench) do
    folder = Path.join(@root, "#{String.replace(bench.name, ~r/[^\w.@]+/, "-")}-#{digest(bench)}")

    unless File.exists?(folder) do
      unfinished = folder <> ".unfinished"
      File.rm_rf!(unfinished)
      File.mkdir_p!(unfinished)
      write(bench, unfinished)
      File.rename!(unfinished, folder)
    end

    folder
  end

  # Returns the texts of the expressions.
  @spec expressions(Path.t()) :: Enumerable.t()
  def expressions(folder) do
    folder |> Path.join("expressions") |> File.stream!() |> Stream.map(&String.trim_trailing(&1, "\n"))
  end

  # Returns the events in `format`, as `BeTree.search/3` takes them.
  @spec events(Path.t(), :record | :json | :term) :: [Event.t()]
  def events(folder, format) do
    bytes = File.read!(Path.join(folder, "events.#{format}"))
    for <<length::little-32, event::binary-size(length) <- bytes>>, do: event(format, event)
  end

  defp event(:json, json), do: {:json, json}
  defp event(:record, term), do: {:record, :erlang.binary_to_term(term)}
  defp event(:term, term), do: :erlang.binary_to_term(term)

  defp digest(bench) do
    code = for module <- [bench.workload | @generators], do: module.__info__(:md5)

    {code, bench.parameters, bench.formats}
    |> :erlang.term_to_binary(minor_version: 2)
    |> then(&:crypto.hash(:sha256, &1))
    |> Base.encode16(case: :lower)
    |> binary_part(0, 12)
  end

  defp write(bench, folder) do
    %{workload: workload, parameters: parameters} = bench
    domains = workload.schema(parameters)
    lines(folder, "domains", Stream.map(domains, &Lines.domain/1))
    lines(folder, "expressions", workload.expressions(parameters))
    maps = workload.events(parameters) |> Enum.map(&{&1, to_map(&1, domains)})

    for format <- bench.formats do
      frames = Stream.map(maps, fn {event, map} -> event |> convert(map, format) |> frame() end)
      frames |> Stream.into(File.stream!(Path.join(folder, "events.#{format}"))) |> Stream.run()
    end
  end

  defp lines(folder, name, lines) do
    lines
    |> Stream.map(&[&1, ?\n])
    |> Stream.chunk_every(1_000)
    |> Stream.into(File.stream!(Path.join(folder, name)))
    |> Stream.run()
  end

  defp to_map({:json, json}, _domains), do: Json.decode!(json)

  defp to_map({:record, values}, domains) do
    for {domain, value} <- Enum.zip(domains, values), into: %{}, do: {domain.name, named(domain.type, value)}
  end

  # 1 and 0 stand for booleans in records only.
  defp named(:boolean, 1), do: true
  defp named(:boolean, 0), do: false
  defp named(_type, value), do: value

  defp convert({:record, _values} = event, _map, :record), do: event
  defp convert({:json, _json} = event, _map, :json), do: event
  defp convert(_event, map, :json), do: {:json, Json.encode(map)}
  defp convert(_event, map, :term), do: map

  defp frame(event) do
    {:ok, _format, bytes} = Event.encode(event)
    [<<byte_size(bytes)::little-32>>, bytes]
  end
end
