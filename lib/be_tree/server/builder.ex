defmodule BeTree.Server.Builder do
  @moduledoc false
  # Builds the next base beside the writer, in a linked process of its own: another index, the tree that continues from
  # it, and the delta of the changes meanwhile. The writer then only adds the last few changes.
  #
  # Changes of a tree run in slices here, so the builder takes its turn among the searches like any other process, and
  # holds no dirty scheduler, which publishing needs. The writer receives
  #
  #   * `{:later, builder, version}`, a request for the changes since that version, which `tell/3` serves;
  #   * `{:built, builder, {:ok, built} | {:error, error}}`, the last message.

  alias BeTree.{Error, Guest, Index}
  alias BeTree.Engine.CrashReport
  alias BeTree.Server.{Changes, Delta, Table}

  # The builder requests later changes until there are at most this many, in at most this many rounds.
  @few 100
  @rounds 4
  # The number of subscriptions of the table that are inserted at once: some milliseconds.
  @part 100

  @type built :: %{
          index: Index.t(),
          version: Table.version(),
          tree: BeTree.t(),
          delta: Delta.t(),
          added: Table.version()
        }

  @doc "Builds from a base and the changes since, up to `version`."
  @spec next(Index.t(), Changes.t(), Table.version(), map) :: pid
  def next(index, changes, version, options) do
    start(version, options, fn -> Changes.tree(index, changes, options.memory) end)
  end

  @doc "Builds in another index module, from the subscriptions of `table` up to `version`."
  @spec with_guest(Guest.t(), [BeTree.Domain.t()], Table.t(), Table.version(), map) :: pid
  def with_guest(guest, schema, table, version, options) do
    start(version, options, fn ->
      with {:ok, tree} <- BeTree.new(schema, Keyword.put(options.new, :guest, guest)),
           {:ok, count} <- fill(tree, Table.subscriptions(table, version, @part)),
           :ok <- check_count(tree, count),
           do: {:ok, tree}
    end)
  end

  defp fill(tree, parts) do
    Enum.reduce_while(parts, {:ok, 0}, fn part, {:ok, filled} ->
      case Changes.insert(tree, part) do
        {:ok, count} -> {:cont, {:ok, filled + count}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  defp check_count(tree, count) do
    case BeTree.info(tree) do
      {:ok, %{expressions: ^count}} ->
        :ok

      {:ok, %{expressions: other}} ->
        message = "the index module accepted #{count} subscriptions and counts #{other}"
        {:error, %Error{kind: :bad_module, message: message}}

      {:error, error} ->
        {:error, error}
    end
  end

  defp start(version, options, fill) do
    writer = self()

    spawn_link(fn ->
      outcome = CrashReport.guard(fn -> build(writer, version, options, fill) end)
      send(writer, {:built, self(), outcome})
    end)
  end

  defp build(writer, version, options, fill) do
    with {:ok, filled} <- fill.(),
         {:ok, index} <- BeTree.publish(filled, options.publish),
         {:ok, tree} <- Index.to_tree(index, options.memory) do
      built = %{index: index, version: version, tree: tree, delta: Delta.new(index, options.new), added: version}
      catch_up(built, writer, @rounds)
    end
  end

  defp catch_up(built, _writer, 0), do: {:ok, built}

  defp catch_up(built, writer, rounds) do
    {version, changes} = later(writer, built.added)
    rounds = if Changes.count(changes) > @few, do: rounds - 1, else: 0
    with {:ok, built} <- add(built, changes, version), do: catch_up(built, writer, rounds)
  end

  defp later(writer, version) do
    send(writer, {:later, self(), version})

    receive do
      {:changes, ^writer, version, changes} -> {version, changes}
    end
  end

  @doc "Sends a builder the later changes that it requested, up to `version`."
  @spec tell(pid, Table.version(), Changes.t()) :: term
  def tell(builder, version, changes), do: send(builder, {:changes, self(), version, changes})

  @doc "Adds later changes, up to `version`."
  @spec add(built, Changes.t(), Table.version()) :: {:ok, built} | {:error, Error.t()}
  def add(built, changes, version) do
    with :ok <- Changes.make(built.tree, changes),
         {:ok, delta} <- built.delta |> Delta.add(changes) |> Delta.update(),
         do: {:ok, %{built | delta: delta, added: version}}
  end
end
