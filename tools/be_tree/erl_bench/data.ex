defmodule BeTree.ErlBench.Data do
  @moduledoc false
  # The files of the benchmark in one folder, under the names of erl-be-tree's document.

  alias BeTree.ErlBench.Way
  alias BeTree.Workload
  alias BeTree.Workload.W1

  @parameters [64, 96, 128]

  @suffixes %{std: "std", iterated_all: "all", iterated_next: "next", with_event: "event"}

  # The numbers of parameters in the document's tables.
  @spec parameters() :: [pos_integer, ...]
  def parameters, do: @parameters

  # Generates `BeTree.Workload.W1` under these names.
  @spec generate!(pos_integer, non_neg_integer, non_neg_integer, Path.t()) :: Workload.files()
  def generate!(parameters, expressions, events, folder) when parameters in @parameters do
    numbers = %{W1.defaults() | attributes: parameters, expressions: expressions, events: events}
    named = %{expressions: expressions(folder, parameters, expressions), events: events(folder, parameters, events)}
    File.mkdir_p!(folder)
    for {role, _name, lines} <- W1.files(numbers), do: Workload.write_lines(named[role], lines)
    named
  end

  @spec expressions(Path.t(), pos_integer, non_neg_integer) :: Path.t()
  def expressions(folder, parameters, count), do: Path.join(folder, "P_#{parameters}_Ex_#{underscored(count)}.txt")

  @spec events(Path.t(), pos_integer, non_neg_integer) :: Path.t()
  def events(folder, parameters, count), do: Path.join(folder, "P_#{parameters}_Ev_#{underscored(count)}.txt")

  @spec stats(Path.t(), pos_integer, Way.t()) :: Path.t()
  def stats(folder, parameters, way), do: Path.join(folder, "stats_P_#{parameters}_#{@suffixes[way]}.txt")

  @spec output(Path.t(), pos_integer, Way.t()) :: Path.t()
  def output(folder, parameters, way), do: Path.join(folder, "output_P_#{parameters}_#{@suffixes[way]}.txt")

  # Formats 100000 as 100_000.
  defp underscored(count), do: count |> BeTree.Input.Describe.grouped() |> String.replace(",", "_")
end
