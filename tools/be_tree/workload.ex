defmodule BeTree.Workload do
  @moduledoc """
  Generated expressions and events, to try an index with and to measure it by.

  A workload is a module that streams the expressions and the events, and knows in which of the two public formats
  (`BeTree.Files`) they are written:

  | name | module | what it is like |
  | --- | --- | --- |
  | `W1` | `BeTree.Workload.W1` | dense trees over all boolean attributes, half of which match |
  | `W2` | `BeTree.Workload.W2` | arbitrary trees with shared parts over many, mostly undefined attributes |
  | `W3` | `BeTree.Workload.W3` | ad targeting: few of many attributes of all types, few matches |
  | `W4` | `BeTree.Workload.W4` | alert routing: very many rules of one shape, of which ten match, or nearly |
  | `W5` | `BeTree.Workload.W5` | publish/subscribe: long conjunctions over many dimensions |

  The same parameters and seed give the same bytes. Each expression and each event is drawn from
  its own number and the seed: of two sizes the smaller one is the beginning of the larger one.

      files = BeTree.Workload.write(BeTree.Workload.W1, %{BeTree.Workload.W1.defaults() | events: 10}, "tmp/w1")
  """

  @typedoc """
  What is generated: a `:seed`, how many `:expressions` and `:events`, and what else the workload's `defaults/0` has.
  """
  @type parameters :: %{
          required(:seed) => non_neg_integer,
          required(:expressions) => non_neg_integer,
          required(:events) => non_neg_integer,
          optional(atom) => term
        }

  @typedoc "The files of a workload; `:schema` and `:constants` where its format has them apart."
  @type files :: %{
          required(:expressions) => Path.t(),
          required(:events) => Path.t(),
          optional(:schema) => Path.t(),
          optional(:constants) => Path.t()
        }

  @doc "The parameters where none are named."
  @callback defaults() :: parameters

  @doc "The attributes, as `BeTree.new/2` takes them."
  @callback schema(parameters) :: [BeTree.Domain.t()]

  @doc "The texts of the expressions, generated as they are asked for. Their ids count from 1."
  @callback expressions(parameters) :: Enumerable.t()

  @doc "The events, as `BeTree.search/3` takes them, generated as they are asked for."
  @callback events(parameters) :: Enumerable.t()

  @doc "The names of the files, and the lines of each as iodata, generated as they are asked for."
  @callback files(parameters) :: [{role :: atom, name :: String.t(), lines :: Enumerable.t()}]

  @workloads for module <- [__MODULE__.W1, __MODULE__.W2, __MODULE__.W3, __MODULE__.W4, __MODULE__.W5],
                 into: %{},
                 do: {module |> Module.split() |> List.last(), module}

  @doc """
  The workloads by name.

      iex> Map.keys(BeTree.Workload.all())
      ["W1", "W2", "W3", "W4", "W5"]
  """
  @spec all() :: %{String.t() => module}
  def all, do: @workloads

  @doc """
  Writes the files of `workload` into the folder `folder`, which is made where it is missing, and answers their paths.

  Files of these names are overwritten. Raises a `File.Error` where that cannot be done.

      iex> folder = Path.join(System.tmp_dir!(), "be_tree_workload_doctest")
      iex> parameters = %{BeTree.Workload.W1.defaults() | expressions: 2, events: 1}
      iex> files = BeTree.Workload.write(BeTree.Workload.W1, parameters, folder)
      iex> {:ok, schema, subscriptions} = BeTree.Files.load(files.expressions)
      iex> File.rm_rf!(folder)
      iex> {length(schema), length(subscriptions)}
      {128, 2}
  """
  @spec write(module, parameters, Path.t()) :: files
  def write(workload, parameters, folder) do
    check_workload(workload)
    check_parameters(workload, parameters)
    BeTree.Engine.Check.path!(folder)
    File.mkdir_p!(folder)

    for {role, name, lines} <- workload.files(parameters), into: %{} do
      path = Path.join(folder, name)
      lines |> Stream.chunk_every(500) |> Stream.into(File.stream!(path)) |> Stream.run()
      {role, path}
    end
  end

  defp check_workload(workload) do
    unless is_atom(workload) and Code.ensure_loaded?(workload) and function_exported?(workload, :files, 1) do
      BeTree.Engine.Check.expected!("a module that implements BeTree.Workload", workload)
    end
  end

  # A workload's own parameters are those of its defaults.
  defp check_parameters(workload, parameters) do
    unless is_map(parameters) and Enum.all?(Map.keys(workload.defaults()), &is_map_key(parameters, &1)) do
      keys = workload.defaults() |> Map.keys() |> Enum.map_join(", ", &inspect/1)
      BeTree.Engine.Check.expected!("a map of parameters with the keys #{keys}", parameters)
    end
  end
end
