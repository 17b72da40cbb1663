defmodule BeTree.Tenants.Dashboard do
  @moduledoc """
  A web page for the operators of `BeTree.Tenants`: the tenants that cost most and what matched, each tenant's bill, figures and
  expressions by day, and the same as JSON.

      children = [
        {BeTree.Tenants, name: MyApp.Tenants, schema: schema, dir: "/var/lib/my_app"},
        {BeTree.Tenants.Dashboard, tenants: MyApp.Tenants, port: 4040}
      ]

  `mix be_tree.tenants serve DIR` serves a folder that no node uses. The page needs OTP's application `inets`, which a release must
  include, and loads nothing from elsewhere.

  ## Access

  Everyone who reaches the port sees the names, figures and expressions of all tenants: the dashboard has no users. It listens at
  127.0.0.1 by default. On a loopback address it refuses requests whose `Host` is another machine. It changes nothing and
  serves no file. Names and expressions are shown as text, shortened, and every list has a limit.

  ## Costs

  A request for the overview begins to read the figures of all tenants in a process of its own: all days the first time, later the present
  day, at most a sixth of the time of one processor. Tenants that are not in memory are read from the store and not loaded. The page
  shows the progress of the first reading.

  ## JSON

  | path | reply |
  | --- | --- |
  | `/api/info` | `BeTree.Tenants.info/1` |
  | `/api/overview?days=1` | totals, totals by day, the 100 tenants with the most fuel, and the expressions with the most matches; `search=TEXT` selects tenants by name |
  | `/api/tenant?key=KEY&days=1` | a tenant's totals, figures, and up to 200 expressions |
  | `/api/report?key=KEY&days=1` | `BeTree.Tenants.to_json/3`: sections with the totals, by day and by expression |
  | `/api/usage?key=KEY` | `BeTree.Tenants.usage/2` |

  `days` is 1, 7 or 30, the present day included. `KEY` stands for a tenant in the overview.
  """

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Input.{Check, Describe, Options}
  alias BeTree.Tenants
  alias BeTree.Tenants.Dashboard.{Http, Overview, Views}

  @default_port 4040
  @loopback {127, 0, 0, 1}
  @max_port 65_535

  @options [
    tenants: [
      type: {:check, "the name of a BeTree.Tenants, an atom", &is_atom/1},
      required: true,
      doc: "the name of a `BeTree.Tenants` on this node"
    ],
    port: [
      type: {:integer, 0, @max_port},
      default: @default_port,
      default_doc: "4040",
      doc: "the port. With 0 the system chooses one (`address/1`)"
    ],
    ip: [
      type: {:check, "an IP address, a tuple of 4 or 8 integers", &__MODULE__.ip?/1},
      default: @loopback,
      default_doc: "`{127, 0, 0, 1}`",
      doc: "the address of this machine at which the dashboard listens"
    ]
  ]

  @typedoc "An option of `start_link/1`."
  @type option :: {:tenants, Tenants.name()} | {:port, :inet.port_number()} | {:ip, :inet.ip_address()}

  @doc """
  Starts a dashboard that is linked to the calling process.

  ## Options

  #{Options.docs(@options)}

  Returns `{:ok, pid}`, or `{:error, %BeTree.Error{}}` with the kind `:no_server` if no such tenants run, and `:file` if the page is not in this
  build, or the port cannot be used.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Watched, schema: [price: :float])
      iex> {:ok, pid} = BeTree.Tenants.Dashboard.start_link(tenants: Watched, port: 0)
      iex> BeTree.Tenants.Dashboard.address(pid) =~ ~r"^http://127\\.0\\.0\\.1:\\d+/$"
      true
  """
  @spec start_link([option]) :: {:ok, pid} | {:error, Error.t()}
  def start_link(options) do
    options = options |> Options.validate!(@options) |> Map.new()

    with {:ok, _info} <- Tenants.info(options.tenants) do
      # It links itself when it has started. A process that starts it by a link would end with it if the port is in use.
      case GenServer.start(__MODULE__, {options, self()}) do
        {:error, {:shutdown, %Error{} = error}} -> {:error, error}
        started -> started
      end
    end
  end

  @doc """
  Returns the child specification of a dashboard, with which `{BeTree.Tenants.Dashboard, options}` stands in a list of children.

      iex> BeTree.Tenants.Dashboard.child_spec(tenants: Shops).id
      {BeTree.Tenants.Dashboard, Shops}
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options) do
    Options.keyword!(options)
    %{id: {__MODULE__, options[:tenants]}, start: {__MODULE__, :start_link, [options]}}
  end

  @doc "Returns the address of the page."
  @spec address(pid) :: String.t()
  def address(dashboard) when is_pid(dashboard) and dashboard != self() do
    GenServer.call(dashboard, :address)
  catch
    # Another process, or one that ended.
    :exit, _reason -> Check.expected!("the pid of a dashboard that runs", dashboard)
  end

  def address(other), do: Check.expected!("the pid of a dashboard that runs", other)

  @doc false
  def ip?(ip), do: :inet.is_ip_address(ip)

  @impl GenServer
  def init({%{tenants: name, ip: ip, port: port}, starter}) do
    Process.flag(:trap_exit, true)

    with {:ok, page} <- Views.page(),
         {:ok, overview} <- Overview.start_link(name),
         handler = fn path, query -> Views.reply(path, query, name, overview, page) end,
         {:ok, port} <- listen(ip, port, handler) do
      Process.link(starter)
      {:ok, "http://#{host(ip)}:#{port}/"}
    else
      {:error, error} -> {:stop, {:shutdown, error}}
    end
  end

  defp listen(ip, port, handler) do
    with {:error, reason} <- Http.start_link(ip, port, handler) do
      message = "the dashboard cannot listen at #{host(ip)}:#{port}: #{listen_fault(reason)}; choose another port"
      {:error, %Error{kind: :file, message: message}}
    end
  end

  # The supervisor's reason contains the reason of the listener. If a web server of this node has the port, that is `:already_started`.
  defp listen_fault(reason) do
    text = inspect(reason)

    case Enum.find(
           [:eaddrinuse, :already_started, :eacces, :eaddrnotavail],
           &String.contains?(text, Atom.to_string(&1))
         ) do
      nil -> Describe.kind(reason)
      :already_started -> :inet.format_error(:eaddrinuse)
      posix -> :inet.format_error(posix)
    end
  end

  defp host(ip) when tuple_size(ip) == 8, do: "[#{:inet.ntoa(ip)}]"
  defp host(ip), do: "#{:inet.ntoa(ip)}"

  @impl GenServer
  def handle_call(:address, _from, address), do: {:reply, address, address}
  def handle_call(call, from, address), do: super(call, from, address)

  # The process that started the dashboard, the web server, or the overview ended.
  @impl GenServer
  def handle_info({:EXIT, _pid, reason}, address), do: {:stop, reason, address}
  def handle_info(message, address), do: super(message, address)
end
