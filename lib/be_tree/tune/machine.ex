defmodule BeTree.Tune.Machine do
  @moduledoc false
  # Describes the machine, and measures the processor time of other programs.

  @doc "Returns the properties of the machine on which times depend."
  @spec describe() :: %{atom => term}
  def describe do
    %{
      cpu: cpu(),
      schedulers: System.schedulers_online(),
      otp: System.otp_release(),
      elixir: System.version(),
      be_tree: version(),
      runtime: inspect(BeTree.Runtime.default())
    }
  end

  @doc "Returns whether times of two runs are comparable. Versions may differ, because a comparison measures their effect."
  @spec same?(map, map) :: boolean
  def same?(one, other), do: Enum.all?(["cpu", "schedulers"], &(one[&1] == other[&1]))

  defp version, do: :be_tree |> Application.spec(:vsn) |> to_string()

  defp cpu do
    with {:ok, text} <- File.read("/proc/cpuinfo"),
         [_all, model] <- Regex.run(~r/^model name\s*:\s*(.+)$/m, text) do
      model
    else
      _unknown -> to_string(:erlang.system_info(:system_architecture))
    end
  end

  @typedoc "Processor time in ticks: of this VM, of all programs, and in total with idle time."
  @type ticks :: {own :: non_neg_integer, busy :: non_neg_integer, all :: pos_integer}

  @doc "Reads the processor time, or returns `nil` on systems without `/proc/stat`."
  @spec ticks() :: ticks | nil
  def ticks do
    with {:ok, "cpu " <> line} <- File.read("/proc/stat"),
         {:ok, own} <- File.read("/proc/self/stat") do
      numbers = line |> String.split("\n") |> hd() |> String.split() |> Enum.map(&String.to_integer/1)
      # The fields behind these eight count guests, already contained in user and nice.
      [user, nice, system, idle, wait | others] = Enum.take(numbers, 8)
      # The first field is a name in parentheses, which may contain spaces.
      [_name, fields] = String.split(own, ") ", parts: 2)
      [utime, stime] = fields |> String.split() |> Enum.slice(11, 2) |> Enum.map(&String.to_integer/1)
      busy = user + nice + system + Enum.sum(others)
      {utime + stime, busy, busy + idle + wait}
    else
      _elsewhere -> nil
    end
  end

  @doc "Returns the share of the processor time that other programs took between two readings, from 0 to 1."
  @spec others(ticks | nil, ticks | nil) :: float | nil
  def others({own, busy, all}, {own_later, busy_later, all_later}) when all_later > all do
    max(busy_later - busy - (own_later - own), 0) / (all_later - all)
  end

  def others(_before, _later), do: nil
end
