defmodule BeTree.Rules.Server.Closed do
  @moduledoc false
  # The state of the process of a partition whose folder cannot be opened, or whose journal did not take a swap. The process returns the
  # error to each call and opens the folder again, first after 100 milliseconds, and then after twice the former delay. It does not
  # end, because its supervisor would end the whole server after a few restarts.

  alias BeTree.Error
  alias BeTree.Processes.Log
  alias BeTree.Rules.Server.Shared

  @first_delay 100
  @max_delay 30_000

  @enforce_keys [:argument, :error, :timer]
  defstruct @enforce_keys ++ [delay: @first_delay]

  @typedoc "`:argument` is that of the process's `init/1`."
  @type t :: %__MODULE__{argument: tuple, error: Error.t(), timer: reference, delay: pos_integer}

  @doc "Returns whether the process with this argument is a partition that was open since the server started."
  @spec was_open?(tuple) :: boolean
  def was_open?({nil, _options, _new}), do: false
  def was_open?({number, options, _new}), do: Shared.owner(options.table, number) != nil

  @doc "Makes the calling process a closed partition: it gets the calls, and no window of it closes."
  @spec new(tuple, Error.t()) :: t
  def new({number, options, _new} = argument, error) do
    Shared.put_due(options.table, number, nil)
    Shared.started(options.table, number, self(), nil, %{})
    report(argument, "is closed and opens again later: #{Exception.message(error)}")
    wait(%__MODULE__{argument: argument, error: error, timer: make_ref()})
  end

  @doc "Returns the state after another failure to open the folder."
  @spec retry_later(t, Error.t()) :: t
  def retry_later(%__MODULE__{delay: delay} = closed, error),
    do: wait(%{closed | error: error, delay: min(2 * delay, @max_delay)})

  defp wait(closed), do: %{closed | timer: :erlang.start_timer(closed.delay, self(), :open)}

  @doc "Logs that the partition is open again."
  @spec opened(t) :: :ok
  def opened(%__MODULE__{argument: argument}), do: report(argument, "is open again")

  defp report({number, options, _new}, text) do
    Log.error("partition #{number} of #{inspect(options.name)} #{text}")
  end
end
