defmodule BeTreeExchange.Readiness do
  @moduledoc false
  # The process for which publishers wait until the plugin has started. The broker starts it before it recovers queues, whose expired
  # messages may be published again before the plugin starts, and it outlives a restart of the follower.

  use GenServer

  alias BeTreeExchange.Follower

  @spec start_link() :: GenServer.on_start()
  def start_link, do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @doc "Waits up to `timeout` milliseconds until the plugin runs."
  @spec await(timeout) :: :ok | {:error, :not_running | :timeout}
  def await(timeout) do
    GenServer.call(__MODULE__, :await, timeout)
  catch
    :exit, {:timeout, _call} -> {:error, :timeout}
    :exit, _disabled -> {:error, :not_running}
  end

  @doc "Tells that the follower has started."
  @spec started() :: :ok
  def started, do: GenServer.cast(__MODULE__, :started)

  @impl GenServer
  def init([]), do: {:ok, []}

  @impl GenServer
  def handle_call(:await, from, waiting) do
    if Follower.running?(), do: {:reply, :ok, waiting}, else: {:noreply, [from | waiting]}
  end

  @impl GenServer
  def handle_cast(:started, waiting) do
    for from <- waiting, do: GenServer.reply(from, :ok)
    {:noreply, []}
  end
end
