defmodule BeTree.Runtime.Native do
  @moduledoc false
  # The stubs of the NIF, wasm/host. Only BeTree.Runtime.Wasmtime calls them, except for charge/1 and the queues of BeTree.Output. They return
  # {:error, kind, message} for a failure, :busy if another call holds the instance, and :vacant if fill/2 must make a
  # replica first. A ticket is nil, the result of queue/2 after its message has arrived, or the result of fill/2.

  # The library is loaded by load/0, not with this module, because the same VM may still have to build it. Until then only load/0,
  # loaded?/0 and charge/1 can be called.

  # The VM ties a library to one version of a module. A reload would leave the new code without a library while the old code
  # exists, so this module refuses to be reloaded.
  @on_load :keep_library

  @doc false
  def keep_library do
    if function_exported?(__MODULE__, :loaded?, 0) and library?(__MODULE__),
      do: {:error, :restart_the_vm_to_load_another_library},
      else: :ok
  end

  @doc "Loads the library if it is not loaded yet. Returns an error with its kind and the reason if it cannot be used."
  @spec load() :: :ok | {:error, :bad_module | :out_of_memory, String.t()}
  def load do
    if library?(__MODULE__), do: engine(), else: load(:code.priv_dir(:be_tree))
  end

  defp engine do
    case engine_error() do
      nil -> :ok
      {:error, kind, reason} -> {:error, kind, "its engine cannot run on this machine: #{reason}"}
    end
  end

  # The module is an argument, because the compiler would conclude from a direct call that only the stub's `false` is returned.
  defp library?(module), do: module.loaded?()

  @doc "Loads the library of a `priv` directory, as `load/0` does."
  @spec load(charlist | Path.t() | {:error, :bad_name}) :: :ok | {:error, :bad_module | :out_of_memory, String.t()}
  def load({:error, :bad_name}), do: {:error, :bad_module, "the application be_tree is not in the code path"}

  def load(priv) do
    case :erlang.load_nif(:filename.join(to_charlist(priv), ~c"native/be_tree_host"), 0) do
      :ok -> engine()
      # Another process loaded it first.
      {:error, {:reload, _text}} -> engine()
      {:error, {_reason, text}} -> {:error, :bad_module, List.to_string(text)}
    end
  end

  @doc "Returns the error for which no module can run on this machine, or `nil`."
  def engine_error, do: :erlang.nif_error(:not_loaded)

  @doc "Returns whether the library is loaded."
  @spec loaded?() :: boolean
  def loaded?, do: false

  # A charge beyond the end of a time slice is lost. In steps of a twentieth of its 4,000 reductions at most 5 % is lost, and
  # half of that on average.
  @reductions_per_charge 200

  @doc "Returns the step of `charge/1`, in reductions: it charges whole steps."
  @spec step() :: pos_integer
  def step, do: @reductions_per_charge

  @doc """
  Charges the calling process for whole steps of `reductions`, at least one step, until its time slice is used up. Returns
  the remaining reductions. Without the library a call charges one step, and with it all steps.
  """
  @spec charge(pos_integer) :: non_neg_integer
  def charge(reductions) do
    :erlang.bump_reductions(@reductions_per_charge)
    reductions - @reductions_per_charge
  end

  @doc """
  Returns `{:ok, module}` if the module with this SHA-256 is compiled and in use. Otherwise returns `:busy`, and later sends
  `{reference, reply}`, with `{:ok, module}` or an error. The first process that asked receives
  `{:ok, module, :built | :cache | :compiled, fault}`: the place of the code, and a text if the cache could not be used.

  `folders` are `{built, cache}`, each the path of a folder with code, or `nil`.
  """
  def compile(_reference, _digest, _bytes, _folders), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the bytes that a module was compiled from."
  def module_bytes(_module), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `[{name, type}]`, with the types of `BeTree.Runtime`."
  def module_exports(_module), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `[{module, name, type}]`."
  def module_imports(_module), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{:ok, instance}`, which begins as the module or as a snapshot that is not `nil`. Runs on a dirty scheduler."
  def instantiate(_module, _snapshot, _memory, _inbox, _outbox, _stop), do: :erlang.nif_error(:not_loaded)

  @doc """
  Returns `{:ok, snapshot}`, a copy of an instance's state, on a dirty scheduler. For a long memory it returns `{:more, copying}`, and
  `snapshot_more/1` copies the next part.
  """
  def snapshot(_instance, _ticket), do: :erlang.nif_error(:not_loaded)

  @doc "Copies the next part. Returns the same as `snapshot/2`."
  def snapshot_more(_copying), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the number of entries of the log that a snapshot contains."
  def snapshot_applied(_snapshot), do: :erlang.nif_error(:not_loaded)

  @doc "Appends an entry, `[{export, integers, input}]`, to the log of replicas. Returns `{:ok, length}`."
  def append(_instance, _entry), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the length of the log, and the greatest number of entries that a free replica lacks."
  def lag(_instance), do: :erlang.nif_error(:not_loaded)

  @doc """
  Makes at most `most` entries in the free replica that lacks most of them, if it lacks at least `lag`. Returns the results of
  `call/3`, or `:none` if there is no such replica.
  """
  def catch_up(_instance, _lag, _most), do: :erlang.nif_error(:not_loaded)

  @doc "Makes replicas begin with a snapshot of one of them, each with a copy of its own. Drops those that are behind it."
  def rebase(_instance, _snapshot), do: :erlang.nif_error(:not_loaded)

  @doc """
  Un-shares an instance, or a free replica: copies the pages that it shares with a snapshot. Runs dirty. Returns `{:ok, shared?}`.
  """
  def settle(_instance, _ticket), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{:ok, snapshot}` of a memory that is zero except for `{address, bytes}` parts. Runs on a dirty scheduler."
  def snapshot_of(_length, _parts), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the number of bytes of a snapshot's memory."
  def snapshot_length(_snapshot), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{:ok, binary}`. Runs on a dirty scheduler."
  def snapshot_read(_snapshot, _address, _length), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{:ok, instance}` of up to `replicas` calls at a time, with `queue` waiting callers. Makes no replica yet."
  def pool(_module, _snapshot, _memory, _inbox, _outbox, _replicas, _queue), do: :erlang.nif_error(:not_loaded)

  @doc "Makes a replica and returns `{:ok, ticket}`, or `:busy` if one has become free. Runs on a dirty scheduler."
  def fill(_instance, _ticket), do: :erlang.nif_error(:not_loaded)

  @doc """
  Runs the first slice of a call. The request is `{export, arguments, input, output, fuel, slice, change?}`.

  Returns `{:done, results, output, fuel}` or `{:yield, suspended, fuel_so_far}` after one slice. If the output is too
  many integers for one list, it is `{:packed, binary}`. If some of many lists are too long, it is `{:packed, lists}` with
  a binary in place of each long one. unpack/3 then makes the lists.

  If its process dies, the call is cut off, or, with `change?`, continues as one of `change/3` does.
  """
  def call(_instance, _ticket, _request), do: :erlang.nif_error(:not_loaded)

  @doc """
  Returns the results of `call/3`, after a slice on a dirty scheduler. If its process dies, the call
  continues for as long as any change takes, and is then asked to give up.
  """
  def change(_instance, _ticket, _request), do: :erlang.nif_error(:not_loaded)

  @doc """
  Returns the results of `call/3`. With a `stop` other than 0 it first asks a change to give up, and to roll back: 1 because its
  timeout passed, 2 because it used too much fuel. A module without a stop word is not asked.
  """
  def resume(_suspended, _stop), do: :erlang.nif_error(:not_loaded)

  @doc "Continues a call of `change/3`, and returns its results. `stop` is that of `resume/2`."
  def resume_change(_suspended, _stop), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `:ok`."
  def cancel(_suspended), do: :erlang.nif_error(:not_loaded)

  @doc """
  Prepends the last of the first `count` packed integers to the list, as many as one call may.
  Returns `{list, left}`, where `left` is the number of remaining integers. Charges the calling process.
  """
  def unpack(_packed, _count, _list), do: :erlang.nif_error(:not_loaded)

  @doc """
  Returns `{:ok, ticket}`. The host sends `{reference, :ready}` at the caller's turn, which lasts until it is used,
  withdrawn or forgotten.
  """
  def queue(_instance, _reference), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `:ok`. The ticket is then invalid."
  def withdraw(_ticket), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{:ok, binary}`. Runs on a dirty scheduler."
  def read(_instance, _ticket, _address, _length), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `:ok`. Runs on a dirty scheduler."
  def write(_instance, _ticket, _address, _bytes), do: :erlang.nif_error(:not_loaded)

  @doc "Replaces an instance by `fresh`, when no call has it, if the export then returns other than 0. Returns `:ok`. Runs dirty."
  def renew(_instance, _fresh, _export), do: :erlang.nif_error(:not_loaded)

  @doc "Returns a place for an instance that replaces another one at one version."
  def place, do: :erlang.nif_error(:not_loaded)

  @doc "Returns `:ok`."
  def place_put(_place, _version, _instance), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the instance of this version, or `nil`."
  def place_get(_place, _version), do: :erlang.nif_error(:not_loaded)

  @doc "Returns `{bytes, limit, :free | :running | :suspended | :broken, waiting, machines}`."
  def info(_instance), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the numbers of live `{modules, instances, suspended_calls}`."
  def counts, do: :erlang.nif_error(:not_loaded)

  @doc "Returns the `{mappings, descriptors}` that live values have taken from their quotas."
  def taken, do: :erlang.nif_error(:not_loaded)

  # The queue of a BeTree.Output (wasm/host/src/output). Amounts are `bytes` and `messages`, and `overflow` is :block, :drop_new,
  # :drop_old or :disconnect. The functions with "dirty" run on a dirty scheduler.

  @doc "Returns a queue with these limits."
  def output_new(_page, _bytes, _messages, _overflow), do: :erlang.nif_error(:not_loaded)

  @doc "Replaces the limits. Returns the number of changes, which senders pass as `epoch`."
  def output_configure(_queue, _page, _bytes, _messages, _overflow), do: :erlang.nif_error(:not_loaded)

  @doc "Returns a sender for one process."
  def output_sender(_queue), do: :erlang.nif_error(:not_loaded)

  @doc """
  Appends a binary. Returns `:ok`, or `:wake` if the writer must be woken. Otherwise the message is not appended: `:full`,
  `:dropped`, `:disconnected`, `:closed` or `:stale`. `turn?`: the writer woke this sender, which waited for room.
  """
  def output_append(_sender, _message, _epoch, _turn?), do: :erlang.nif_error(:not_loaded)

  @doc "Appends text as `output_append/4` does. Returns `:invalid` for bytes that are no UTF-8."
  def output_append_text(_sender, _message, _epoch), do: :erlang.nif_error(:not_loaded)

  @doc "Does what `output_append/4` does, dirty."
  def output_append_long(_sender, _message, _epoch, _turn?), do: :erlang.nif_error(:not_loaded)

  @doc """
  Appends binaries from the head of a list. Returns `{result, wake?, number}`: the first result that is not `:ok`, or `:ok`, and the
  number of appended messages, at least one if the result is `:ok`. With `text?` it is `:invalid`, and nothing is appended, if any of them
  is no UTF-8.
  """
  def output_append_many(_sender, _messages, _epoch, _text?), do: :erlang.nif_error(:not_loaded)

  @doc "Ends the sender of a process that ended."
  def output_end(_sender), do: :erlang.nif_error(:not_loaded)

  @doc """
  Moves open pages into the queue after `linger` microseconds. Returns `{next, stuck?}`: the microseconds until the next page is
  due, or `nil`, and whether due pages have no room.
  """
  def output_sweep(_queue, _linger), do: :erlang.nif_error(:not_loaded)

  @doc "Moves all open pages into the queue, dirty. Returns the number at which `output_left/1` has left them behind."
  def output_flush(_queue), do: :erlang.nif_error(:not_loaded)

  @doc "Returns how many messages have left the queue."
  def output_left(_queue), do: :erlang.nif_error(:not_loaded)

  @doc """
  Takes pages of about `bytes`. Returns `{pages, bytes, messages, dropped}` or `nil`. With `lengths?` a page is `{binary, lengths}`.
  """
  def output_next(_queue, _bytes, _lengths?), do: :erlang.nif_error(:not_loaded)

  @doc "Counts the taken pages as delivered or lost. Returns the age of the oldest of them in microseconds."
  def output_settle(_queue, _delivered?), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the room for waiting senders: `{bytes, messages}`, `:empty` for any size, or `nil` during an overload."
  def output_room(_queue), do: :erlang.nif_error(:not_loaded)

  @doc "Sets whether senders wait."
  def output_waiting(_queue, _waiting?), do: :erlang.nif_error(:not_loaded)

  @doc "Closes the queue, dirty. Its messages count as dropped or as lost."
  def output_close(_queue, _dropped?), do: :erlang.nif_error(:not_loaded)

  @doc "Opens a closed queue again."
  def output_reopen(_queue), do: :erlang.nif_error(:not_loaded)

  @doc "Returns the counts, dirty, in the order of `BeTree.Output.Stats`, and whether the queue is overloaded."
  def output_counts(_queue), do: :erlang.nif_error(:not_loaded)
end
