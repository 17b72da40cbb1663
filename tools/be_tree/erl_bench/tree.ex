defmodule BeTree.ErlBench.Tree do
  @moduledoc false
  # Inserts a file of expressions through erl_betree one by one, and reads the events of a file in its form.

  alias BeTree.Files

  @types %{
    boolean: :bool,
    integer: :int,
    integer_enum: :int_enum,
    float: :float,
    string: :bin,
    integer_list: :int_list,
    string_list: :bin_list,
    segments: :segments,
    frequency_caps: :frequency_caps
  }

  @enforce_keys [:betree, :types, :expressions, :build]
  defstruct @enforce_keys

  @typedoc "The tree, the types of its attributes in order, the number of its expressions, and their insertion in us."
  @type t :: %__MODULE__{
          betree: term,
          types: [BeTree.Domain.type()],
          expressions: non_neg_integer,
          build: non_neg_integer
        }

  @spec load!(Path.t()) :: t
  def load!(path) do
    {schema, subscriptions} = read!(path)
    {:ok, betree} = :erl_betree.betree_make([Enum.map(schema, &declaration/1)])
    {build, :ok} = :timer.tc(fn -> Enum.each(subscriptions, &insert!(betree, &1, path)) end)

    %__MODULE__{
      betree: betree,
      types: for(domain <- schema, do: domain.type),
      expressions: length(subscriptions),
      build: build
    }
  end

  # Returns a lazy stream of the events in the file at `path`, each in the form of erl_betree and with its line.
  @spec events(t, Path.t()) :: Enumerable.t()
  def events(%__MODULE__{types: types}, path) do
    path |> Files.events() |> Stream.map(fn {event, line} -> {record(event, types, path, line), line} end)
  end

  defp read!(path) do
    case Files.load(path) do
      {:ok, schema, subscriptions} -> {schema, subscriptions}
      {:error, error} -> raise error
    end
  end

  # Returns an attribute in the form of erl_betree. There are no more atoms than attributes.
  defp declaration(domain) do
    undefined = if domain.optional, do: :allow_undefined, else: :disallow_undefined
    bounds = Enum.reject([domain.min, domain.max, domain.count], &is_nil/1)
    List.to_tuple([String.to_atom(domain.name), @types[domain.type], undefined | bounds])
  end

  defp insert!(betree, {id, text}, path) do
    with {:ok, sub} <- :erl_betree.betree_make_sub(betree, id, [], text),
         :ok <- :erl_betree.betree_insert_sub(betree, sub) do
      :ok
    else
      refused -> raise %Files.Error{path: path, reason: "expression #{id} is refused: #{inspect(refused)}"}
    end
  end

  defp record({:record, values}, types, _path, _line) when length(values) == length(types) do
    [List.to_tuple([:event | Enum.zip_with(values, types, &value/2)])]
  end

  defp record({:record, values}, types, path, line) do
    raise %Files.Error{path: path, line: line, reason: "#{length(values)} values for #{length(types)} attributes"}
  end

  defp record(_json, _types, path, line) do
    raise %Files.Error{path: path, line: line, reason: "expected an event as an Erlang list, [1,0,1]."}
  end

  defp value(1, :boolean), do: true
  defp value(0, :boolean), do: false
  defp value(value, _type), do: value
end
