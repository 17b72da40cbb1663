defmodule ErlBetree.Subscriptions do
  @moduledoc false
  # Subscriptions in the form of Erlang programs: checked first, inserted later.

  import BeTree.Input.Limits, only: [is_id: 1, is_i64: 1]

  alias BeTree.Call.Instance
  alias BeTree.Input.Subscription
  alias ErlBetree.{Reference, Tree}

  @doc "Checks a subscription against the tree without inserting it. Returns a reference to it."
  @spec make(Tree.t(), term, term, term) :: {:ok, reference} | :erl_betree.refusal()
  def make(%Tree{tree: tree}, id, constants, expression) do
    with :ok <- check_id(id),
         {:ok, constants} <- encode_constants(constants),
         {:ok, text} <- to_binary(expression),
         input = Subscription.encode([{id, text, constants}]),
         {:ok, _nothing} <-
           Instance.call(tree.runtime, tree.instance, "be_tree_check_as_erl", [byte_size(input)], input) do
      {:ok, Reference.new(:subscription, input)}
    else
      {:error, %BeTree.Error{}} -> {:error, :failed}
      refusal -> refusal
    end
  end

  defp check_id(id) when is_id(id), do: :ok
  defp check_id(_other), do: {:error, :bad_id}

  defp encode_constants(constants) when length(constants) >= 0, do: encode_constants(constants, 0, [])
  defp encode_constants(_other), do: {:error, :bad_constant_list}

  defp encode_constants([], _position, encoded), do: {:ok, Enum.reverse(encoded)}

  defp encode_constants([{name, value} | rest], position, encoded) when is_atom(name) and is_i64(value) do
    encode_constants(rest, position + 1, [{Atom.to_string(name), value} | encoded])
  end

  defp encode_constants([{name, _other} | _rest], position, _encoded) when is_atom(name) do
    {:error, :bad_constant, position, name}
  end

  defp encode_constants(_constants, position, _encoded), do: {:error, :bad_constant, position, :unknown}

  defp to_binary(expression) do
    {:ok, :erlang.iolist_to_binary(expression)}
  rescue
    ArgumentError -> {:error, :bad_binary}
  end

  @doc "Inserts a subscription of `make/4`. Returns `:error` if the tree refuses it."
  @spec insert(Tree.t(), reference) :: :ok | :error
  def insert(%Tree{tree: tree} = held, subscription) do
    input = Reference.open(:subscription, subscription)

    case Instance.call(tree.runtime, tree.instance, "be_tree_insert", [byte_size(input)], input) do
      {:ok, _nothing} -> Tree.count_insertion(held)
      {:error, _error} -> :error
    end
  end
end
