defmodule BeTree.Workload do
  @moduledoc """
  A workload is a module that generates expressions and events for tests and benchmarks.

  The module streams the expressions and the events, and writes them in one of the two public formats (`BeTree.Files`):

  | name | module | content |
  | --- | --- | --- |
  | `W1` | `BeTree.Workload.W1` | dense trees over all boolean attributes; half of them match |
  | `W2` | `BeTree.Workload.W2` | arbitrary trees with shared parts over many, mostly undefined attributes |
  | `W3` | `BeTree.Workload.W3` | ad targeting: few of many attributes of all types, few matches |
  | `W4` | `BeTree.Workload.W4` | alert routing: very many rules of one shape; ten match, or nearly |
  | `W5` | `BeTree.Workload.W5` | publish/subscribe: long conjunctions over many dimensions |
  | `W8` | `BeTree.Workload.W8` | alert routing by starts, ends and parts of a message |
  | `W9` | `BeTree.Workload.W9` | circles around places |

  The same parameters and seed give the same bytes. Each expression and each event depends only on its own number and the
  seed, so a smaller workload is a prefix of a larger one.

      files = BeTree.Workload.write(BeTree.Workload.W1, %{BeTree.Workload.W1.defaults() | events: 10}, "tmp/w1")
  """

  alias Mix.BeTree.Command

  @typedoc """
  The parameters of a workload: a `:seed`, the numbers of `:expressions` and `:events`, and the other keys of its
  `defaults/0`.
  """
  @type parameters :: %{
          required(:seed) => non_neg_integer,
          required(:expressions) => non_neg_integer,
          required(:events) => non_neg_integer,
          optional(atom) => term
        }

  @typedoc "The files of a workload, with `:schema` and `:constants` if its format has separate files for them."
  @type files :: %{
          required(:expressions) => Path.t(),
          required(:events) => Path.t(),
          optional(:schema) => Path.t(),
          optional(:constants) => Path.t()
        }

  @doc "Returns the default parameters."
  @callback defaults() :: parameters

  @doc "Returns the schema, as `BeTree.new/2` takes it."
  @callback schema(parameters) :: [BeTree.Domain.t()]

  @doc "Returns a lazy stream of the texts of the expressions. Their ids count from 1."
  @callback expressions(parameters) :: Enumerable.t()

  @doc "Returns a lazy stream of the events, as `BeTree.search/3` takes them."
  @callback events(parameters) :: Enumerable.t()

  @doc "Returns the names of the files, each with a lazy stream of its lines as iodata."
  @callback files(parameters) :: [{role :: atom, name :: String.t(), lines :: Enumerable.t()}]

  @doc false
  # Delegates all callbacks but `files/1` to a generator of the library, which calibrates with the same expressions.
  defmacro __using__(generator: generator) do
    quote do
      @behaviour BeTree.Workload

      @impl BeTree.Workload
      defdelegate defaults(), to: unquote(generator)

      @impl BeTree.Workload
      defdelegate schema(parameters), to: unquote(generator)

      @impl BeTree.Workload
      defdelegate expressions(parameters), to: unquote(generator)

      @impl BeTree.Workload
      defdelegate events(parameters), to: unquote(generator)
    end
  end

  @workloads for module <- [
                   __MODULE__.W1,
                   __MODULE__.W2,
                   __MODULE__.W3,
                   __MODULE__.W4,
                   __MODULE__.W5,
                   __MODULE__.W8,
                   __MODULE__.W9
                 ],
                 into: %{},
                 do: {module |> Module.split() |> List.last(), module}

  @doc """
  Returns the workloads by name.

      iex> BeTree.Workload.all() |> Map.keys() |> Enum.sort()
      ["W1", "W2", "W3", "W4", "W5", "W8", "W9"]
  """
  @spec all() :: %{String.t() => module}
  def all, do: @workloads

  @doc """
  Writes the files of `workload` into the folder `folder`, and returns their paths.

  The function makes a missing folder and replaces existing files, each when it is complete. Raises a `Mix.Error` if a file cannot be
  written, and a `File.Error` if the folder cannot be made.

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
    BeTree.Input.Check.path!(folder)
    File.mkdir_p!(folder)

    for {role, name, lines} <- workload.files(parameters), into: %{} do
      path = Path.join(folder, name)
      write_lines(path, lines)
      {role, path}
    end
  end

  @doc false
  @spec write_lines(Path.t(), Enumerable.t()) :: :ok
  def write_lines(path, lines) do
    Command.with_output!(path, [], fn write -> lines |> Stream.chunk_every(500) |> Enum.each(write) end)
  end

  defp check_workload(workload) do
    unless is_atom(workload) and Code.ensure_loaded?(workload) and function_exported?(workload, :files, 1) do
      BeTree.Input.Check.expected!("a module that implements BeTree.Workload", workload)
    end
  end

  # The parameters of a workload are the keys of its defaults.
  defp check_parameters(workload, parameters) do
    unless is_map(parameters) and Enum.all?(Map.keys(workload.defaults()), &is_map_key(parameters, &1)) do
      keys = workload.defaults() |> Map.keys() |> Enum.sort() |> Enum.map_join(", ", &inspect/1)
      BeTree.Input.Check.expected!("a map of parameters with the keys #{keys}", parameters)
    end
  end
end
