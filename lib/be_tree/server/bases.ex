defmodule BeTree.Server.Bases do
  @moduledoc false
  # The base of a server's replicas, the log since, and the process that builds the next base.
  #
  # Each replica begins as the base and applies the log. A new replica applies all of it, so another process (BeTree.Server.Builder)
  # builds the next base when the log is long. The writer of a server and a follower both use this module.
  # The owner traps exits, and passes its messages to `info/2`.

  alias BeTree.{Domain, Error, Guest, Index}
  alias BeTree.Input.Describe
  alias BeTree.Processes.Heap
  alias BeTree.Server.{Builder, Changes, Lineage, Maintainer, Migration, Table}
  alias BeTree.Target.View

  # A base is due when the changes in its log exceed this share of its subscriptions, within these limits.
  @log_share 16
  @min_log 512
  @max_log 4_096
  # A base is also due when the texts in its log exceed this share of its memory and this number of bytes.
  @text_share 8
  @min_text_bytes 1_000_000
  # A replica applies a larger change more slowly than it begins anew from a base.
  @max_row_size 1_000
  # The milliseconds between a build that failed and the next one.
  @retry_after 1_000

  @enforce_keys [:table, :options]
  defstruct [:table, :options, :base, :log, :maintainer, :builder, :retry, bytes: 0, oldest: 0, count: 0]

  @typedoc """
    * `:base` - the present base, or `nil` before the first;
    * `:log` - whether the replicas of the runtime have a log; `:maintainer` - the process that keeps them near its end;
    * `:bytes` - the bytes of texts in the log since the base;
    * `:oldest` - the version up to which neither the base nor a follower needs the log of the table;
    * `:builder` - the process that builds the next base, and the caller that waits for it, or `nil`;
    * `:retry` - the timer after a build that failed;
    * `:count` - the bases so far.
  """
  @type t :: %__MODULE__{
          table: Table.t(),
          options: map,
          base: Table.base() | nil,
          log: boolean | nil,
          maintainer: pid | nil,
          bytes: non_neg_integer,
          oldest: Table.version(),
          builder: {pid, GenServer.from() | nil} | nil,
          retry: reference | nil,
          count: non_neg_integer
        }

  @typedoc "What a builder made."
  @type built :: {:ok, Builder.built() | Builder.renewed() | Migration.t()} | {:error, Error.t()}

  @spec new(Table.t(), map) :: t
  def new(table, options), do: %__MODULE__{table: table, options: options}

  ## The present base

  @doc "Shows a base with replicas of its own. The log of the table is kept after the version `oldest`, for followers."
  @spec show(t, Table.base(), Table.version() | :infinity) :: t
  def show(%__MODULE__{table: table} = bases, %{index: index} = base, oldest) do
    Table.put_base(table, base, View.new(index, table.server, Table.ids_of(table.tid)), oldest)
    continue(bases, base)
  end

  @doc "Continues with a base that the table shows already."
  @spec continue(t, Table.base()) :: t
  def continue(%__MODULE__{table: table, maintainer: maintainer} = bases, %{index: index, version: version} = base) do
    Heap.collect_later()
    log = Changes.log?(index.runtime)
    maintainer = maintainer || if(log, do: Maintainer.start_link(table.server))
    bytes = Builder.bytes(Table.later(table, version))
    %{bases | base: base, log: log, maintainer: maintainer, bytes: bytes, count: bases.count + 1}
  end

  @doc "Continues with a later state of the present replicas, which stay. The view and the log stay too."
  @spec renew(t, Index.t(), Table.version()) :: {:ok, t} | {:error, Error.t(), t}
  def renew(%__MODULE__{table: table, base: former} = bases, index, version) do
    base = %{former | index: index, version: version}
    Table.renew_base(table, base)
    Heap.collect_later()

    case index.runtime.rebase(index.instance, index.snapshot) do
      :ok ->
        bytes = Builder.bytes(Table.later(table, version))
        {:ok, %{bases | base: base, oldest: former.version, bytes: bytes, count: bases.count + 1}}

      {:error, error} ->
        {:error, error, %{bases | base: base}}
    end
  end

  @doc "Gives the present base another history."
  @spec put_history(t, Lineage.t()) :: t
  def put_history(%__MODULE__{table: table, base: base} = bases, history) do
    base = %{base | history: history}
    Table.renew_base(table, base)
    %{bases | base: base}
  end

  ## The log of the replicas

  @doc "Returns whether the replicas can apply rows quickly, and need no base with them."
  @spec applicable?(t, [Table.row()]) :: boolean
  def applicable?(%__MODULE__{log: log}, rows) do
    log and not Enum.any?(rows, fn {_version, deleted, wires} -> Changes.size(deleted, wires) > @max_row_size end)
  end

  @doc "Appends rows to the log of the replicas, and wakes the maintainer at times."
  @spec append(t, [Table.row()]) :: t
  def append(%__MODULE__{base: %{index: %{runtime: runtime, instance: instance}}} = bases, rows) do
    :ok = Builder.append(runtime, instance, rows)
    for {version, _deleted, _wires} <- rows, do: Maintainer.wake(bases.maintainer, version)
    %{bases | bytes: bases.bytes + Builder.bytes(rows)}
  end

  @doc "Drops rows of the table's log that neither the base nor a follower needs, at most `count`."
  @spec forget(t, non_neg_integer | :infinity) :: :ok
  def forget(%__MODULE__{table: table, oldest: oldest}, count), do: Table.forget(table, oldest, count)

  ## The next base

  @doc "Starts to build the next base, if one is due. `tree` is the server's own tree, or `nil`."
  @spec build_if_due(t, Table.version(), BeTree.t() | nil) :: t
  def build_if_due(%__MODULE__{builder: nil, retry: nil, log: true, base: base} = bases, version, tree) do
    if due?(bases, version),
      do: %{bases | builder: {Builder.next(bases.table, base, tree, bases.options), nil}},
      else: bases
  end

  def build_if_due(bases, _version, _tree), do: bases

  @doc "Returns whether the log up to `version` is long enough for the next base."
  @spec due?(t, Table.version()) :: boolean
  def due?(%__MODULE__{base: %{index: %{info: info}} = base, bytes: bytes}, version) do
    version - base.version > info.expressions |> div(@log_share) |> max(@min_log) |> min(@max_log) or
      bytes > max(div(info.memory_bytes, @text_share), @min_text_bytes)
  end

  @doc "Starts to build a base in another index module. `from` gets the outcome."
  @spec build_with_guest(t, Guest.t(), Table.version(), GenServer.from()) :: t
  def build_with_guest(%__MODULE__{base: base} = bases, guest, version, from) do
    builder = Builder.with_guest(guest, base.index.schema, bases.table, version, bases.options)
    %{bases | builder: {builder, from}}
  end

  @doc "Starts to compile all texts under another schema. `from` gets the outcome."
  @spec migrate(t, [Domain.t()], Table.version(), GenServer.from()) :: t
  def migrate(%__MODULE__{base: %{index: index}} = bases, schema, version, from) do
    build = fn -> Migration.build(schema, index, bases.table, version, bases.options) end
    %{bases | builder: {Builder.start(bases.table, build), from}}
  end

  @doc "Ends the builder. Its caller gets an error."
  @spec stop_building(t) :: t
  def stop_building(%__MODULE__{builder: nil} = bases), do: bases

  def stop_building(%__MODULE__{builder: {pid, from}} = bases) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
    message = "another swap or migration, or too many changes, came before this one was done; try again"
    if from, do: GenServer.reply(from, {:error, %Error{kind: :overloaded, message: message}})
    %{bases | builder: nil}
  end

  @doc "Lets the next base be due after a while."
  @spec retry(t) :: t
  def retry(bases) do
    timer = make_ref()
    Process.send_after(self(), {:build, timer}, @retry_after)
    %{bases | retry: timer}
  end

  ## Messages

  @doc """
  Handles a message of the process. Returns `:unknown` for a foreign message; otherwise the state and the owner's next step: take a
  `:built` base and reply to the caller, publish its tree because replicas are `:unfit` for the log, check whether a base is `:due`,
  or nothing (`:ok`).
  """
  @spec info(t, term) ::
          {:built, built, GenServer.from() | nil, t} | {:unfit, Error.t(), t} | {:due, t} | {:ok, t} | :unknown
  def info(%__MODULE__{builder: {pid, from}} = bases, {:built, pid, outcome}),
    do: {:built, outcome, from, %{bases | builder: nil}}

  def info(%__MODULE__{builder: {pid, from}} = bases, {:EXIT, pid, reason}) do
    error = %Error{kind: :trap, message: "building the next base ended with #{Describe.reason(reason)}"}
    {:built, {:error, error}, from, %{bases | builder: nil}}
  end

  # A late message of a stopped builder.
  def info(%__MODULE__{} = bases, {:built, pid, _outcome}) when is_pid(pid), do: {:ok, bases}

  def info(%__MODULE__{maintainer: pid, table: table} = bases, {:EXIT, pid, _reason}) when is_pid(pid),
    do: {:ok, %{bases | maintainer: Maintainer.start_link(table.server)}}

  def info(
        %__MODULE__{maintainer: pid, base: %{index: %{instance: instance}}} = bases,
        {:unfit, pid, instance, error}
      ),
      do: {:unfit, error, bases}

  # A late message about a former base, or of an ended maintainer.
  def info(%__MODULE__{} = bases, {:unfit, pid, _instance, _error}) when is_pid(pid), do: {:ok, bases}
  def info(%__MODULE__{retry: timer} = bases, {:build, timer}) when timer != nil, do: {:due, %{bases | retry: nil}}
  def info(%__MODULE__{} = bases, {:build, timer}) when is_reference(timer), do: {:ok, bases}
  def info(%__MODULE__{}, _message), do: :unknown

  ## Descriptions

  @doc "Returns the part of a server's `info` that describes its bases. `version` is the server's."
  @spec describe(t, Table.version()) :: map
  def describe(%__MODULE__{base: nil} = bases, _version),
    do: Map.merge(counts(bases), %{lineage: nil, base: 0, log: 0, lag: 0, memory: 0})

  def describe(%__MODULE__{base: base} = bases, version) do
    Map.merge(counts(bases), %{
      lineage: Lineage.id(base.history),
      base: base.version,
      log: version - base.version,
      lag: lag(bases),
      memory: base.index.info.memory_bytes
    })
  end

  defp counts(bases), do: %{bases: bases.count, building: bases.builder != nil}

  # The replicas of a runtime without a log lack no changes.
  defp lag(%{log: false}), do: 0
  defp lag(%{base: %{index: %{runtime: runtime, instance: instance}}}), do: instance |> runtime.lag() |> elem(1)
end
