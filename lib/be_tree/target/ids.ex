defmodule BeTree.Target.Ids do
  @moduledoc false
  # The numbers of a server's ids, if these are terms. The sandbox knows numbers only.
  #
  # Everything but the sandbox has a *key* for a subscription: the id itself if ids are integers, and otherwise `{number, term}`.
  # The rows of the log, the texts, the journal, its bases and the messages to followers have keys. So the tables of numbers can be
  # rebuilt from any of them, and are stored nowhere else.
  #
  # The server's process gives a term a number when it first sees it, before any replica can find the number. Numbers are never
  # reused: they count up from the time in microseconds at which the tables were made. So a restarted server does not repeat numbers
  # that a follower may still have, and a search never returns a wrong term. A follower that receives a new index may have two
  # numbers of a term for a while.
  #
  # The row of a deleted subscription stays for some seconds, because a search that began before the deletion may find its number. A
  # search that takes longer finds a number without a term. It then restarts (BeTree.Search), and sees the deletion.

  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Error

  # The milliseconds for which a deleted row stays: by default, and when the terms of all such rows exceed these bytes.
  @release_delay_ms 10_000
  @min_release_delay_ms 1_000
  @max_released_bytes 0x100_0000

  # The milliseconds until the next removal if no row is due, and the maximum rows of one removal: about a millisecond.
  @drop_interval_ms 2_000
  @max_dropped 500

  # The places of the counters.
  @last_number_index 1
  @released_bytes_index 2

  @derive {Inspect, only: [:kind]}
  @enforce_keys [:kind, :terms, :numbers, :released, :counters]
  defstruct @enforce_keys

  @typedoc """
    * `:kind` - the terms that are allowed;
    * `:terms` - a table of `{term, number}`; `:numbers` - one of `{number, term}`;
    * `:released` - the keys that may be gone, in order: `{{milliseconds, number}, bytes}`;
    * `:counters` - the last number, and the bytes of the terms in `:released`.
  """
  @type t :: %__MODULE__{
          kind: :term | :portable,
          terms: :ets.tid(),
          numbers: :ets.tid(),
          released: :ets.tid(),
          counters: :atomics.atomics_ref()
        }

  @type key :: BeTree.id() | {number :: non_neg_integer, term}

  @doc "Returns empty tables. The calling process owns them."
  @spec new(:term | :portable) :: t
  def new(kind) do
    counters = :atomics.new(2, signed: false)
    :atomics.put(counters, @last_number_index, System.os_time(:microsecond))

    %__MODULE__{
      kind: kind,
      terms: :ets.new(:terms, [:bag, :public, read_concurrency: true]),
      numbers: :ets.new(:numbers, [:public, read_concurrency: true]),
      released: :ets.new(:released, [:ordered_set, :public]),
      counters: counters
    }
  end

  ## Keys

  @doc "Returns the kind of ids."
  @spec kind(t | nil) :: Id.kind()
  def kind(nil), do: :integer
  def kind(%__MODULE__{kind: kind}), do: kind

  @doc "Returns the number of a key, which the sandbox has."
  @spec number(key) :: non_neg_integer
  def number({number, _term}), do: number
  def number(id), do: id

  @doc "Returns the id of a key."
  @spec id(key) :: term
  def id({_number, term}), do: term
  def id(id), do: id

  @doc "Returns the key of an id, with a new number if it has none. Only the server's process calls this."
  @spec key(t | nil, term) :: key
  def key(nil, id), do: id

  def key(%__MODULE__{counters: counters} = ids, term) do
    case numbers(ids, term) do
      [] -> put(ids, {:atomics.add_get(counters, @last_number_index, 1), term})
      numbers -> {Enum.max(numbers), term}
    end
  end

  @doc "Gives each id of subscriptions its key."
  @spec add_keys(t | nil, [Subscription.wire()]) :: [Subscription.wire()]
  def add_keys(nil, wires), do: wires
  def add_keys(ids, wires), do: for({id, text, constants} <- wires, do: {key(ids, id), text, constants})

  @doc "Returns the present key of an id, or an error if the server does not know the id."
  @spec present(t | nil, term) :: {:ok, key} | {:error, Error.t()}
  def present(nil, id), do: with(:ok <- Id.check(id, :integer), do: {:ok, id})

  def present(ids, id) do
    case keys(ids, id) do
      [key | _former] -> {:ok, key}
      [] -> not_found(id)
    end
  end

  @doc "Records a key. Returns it."
  @spec put(t | nil, key) :: key
  def put(%__MODULE__{numbers: numbers, terms: terms, counters: counters}, {number, term}) do
    key = {number, Id.copy(term)}

    case :ets.lookup(numbers, number) do
      [^key] ->
        key

      other ->
        # Only a clock that was set back gives a follower another term for a number.
        for {_number, former} <- other, do: :ets.delete_object(terms, {former, number})
        :ets.insert(numbers, key)
        :ets.insert(terms, {elem(key, 1), number})
        if number > :atomics.get(counters, @last_number_index), do: :atomics.put(counters, @last_number_index, number)
        key
    end
  end

  def put(_no_tables, id), do: id

  @doc "Returns all keys of an id, the present one first, or none if the server does not know it."
  @spec keys(t | nil, term) :: [key]
  def keys(nil, id), do: [id]
  def keys(ids, term), do: for(number <- ids |> numbers(term) |> Enum.sort(:desc), do: {number, term})

  defp numbers(%{terms: terms}, term), do: for({_term, number} <- :ets.lookup(terms, term), do: number)

  ## Searches

  @doc "Returns the numbers of ids for the sandbox, each as 8 bytes. Unknown ids have none."
  @spec pack(t, [term]) :: {:ok, binary} | {:error, Error.t()}
  def pack(ids, list), do: pack(list, ids, <<>>)

  defp pack([], _ids, packed), do: {:ok, packed}

  defp pack([term | rest], ids, packed) do
    with :ok <- Id.check(term, ids.kind),
         do: pack(rest, ids, for(number <- numbers(ids, term), into: packed, do: <<number::little-64>>))
  rescue
    # The server has ended, and its tables with it. The search finds that out.
    ArgumentError -> {:ok, packed}
  end

  @doc "Returns the terms of numbers, in the order of terms, or `:gone` if one of them has no term any more."
  @spec terms(t, [non_neg_integer]) :: {:ok, [term]} | :gone
  def terms(%__MODULE__{numbers: table}, numbers) do
    terms(numbers, table, [])
  rescue
    # The server has ended.
    ArgumentError -> :gone
  end

  defp terms([], _table, terms), do: {:ok, Enum.sort(terms)}

  defp terms([number | rest], table, terms) do
    case :ets.lookup(table, number) do
      [{_number, term}] -> terms(rest, table, [term | terms])
      [] -> :gone
    end
  end

  ## Deletions

  @doc "Lets the rows of keys go in some seconds, unless their subscriptions are there then."
  @spec release(t | nil, [key]) :: :ok
  def release(nil, _keys), do: :ok

  def release(%__MODULE__{released: released, counters: counters}, keys) do
    now = System.monotonic_time(:millisecond)

    for {number, term} <- keys do
      bytes = :erlang.external_size(term)
      if :ets.insert_new(released, {{now, number}, bytes}), do: :atomics.add(counters, @released_bytes_index, bytes)
    end

    :ok
  end

  @doc "Releases all keys that are not in the table `texts`."
  @spec sweep(t | nil, :ets.tid()) :: :ok
  def sweep(nil, _texts), do: :ok

  def sweep(%__MODULE__{numbers: numbers} = ids, texts) do
    gone = fn key, gone -> if :ets.member(texts, key), do: gone, else: [key | gone] end
    release(ids, :ets.foldl(gone, [], numbers))
  end

  @doc """
  Removes at most `most` rows that were released some seconds ago, except rows whose keys are in the table `texts`. If released rows
  remain, the calling process later gets the message `:drop`. `expected` says whether such a message is on its way already. Returns
  whether one is on its way now.
  """
  @spec drop(t | nil, :ets.tid(), non_neg_integer, boolean) :: boolean
  def drop(nil, _texts, _most, expected), do: expected

  def drop(ids, texts, most, expected) do
    case remove(ids, texts, most) do
      :none ->
        expected

      rest ->
        unless expected, do: Process.send_after(self(), :drop, if(rest == :due, do: 1, else: @drop_interval_ms))
        true
    end
  end

  # Returns whether rows are left that are due now, or later.
  defp remove(%__MODULE__{released: released} = ids, texts, most) do
    key = :ets.first(released)

    cond do
      key == :"$end_of_table" -> :none
      not due?(key, ids) -> :later
      most == 0 -> :due
      true -> remove(ids, key, texts, most)
    end
  end

  defp due?({milliseconds, _number}, %{counters: counters}) do
    delay =
      if :atomics.get(counters, @released_bytes_index) > @max_released_bytes,
        do: @min_release_delay_ms,
        else: @release_delay_ms

    System.monotonic_time(:millisecond) - milliseconds >= delay
  end

  defp remove(ids, {_milliseconds, number} = released, texts, most) do
    [{^released, bytes}] = :ets.take(ids.released, released)
    :atomics.sub(ids.counters, @released_bytes_index, bytes)

    with [{^number, term} = key] <- :ets.lookup(ids.numbers, number), false <- :ets.member(texts, key) do
      :ets.delete_object(ids.terms, {term, number})
      :ets.delete(ids.numbers, number)
    end

    remove(ids, texts, most - 1)
  end

  @doc "Returns the rows that `drop/4` removes at most for a message `:drop`."
  @spec max_dropped() :: pos_integer
  def max_dropped, do: @max_dropped

  ## Descriptions

  @doc "Returns the id of a key as text, for a message."
  @spec text(key) :: String.t()
  def text(key), do: key |> id() |> Describe.value()

  @spec not_found(term) :: {:error, Error.t()}
  def not_found(id), do: {:error, Subscription.not_found(id)}

  @doc "Returns the number of terms and the bytes of the tables, or `nil` for integers."
  @spec info(t | nil) :: %{count: non_neg_integer, bytes: non_neg_integer} | nil
  def info(nil), do: nil

  def info(%__MODULE__{terms: terms, numbers: numbers, released: released}) do
    words = Enum.sum(for table <- [terms, numbers, released], do: :ets.info(table, :memory))
    %{count: :ets.info(numbers, :size), bytes: words * :erlang.system_info(:wordsize)}
  end
end
