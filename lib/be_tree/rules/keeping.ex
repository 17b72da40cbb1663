defmodule BeTree.Rules.Keeping do
  @moduledoc false
  # The operations of a server of rules, and their journal.
  #
  # A record of the journal is the external term of an operation: `{:rules, text, limits}`, the first one of a folder;
  # `{:assert, input}`, `{:retract, id}`, `{:advance, now}`, `{:at, now, operation}`, which moves time first; and `{:swap, text}`. The
  # content of a base is the head, `%{module: digest, text: text, length: bytes}` with its length before it, and then parts of the
  # memory, each after its address and its length.

  alias BeTree.Engine.{CrashReport, Instance, Journal}
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Module, Operation, Page}

  @identity "BeTree rules 1"
  @limits [:memory, :facts, :firings, :notices]
  # The bytes of memory that are read at a time. Zeros are left out in pieces of this size.
  @part 0x1_0000
  @zeros <<0::size(@part)-unit(8)>>

  @type operation :: tuple

  ## Operations

  @doc """
  Makes an operation, until it has fired as many rules as the options of the rules allow. Its notices go to `notify`, page by page.
  """
  @spec make(Rules.t(), operation, keyword, ([Rules.Notice.t()] -> :ok)) :: {:ok, Page.t()} | {:error, Error.t()}
  def make(rules, {:at, now, operation}, new, notify) do
    with {:ok, _page} <- make(rules, {:advance, now}, new, notify), do: make(rules, operation, new, notify)
  end

  def make(rules, operation, new, notify) do
    pages(first(rules, operation), Rules.limit(new, :firings), notify, %Page{operation: nil})
  end

  defp first(rules, {:assert, input}), do: Operation.assert_encoded(rules, input, Rules.default_options())
  defp first(rules, {:retract, id}), do: Operation.retract(rules, id, Rules.default_options())
  defp first(rules, {:advance, now}), do: Operation.advance(rules, now, Rules.default_options())

  defp pages({:error, error}, _most, _notify, _sum), do: {:error, error}

  defp pages({outcome, page}, most, notify, sum) do
    notify.(page.notices)

    sum = %{
      sum
      | ids: sum.ids ++ page.ids,
        firings: sum.firings + page.firings,
        fuel: sum.fuel + page.fuel,
        slices: sum.slices + page.slices,
        last_rule: page.last_rule || sum.last_rule,
        next_due: page.next_due
    }

    cond do
      outcome == :ok -> {:ok, sum}
      sum.firings < most -> pages(Rules.next(page), most, notify, sum)
      true -> {:error, too_many(%{page | firings: sum.firings})}
    end
  end

  defp too_many(%{operation: operation} = page) do
    %Error{
      kind: :out_of_bounds,
      message: "the call fired #{page.firings} rules, as many as the option :firings allows; the next call goes on",
      position: if(operation.kind == :assert, do: operation.position)
    }
  end

  @doc "Returns other rules with the facts of `rules`, for which they do not fire."
  @spec swapped(Rules.t(), String.t(), keyword) :: {:ok, Rules.t()} | {:error, Error.t()}
  def swapped(rules, text, options) do
    with {:ok, info} <- Rules.info(rules),
         {:ok, facts} <- all_facts(rules, Map.keys(info.types)),
         {:ok, fresh} <- Rules.new(text, options),
         :ok <- load(fresh, Operation.encode(facts)),
         :ok <- quietly(info.now, &Operation.advance(fresh, &1, Operation.quiet(Rules.default_options()))),
         do: {:ok, fresh}
  end

  defp load(rules, input), do: done(Operation.assert_encoded(rules, input, Operation.quiet(Rules.default_options())))

  defp quietly(nil, _advance), do: :ok
  defp quietly(now, advance), do: done(advance.(now))

  defp done({:ok, _page}), do: :ok
  defp done({:more, page}), do: done(Rules.next(page))
  defp done({:error, error}), do: {:error, error}

  # The facts of all types, in the order in which they came.
  defp all_facts(rules, types) do
    types
    |> Enum.reduce_while({:ok, []}, fn type, {:ok, all} ->
      case Rules.facts(rules, type) do
        {:ok, facts} -> {:cont, {:ok, facts ++ all}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
    |> case do
      {:ok, facts} ->
        {:ok, for(fact <- Enum.sort_by(facts, & &1.id), do: {fact.type, Map.put(fact.fields, "at", fact.at)})}

      {:error, error} ->
        {:error, error}
    end
  end

  ## The journal

  @doc "Appends an operation."
  @spec append(Journal.t() | nil, operation) :: {:ok, Journal.t() | nil} | {:error, Error.t(), Journal.t()}
  def append(nil, _operation), do: {:ok, nil}
  def append(journal, operation), do: Journal.append(journal, [:erlang.term_to_binary(operation, minor_version: 2)])

  @doc "Returns the rules that the folder of the options holds, their text, and the journal."
  @spec open(map, keyword) :: {:ok, Rules.t(), String.t(), Journal.t() | nil} | {:error, Error.t()}
  def open(%{dir: nil, rules: text}, new) do
    with {:ok, rules} <- Rules.new(text, new), do: {:ok, rules, text, nil}
  end

  def open(options, new) do
    case Journal.open(IO.chardata_to_string(options.dir), identity: @identity, durability: options.durability) do
      {:ok, journal} ->
        with {:error, error} <- recover(journal, options, new) do
          _ = Journal.close(journal)
          {:error, error}
        end

      {:error, {:identity, _other}} ->
        message = "the folder #{options.dir} belongs to something else than rules; give the server another one"
        {:error, %Error{kind: :other_schema, message: message}}

      {:error, error} ->
        {:error, error}
    end
  end

  defp recover(journal, options, new) do
    with {:ok, begun} <- read_base(journal, new),
         {:ok, {rules, text}} <- Journal.reduce(journal, begun, &repeat(&1, &2, new)) do
      {:ok, rules, text, journal}
    else
      {:ok, nil} -> begin(journal, options, new)
      {:error, error} -> {:error, error}
    end
  end

  defp begin(journal, %{rules: text}, new) do
    with {:ok, rules} <- Rules.new(text, new),
         {:ok, journal} <- append(journal, {:rules, text, Keyword.take(new, @limits)}) do
      {:ok, rules, text, journal}
    else
      {:error, error} -> {:error, error}
      {:error, error, _journal} -> {:error, error}
    end
  end

  defp repeat(batch, begun, new) do
    Enum.reduce_while(batch, {:ok, begun}, fn {_version, record}, {:ok, begun} ->
      case again(:erlang.binary_to_term(record, [:safe]), begun, new) do
        {:ok, begun} -> {:cont, {:ok, begun}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  defp again({:rules, text, limits}, nil, new) do
    with {:ok, rules} <- Rules.new(text, Keyword.merge(new, limits)), do: {:ok, {rules, text}}
  end

  defp again({:swap, text}, {rules, _before}, new) do
    with {:ok, rules} <- swapped(rules, text, new), do: {:ok, {rules, text}}
  end

  # What was refused is refused again.
  defp again(operation, {rules, text}, new) do
    _ = make(rules, operation, new, fn _notices -> :ok end)
    {:ok, {rules, text}}
  end

  ## Bases

  @doc """
  Starts a process, linked to the calling one, that writes a base. It sends `{:kept, pid, {:ok, version} | {:error, error}}`.
  """
  @spec keep(Rules.t(), String.t(), Journal.t()) :: {:ok, pid} | {:error, Error.t()}
  def keep(%{runtime: runtime, instance: instance}, text, journal) do
    with {:ok, guest} <- Module.built_in(runtime),
         {:ok, snapshot} <- runtime.snapshot(instance, :infinity) do
      server = self()
      write = Journal.base_writer(journal)
      version = Journal.last(journal)
      length = runtime.snapshot_length(snapshot)
      head = :erlang.term_to_binary(%{module: digest(guest), text: text, length: length})

      {:ok,
       spawn_link(fn ->
         outcome =
           CrashReport.guard(fn ->
             payload = Stream.concat([[<<byte_size(head)::little-64>>, head]], memory(runtime, snapshot, length))
             with :ok <- write.(version, payload), do: {:ok, version}
           end)

         send(server, {:kept, self(), outcome})
       end)}
    end
  end

  defp memory(runtime, snapshot, length) do
    Stream.flat_map(0..(length - 1)//@part, fn address ->
      case runtime.snapshot_read(snapshot, address, min(@part, length - address)) do
        {:ok, @zeros} -> []
        {:ok, bytes} -> [[<<address::little-64, byte_size(bytes)::little-64>>, bytes]]
        {:error, error} -> raise error
      end
    end)
  end

  defp read_base(journal, new) do
    case Journal.read_base(journal) do
      {:ok, _version, <<size::little-64, head::binary-size(size), parts::binary>>} ->
        restore(:erlang.binary_to_term(head, [:safe]), parts(parts), new)

      :none ->
        {:ok, nil}

      {:error, error} ->
        {:error, error}
    end
  end

  defp parts(""), do: []

  defp parts(<<address::little-64, length::little-64, bytes::binary-size(length), rest::binary>>),
    do: [{address, bytes} | parts(rest)]

  defp restore(%{module: module, text: text, length: length}, parts, new) do
    # The options are checked, and the handle has them, as for new rules.
    with {:ok, rules} <- Rules.new("fact nothing(field: integer)", new),
         {:ok, guest} <- Module.built_in(rules.runtime),
         :ok <- same_module(digest(guest), module),
         {:ok, snapshot} <- rules.runtime.snapshot_of(length, parts),
         {:ok, instance} <- Instance.instantiate(guest, Rules.limit(new, :memory), snapshot),
         do: {:ok, {%{rules | instance: instance}, text}}
  end

  defp same_module(digest, digest), do: :ok

  defp same_module(_this, _other) do
    message =
      "the base of this folder was written by another version of BeTree; start that version, or give the server another folder"

    {:error, %Error{kind: :bad_module, message: message}}
  end

  defp digest(guest), do: :crypto.hash(:sha256, Instance.wasm(guest))
end
