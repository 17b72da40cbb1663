defmodule BeTree.LiveDashboard.Costs do
  @moduledoc false
  # Profiles searches for events that a user of a dashboard enters, in a server of this node (BeTree.profile/3).

  alias BeTree.{Error, Profile}
  alias BeTree.Gauges.Running
  alias BeTree.Input.Describe

  # Milliseconds for a profile, and the events that it takes.
  @timeout_ms 5_000
  @max_events 1_000

  @typedoc "A profile as a page shows it: a line with the fuel, advice in sentences, and the expressions of `t:BeTree.Profile.t/0`."
  @type t :: %{summary: String.t(), advice: [String.t()], expressions: [Profile.expression()]}

  @doc "Returns the milliseconds after which `profile/2` has returned."
  @spec timeout() :: pos_integer
  def timeout, do: 2 * @timeout_ms

  @doc "Returns the names of the servers as text, in order."
  @spec servers() :: [String.t()]
  def servers, do: Running.names()[:server] |> Enum.map(&Describe.value/1) |> Enum.sort()

  @doc "Profiles the searches for `events`, a JSON object a line, in the server whose name has this text. Returns the text of an error."
  @spec profile(String.t(), String.t()) :: {:ok, t} | {:error, String.t()}
  def profile(server, events) do
    with {:ok, name} <- find(server),
         {:ok, events} <- read(events),
         {:ok, profile} <- BeTree.profile(name, events, timeout: @timeout_ms) do
      {:ok, %{summary: summary(profile), advice: Profile.advice(profile), expressions: profile.expressions}}
    else
      {:error, %Error{} = error} -> {:error, message(error)}
      {:error, text} -> {:error, text}
    end
  end

  # People count the lines of events from 1.
  defp message(%Error{position: nil} = error), do: Exception.message(error)
  defp message(error), do: "event #{error.position + 1}: #{Exception.message(%{error | position: nil})}"

  defp find(server) do
    case Enum.find(Running.names()[:server], &(Describe.value(&1) == server)) do
      nil -> {:error, "no server has the name #{server}; it may have ended"}
      name -> {:ok, name}
    end
  end

  defp read(events) do
    lines = for line <- String.split(events, ["\r\n", "\n"]), String.trim(line) != "", do: {:json, line}

    cond do
      lines == [] -> {:error, "there is no event; enter a JSON object a line"}
      length(lines) > @max_events -> {:error, "there are #{length(lines)} events; enter at most #{@max_events}"}
      true -> {:ok, lines}
    end
  end

  defp summary(%{searches: searches, fuel: fuel} = profile) do
    phases = profile.phases |> Enum.sort_by(fn {_phase, fuel} -> -fuel end)
    parts = for {phase, part} <- phases, percent = round(100 * part / fuel), percent > 0, do: "#{phase} #{percent} %"

    "#{Describe.number_of(searches, "event")}, #{Describe.grouped(div(fuel, searches))} fuel a search: #{Enum.join(parts, ", ")}"
  end
end
