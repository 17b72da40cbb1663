defmodule BeTree.Journal do
  @moduledoc false
  # A journal keeps the changes of one owner in a folder, so that they survive the node.
  #
  #     journal.manifest  the newest segment, and the last change that is known to be on the disk (journal/manifest.ex)
  #     VERSION.base      the state of the owner at a version (journal/base.ex)
  #     SEQUENCE.log      a segment: changes, one after the other (journal/segment.ex, journal/record.ex)
  #     *.new             one of these files that is being written
  #
  # At its first write an owner removes the leftovers of the previous owner. Foreign files stay. A folder has one owner at a time
  # (journal/lock.ex).
  #
  # The owner is a process. It opens the folder, reads the base and the changes after it, and appends. The journal numbers the
  # changes: the version of a change is that of the change before it plus one. A change is opaque bytes, stored completely or not
  # at all.
  #
  # ## Durability
  #
  #   * `:sync` - `append/2` returns when the changes are on the disk. All changes of a call share one sync, so an owner passes
  #     all waiting changes at once;
  #   * `{:interval, ms}` - `append/2` returns when the system has the changes, so they survive the end of the node. Another
  #     process syncs them to the disk about `ms` later;
  #   * `:none` - the same, and the system decides when they reach the disk.
  #
  # ## Failures
  #
  # A failed write or sync ends a segment: the content of the disk after the last synced byte is unknown. The journal truncates the
  # refused changes. The next change begins another segment, which replaces all changes of older segments from its first version on.
  # One window remains: the write fails, the truncation fails too, and the node dies before the next append. Recovery then finds a
  # change that was refused. Each owner begins a segment of its own, because the last write of a killed process may reach its file
  # after the next owner has read it. Changes accepted under `{:interval, ms}` stay in memory until a sync, and a new segment begins
  # with them.
  #
  # An owner passes messages that it does not know to `info/2`.

  alias BeTree.Error.Attempt
  alias BeTree.Journal.{Base, Disk, Fault, Lock, Manifest, Record, Recovery, Segment, Syncer}
  alias BeTree.Error
  alias BeTree.Processes.Log

  @enforce_keys [:files, :background, :folder, :identity, :durability, :segment_bytes, :ref, :lock]
  defstruct @enforce_keys ++
              [
                :base,
                :manifest,
                :segment,
                :syncer,
                :monitor,
                :unsettled,
                :error,
                :cut,
                segments: [],
                sources: [],
                leftovers: [],
                sequence: 1,
                kept: 0,
                written: 0,
                last: 0,
                durable: 0,
                pending: [],
                pending_bytes: 0,
                sync: :idle
              ]

  @type durability :: :sync | {:interval, non_neg_integer} | :none

  @typedoc """
    * `:base` - the newest base when the folder was opened, or `nil`; `:kept` - the version of the newest base now;
    * `:segment` - the segment to which changes are appended, or `nil`; `:segments` - those after the base, this one as it
      began;
    * `:sequence` - the number of the next segment;
    * `:written` - the bytes of these segments when the folder was opened, and of the changes since;
    * `:leftovers` - files that an earlier owner did not finish, or did not remove;
    * `:last`, `:durable` - the version of the last change, and of the last one that is known to be on the disk;
    * `:pending` - with an interval, the groups of changes after `:durable`: first version, last version and bytes;
    * `:sync` - `:idle`, `:due` when a timer runs, or `:running`;
    * `:unsettled` - without syncs, a segment that must be on the disk before another one begins;
    * `:error` - the error of the last sync in the background, or `nil`;
    * `:cut` - the place at which an interrupted write was cut off when the folder was opened, or `nil`.
  """
  @type t :: %__MODULE__{}

  @type option ::
          {:identity, binary}
          | {:durability, durability}
          | {:lock_timeout, timeout}
          | {:segment_bytes, pos_integer}
          | {:files, module}
          | {:background, module}

  @segment_bytes 0x100_0000
  # A process that was killed closes the socket of its lock a moment after it is gone.
  @lock_timeout_ms 1_000
  # With an interval: the bytes of accepted changes that are not synced. Above it, `append/2` syncs first.
  @max_pending_bytes 0x100_0000
  @retry_after 1_000
  # A base is due at this number of segments beyond those that the bytes need. Each start and each failed write begins a segment.
  @max_spare_segments 32
  @max_batch 1_000
  @max_batch_bytes 0x40_0000

  @doc "Returns the milliseconds for which `open/2` waits while another process has the folder, without an option."
  @spec lock_timeout() :: timeout
  def lock_timeout, do: @lock_timeout_ms

  @doc """
  Opens the journal in `folder`, which is made if it is not there. The calling process becomes the owner.

  `:identity` says what the changes are for, such as the schema of an index. `{:error, {:identity, other}}` means that the
  folder was written with another one. `:lock_timeout` is the number of milliseconds to wait while another process has the folder.
  """
  @spec open(Path.t(), [option]) :: {:ok, t} | {:error, Error.t() | {:identity, binary}}
  def open(folder, options) do
    files = Keyword.get(options, :files, Disk)
    folder = Path.expand(folder)

    with :ok <- make(files, folder),
         {:ok, lock} <- Lock.acquire(folder, Keyword.get(options, :lock_timeout, @lock_timeout_ms)) do
      journal = %__MODULE__{
        files: files,
        background: Keyword.get(options, :background, Syncer),
        folder: folder,
        identity: Keyword.fetch!(options, :identity),
        durability: Keyword.fetch!(options, :durability),
        segment_bytes: Keyword.get(options, :segment_bytes, @segment_bytes),
        ref: make_ref(),
        lock: lock
      }

      case recover(journal) do
        {:ok, journal} ->
          {:ok, start_syncer(journal)}

        {:error, error} ->
          :ok = Lock.release(lock)
          {:error, error}
      end
    end
  end

  defp make(files, folder) do
    with {:error, reason} <- files.make_folder(folder), do: Fault.file("make the folder", folder, reason)
  end

  defp recover(journal) do
    with {:ok, found} <- Recovery.run(journal.files, journal.folder, journal.identity),
         :ok <- sync_found(journal, found.segments),
         {:ok, manifest} <- Manifest.open(journal.files, journal.folder, found.manifest) do
      if found.cut, do: report(found)
      sequence = Enum.max([0 | for(segment <- found.segments, do: segment.sequence)]) + 1

      {:ok,
       %{
         journal
         | base: found.base,
           kept: if(found.base, do: found.base.version, else: 0),
           manifest: manifest,
           segments: found.segments,
           written: found.segments |> Enum.map(& &1.size) |> Enum.sum(),
           sources: found.sources,
           leftovers: found.leftovers,
           sequence: sequence,
           last: found.last,
           durable: found.last,
           cut: found.cut
       }}
    end
  end

  # After a kill of the former owner, the last changes and the names of the files may not be on the disk yet.
  defp sync_found(%{files: files, folder: folder}, segments) do
    with :ok <- if(segments == [], do: :ok, else: Segment.sync(files, List.last(segments).path)) do
      with {:error, reason} <- files.sync_folder(folder), do: Fault.file("sync", folder, reason)
    end
  end

  defp report(%{cut: cut, last: last}) do
    fault = "#{cut.path} ends with a write that was interrupted, at byte #{cut.at}"
    Log.warning("#{fault}; the last whole change is #{last}")
  end

  defp start_syncer(%{durability: {:interval, _ms}} = journal) do
    {syncer, monitor} = journal.background.start(journal.files)
    %{journal | syncer: syncer, monitor: monitor}
  end

  defp start_syncer(journal), do: journal

  ## Reading

  @doc "Returns whether a folder holds changes or a base, of any owner."
  @spec content?(Path.t()) :: boolean
  def content?(folder) do
    case File.ls(folder) do
      {:ok, names} -> Enum.any?(names, &(Segment.number(&1, ".log") || Segment.number(&1, ".base")))
      {:error, _reason} -> false
    end
  end

  @doc "Returns the identity of a folder that is not open, or `nil` if its files do not tell it."
  @spec identity(Path.t()) :: binary | nil
  def identity(folder) do
    # The recovery refuses a folder whose identity is not the given one, and its error has the identity of the folder.
    case Recovery.run(Disk, folder, "") do
      {:error, {:identity, identity}} -> identity
      _other -> nil
    end
  end

  @doc "Returns the version of the last change."
  @spec last(t) :: non_neg_integer
  def last(%__MODULE__{last: last}), do: last

  @doc "Returns the bytes of the segments that hold changes after the newest base."
  @spec bytes(t) :: non_neg_integer
  def bytes(%__MODULE__{} = journal), do: journal |> later_segments() |> Enum.map(& &1.size) |> Enum.sum()

  @doc "Returns the bytes that `bytes/1` returned when the folder was opened, and of all changes since. A base takes none away."
  @spec written(t) :: non_neg_integer
  def written(%__MODULE__{written: written}), do: written

  @doc "Returns whether the changes after the newest base lie in many more segments than their bytes need. Then a base is due."
  @spec fragmented?(t) :: boolean
  def fragmented?(%__MODULE__{segment_bytes: segment_bytes} = journal) do
    segments = later_segments(journal)
    bytes = segments |> Enum.map(& &1.size) |> Enum.sum()
    length(segments) - div(bytes, segment_bytes) > @max_spare_segments
  end

  defp later_segments(%{segment: present} = journal) do
    for {segment, _last} <- Recovery.needed(journal.segments, journal.kept + 1),
        do: if(present != nil and present.sequence == segment.sequence, do: present, else: segment)
  end

  @doc "Returns the version and the content of the newest base, or `:none`."
  @spec read_base(t) :: {:ok, non_neg_integer, binary} | :none | {:error, Error.t()}
  def read_base(%__MODULE__{base: nil}), do: :none

  def read_base(%__MODULE__{base: base, files: files}) do
    with {:ok, payload} <- Base.read(files, base), do: {:ok, base.version, payload}
  end

  @doc """
  Folds `function` over the changes after the base that the folder had when it was opened. It gets batches of at most a thousand
  changes `{version, bytes}`, in order, and returns `{:ok, value}`, or `{:error, error}` to stop. The bytes are parts of larger
  binaries.
  """
  @spec reduce(t, acc, ([{pos_integer, binary}], acc -> {:ok, acc} | {:error, error})) ::
          {:ok, acc} | {:error, Error.t() | error}
        when acc: term, error: term
  def reduce(%__MODULE__{} = journal, value, function) do
    from = if journal.base, do: journal.base.version + 1, else: 1
    reduce(journal.sources, journal.files, from, value, function)
  end

  defp reduce([], _files, _from, value, _function), do: {:ok, value}

  defp reduce([{segment, last} | sources], files, from, value, function) do
    read = &collect(&1, &2, from, last, function)

    case Segment.reduce(files, segment, {[], 0, 0, {:ok, value}}, read) do
      {:ok, {_ending, _at, next}, {batch, _count, _bytes, {:ok, value}}} when next > last ->
        with {:ok, value} <- give(batch, {:ok, value}, function), do: reduce(sources, files, last + 1, value, function)

      {:ok, _ending, {_batch, _count, _bytes, {:error, error}}} ->
        {:error, error}

      {:ok, {_ending, at, next}, _read} ->
        Fault.damaged(segment.path, "change #{next} at byte #{at} was there a moment ago")

      {:error, error} ->
        {:error, error}
    end
  end

  defp collect(%{version: version}, read, _from, last, _function) when version > last, do: {:halt, read}
  defp collect(%{version: version}, read, from, _last, _function) when version < from, do: {:cont, read}

  defp collect(%{version: version, payload: payload}, {batch, count, bytes, result}, _from, _last, function) do
    batch = [{version, payload} | batch]
    bytes = bytes + byte_size(payload)

    if count + 1 < @max_batch and bytes < @max_batch_bytes do
      {:cont, {batch, count + 1, bytes, result}}
    else
      result = give(batch, result, function)
      {if(match?({:ok, _value}, result), do: :cont, else: :halt), {[], 0, 0, result}}
    end
  end

  defp give([], result, _function), do: result
  defp give(batch, {:ok, value}, function), do: function.(Enum.reverse(batch), value)

  ## Changes

  @doc """
  Appends changes, all of them or none. They get the versions after `last/1`. Returns as the durability says.

  A failure returns an error of kind `:file` and the journal without these changes. The journal remains usable.
  """
  @spec append(t, [iodata]) :: {:ok, t} | {:error, Error.t(), t}
  def append(%__MODULE__{} = journal, []), do: {:ok, journal}

  def append(%__MODULE__{} = journal, payloads) do
    with :ok <- check_sizes(payloads),
         {:ok, journal} <- ready(journal) do
      {bytes, size, last} = encode(payloads, journal.last, journal.durable)

      case write(journal, bytes) do
        :ok -> {:ok, accept(journal, bytes, size, last)}
        {:error, error} -> {:error, Fault.refused(error), abandon(journal)}
      end
    else
      {:error, error} -> {:error, Fault.refused(error), journal}
      {:error, error, journal} -> {:error, Fault.refused(error), journal}
    end
  end

  defp check_sizes(payloads) do
    case Enum.find(payloads, &(IO.iodata_length(&1) > Record.max_bytes())) do
      nil ->
        :ok

      payload ->
        message = "a change has #{IO.iodata_length(payload)} bytes; expected #{Record.max_bytes()} at most: divide it"
        {:error, %Error{kind: :file, message: message}}
    end
  end

  defp encode(payloads, last, durable) do
    Enum.reduce(payloads, {[], 0, last}, fn payload, {bytes, size, last} ->
      {record, length} = Record.change(last + 1, durable, payload)
      {[bytes | record], size + length, last + 1}
    end)
  end

  # With `:sync`, a sync is a part of the write.
  defp write(%{segment: segment, files: files} = journal, bytes) do
    with :ok <- files.pwrite(segment.device, segment.size, bytes),
         :ok <- if(journal.durability == :sync, do: files.sync(segment.device), else: :ok) do
      :ok
    else
      {:error, reason} -> Fault.file("write", segment.path, reason)
    end
  end

  defp accept(%{segment: segment} = journal, bytes, size, last) do
    group = {journal.last + 1, last, bytes}
    segment = %{segment | size: segment.size + size}
    journal = %{journal | segment: segment, written: journal.written + size, last: last}

    case journal.durability do
      :sync -> durable(journal, last)
      {:interval, _ms} -> sync_later(%{journal | pending: [group | journal.pending]}, size)
      :none -> journal
    end
  end

  ## Segments

  # Returns the journal with a segment that takes more changes.
  defp ready(%{segment: nil} = journal), do: create(journal)

  defp ready(%{segment: segment} = journal) do
    cond do
      segment.size - segment.start >= journal.segment_bytes ->
        with {:ok, journal} <- finish(journal), do: create(journal)

      journal.pending_bytes >= @max_pending_bytes ->
        flush(journal)

      true ->
        declare(journal)
    end
  end

  # Before a segment begins, all earlier changes are on the disk, except the pending ones. The new file gets these before its name,
  # because with that name it replaces the segment that holds them.
  defp create(journal) do
    with {:ok, journal} <- clear(journal),
         {:ok, journal} <- settle(journal) do
      %{sequence: sequence, identity: identity} = journal
      {first, pending} = pending(journal)

      case Segment.create(journal.files, journal.folder, sequence, first, identity, pending) do
        {:ok, segment} ->
          segments = Enum.reject(journal.segments, &(&1.sequence == sequence)) ++ [segment]
          journal = %{journal | segment: segment, segments: segments, sequence: sequence + 1}
          journal |> durable(journal.last) |> declare()

        {:error, error} ->
          {:error, error, journal}
      end
    end
  end

  # Lets the manifest name the segment, before any change in it is accepted.
  defp declare(%{segment: %{sequence: sequence}, manifest: %{segment: sequence}} = journal), do: {:ok, journal}
  defp declare(%{segment: segment} = journal), do: put_manifest(journal, segment.sequence)

  defp put_manifest(journal, segment) do
    case Manifest.put(journal.manifest, segment, journal.durable) do
      {:ok, manifest} -> {:ok, %{journal | manifest: manifest}}
      {:error, error, manifest} -> {:error, error, %{journal | manifest: manifest}}
    end
  end

  # Removes the leftovers of an earlier owner.
  defp clear(%{leftovers: []} = journal), do: {:ok, journal}

  defp clear(%{leftovers: leftovers} = journal) do
    case delete(journal.files, leftovers) do
      :ok ->
        {:ok, %{journal | leftovers: []}}

      {:error, reason} ->
        {:error, error} = Fault.file("remove files from", journal.folder, reason)
        {:error, error, journal}
    end
  end

  # Returns the version of the first pending change, or of the next change, and the bytes of all pending ones. The oldest group is
  # written as a whole, though a base may have its first changes.
  defp pending(%{pending: []} = journal), do: {journal.durable + 1, []}

  defp pending(%{pending: groups}) do
    [{first, _last, _bytes} | _later] = groups = Enum.reverse(groups)
    {first, for({_first, _last, bytes} <- groups, do: bytes)}
  end

  defp settle(%{unsettled: nil} = journal), do: {:ok, journal}

  defp settle(%{unsettled: path} = journal) do
    case Segment.sync(journal.files, path) do
      :ok -> {:ok, %{journal | unsettled: nil, durable: journal.last}}
      {:error, error} -> {:error, error, journal}
    end
  end

  # Ends a segment after a failure. The next segment replaces bytes that cannot be truncated. A segment without changes was never
  # synced. The next segment overwrites it; it is not deleted, because the manifest may name it.
  defp abandon(%{segment: segment, files: files} = journal) do
    _ = files.truncate(segment.device, segment.size)
    _ = files.close(segment.device)
    journal = put_aside(journal)

    cond do
      segment.size == segment.start -> %{journal | sequence: segment.sequence}
      journal.durability == :none -> %{journal | unsettled: segment.path}
      true -> journal
    end
  end

  # Ends a segment that is full.
  defp finish(journal) do
    with {:ok, journal} <- flush(journal) do
      _ = journal.files.close(journal.segment.device)
      {:ok, put_aside(journal)}
    end
  end

  defp put_aside(%{segment: %{sequence: sequence} = segment} = journal) do
    segments = for other <- journal.segments, do: if(other.sequence == sequence, do: segment, else: other)
    %{journal | segment: nil, segments: segments}
  end

  ## Syncing

  @doc "Returns when all changes are on the disk."
  @spec flush(t) :: {:ok, t} | {:error, Error.t(), t}
  def flush(%__MODULE__{last: last, durable: last} = journal), do: {:ok, journal}

  def flush(%__MODULE__{segment: nil, pending: []} = journal), do: settle(journal)

  def flush(%__MODULE__{segment: nil} = journal) do
    with {:ok, journal} <- create(journal), do: flush(journal)
  end

  def flush(%__MODULE__{segment: segment} = journal) do
    case journal.files.sync(segment.device) do
      :ok ->
        {:ok, durable(journal, journal.last)}

      {:error, reason} ->
        {:error, error} = Fault.file("sync", segment.path, reason)
        {:error, error, abandon(journal)}
    end
  end

  defp durable(journal, version) do
    pending = Enum.take_while(journal.pending, fn {_first, last, _bytes} -> last > version end)
    bytes = pending |> Enum.map(fn {_first, _last, bytes} -> IO.iodata_length(bytes) end) |> Enum.sum()
    version = max(version, journal.durable)
    manifest = Manifest.note(journal.manifest, version)
    %{journal | durable: version, manifest: manifest, pending: pending, pending_bytes: bytes, error: nil}
  end

  defp sync_later(%{durability: {:interval, ms}} = journal, size) do
    due(%{journal | pending_bytes: journal.pending_bytes + size}, ms)
  end

  defp due(%{sync: :idle} = journal, after_ms) do
    :ok = journal.background.send_later({__MODULE__, journal.ref, :due}, after_ms)
    %{journal | sync: :due}
  end

  defp due(journal, _after), do: journal

  @doc """
  Takes a message that the owner received. Returns `:unknown` if it is not the journal's.
  """
  @spec info(t, term) :: {:ok, t} | :unknown
  def info(%__MODULE__{ref: ref} = journal, {__MODULE__, ref, message}), do: {:ok, handle(journal, message)}

  # A syncer ends only if something kills it.
  def info(%__MODULE__{monitor: monitor} = journal, {:DOWN, monitor, :process, _pid, _reason})
      when is_reference(monitor) do
    journal = start_syncer(journal)
    {:ok, if(journal.sync == :running, do: due(%{journal | sync: :idle}, 0), else: journal)}
  end

  def info(%__MODULE__{ref: ref} = journal, {{__MODULE__, ref, covered}, result}) do
    {:ok, synced(%{journal | sync: :idle}, covered, result)}
  end

  def info(%__MODULE__{}, _message), do: :unknown

  defp handle(journal, :due) do
    case %{journal | sync: :idle} do
      %{pending: []} = journal -> %{journal | error: nil}
      %{segment: nil} = journal -> sync_new(journal)
      journal -> sync(journal)
    end
  end

  # The sync of an abandoned segment proves nothing: its changes are in the next segment.
  defp synced(%{segment: segment} = journal, {sequence, version}, result) do
    case result do
      _any when segment == nil or segment.sequence != sequence -> rest(journal)
      :ok -> rest(durable(journal, version))
      {:error, error} -> journal |> abandon() |> failed(error)
    end
  end

  defp sync_new(journal) do
    case create(journal) do
      {:ok, journal} -> rest(journal)
      {:error, error, journal} -> failed(journal, error)
    end
  end

  defp sync(%{segment: segment} = journal) do
    :ok =
      journal.background.sync(journal.syncer, segment.path, {__MODULE__, journal.ref, {segment.sequence, journal.last}})

    %{journal | sync: :running}
  end

  defp rest(%{pending: []} = journal), do: journal
  defp rest(%{durability: {:interval, ms}} = journal), do: due(journal, ms)

  # The pending changes are still in memory.
  defp failed(%{durability: {:interval, ms}} = journal, error) do
    if journal.error == nil do
      text = "#{Exception.message(error)}; accepted changes are not on the disk, and are written again"
      Log.error(text)
    end

    due(%{journal | error: error}, max(ms, @retry_after))
  end

  ## Bases

  @doc """
  Returns a function that writes a base: it takes the version and the content, an enumerable of iodata, and returns `:ok` or an
  error of kind `:file`. Any process may call it, while the owner goes on. Then the owner calls `trim/2`, or `rebase/2`.
  """
  @spec base_writer(t) :: (non_neg_integer, Enumerable.t() -> :ok | {:error, Error.t()})
  def base_writer(%__MODULE__{files: files, folder: folder, identity: identity}) do
    &Base.write(files, folder, &1, identity, &2)
  end

  @doc "Gives the next base and the changes after it this identity. `nil` keeps the present one."
  @spec identify(t, binary | nil) :: t
  def identify(journal, nil), do: journal
  def identify(%__MODULE__{} = journal, identity), do: %{journal | identity: identity}

  @doc """
  Removes a base above `last/1` that could not be written. It has its name if only the sync of the folder failed, and would replace
  the changes that the journal accepts from now on.
  """
  @spec remove_base(t, pos_integer) :: :ok
  def remove_base(%__MODULE__{files: files, folder: folder, last: last}, version) when version > last do
    with :ok <- files.delete(Path.join(folder, Segment.digits(version) <> ".base")), do: files.sync_folder(folder)
    :ok
  end

  @doc "Removes the files that a base of this version replaces. The base has been written."
  @spec trim(t, non_neg_integer) :: {:ok, t} | {:error, Error.t(), t}
  def trim(%__MODULE__{} = journal, version) do
    journal = durable(%{journal | kept: max(version, journal.kept)}, min(version, journal.last))
    {kept, superfluous} = Enum.split_with(journal.segments, &(&1.sequence in needed(journal, version)))

    with {:ok, journal} <- clear(journal),
         {:ok, journal} <- if(kept == [], do: forget_segments(journal), else: {:ok, journal}),
         {:ok, bases} <- older_bases(journal, version),
         :ok <- delete(journal.files, for(segment <- superfluous, do: segment.path) ++ bases) do
      {:ok, %{journal | segments: kept}}
    else
      {:error, error, journal} ->
        {:error, error, journal}

      {:error, reason} ->
        {:error, error} = Fault.file("remove files from", journal.folder, reason)
        {:error, error, journal}
    end
  end

  # The manifest must not name a segment that is removed.
  defp forget_segments(journal), do: put_manifest(%{journal | unsettled: nil}, 0)

  defp older_bases(%{files: files, folder: folder}, version) do
    with {:ok, names} <- files.list(folder) do
      {:ok, for(name <- names, number = Segment.number(name, ".base"), number < version, do: Path.join(folder, name))}
    end
  end

  # Without a segment that takes changes, a base of the last version replaces all segments.
  defp needed(%{segment: nil, last: last}, version) when version >= last, do: []

  defp needed(journal, version) do
    for {segment, _last} <- Recovery.needed(journal.segments, version + 1), do: segment.sequence
  end

  defp delete(files, paths) do
    Attempt.each(paths, fn path -> with {:error, :enoent} <- files.delete(path), do: :ok end)
  end

  @doc """
  Continues after a written base with a version above `last/1`. The base replaces all changes, and the next change gets the base's
  version plus one.
  """
  @spec rebase(t, pos_integer) :: {:ok, t} | {:error, Error.t(), t}
  def rebase(%__MODULE__{last: last} = journal, version) when version > last do
    if journal.segment, do: journal.files.close(journal.segment.device)
    journal = %{journal | segment: nil, unsettled: nil, pending: [], pending_bytes: 0}
    trim(%{journal | last: version, durable: version}, version)
  end

  @doc "Brings all changes to the disk, and frees the folder."
  @spec close(t) :: :ok | {:error, Error.t()}
  def close(%__MODULE__{} = journal) do
    case flush(journal) do
      {:ok, journal} ->
        result = settle_manifest(journal)
        release(journal)
        result

      {:error, error, journal} ->
        release(journal)
        {:error, error}
    end
  end

  defp settle_manifest(%{manifest: manifest, durable: durable} = journal) do
    with false <- Manifest.settled?(manifest, durable),
         {:error, error, _journal} <- put_manifest(journal, manifest.segment) do
      {:error, error}
    else
      _settled -> :ok
    end
  end

  @doc "Frees the folder, and leaves it as it is."
  @spec release(t) :: :ok
  def release(%__MODULE__{files: files} = journal) do
    if journal.segment, do: files.close(journal.segment.device)
    Manifest.close(journal.manifest)
    :ok = Lock.release(journal.lock)
    if journal.syncer, do: journal.background.stop(journal.syncer, journal.monitor)
    :ok
  end
end
