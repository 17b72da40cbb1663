defmodule BeTree.Rules.Server.History do
  @moduledoc false
  # The journal of a server of rules, and its recovery.
  #
  # A record is an external term:
  #
  #   * `{:rules, text, lateness, module}` - the first record of a folder, with the digest of the module that makes the operations;
  #   * `{:limits, facts, firings}` - the limits of the operations from here on;
  #   * an operation of `BeTree.Rules.Server.Change`, written before it is made;
  #   * `{:undone, time}` - the operation before was undone. Time moved to `time` if that is not `nil`;
  #   * `{:swap, text}` - other rules.
  #
  # An operation with no `:undone` record after it was made as a whole, under the limits in the journal. So a recovery repeats the
  # operations under those limits, for any present options of the server, and skips the undone ones. Only the last operation may be
  # neither undone nor acknowledged.
  #
  # The operations fire the same rules again, so the notices of a recovery have the same numbers as those of the server, which a base
  # tells.
  #
  # The folder has the module that its base and its records belong to. A version of BeTree with another module recovers with that one,
  # moves the facts to its own, and replaces everything by a base of that. So later versions can read all records above, and call each
  # export of the module that a recovery and a swap call, as they are now.

  @behaviour BeTree.Journal.Owner

  alias BeTree.Call.Instance
  alias BeTree.Journal
  alias BeTree.Journal.Owner
  alias BeTree.Processes.Log
  alias BeTree.{Error, Rules}
  alias BeTree.Error.Attempt
  alias BeTree.Rules.{Module, Swap}
  alias BeTree.Rules.Server.{Base, Change, Kept, Layout, ModuleFile, Subscribers}

  # The maximum memory of a module. A recovery may need more than the server did, because operations that are not in the journal,
  # such as reads, shaped the server's memory.
  @max_memory 0x1_0000_0000
  # An operation that does not fit is repeated with more memory: a quarter more.
  @memory_growth 4

  @type record :: Change.operation() | tuple

  @doc "Appends a record."
  @spec append(Owner.t() | nil, record) :: {:ok, Owner.t() | nil} | {:error, Error.t(), Owner.t()}
  def append(nil, _record), do: {:ok, nil}
  def append(journal, record), do: Owner.append(journal, [:erlang.term_to_binary(record, minor_version: 2)])

  @doc "Returns the rules that the folder of the options holds, their text, the kept notices, and the journal."
  @spec open(map, non_neg_integer | nil, keyword) ::
          {:ok, Rules.t(), String.t(), Kept.t(), Owner.t() | nil} | {:error, Error.t()}
  def open(%{dir: nil, rules: text} = options, number, new) do
    with {:ok, rules} <- Rules.new(text, new),
         do: {:ok, rules, text, kept(options, number, Subscribers.last_notice(options.name, number)), nil}
  end

  def open(%{dir: dir} = options, number, new) do
    dir = IO.chardata_to_string(dir)
    options = %{options | dir: dir} |> Map.put_new(:files, Journal.Disk)

    settings = [
      identity: options.identity,
      durability: options.durability,
      files: options.files,
      base_bytes: options.base_bytes,
      # Operations are quick to repeat, and a base has the memory of all facts.
      base_changes: :infinity
    ]

    case Owner.open(__MODULE__, dir, settings) do
      {:ok, journal} ->
        with {:error, error} <- recover(journal, options, kept(options, number, 0), new) do
          :ok = Owner.release(journal)
          {:error, error}
        end

      {:error, {:identity, other}} ->
        Layout.other_owner(dir, other)

      {:error, error} ->
        {:error, error}
    end
  end

  defp kept(options, number, last), do: Kept.new(options.kept_notices, number, last)

  defp recover(journal, options, kept, new) do
    recovered = Rules.check_new!(new)

    state = %{
      find: &ModuleFile.find(options.files, options.dir, &1, recovered.runtime),
      guest: nil,
      rules: nil,
      text: nil,
      kept: kept,
      # An operation is held until the next record, which may say that it was undone.
      held: nil,
      options: recovered
    }

    with {:ok, state} <- Owner.recover(journal, state),
         {:ok, journal, state} <- make_last(journal, state),
         {:ok, journal, state} <- renew(journal, state, options) do
      finish(journal, state, options, new)
    else
      {:error, error, _journal} -> {:error, error}
      {:error, error} -> {:error, error}
    end
  end

  @impl Owner
  def load_base(content, state) do
    with {:ok, rules, guest, %{text: text, limits: limits} = head} <-
           Base.read(content, state.options, @max_memory, state.find) do
      # Bases from before notices had numbers have none.
      kept = Kept.put_content(state.kept, Map.get(head, :notices, {0, []}))
      limit(%{state | rules: rules, guest: guest, text: text, kept: kept}, limits)
    end
  end

  @impl Owner
  def base({rules, text, kept, new}, version),
    do: Base.prepare(rules, head(text, kept, Rules.check_new!(new)), version)

  # Beside the memory of the rules, a base has their text, their limits and the kept notices.
  defp head(text, kept, options),
    do: %{text: text, limits: Map.take(options, [:facts, :firings, :lateness]), notices: Kept.content(kept)}

  defp limit(state, limits) do
    options = Map.merge(state.options, limits)
    with {:ok, rules} <- Change.set_limits(state.rules, options), do: {:ok, %{state | rules: rules, options: options}}
  end

  @impl Owner
  def repeat(batch, state) do
    Attempt.reduce(batch, state, fn {_version, record}, state ->
      next(:erlang.binary_to_term(record, [:safe]), state)
    end)
  end

  # Folders from before they had a module are of the present one.
  defp next({:rules, text, lateness}, state) do
    with {:ok, guest} <- Module.built_in(state.options.runtime),
         do: next({:rules, text, lateness, ModuleFile.digest(guest)}, state)
  end

  defp next({:rules, text, lateness, module}, %{rules: nil, held: nil} = state) do
    state = put_in(state.options.lateness, lateness)

    with {:ok, guest} <- state.find.(module),
         {:ok, rules} <- compile(guest, text, state.options),
         do: {:ok, %{state | rules: rules, guest: guest, text: text}}
  end

  defp next({:undone, nil}, state), do: {:ok, %{state | held: nil}}
  defp next({:undone, time}, state), do: make(%{state | held: {:advance, time}})

  defp next(record, state) do
    with {:ok, state} <- make(state), do: begin(record, state)
  end

  # Compiles rules without a limit of fuel or time: the limits of the options are for new rules, not for a recovery.
  defp compile(guest, text, options) do
    budget = %{options | fuel: :infinity, timeout: :infinity}

    with {:ok, instance, _warnings} <- Module.compile(guest, @max_memory, Rules.input(text, options), budget),
         do: {:ok, Rules.handle(instance, options)}
  end

  defp begin({:limits, facts, firings}, state), do: limit(state, %{facts: facts, firings: firings})

  defp begin({:swap, text}, state), do: swap(text, state.guest, state)
  defp begin(operation, state), do: {:ok, %{state | held: operation}}

  defp make(%{held: nil} = state), do: {:ok, state}

  defp make(%{held: operation, rules: rules, options: options} = state) do
    case Change.make(rules, operation, options.firings) do
      {:ok, _page, notices} -> {:ok, %{state | held: nil, kept: state.kept |> Kept.add(notices) |> elem(1)}}
      {:error, error, _stopped, _saved} -> with {:ok, state} <- more_memory(error, state), do: make(state)
    end
  end

  defp more_memory(%Error{kind: :out_of_memory}, %{options: %{memory: memory}} = state) when memory < @max_memory,
    do: limit(state, %{memory: min(memory + div(memory, @memory_growth) + 1, @max_memory)})

  defp more_memory(error, _state), do: {:error, error}

  # The last operation may have been undone without a record of that.
  defp make_last(journal, state) do
    case make(state) do
      {:ok, state} ->
        {:ok, journal, state}

      {:error, _refused_once_more} ->
        with {:ok, journal} <- append(journal, {:undone, nil}), do: {:ok, journal, %{state | held: nil}}
    end
  end

  defp swap(text, guest, %{rules: rules, options: options} = state) do
    with {:ok, fresh} <- compile(guest, text, options),
         :ok <- Swap.move_facts(rules, fresh),
         do: limit(%{state | rules: fresh, guest: guest, text: text}, %{})
  end

  # Moves the facts to the present module. The rules are those of the options: the present module may refuse an earlier text.
  defp renew(journal, %{rules: nil} = state, _options), do: {:ok, journal, state}

  defp renew(journal, %{guest: former} = state, %{files: files, dir: dir} = options) do
    with {:ok, present} <- Module.built_in(state.options.runtime),
         :ok <- ModuleFile.keep(files, dir, present),
         {:ok, journal, state} <-
           if(former == present, do: {:ok, journal, state}, else: renew(journal, present, state, options)) do
      ModuleFile.remove_others(files, dir, present)
      {:ok, journal, state}
    end
  end

  defp renew(journal, present, state, options) do
    with {:ok, state} <- swap(options.rules, present, state),
         {:ok, payload} <- Base.payload(state.rules, head(state.text, state.kept, state.options)),
         {:ok, journal} <- Owner.replace(journal, Owner.last(journal) + 1, payload) do
      text =
        "the facts in #{options.dir} were moved from the module of another version of BeTree; they have new numbers"

      Log.notice(text)
      {:ok, journal, state}
    end
  end

  defp finish(journal, %{rules: nil, kept: kept}, options, new) do
    with {:ok, rules} <- Rules.new(options.rules, new),
         {:ok, guest} <- Module.built_in(rules.runtime),
         :ok <- ModuleFile.keep(options.files, options.dir, guest),
         record = {:rules, options.rules, Rules.limit(new, :lateness), ModuleFile.digest(guest)},
         {:ok, journal} <- append(journal, record),
         {:ok, journal} <- append_limits(journal, Rules.check_new!(new)),
         do: {:ok, rules, options.rules, kept, journal}
  end

  defp finish(journal, %{rules: rules, text: text, kept: kept, options: recovered}, _options, new) do
    options = Rules.check_new!(new)
    is_same = Map.take(options, [:facts, :firings]) == Map.take(recovered, [:facts, :firings])

    with :ok <- same_lateness(rules, options.lateness),
         {:ok, rules} <- in_memory(rules, options),
         {:ok, rules} <- Change.set_limits(rules, options),
         {:ok, journal} <- if(is_same, do: {:ok, journal}, else: append_limits(journal, options)),
         do: {:ok, rules, text, kept, journal}
  end

  defp same_lateness(rules, lateness) do
    with {:ok, info} <- Rules.info(rules) do
      if info.lateness == lateness do
        :ok
      else
        message =
          "the rules of this folder have lateness: #{info.lateness}, and the server has lateness: #{lateness}; start it with the same, or give " <>
            "it another folder"

        {:error, %Error{kind: :other_schema, message: message}}
      end
    end
  end

  defp append_limits(journal, options), do: append(journal, {:limits, options.facts, options.firings})

  # Returns the rules in an instance that takes as much memory as the options say, or as much as it has already.
  defp in_memory(%{runtime: runtime, instance: instance}, options) do
    with {:ok, guest} <- Module.built_in(runtime),
         {:ok, snapshot} <- runtime.snapshot(instance, :infinity),
         memory = max(options.memory, runtime.info(instance).memory),
         {:ok, instance} <- Instance.instantiate(guest, memory, snapshot),
         do: {:ok, Rules.handle(instance, options)}
  end
end
