defmodule BeTree.LiveDashboard.Rows do
  @moduledoc false
  # The rows of the tables of a page, as `live_table` of LiveDashboard asks for them: a function takes the parameters of the table and
  # the node that the page shows, and returns the rows and their number before the limit. There are none of a node that is lost, or that
  # has no BeTree, or another version that lacks the function.

  alias BeTree.Gauges
  alias BeTree.Gauges.Modules
  alias BeTree.Input.Describe
  alias BeTree.LiveDashboard.{Costs, Sampler}

  # Milliseconds for the gauges of a node. `BeTree.Gauges.read/0` waits for processes of a node for a second.
  @timeout_ms 5_000

  @type params :: %{
          :search => String.t() | nil,
          :sort_by => atom,
          :sort_dir => :asc | :desc,
          :limit => pos_integer,
          optional(atom) => term
        }
  @type rows :: {[map], non_neg_integer}

  @doc "Fetches the gauges of a kind, and the modules of servers and tenants."
  @spec gauges(Gauges.kind(), params, node) :: rows
  def gauges(kind, params, node) do
    modules = call(node, Modules, :of, [kind], %{})

    rows =
      for %{kind: ^kind, name: name, measurements: measurements} <- call(node, Gauges, :read, [], []),
          do: measurements |> Map.merge(module(modules, name)) |> Map.put(:name, Describe.value(name))

    table(rows, params)
  end

  defp module(modules, name), do: if(text = modules[name], do: %{module: text}, else: %{})

  @doc "Fetches the sums and means of the searches of each server since a process has begun to ask for them."
  @spec searches(params, node) :: rows
  def searches(params, node) do
    case call(node, Sampler, :sums, [self()], :none) do
      {:ok, sums, microseconds} -> sums |> Enum.map(&searches_row(&1, microseconds)) |> table(params)
      _none -> {[], 0}
    end
  end

  defp searches_row(%{searches: searches} = sum, microseconds) do
    %{
      name: name(sum.server),
      searches: searches,
      per_second: Float.round(searches * 1_000_000 / microseconds, 1),
      fuel: div(sum.fuel, searches),
      duration: div(sum.duration, searches),
      matches: Float.round(sum.matches / searches, 1),
      errors: sum.errors
    }
  end

  @doc "Fetches the slowest searches of each server in each second, since a process has begun to ask for searches."
  @spec slow(params, node) :: rows
  def slow(params, node) do
    case call(node, Sampler, :slow, [self()], :none) do
      {:ok, searches} -> searches |> Enum.map(&slow_row/1) |> table(params)
      _none -> {[], 0}
    end
  end

  defp slow_row(%{server: server, second: second} = search) do
    row = Map.take(search, [:duration, :fuel, :slices, :matches, :result])
    Map.merge(row, %{name: name(server), time: second |> DateTime.from_unix!() |> DateTime.to_string()})
  end

  defp name(nil), do: "(no server)"
  defp name(server), do: Describe.value(server)

  @doc "Returns the names of the servers of a node as text."
  @spec servers(node) :: [String.t()]
  def servers(node), do: call(node, Costs, :servers, [], [])

  @doc "Profiles searches on a node (`BeTree.LiveDashboard.Costs.profile/2`)."
  @spec profile(node, server :: String.t(), events :: String.t()) :: {:ok, Costs.t()} | {:error, String.t()}
  def profile(node, server, events) do
    unreachable = {:error, "the node #{node} did not reply, or runs another version of BeTree"}
    call(node, Costs, :profile, [server, events], unreachable, Costs.timeout())
  end

  @doc "Returns the expressions of a profile."
  @spec expressions(Costs.t(), params, node) :: rows
  def expressions(%{expressions: expressions}, params, _node),
    do: expressions |> Enum.map(&expression_row/1) |> table(params)

  defp expression_row(%{id: id, decided_by: decided_by} = expression) do
    by = Enum.map_join(decided_by, ", ", fn {name, times} -> "#{name || "(no attribute)"} #{times}" end)
    expression |> Map.take([:candidate, :tests, :matched, :failed]) |> Map.merge(%{name: to_string(id), decided_by: by})
  end

  defp table(rows, %{search: search, sort_by: column, sort_dir: direction, limit: limit}) do
    rows = Enum.filter(rows, &String.contains?(&1.name, search || ""))

    # A server that does not reply has no value, and one that follows none is neither connected nor not. Such rows come last.
    {known, unknown} = Enum.split_with(rows, &is_map_key(&1, column))
    sorted = Enum.sort_by(known, & &1[column], direction) ++ unknown
    {Enum.take(sorted, limit), length(rows)}
  end

  defp call(node, module, function, arguments, otherwise, timeout \\ @timeout_ms) do
    :erpc.call(node, module, function, arguments, timeout)
  catch
    # A failure of that node, or of the connection.
    _kind, _reason -> otherwise
  end
end
