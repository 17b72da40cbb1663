defmodule BeTree.Search do
  @moduledoc """
  A search that the caller starts, resumes slice by slice, or cancels.

  `BeTree.search/3` runs a search to its end. With this module the caller can do other work between slices:

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 3}, slice: 1_000)
      iex> finish = fn
      ...>   {:yield, search}, finish -> finish.(BeTree.Search.resume(search), finish)
      ...>   {:done, ids, _stats}, _finish -> ids
      ...> end
      iex> finish.({:yield, search}, finish)
      [1, 2]

  A slice runs on the scheduler of the calling process and ends when its fuel is used up. The process is then charged one
  reduction for each `fuel_per_reduction` fuel (`BeTree.Fuel`), so the scheduler preempts a search as it preempts Erlang
  code of the same length. Fuel that does not fill a reduction counts in the next slice: in total, a search is charged its
  fuel, divided and rounded up. A list of more than 8,192 ids is made in parts of that length. An event or a result of more
  than 256 KiB is copied in parts. Each part is charged one time slice more.

  Ids and fuel are the same for every slice.

  ## Options

  #{BeTree.Input.Options.docs(BeTree.Input.Options.Common.take([:fuel, :slice, :timeout, :ids, :as, :strict, :on_mismatch]))}

  ## Forms of the ids

  Two forms make no list, for callers that pass ids on or combine them:

    * `:binary` holds the ids in ascending order, each as a little-endian unsigned 64-bit integer.
      `for <<id::little-64 <- binary>>, do: id` makes the list;
    * `:bitmap` holds one bit per id from 0 on, the lowest bit of the first byte first, in whole words of 8 bytes, up to the
      greatest matching id. `:binary.decode_unsigned(bitmap, :little)` makes an integer of it, so `Bitwise` combines the
      results of several searches. It holds ids below 1,048,576, or below 64 times the number of subscriptions if that is
      more. When a greater id matches, the search returns an error of kind `:out_of_bounds`.

  The same tree in both forms:

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age > 3"}, {2, "age > 4"}, {9, "age > 5"}])
      iex> BeTree.search(tree, %{age: 5}, as: :binary)
      {:ok, <<1::little-64, 2::little-64>>}
      iex> BeTree.search(tree, %{age: 6}, as: :bitmap)
      {:ok, <<0b0000_0110, 0b0000_0010, 0, 0, 0, 0, 0, 0>>}

  ## Trees and indexes

  A tree runs one search at a time. Other processes wait until the search is done or cancelled. The process that holds the
  search gets an error of kind `:overloaded` when it starts another one. A published index runs as many searches as it has
  replicas (`BeTree.Index`). Any process may resume a search, with the value that the last slice returned. A search that no
  process refers to any more is cancelled.
  """

  alias BeTree.{Error, Event, Fuel, Stats, Target, Telemetry}
  alias BeTree.Call.{Reply, Slices}
  alias BeTree.Input.{Check, Options}
  alias BeTree.Processes.{Deadline, Heap}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id
  alias BeTree.Target.{Ids, View}

  @enforce_keys [:slices, :span, :as, :counted]
  # `terms`: the arguments with which a search of a server with terms for ids restarts, nil for other searches.
  defstruct @enforce_keys ++ [:terms]

  @typedoc "A search that yielded. Its fields are private."
  @type t :: %__MODULE__{}

  @typedoc "An option, described above."
  @type option ::
          {:fuel, Fuel.budget()}
          | {:slice, Fuel.budget()}
          | {:timeout, timeout}
          | {:ids, [BeTree.id()]}
          | {:as, form}
          | {:strict, boolean}
          | {:on_mismatch, BeTree.Domain.on_mismatch()}

  @type form :: :list | :binary | :bitmap

  @typedoc "The matching ids: a list, or a binary, by the option `:as`."
  @type found :: [BeTree.id()] | binary

  @typedoc "The outcome of a slice: the search yielded, is done, or failed and is gone."
  @type outcome :: {:yield, t} | {:done, found, Stats.t()} | {:error, Error.t()}

  @options Common.take([:fuel, :slice, :timeout, :ids, :as, :strict, :on_mismatch])
  @defaults Map.merge(Slices.defaults(), %{ids: nil, as: :list, strict: false, on_mismatch: :error})

  @doc """
  Starts a search and runs its first slice.

  Returns `{:error, error}` with the kinds of `BeTree.search/3`; `:timeout` then concerns the wait for a turn. Raises an
  `ArgumentError` for an unknown or wrong option.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:done, [1], stats} = BeTree.Search.start(tree, %{age: 30})
      iex> stats.slices
      1
  """
  @spec start(BeTree.target(), Event.t(), [option]) :: outcome
  def start(target, event, options \\ []), do: start_checked(target, event, check(options))

  defp start_checked(target, event, options) do
    with %_handle{} = handle <- Target.handle(target), do: start_in(handle, event, options)
  end

  defp start_in(%{runtime: runtime} = handle, event, options) do
    search = %__MODULE__{
      slices: Slices.new(runtime, &runtime.resume/1, handle.fuel_per_reduction, options),
      span: Telemetry.start(handle),
      as: options.as,
      counted: counted?(handle, options),
      terms: terms(handle, event, options)
    }

    Telemetry.observe(search, fn -> first_slice(search, handle, event, options) end)
  end

  defp terms(%View{ids: %Ids{}} = view, event, options), do: %{view: view, event: event, options: options, packed: ""}
  defp terms(_handle, _event, _options), do: nil

  defp first_slice(search, handle, event, options) do
    with {:ok, format, bytes} <- Event.encode(event, options),
         {:ok, packed, ids_length} <- pack_ids(handle, options) do
      arguments = [format, byte_size(bytes), ids_length, number(options.as, search.counted)]

      output = if(options.as == :list, do: :u64s, else: :binary)

      handle
      |> call(arguments, input(bytes, packed), output, options, Telemetry.waited(handle))
      |> Slices.settle(search.slices)
      |> outcome(with_packed(search, packed))
    end
  end

  defp call(%{runtime: runtime} = handle, arguments, input, output, options, waited) do
    runtime.call(handle.instance, "be_tree_search", arguments, %{
      input: input,
      output: output,
      fuel: options.fuel,
      slice: Slices.fuel_of_slice(options, runtime),
      scheduler: :normal,
      timeout: options.timeout,
      waited: waited
    })
  end

  defp with_packed(%{terms: nil} = search, _packed), do: search
  defp with_packed(%{terms: terms} = search, packed), do: %{search | terms: %{terms | packed: packed}}

  @doc """
  Runs the next slice of a search that yielded.

  Returns `{:error, error}` with the kinds of `start/3`, `:timeout` when the search took too long, and `:not_found` when the
  search is done or was cancelled.

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 1}, slice: 1_000, timeout: 0)
      iex> {:error, error} = BeTree.Search.resume(search)
      iex> error.kind
      :timeout
  """
  @spec resume(t) :: outcome
  def resume(%__MODULE__{slices: slices} = search) do
    Telemetry.observe(search, fn -> slices |> Slices.resume() |> outcome(search) end)
  end

  def resume(other), do: Check.expected!("a BeTree.Search", other)

  @doc """
  Cancels a search. Its tree is free for the next call.

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 2}, slice: 1_000)
      iex> BeTree.Search.cancel(search)
      :ok
      iex> BeTree.search(tree, %{age: 2})
      {:ok, [1]}
  """
  @spec cancel(t) :: :ok
  def cancel(%__MODULE__{slices: slices}), do: Slices.cancel(slices)
  def cancel(other), do: Check.expected!("a BeTree.Search", other)

  @doc """
  Runs a search to its end, slice by slice. Takes the arguments of `start/3`, and returns its outcomes except the yield.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:done, ids, %BeTree.Stats{}} = BeTree.Search.run(tree, %{age: 30}, fuel: 1_000_000)
      iex> ids
      [1]
  """
  @spec run(BeTree.target(), Event.t(), [option]) :: {:done, found, Stats.t()} | {:error, Error.t()}
  def run(target, event, options \\ []), do: Target.run(target, event, options)

  @doc false
  # Like `run/3`, for a single index.
  @spec run_one(BeTree.target(), Event.t(), [option]) :: {:done, found, Stats.t()} | {:error, Error.t()}
  def run_one(target, event, options), do: finish(start(target, event, options))

  @doc false
  # Returns the ids of a search of a server with integers for ids, with options that `check/1` returned and lists as their form. A
  # search that ends in its first slice and has no telemetry makes no struct, which saves half a microsecond.
  @spec ids_in_server(BeTree.Server.name(), Event.t(), Slices.options()) :: {:ok, [BeTree.id()]} | {:error, Error.t()}
  def ids_in_server(name, event, options) do
    if Telemetry.enabled?() do
      with {:done, ids, _stats} <- run_checked(name, event, options), do: {:ok, ids}
    else
      with %View{} = view <- Target.handle(name), do: ids_in_view(view, event, options)
    end
  end

  defp ids_in_view(%View{runtime: runtime, ids: nil} = view, event, options) do
    with {:ok, format, bytes} <- Event.encode(event, options) do
      counted = counted?(view, options)
      outcome = call(view, [format, byte_size(bytes), -1, number(:list, counted)], bytes, :u64s, options, nil)

      case outcome do
        {:done, 0, [_visited, _evaluated | ids], fuel} when not counted ->
          Slices.charge_whole(fuel, view.fuel_per_reduction)
          {:ok, ids}

        outcome ->
          slices = Slices.new(runtime, &runtime.resume/1, view.fuel_per_reduction, options)
          search = %__MODULE__{slices: slices, span: nil, as: :list, counted: counted}
          with {:done, ids, _stats} <- outcome |> Slices.settle(slices) |> outcome(search) |> finish(), do: {:ok, ids}
      end
    end
  end

  @doc false
  # Like `run/3`, with options that `check/1` returned.
  @spec run_checked(BeTree.target(), Event.t(), Slices.options()) :: {:done, found, Stats.t()} | {:error, Error.t()}
  def run_checked(target, event, options), do: finish(start_checked(target, event, options))

  # A search with this many slices mostly finds some thousand ids. Room for a few such lists avoids a garbage collection in every
  # second search. The VM would allocate a larger heap from the system each time.
  @slices_before_room 4
  @words_of_long_results 46_000

  defp finish({:yield, %{as: :list, slices: %{count: @slices_before_room}} = search}) do
    Heap.with_room_in_time(@words_of_long_results, fn -> search |> resume() |> finish() end)
  end

  defp finish({:yield, search}), do: finish(resume(search))
  defp finish(ended), do: ended

  defp outcome({:yield, slices}, search), do: {:yield, %{search | slices: slices}}
  defp outcome({:error, error}, _search), do: {:error, error}

  defp outcome({:done, _status, _output, _slices} = ended, %{terms: nil} = search), do: finished(ended, search.counted)

  defp outcome({:done, _status, _output, slices} = ended, %{terms: %{view: view} = terms} = search) do
    with {:done, numbers, stats} <- finished(ended, search.counted) do
      case named(view.ids, numbers, terms.packed, terms.options) do
        {:ok, ids} -> {:done, ids, stats}
        :gone -> restart(search, slices)
      end
    end
  end

  # A change of a subscription made the result stale. The search restarts with the remaining fuel and time; its statistics are those
  # of the last run.
  defp restart(%{terms: %{view: view, event: event, options: options}} = search, slices) do
    options = %{options | fuel: Slices.left(options.fuel, slices.fuel), timeout: Deadline.left(slices.deadline)}

    with :ok <- Slices.check_left(options.fuel, slices.deadline),
         %View{runtime: runtime} = view <- Target.handle(view.name) do
      slices = Slices.new(runtime, &runtime.resume/1, view.fuel_per_reduction, options)
      first_slice(%{search | slices: slices, terms: terms(view, event, options)}, view, event, options)
    end
  end

  @doc false
  # Returns the terms of the numbers in a result, or `:gone` if the search must restart. `packed` is the result of `pack_ids/2`
  # before the search; a different result now means that the search may have missed a subscription.
  @spec named(Ids.t(), [non_neg_integer], binary, Slices.options()) :: {:ok, list} | :gone
  def named(table, numbers, _packed, %{ids: nil}), do: Ids.terms(table, numbers)

  def named(table, numbers, packed, %{ids: ids}) do
    if Ids.pack(table, ids) == {:ok, packed}, do: Ids.terms(table, numbers), else: :gone
  end

  @doc false
  # Returns whether a search counts mismatched values, which it does if the schema or the call takes them as undefined.
  @spec counted?(%{:forgiving => boolean, optional(atom) => term}, Slices.options()) :: boolean
  def counted?(%{forgiving: forgiving}, %{on_mismatch: on_mismatch}), do: forgiving or on_mismatch == :undefined

  @doc false
  # Decodes the output of a call of be_tree_search that has ended.
  @spec finished({:done, status :: integer, output :: term, Slices.t()}, counted :: boolean) ::
          {:done, found, Stats.t()} | {:error, Error.t()}
  def finished({:done, 0, [visited, evaluated, mismatches | ids], slices}, true),
    do: done(ids, visited, evaluated, mismatches, slices)

  def finished({:done, 0, [visited, evaluated | ids], slices}, false), do: done(ids, visited, evaluated, 0, slices)

  def finished(
        {:done, 0, <<visited::little-64, evaluated::little-64, mismatches::little-64, found::binary>>, slices},
        true
      ),
      do: done(found, visited, evaluated, mismatches, slices)

  def finished({:done, 0, <<visited::little-64, evaluated::little-64, found::binary>>, slices}, false),
    do: done(found, visited, evaluated, 0, slices)

  def finished({:done, 1, refusal, _slices}, _counted) when is_binary(refusal), do: {:error, Reply.refusal(refusal)}

  def finished({:done, status, _output, _slices}, _counted),
    do: {:error, Reply.bad("a search with status #{status} and no list of ids")}

  defp done(found, visited, evaluated, mismatches, %{fuel: fuel, count: count}) do
    stats = %Stats{fuel: fuel, slices: count, visited: visited, evaluated: evaluated, mismatches: mismatches}
    {:done, found, stats}
  end

  @doc false
  # Returns the fuel and the number of slices so far, the only fields that a yield changes.
  @spec used(t) :: {Fuel.t(), non_neg_integer}
  def used(%__MODULE__{slices: %{fuel: fuel, count: count}}), do: {fuel, count}

  @doc false
  # Returns the search as it was when `used/1` returned this pair.
  @spec with_used(t, {Fuel.t(), non_neg_integer}) :: t
  def with_used(%__MODULE__{slices: slices} = search, {fuel, count}) do
    %{search | slices: %{slices | fuel: fuel, count: count}}
  end

  @doc false
  # Returns the number of a form in docs/contributing/abi.md, with or without the count of mismatched values.
  @spec number(form, boolean) :: 0..3
  def number(form, true), do: 2 + number(form, false)
  def number(:bitmap, false), do: 1
  def number(_ids, false), do: 0

  @doc false
  # Returns the packed numbers of the option `:ids`, and their length; -1 stands for all.
  @spec pack_ids(map, %{:ids => list | nil, :as => form, optional(atom) => term}) ::
          {:ok, binary, integer} | {:error, Error.t()}
  def pack_ids(%View{ids: %Ids{}}, %{as: form}) when form != :list do
    message = "the ids of this server are terms, and the form #{inspect(form)} has integers; leave the option :as out"
    {:error, %Error{kind: :type, message: message}}
  end

  def pack_ids(_handle, %{ids: nil}), do: {:ok, <<>>, -1}

  def pack_ids(%View{ids: %Ids{} = table}, %{ids: ids}) do
    with {:ok, packed} <- Ids.pack(table, ids), do: {:ok, packed, byte_size(packed)}
  end

  def pack_ids(_handle, %{ids: ids}) do
    with {:ok, packed} <- pack(ids, <<>>), do: {:ok, packed, byte_size(packed)}
  end

  @doc false
  # Returns the input of a search: the bytes of the event followed by those of the ids.
  @spec input(binary, binary) :: binary
  def input(bytes, <<>>), do: bytes
  # An append would copy a large event without a yield.
  def input(bytes, packed), do: IO.iodata_to_binary([bytes | packed])

  defp pack([], packed), do: {:ok, packed}

  defp pack([id | rest], packed) do
    with :ok <- Id.check(id, :integer), do: pack(rest, <<packed::binary, id::little-64>>)
  end

  @doc false
  # Returns all options, with their defaults, or raises an ArgumentError.
  @spec check([option]) :: Slices.options()
  def check([]), do: @defaults
  def check(options), do: Options.put!(@defaults, options, @options)

  defimpl Inspect do
    def inspect(%{slices: slices}, _options) do
      "#BeTree.Search<#{Slices.count(slices)}, #{slices.fuel} fuel>"
    end
  end
end
