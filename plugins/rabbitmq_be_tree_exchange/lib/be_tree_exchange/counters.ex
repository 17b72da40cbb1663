defmodule BeTreeExchange.Counters do
  @moduledoc false
  # The counters of an exchange on this node.

  @names [:routed, :unroutable, :refused, :out_of_fuel, :failed, :fuel, :waits, :refused_bindings, :logged]
  @places @names |> Enum.with_index(1) |> Map.new()

  @type t :: :counters.counters_ref()

  @spec new() :: t
  def new, do: :counters.new(length(@names), [:write_concurrency])

  @spec add(t, atom, integer) :: :ok
  def add(counters, name, count \\ 1), do: :counters.add(counters, @places[name], count)

  @spec get(t, atom) :: integer
  def get(counters, name), do: :counters.get(counters, @places[name])

  @doc "Returns the counters by name."
  @spec all(t) :: [{atom, integer}]
  def all(counters), do: for(name <- @names, name != :logged, do: {name, get(counters, name)})

  @doc "Logs a message of the broker at most once a second for each exchange."
  @spec log(t, (... -> String.t())) :: :ok
  def log(counters, message) do
    now = System.monotonic_time(:second)

    # Two processes at once may both log: the bound need not be exact.
    if get(counters, :logged) != now do
      :counters.put(counters, @places[:logged], now)
      :logger.warning(~c"~ts", [message.()], %{domain: [:rabbitmq]})
    end

    :ok
  end
end
