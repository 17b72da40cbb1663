defmodule Flags.Store do
  @moduledoc """
  Has the present flags, and reads the image again when the file changes.

  Reading them sends no message: they are a `:persistent_term`. Requests that began with the former index end with it. A file that is no
  image leaves the flags as they are.
  """

  use GenServer

  require Logger

  def start_link(options), do: GenServer.start_link(__MODULE__, options, name: __MODULE__)

  @doc "Returns the present index, `nil` before the first image, and the names by id."
  @spec fetch() :: {BeTree.Index.t() | nil, %{BeTree.id() => String.t()}}
  def fetch, do: :persistent_term.get(__MODULE__, {nil, %{}})

  @doc "Looks at the file now."
  @spec reload() :: :ok
  def reload, do: GenServer.call(__MODULE__, :reload, :infinity)

  @impl GenServer
  def init(dir: dir, poll: poll) do
    state = look(%{dir: dir, poll: poll, seen: nil})
    schedule(state)
    {:ok, state}
  end

  @impl GenServer
  def handle_call(:reload, _from, state), do: {:reply, :ok, look(state)}

  @impl GenServer
  def handle_info(:look, state) do
    schedule(state)
    {:noreply, look(state)}
  end

  defp schedule(state), do: Process.send_after(self(), :look, state.poll)

  # A replaced file is another inode, so two builds within a second differ too.
  defp look(state) do
    case File.stat(Flags.Image.path(state.dir)) do
      {:ok, %{inode: inode, mtime: mtime, size: size}} when {inode, mtime, size} != state.seen ->
        read(state.dir)
        %{state | seen: {inode, mtime, size}}

      _same_or_missing ->
        state
    end
  end

  defp read(dir) do
    case Flags.Image.read(dir) do
      {:ok, flags} ->
        :persistent_term.put(__MODULE__, flags)
        Logger.info("read #{map_size(elem(flags, 1))} flags")

      {:error, error} ->
        Logger.warning("the flags stay as they are: #{Exception.message(error)}")
    end
  end
end
