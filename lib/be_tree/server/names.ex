defmodule BeTree.Server.Names do
  @moduledoc false
  # Finds the table of a server by its name. A server that is called by an atom has a table of that name. For a `{:via, module,
  # term}` the module finds the server's supervisor, and a table of this module finds the server's table by that process.
  #
  # The process of this module removes the rows of supervisors that ended.

  use BeTree.Processes.Server

  alias BeTree.Input.Describe

  @typedoc "The name or the identifier of a server's table."
  @type table :: atom | :ets.tid()

  # The functions of a module of names, as those of Registry and :global.
  @functions [register_name: 2, send: 2, unregister_name: 1, whereis_name: 1]

  @doc "Makes the table. The calling process owns it."
  @spec new() :: :ets.tid() | atom
  def new, do: :ets.new(__MODULE__, [:named_table, :public, read_concurrency: true])

  @doc """
  Raises an `ArgumentError` if servers cannot have this name because its module lacks functions, or because the application does not run.
  """
  @spec check!(BeTree.Server.name()) :: :ok
  def check!(name) do
    with {:error, message} <- check_module(name), do: raise(ArgumentError, message)

    if not is_atom(name) and :ets.whereis(__MODULE__) == :undefined do
      raise ArgumentError,
            "the name #{Describe.value(name)} needs the application :be_tree, which does not run; start it with " <>
              "Application.ensure_all_started(:be_tree), or name the server by an atom"
    end

    :ok
  end

  @doc "Returns an error with a message if the module of a name cannot register and find processes."
  @spec check_module(BeTree.Server.name()) :: :ok | {:error, String.t()}
  def check_module({:via, module, _term} = name) do
    loaded? = Code.ensure_loaded?(module)

    case Enum.reject(@functions, fn {function, arity} -> loaded? and function_exported?(module, function, arity) end) do
      [] -> :ok
      missing -> {:error, "the name #{Describe.value(name)} is of no use: #{missing(module, loaded?, missing)}"}
    end
  end

  def check_module(_atom), do: :ok

  defp missing(module, false, _functions),
    do: "there is no module #{inspect(module)}; give Registry, :global or one like them"

  defp missing(module, true, functions) do
    "the module #{inspect(module)} lacks #{Enum.map_join(functions, ", ", fn {name, arity} -> "#{name}/#{arity}" end)}; " <>
      "give Registry, :global or one with the same functions"
  end

  @doc "Records the table of the server whose supervisor is the calling process."
  @spec register(:ets.tid()) :: :ok
  def register(table) do
    :ets.insert(__MODULE__, {self(), table})
    GenServer.cast(__MODULE__, {:monitor, self()})
  end

  @doc """
  Returns the table of a server on this node. A table of an atom's name need not exist. Raises an `ArgumentError` for a name whose module
  lacks functions.
  """
  @spec table(BeTree.Server.name() | table) :: {:ok, table} | :error
  def table(name) when is_atom(name) or is_reference(name), do: {:ok, name}

  def table({:via, module, term}) when is_atom(module) do
    with pid when is_pid(pid) <- module.whereis_name(term),
         [{_pid, table}] <- :ets.lookup(__MODULE__, pid) do
      {:ok, table}
    else
      _none_here -> :error
    end
  rescue
    # Searches find the table by this function, so only a failed call is checked.
    error in UndefinedFunctionError ->
      check!({:via, module, term})
      reraise error, __STACKTRACE__
  end

  @doc "Returns the rows of a key in a table, and none if there is no such table, or it is a private one of another process."
  @spec lookup(table, term) :: [tuple]
  def lookup(table, key) do
    :ets.lookup(table, key)
  rescue
    ArgumentError -> []
  end

  @doc "Returns the tables of the servers on this node whose names are not atoms."
  @spec tables() :: [table]
  def tables do
    for {_pid, table} <- :ets.tab2list(__MODULE__), do: table
  rescue
    # The application does not run.
    ArgumentError -> []
  end

  @spec start_link(term) :: GenServer.on_start()
  def start_link(_argument), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @impl GenServer
  def init(_argument) do
    for {pid, _table} <- :ets.tab2list(__MODULE__), do: Process.monitor(pid)
    {:ok, nil}
  end

  @impl GenServer
  def handle_cast({:monitor, pid}, state) when is_pid(pid) do
    Process.monitor(pid)
    {:noreply, state}
  end

  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info({:DOWN, _monitor, :process, pid, _reason}, state) do
    :ets.delete(__MODULE__, pid)
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)
end
