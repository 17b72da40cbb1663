defmodule BeTree.Input.Options.Common do
  @moduledoc false
  # The options of calls that more than one public function takes. BeTree.Call.InstanceOptions has those of instances.

  alias BeTree.Input.Check

  @doc "Returns the definitions of these options, in this order."
  @spec take([atom]) :: BeTree.Input.Options.definitions()
  def take(names), do: for(name <- names, do: {name, definition(name)})

  @doc "Returns the definition of the option `:timeout` of calls that wait for their turn, and then run to their end."
  @spec wait() :: BeTree.Input.Options.definitions()
  def wait, do: timeout("milliseconds that the call may wait for the tree or a replica, or `:infinity`")

  @doc "Returns the definitions of the options of functions that delete, or insert many."
  @spec change() :: BeTree.Input.Options.definitions()
  def change do
    timeout(
      "milliseconds until the call ends with the error `:timeout`, or `:infinity`. A tree then rolls the change back, in at most the " <>
        "time of the change so far, or completes a deletion that has begun. A server may still make the change"
    )
  end

  @doc "Returns the definitions of the subscriptions and the ids of a change."
  @spec put_and_delete() :: BeTree.Input.Options.definitions()
  def put_and_delete do
    [
      put: [type: :any, default: [], doc: "subscriptions to insert, or to replace where their ids exist"],
      delete: [type: :any, default: [], doc: "ids to delete. All of them must exist"]
    ]
  end

  @doc "Returns the definitions of the options of functions that insert or put one subscription."
  @spec insert() :: BeTree.Input.Options.definitions()
  def insert, do: take([:constants]) ++ change()

  @doc "Returns the definitions of the options of a search."
  @spec search() :: BeTree.Input.Options.definitions()
  def search, do: take([:fuel, :slice, :timeout, :ids, :as, :strict, :on_mismatch, :stats])

  @doc "Returns the definitions of the options of an explanation."
  @spec explain() :: BeTree.Input.Options.definitions()
  def explain, do: wait() ++ take([:on_mismatch])

  @doc "Returns the definitions of the options of functions that prepare an event."
  @spec prepare() :: BeTree.Input.Options.definitions()
  def prepare, do: wait() ++ take([:strict, :on_mismatch])

  @doc "Returns the definition of the option `:on_mismatch` of functions that take a schema."
  @spec on_mismatch_of_schema() :: BeTree.Input.Options.definitions()
  def on_mismatch_of_schema do
    doc =
      "the option of the optional attributes that do not have it (`BeTree.Domain`). With `:undefined`, a value of an event that " <>
        "does not fit such an attribute counts as undefined. With `:error` it is an error that names the attribute"

    [on_mismatch: Keyword.put(definition(:on_mismatch), :doc, doc)]
  end

  @doc "Returns the definition of the option `:timeout` with this text."
  @spec timeout(String.t()) :: BeTree.Input.Options.definitions()
  def timeout(doc), do: [timeout: Keyword.put(definition(:timeout), :doc, doc)]

  defp definition(:constants) do
    [type: :any, default: [], doc: "the constants of the expression, such as `[flight_id: 10]`"]
  end

  defp definition(:fuel) do
    [
      type: :budget,
      default: :infinity,
      doc:
        "the budget in fuel, or `:infinity`. When it is used up, the call returns an error of kind `:out_of_fuel` and " <>
          "leaves the index unharmed. The budget is compared once per block of instructions, so a call may exceed it by " <>
          "a few units"
    ]
  end

  defp definition(:slice) do
    [
      type: :budget,
      default: :default,
      default_doc: "300,000, or 5,000,000 on wasmex",
      doc:
        "the fuel of a slice. 300,000 take 15 to 60 microseconds. With `:infinity` the call never yields: a long one " <>
          "then holds its scheduler up"
    ]
  end

  defp definition(:timeout) do
    [
      type: :timeout,
      default: :infinity,
      doc:
        "milliseconds, or `:infinity`. The timeout ends the wait for a turn, and is compared between slices. Past it, " <>
          "the call is cancelled and returns an error of kind `:timeout`"
    ]
  end

  defp definition(:ids) do
    [
      type: {:check, "a list of ids", &Check.proper_list?/1},
      doc: "a list of ids. Only these subscriptions are searched"
    ]
  end

  defp definition(:as) do
    [
      type: {:one_of, [:list, :binary, :bitmap]},
      default: :list,
      doc: "the form of the ids: `:list`, `:binary` or `:bitmap`"
    ]
  end

  defp definition(:strict) do
    [
      type: :boolean,
      default: false,
      doc:
        "with `true`, an event with a name that the schema does not have is an error of kind `:unknown_attribute`, whose message " <>
          "suggests the attribute that may be meant. The names are checked in a pass of their own over the event"
    ]
  end

  defp definition(:on_mismatch) do
    [
      type: {:one_of, [:error, :undefined]},
      default: :error,
      doc:
        "with `:undefined`, a value of an event that does not fit its attribute counts as undefined, unless the attribute is " <>
          "required (`BeTree.Domain`). With `:error` that depends on the attribute"
    ]
  end

  defp definition(:stats) do
    [
      type: :boolean,
      default: false,
      doc: "with `true` the function returns `{:ok, ids, stats}` with a `BeTree.Stats`"
    ]
  end
end
