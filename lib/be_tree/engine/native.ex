defmodule BeTree.Engine.Native do
  @moduledoc false
  # The stubs of the NIF, wasm/host. But for charge/1 only BeTree.Runtime.Wasmtime calls them and knows what they answer:
  # what fails is {:error, kind, message}, what another call holds up is :busy, and what has to wait for fill/2 is :vacant.
  # A ticket is nil, what queue/2 answered once its message has come, or what fill/2 answered.

  # The library is not loaded with this module: it may be built after it, in the same VM. Nothing but load/0, loaded?/0 and
  # charge/1 can be called before; what the others take comes from compile/3.

  # A library belongs to the code that loaded it. Were this module loaded again, the new code would have none, and could not
  # have it while the old code is there: so that is refused, and the old code goes on.
  @on_load :keep_library

  @doc false
  def keep_library do
    if function_exported?(__MODULE__, :loaded?, 0) and apply(__MODULE__, :loaded?, []),
      do: {:error, :restart_the_vm_to_load_another_library},
      else: :ok
  end

  @doc "Loads the library, if that is not done. An error says why it cannot be used."
  @spec load() :: :ok | {:error, String.t()}
  def load do
    with :ok <- if(loaded?(), do: :ok, else: load(:code.priv_dir(:be_tree))) do
      case engine_error() do
        nil -> :ok
        why -> {:error, "its engine cannot run on this machine: #{why}"}
      end
    end
  end

  defp load({:error, :bad_name}), do: {:error, "the application be_tree is not in the code path"}

  defp load(priv) do
    case :erlang.load_nif(:filename.join(priv, ~c"native/be_tree_host"), 0) do
      :ok -> :ok
      # Another process was quicker.
      {:error, {:reload, _text}} -> :ok
      {:error, {_reason, text}} -> {:error, List.to_string(text)}
    end
  end

  @doc "Why no module can run on this machine, or `nil`."
  def engine_error, do: :erlang.nif_error(:not_loaded)

  @doc "Whether the library is loaded."
  @spec loaded?() :: boolean
  def loaded?, do: false

  # What is charged beyond the end of a time slice is lost. In steps of a twentieth of its 4,000 reductions, no more than
  # 5 % is, and half of that on average.
  @step 200

  @doc "The reductions of which `charge/1` charges a multiple."
  @spec step() :: pos_integer
  def step, do: @step

  @doc """
  Charges the calling process for whole steps of `reductions`, which has one at the least, until its time slice is used up.
  Answers how many reductions are left. Without the library that is one step, with it all of them by one call.
  """
  @spec charge(pos_integer) :: non_neg_integer
  def charge(reductions) do
    :erlang.bump_reductions(@step)
    reductions - @step
  end

  @doc """
  Answers `{:ok, module}` if the module with this SHA-256 is compiled and in use, or `:busy`; then `{reference, answer}` is
  sent, with `{:ok, module}` or an error.
  """
  def compile(_reference, _digest, _bytes), do: :erlang.nif_error(:not_loaded)

  @doc "Whether the calling process waited for this module, and no longer does. Otherwise its answer is sent, or was."
  def withdraw_compile(_digest), do: :erlang.nif_error(:not_loaded)

  @doc "What a module was compiled of."
  def module_bytes(_module), do: :erlang.nif_error(:not_loaded)

  @doc "`[{name, type}]`, with the types of `BeTree.Runtime`."
  def module_exports(_module), do: :erlang.nif_error(:not_loaded)

  @doc "`[{module, name, type}]`"
  def module_imports(_module), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, instance}`, which begins as the module says or as a snapshot, if that is not `nil`; on a dirty scheduler."
  def instantiate(_module, _snapshot, _memory, _inbox, _outbox), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, snapshot}`, a copy of an instance's state; on a dirty scheduler."
  def snapshot(_instance, _ticket), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, snapshot}` of a memory: zeros, but for a list of `{address, bytes}`; on a dirty scheduler."
  def snapshot_of(_length, _parts), do: :erlang.nif_error(:not_loaded)

  @doc "The bytes of a snapshot's memory."
  def snapshot_length(_snapshot), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, binary}`; on a dirty scheduler."
  def snapshot_read(_snapshot, _address, _length), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, instance}` that runs up to `replicas` calls at a time, for which `queue` may wait. Makes no replica yet."
  def pool(_module, _snapshot, _memory, _inbox, _outbox, _replicas, _queue), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, ticket}` for a replica that it made, or `:busy` where one has become free instead; on a dirty scheduler."
  def fill(_instance, _ticket), do: :erlang.nif_error(:not_loaded)

  @doc """
  `{:done, results, output, fuel}`, or `{:yield, suspended, fuel_so_far}`, after one slice. Of integers that are too many to
  be made a list of at once the output is `{:packed, binary}`, and where some of many lists are too long `{:packed, lists}`,
  with a binary in the place of each of these; then comes unpack/3.
  """
  def call(_instance, _ticket, _export, _arguments, _input, _output, _fuel, _slice), do: :erlang.nif_error(:not_loaded)

  @doc """
  What `call/8` answers, after a slice of about a millisecond on a dirty scheduler. Where its process dies, the call goes on
  for as long as any change takes.
  """
  def change(_instance, _ticket, _export, _arguments, _input, _output, _fuel), do: :erlang.nif_error(:not_loaded)

  @doc "Answers what `call/8` does."
  def resume(_suspended), do: :erlang.nif_error(:not_loaded)

  @doc "The same for what `change/7` began."
  def resume_change(_suspended), do: :erlang.nif_error(:not_loaded)

  @doc "`:ok`"
  def cancel(_suspended), do: :erlang.nif_error(:not_loaded)

  @doc """
  `{list, left}`: the last of the first `count` packed integers are in front of the list, no more than can be put there at
  once, and so many are left. Charges the calling process for it.
  """
  def unpack(_packed, _count, _list), do: :erlang.nif_error(:not_loaded)

  @doc """
  `{:ok, ticket}`. `{reference, :ready}` is sent when its turn has come, which lasts until it is used, withdrawn or
  forgotten.
  """
  def queue(_instance, _reference), do: :erlang.nif_error(:not_loaded)

  @doc "`:ok`; the ticket is no longer good."
  def withdraw(_ticket), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, binary}`; on a dirty scheduler."
  def read(_instance, _ticket, _address, _length), do: :erlang.nif_error(:not_loaded)

  @doc "`:ok`; on a dirty scheduler."
  def write(_instance, _ticket, _address, _bytes), do: :erlang.nif_error(:not_loaded)

  @doc "`{:ok, renewed?}`: an instance goes on as `fresh` where its export answers other than 0; on a dirty scheduler."
  def renew(_instance, _ticket, _fresh, _export), do: :erlang.nif_error(:not_loaded)

  @doc "A place for an instance that stands in for another one at one of its versions."
  def place, do: :erlang.nif_error(:not_loaded)

  @doc "`:ok`"
  def place_put(_place, _version, _instance), do: :erlang.nif_error(:not_loaded)

  @doc "The instance of this version, or `nil`."
  def place_get(_place, _version), do: :erlang.nif_error(:not_loaded)

  @doc "`{bytes, limit, :free | :running | :suspended | :broken, waiting, machines}`"
  def info(_instance), do: :erlang.nif_error(:not_loaded)

  @doc "`{modules, instances, suspended_calls}` that are alive."
  def counts, do: :erlang.nif_error(:not_loaded)

  @doc "`{mappings, descriptors}` that what is alive has taken of their quotas."
  def taken, do: :erlang.nif_error(:not_loaded)
end
