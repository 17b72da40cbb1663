defmodule BeTree.Explanation do
  @moduledoc """
  An explanation shows why a subscription matches an event or not, with the value of each part of the expression.

  It prints as a tree:

      no match
      └─ and: false
         ├─ age >= 21: true (age is 30)
         └─ country in ('CA', 'US'): false (country is undefined)

  The text has at most 200 lines, 20 levels and 64 KB. Omitted parts are noted.

  `root` is a `BeTree.Explanation.Node`, whose children are nodes. All parts are evaluated, even those that a search would
  skip.
  `deciding/1` returns the predicates that decide the result. An explanation has at most 10,000 nodes and about one
  mebibyte;
  a node of kind `:omitted` stands for further operands.

  Where Jason or the module `JSON` of Elixir 1.18 is loaded when BeTree is compiled, both encode explanations, `BeTree.Error` and
  `BeTree.Rules.Notice` as objects. An undefined value is `null`; an omitted one has the field `actual_omitted` with its size. Bytes that
  are no UTF-8 are described. These encoders were tested against protocols that stand in for both libraries, not against the libraries.
  """

  import BeTree.Call.Reply, only: [is_count: 2]

  alias BeTree.Error
  alias BeTree.Call.Reply
  alias BeTree.Input.{Check, Describe}
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
    A node is one part of an expression with its value.

      * `kind` - `:and`, `:or`, `:not`, `:constant`, `:predicate` or `:omitted`;
      * `verdict` - its value;
      * `children` - the operands of `:and`, `:or` and `:not`, in the order of the text;
      * `attribute` - for a predicate, the name of the attribute that it reads;
      * `text` - for a predicate, its text in canonical form, such as `age >= 21`;
      * `actual` - for a predicate, the attribute's value in the event, or `:undefined`. An object in a list is a map by the
        names of attributes. A value above 4 KB is `{:omitted, count}`, with the bytes of the string or the elements of
        the list;
      * `omitted` - for `:omitted`, the number of omitted operands; `verdict` is their combined value.

    A field that does not apply to a node is `nil`.
    """

    @enforce_keys [:kind, :verdict]
    defstruct [:kind, :verdict, :attribute, :text, :actual, :omitted, children: []]

    @type t :: %__MODULE__{
            kind: :and | :or | :not | :constant | :predicate | :omitted,
            verdict: boolean,
            children: [t],
            attribute: String.t() | nil,
            text: String.t() | nil,
            actual: term,
            omitted: pos_integer | nil
          }
  end

  @doc """
  Returns the predicates and constants that decide the result, in the order of the text.

  Of an `and` that is false these are the false operands, of a true one all operands. Of an `or` it is the reverse. Of a
  `not` they are those of its operand.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert!(tree, 1, "age >= 21 and not (country = 'CA' or age > 65)")
      iex> explanation = BeTree.explain!(tree, %{age: 30, country: "CA"}, 1)
      iex> for node <- BeTree.Explanation.deciding(explanation), do: {node.text, node.verdict, node.actual}
      [{"country = 'CA'", true, "CA"}]
  """
  @spec deciding(t) :: [Node.t()]
  def deciding(%__MODULE__{root: root}), do: settle([root], [])
  def deciding(other), do: Check.expected!("a BeTree.Explanation", other)

  # `found`: the deciding nodes so far, in reverse order. One accumulator for all levels avoids copying lists.
  defp settle([], found), do: Enum.reverse(found)

  defp settle([%Node{kind: kind} = node | rest], found) when kind in [:predicate, :constant, :omitted],
    do: settle(rest, [node | found])

  defp settle([%Node{kind: :not, children: children} | rest], found), do: settle(children ++ rest, found)

  # Operands with the same value as their `and` or `or` decide it.
  defp settle([%Node{verdict: verdict, children: children} | rest], found) do
    settle(for(child <- children, child.verdict == verdict, do: child) ++ rest, found)
  end

  @doc false
  # Decodes the reply of the guest's be_tree_explain (docs/contributing/abi.md).
  @spec decode(binary, BeTree.id()) :: {:ok, t} | {:error, Error.t()}
  def decode(binary, id) do
    with {:ok, term} <- Reply.term(binary) do
      root = to_node(term)
      {:ok, %__MODULE__{id: id, match: root.verdict, root: root}}
    end
  catch
    {:not_a_node, term} -> {:error, Reply.bad("an explanation of the wrong shape: #{Describe.kind(term)}")}
  end

  # The deepest values are frequency caps: lists of tuples that contain a tuple.
  @max_value_depth 4

  defp to_node({verdict, :predicate, {attribute, text, actual}, []})
       when is_boolean(verdict) and is_binary(attribute) and is_binary(text) do
    unless value?(actual, @max_value_depth), do: throw({:not_a_node, actual})
    %Node{kind: :predicate, verdict: verdict, attribute: attribute, text: text, actual: actual}
  end

  defp to_node({verdict, :constant, nil, []}) when is_boolean(verdict) do
    %Node{kind: :constant, verdict: verdict}
  end

  defp to_node({verdict, :omitted, count, []}) when is_boolean(verdict) and is_count(count, 1) do
    %Node{kind: :omitted, verdict: verdict, omitted: count}
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

  # Returns whether a value can be printed: integers of 64 bits, and no more levels than an event's values.
  defp value?(integer, _depth) when is_integer(integer), do: integer in -0x8000_0000_0000_0000..0xFFFF_FFFF_FFFF_FFFF
  defp value?(scalar, _depth) when is_binary(scalar) or is_atom(scalar) or is_float(scalar), do: true
  defp value?(tuple, depth) when is_tuple(tuple) and depth > 1, do: values?(Tuple.to_list(tuple), depth - 1)
  defp value?(list, depth) when is_list(list) and depth > 1, do: values?(list, depth - 1)

  defp value?(map, depth) when is_map(map) and depth > 1,
    do: Enum.all?(Map.keys(map), &is_binary/1) and values?(Map.values(map), depth - 1)

  defp value?(_other, _depth), do: false

  defp values?([value | rest], depth), do: value?(value, depth) and values?(rest, depth)
  defp values?(rest, _depth), do: rest == []

  # Bounds of the printed text: its bytes, lines and levels, and the characters of a predicate or a value.
  @max_bytes 60_000
  @max_lines 200
  @max_levels 20
  @max_text_length 1_000

  @doc """
  Returns the explanation as a readable tree of at most 200 lines, 20 levels and 64 KB, with notes on omitted parts. The
  text ends without a line break.

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
    print([{[root], "", 1}], [headline], @max_lines, @max_bytes)
  end

  def to_string(other), do: Check.expected!("a BeTree.Explanation", other)

  # `open` has for each level its remaining nodes, its left margin, and its number.
  defp print([], lines, _left, _bytes), do: lines |> Enum.reverse() |> Enum.join("\n")
  defp print([{[], _margin, _level} | open], lines, left, bytes), do: print(open, lines, left, bytes)

  defp print(_open, lines, left, bytes) when left == 0 or bytes <= 0 do
    print([], ["... (more is left out)" | lines], 0, 0)
  end

  defp print([{[node | rest], margin, level} | open], lines, left, bytes) do
    {branch, below} = if rest == [], do: {"└─ ", "   "}, else: {"├─ ", "│  "}
    line = margin <> branch <> label(node)
    open = [{rest, margin, level} | open]

    cond do
      node.children == [] ->
        print(open, [line | lines], left - 1, bytes - byte_size(line))

      level == @max_levels ->
        line = line <> " (its operands are left out)"
        print(open, [line | lines], left - 1, bytes - byte_size(line))

      true ->
        open = [{node.children, margin <> below, level + 1} | open]
        print(open, [line | lines], left - 1, bytes - byte_size(line))
    end
  end

  defp label(%Node{kind: :predicate} = node) do
    "#{cut(node.text)}: #{node.verdict} (#{cut(node.attribute)} is #{actual(node.actual)})"
  end

  defp label(%Node{kind: :constant, verdict: verdict}), do: "#{verdict}"
  defp label(%Node{kind: :omitted} = node), do: "... (#{node.omitted} operands are left out): #{node.verdict}"
  defp label(%Node{kind: kind, verdict: verdict}), do: "#{kind}: #{verdict}"

  # Truncates a long text to whole characters.
  defp cut(text) when byte_size(text) <= @max_text_length, do: text

  defp cut(<<start::binary-size(@max_text_length), rest::binary>>) do
    "#{String.replace(start, ~r/[\x80-\xff]+\z/, "")}... (more than #{byte_size(rest)} bytes are left out)"
  end

  defp actual(:undefined), do: "undefined"
  defp actual({:omitted, count}), do: "a long value of #{count} bytes or elements"
  defp actual(value), do: cut(inspect(value, charlists: :as_lists, limit: 50, printable_limit: @max_text_length))

  defimpl String.Chars do
    defdelegate to_string(explanation), to: BeTree.Explanation
  end

  defimpl Inspect do
    def inspect(%{id: id} = explanation, _options) do
      "#BeTree.Explanation<#{BeTree.Input.Describe.value(id)}: #{BeTree.Explanation.to_string(explanation)}>"
    end
  end
end
