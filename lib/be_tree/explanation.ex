defmodule BeTree.Explanation do
  @moduledoc """
  Why a subscription matches an event, or does not: its expression with what each part of it came to.

  Printed, it is a tree:

      no match
      └─ and: false
         ├─ age >= 21: true (age is 30)
         └─ country in ('CA', 'US'): false (country is undefined)

  For programs, `root` is a `BeTree.Explanation.Node`, whose children are nodes; all parts are evaluated, also those
  that a search need not look at. `deciding/1` answers the predicates that settle it.
  """

  alias BeTree.{Answer, Error}
  alias BeTree.Explanation.Node

  @enforce_keys [:id, :match, :root]
  defstruct @enforce_keys

  @typedoc """
    * `id` - the subscription;
    * `match` - whether it matches the event;
    * `root` - its expression, evaluated.
  """
  @type t :: %__MODULE__{id: BeTree.id(), match: boolean, root: Node.t()}

  defmodule Node do
    @moduledoc """
    One part of an expression, and what it came to.

      * `kind` - `:and`, `:or`, `:not`, `:constant` or `:predicate`;
      * `verdict` - what it came to;
      * `children` - the operands of `:and`, `:or` and `:not`, in the order of the text;
      * `attribute` - for a predicate, the name of the attribute that it reads;
      * `text` - for a predicate, its text in canonical form, such as `age >= 21`;
      * `actual` - for a predicate, the attribute's value in the event, or `:undefined`.

    The last three are `nil` for what is no predicate.
    """

    @enforce_keys [:kind, :verdict]
    defstruct [:kind, :verdict, :attribute, :text, :actual, children: []]

    @type t :: %__MODULE__{
            kind: :and | :or | :not | :constant | :predicate,
            verdict: boolean,
            children: [t],
            attribute: String.t() | nil,
            text: String.t() | nil,
            actual: term
          }
  end

  @doc """
  The predicates (and constants) that settle the verdict, in the order of the text.

  Each of them, had it come out the other way, could have changed its part of the answer: of a false `and` the false
  operands, of a true one all; of a true `or` the true operands, of a false one all; of a `not` those of its operand.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert!(tree, 1, "age >= 21 and not (country = 'CA' or age > 65)")
      iex> explanation = BeTree.explain!(tree, %{age: 30, country: "CA"}, 1)
      iex> for node <- BeTree.Explanation.deciding(explanation), do: {node.text, node.verdict, node.actual}
      [{"country = 'CA'", true, "CA"}]
  """
  @spec deciding(t) :: [Node.t()]
  def deciding(%__MODULE__{root: root}), do: settle(root)

  defp settle(%Node{kind: kind} = node) when kind in [:predicate, :constant], do: [node]
  defp settle(%Node{kind: :not, children: [operand]}), do: settle(operand)

  # The operands that came to what their `and` or `or` came to are those that brought it about.
  defp settle(%Node{verdict: verdict, children: children}) do
    Enum.flat_map(children, &if(&1.verdict == verdict, do: settle(&1), else: []))
  end

  @doc false
  # Reads what the guest's be_tree_explain answers (docs/abi.md).
  @spec decode(binary, BeTree.id()) :: {:ok, t} | {:error, Error.t()}
  def decode(binary, id) do
    with {:ok, term} <- Answer.term(binary) do
      root = to_node(term)
      {:ok, %__MODULE__{id: id, match: root.verdict, root: root}}
    end
  catch
    {:not_a_node, term} -> {:error, Answer.bad("an explanation of the wrong shape: #{BeTree.Describe.value(term)}")}
  end

  defp to_node({verdict, :predicate, {attribute, text, actual}, []})
       when is_boolean(verdict) and is_binary(attribute) and is_binary(text) do
    %Node{kind: :predicate, verdict: verdict, attribute: attribute, text: text, actual: actual}
  end

  defp to_node({verdict, :constant, nil, []}) when is_boolean(verdict) do
    %Node{kind: :constant, verdict: verdict}
  end

  defp to_node({verdict, :not, nil, [operand]}) when is_boolean(verdict) do
    %Node{kind: :not, verdict: verdict, children: [to_node(operand)]}
  end

  defp to_node({verdict, kind, nil, [_ | _] = operands}) when is_boolean(verdict) and kind in [:and, :or] do
    %Node{kind: kind, verdict: verdict, children: to_nodes(operands)}
  end

  defp to_node(other), do: throw({:not_a_node, other})

  defp to_nodes([]), do: []
  defp to_nodes([operand | rest]), do: [to_node(operand) | to_nodes(rest)]
  defp to_nodes(other), do: throw({:not_a_node, other})

  @doc """
  The readable tree, without a line break at its end.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert!(tree, 1, "age >= 21 and country in ('CA', 'US')")
      iex> explanation = BeTree.explain!(tree, %{age: 30}, 1)
      iex> BeTree.Explanation.to_string(explanation) |> String.split("\\n")
      ["no match",
       "└─ and: false",
       "   ├─ age >= 21: true (age is 30)",
       "   └─ country in ('CA', 'US'): false (country is undefined)"]
  """
  @spec to_string(t) :: String.t()
  def to_string(%__MODULE__{match: match, root: root}) do
    headline = if match, do: "match", else: "no match"
    IO.iodata_to_binary([headline | branches([root], "\n")])
  end

  # `margin` is a line break and what stands before a branch on each of its lines.
  defp branches([], _margin), do: []

  defp branches([last], margin) do
    [margin, "└─ ", label(last) | branches(last.children, margin <> "   ")]
  end

  defp branches([node | rest], margin) do
    [margin, "├─ ", label(node), branches(node.children, margin <> "│  ") | branches(rest, margin)]
  end

  defp label(%Node{kind: :predicate} = node) do
    "#{node.text}: #{node.verdict} (#{node.attribute} is #{actual(node.actual)})"
  end

  defp label(%Node{kind: :constant, verdict: verdict}), do: "#{verdict}"
  defp label(%Node{kind: kind, verdict: verdict}), do: "#{kind}: #{verdict}"

  defp actual(:undefined), do: "undefined"
  defp actual(value), do: inspect(value, charlists: :as_lists)

  defimpl String.Chars do
    defdelegate to_string(explanation), to: BeTree.Explanation
  end

  defimpl Inspect do
    def inspect(%{id: id} = explanation, _options) do
      "#BeTree.Explanation<#{id}: #{BeTree.Explanation.to_string(explanation)}>"
    end
  end
end
