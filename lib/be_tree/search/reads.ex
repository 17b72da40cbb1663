defmodule BeTree.Search.Reads do
  @moduledoc false
  # Searches and explanations of a single index. `use BeTree.Search.Reads` implements these functions of `BeTree.Target` for trees,
  # published indexes and servers, which differ only in their handles.

  alias BeTree.{Error, Event, Explanation, Search, Target}
  alias BeTree.Call.Instance
  alias BeTree.Input.{Options, Subscription}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id
  alias BeTree.Processes.Deadline
  alias BeTree.Target.View
  alias BeTree.Search.Batch

  @search_options Common.search()
  @search_defaults Map.put(Search.check([]), :stats, false)

  @explain_options Common.explain()
  @read_defaults %{timeout: :infinity, strict: false, on_mismatch: :error}

  @prepare_options Common.prepare()

  # Decoding an event of at most this many bytes takes less time than a slice of a search.
  @max_normal_bytes 16 * 1024

  defmacro __using__(_options) do
    quote do
      defdelegate search(target, event, options), to: BeTree.Search.Reads
      defdelegate run(target, event, options), to: BeTree.Search, as: :run_one
      defdelegate search_many(target, events, options), to: BeTree.Search.Reads
      defdelegate search_each(target, events, options), to: BeTree.Search.Batch, as: :each
      defdelegate explain(target, event, id, options), to: BeTree.Search.Reads
      defdelegate prepare(target, event, options), to: BeTree.Search.Reads
    end
  end

  @doc "Implements `BeTree.search/3`."
  @spec search(BeTree.target(), Event.t(), keyword) ::
          {:ok, Search.found()} | {:ok, Search.found(), BeTree.Stats.t()} | {:error, Error.t()}
  def search(target, event, []) do
    with {:done, ids, _stats} <- Search.run_one(target, event, []), do: {:ok, ids}
  end

  def search(target, event, options) do
    {stats?, options} = @search_defaults |> Options.put!(options, @search_options) |> Map.pop!(:stats)

    with {:done, ids, stats} <- Search.run_checked(target, event, options) do
      if stats?, do: {:ok, ids, stats}, else: {:ok, ids}
    end
  end

  @doc "Implements `BeTree.search_many/3`."
  @spec search_many(BeTree.target(), Enumerable.t(), keyword) :: {:ok, [Search.found()]} | {:error, Error.t()}
  def search_many(target, events, options) do
    options = Search.check(options)

    with %_handle{} = handle <- Target.handle(target), do: Batch.search(handle, events, options)
  end

  @doc "Implements `BeTree.explain/4`."
  @spec explain(BeTree.target(), Event.t(), BeTree.id(), keyword) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(target, event, id, options) do
    options = Options.put!(@read_defaults, options, @explain_options)
    deadline = Deadline.new(options.timeout)

    with %_handle{runtime: runtime, instance: instance} = handle <- Target.handle(target),
         {:ok, number} <- number(handle, id),
         {:ok, format, bytes} <- Event.encode(event, options) do
      arguments = [format, byte_size(bytes), Id.signed(number)]

      case Instance.call(runtime, instance, "be_tree_explain", arguments, bytes, timeout: Deadline.left(deadline)) do
        {:ok, output} -> Explanation.decode(output, id)
        # The guest names the number.
        {:error, %Error{kind: :not_found}} -> {:error, Subscription.not_found(id)}
        {:error, error} -> {:error, error}
      end
    end
  end

  @doc "Implements `BeTree.Event.prepare/3`."
  @spec prepare(BeTree.target(), Event.t(), keyword) :: {:ok, Event.Prepared.t()} | {:error, Error.t()}
  def prepare(target, event, options) do
    %{timeout: timeout} = options = Options.put!(@read_defaults, options, @prepare_options)

    with {:ok, format, bytes} <- Event.encode(event, options),
         %_handle{runtime: runtime, instance: instance} <- Target.handle(target) do
      scheduler = if byte_size(bytes) <= @max_normal_bytes, do: :normal, else: :dirty
      arguments = [format, byte_size(bytes)]
      call = [scheduler: scheduler, timeout: timeout]

      with {:ok, prepared} <- Instance.call(runtime, instance, "be_tree_prepare", arguments, bytes, call),
           do: {:ok, %Event.Prepared{bytes: prepared}}
    end
  end

  # Returns the number under which the guest has a subscription.
  defp number(%View{} = view, id), do: View.number(view, id)
  defp number(_handle, id), do: with(:ok <- Id.check(id, :integer), do: {:ok, id})
end
