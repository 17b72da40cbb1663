defmodule BeTree.Input.Subscription do
  @moduledoc false
  # Checks a subscription, an expression under an id, before it enters the sandbox. The guest checks the expression itself.

  import BeTree.Input.Limits, only: [is_i64: 1]

  alias BeTree.Error.Attempt
  alias BeTree.Error
  alias BeTree.Input.{Check, Describe, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id

  @options Common.take([:constants])

  @type constants :: [{String.t(), integer}]

  @typedoc "The id is an integer, a term for a server whose ids are terms, or a key (BeTree.Target.Ids) within such a server."
  @type wire :: {term, String.t(), constants}

  @doc "Returns one subscription in the form of docs/contributing/abi.md. Its id is of `kind`."
  @spec new(term, term, keyword, Id.kind()) :: {:ok, wire} | {:error, Error.t()}
  def new(id, expression, options, kind) do
    %{constants: constants} = Options.put!(%{constants: []}, options, @options)

    with :ok <- Id.check(id, kind),
         :ok <- check_expression(expression),
         {:ok, constants} <- check_constants(constants),
         do: {:ok, {id, expression, constants}}
  end

  @doc "Returns one subscription from an element of the list of `BeTree.insert_all/3`."
  @spec new(term, Id.kind()) :: {:ok, wire} | {:error, Error.t()}
  def new({id, expression}, kind), do: new(id, expression, [], kind)
  def new({id, expression, options}, kind) when is_list(options), do: new(id, expression, options, kind)

  def new(other, _kind) do
    refuse(
      :type,
      "a subscription is {id, expression} or {id, expression, options}, got: #{Describe.value(other)}"
    )
  end

  @doc "Returns many subscriptions, in order. An error has the position of the first wrong one."
  @spec new_all(Enumerable.t(), Id.kind()) :: {:ok, [wire]} | {:error, Error.t()}
  def new_all(subscriptions, kind) do
    with :ok <- Check.enumerable(subscriptions, "subscriptions") do
      subscriptions
      |> Stream.with_index()
      |> Attempt.map(fn {subscription, position} ->
        with {:error, error} <- new(subscription, kind), do: {:error, %{error | position: position}}
      end)
    end
  end

  @doc "Returns the list of `ids`, or the error of the first that is no id of `kind`, with its position."
  @spec ids(Enumerable.t(), Id.kind()) :: {:ok, list} | {:error, Error.t()}
  def ids(ids, kind) do
    with :ok <- Check.enumerable(ids, "ids") do
      ids = Enum.to_list(ids)

      case Enum.find_index(ids, &(Id.check(&1, kind) != :ok)) do
        nil ->
          {:ok, ids}

        position ->
          with {:error, error} <- Id.check(Enum.at(ids, position), kind), do: {:error, %{error | position: position}}
      end
    end
  end

  @doc "Returns whether a present subscription, if there is one, has this text and these constants, in any order."
  @spec same?({String.t(), constants}, {:ok, {String.t(), constants}} | :error) :: boolean
  def same?({text, constants}, {:ok, {text, present}}), do: Enum.sort(constants) == Enum.sort(present)
  def same?(_subscription, _present), do: false

  @doc "Returns an error if an id occurs twice in a change."
  @spec check_once([term]) :: :ok | {:error, Error.t()}
  def check_once(ids) do
    case ids -- Enum.uniq(ids) do
      [] -> :ok
      [id | _] -> {:error, twice(id)}
    end
  end

  @doc "Returns the error of an id that stands twice in a list."
  @spec twice(term) :: Error.t()
  def twice(id),
    do: %Error{kind: :duplicate_id, message: "the id #{Describe.value(id)} stands twice in the change; name it once"}

  @doc "Returns the error for an id that no subscription has."
  @spec not_found(term) :: Error.t()
  def not_found(id), do: %Error{kind: :not_found, message: "no subscription has the id #{Describe.value(id)}"}

  defp check_expression(expression) when is_binary(expression), do: :ok

  defp check_expression(expression) do
    refuse(:type, "an expression is a string, got: #{Describe.value(expression)}")
  end

  defp check_constants([]), do: {:ok, []}

  defp check_constants(constants) when is_map(constants),
    do: constants |> Map.to_list() |> Enum.sort() |> check_constants()

  defp check_constants([constant | rest]) do
    with {:ok, constant} <- check_constant(constant),
         {:ok, rest} <- check_constants(rest),
         do: {:ok, [constant | rest]}
  end

  defp check_constants(other) do
    refuse(:type, "constants are a keyword list or a map of integers, got: #{Describe.value(other)}")
  end

  defp check_constant({name, value}) when is_atom(name), do: check_constant({Atom.to_string(name), value})
  defp check_constant({name, value}) when is_binary(name) and is_i64(value), do: {:ok, {name, value}}

  defp check_constant({name, value}) when is_binary(name) and is_integer(value) do
    refuse(
      :out_of_bounds,
      "the constant #{Describe.quoted(name)} is a signed 64-bit integer, got: #{Describe.value(value)}",
      name
    )
  end

  defp check_constant({name, value}) when is_binary(name) do
    refuse(
      :type,
      "the constant #{Describe.quoted(name)} is an integer, got: #{Describe.value(value)}",
      name
    )
  end

  defp check_constant(other) do
    refuse(
      :type,
      "a constant is {name, integer} with an atom or a string for a name, got: #{Describe.value(other)}"
    )
  end

  @doc "Encodes a few subscriptions for be_tree_insert. `BeTree.Call.Insertion` encodes many."
  @spec encode([wire]) :: binary
  def encode(subscriptions), do: :erlang.term_to_binary(subscriptions, minor_version: 2)

  defp refuse(kind, message, attribute \\ nil) do
    {:error, %Error{kind: kind, message: message, attribute: attribute}}
  end
end
