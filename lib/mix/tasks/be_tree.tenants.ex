defmodule Mix.Tasks.BeTree.Tenants do
  @shortdoc "Serves a page that shows the tenants in a folder"
  @moduledoc """
  Serves a page that shows the tenants in a folder of `BeTree.Tenants`, with their costs and matches by day.

      mix be_tree.tenants serve DIR [--port 4040] [--ip 127.0.0.1]

  `DIR` is the folder of `dir:`. The task opens it as a node does, so no node may use it meanwhile; put `BeTree.Tenants.Dashboard` into the
  supervision tree of a running node instead. The schema comes from the folder. No day is removed, however old it is, and nothing is
  matched or changed. The page is at the address that the task prints, until it is stopped with Ctrl-C.

  ## Options

    * `--port` - the port. Defaults to 4040. With 0 the system chooses one;
    * `--ip` - the address of this machine at which the page is served. Defaults to 127.0.0.1. Everyone who reaches another one sees all
      tenants.

  ## Example

      mix be_tree.tenants serve /var/lib/my_app/tenants --port 8080
  """

  use Mix.Task

  alias BeTree.Tenants
  alias BeTree.Tenants.Dashboard
  alias BeTree.Tenants.Dashboard.Folder
  alias Mix.BeTree.Command

  @requirements ["app.start"]

  @switches [port: :integer, ip: :string]
  @usage "mix be_tree.tenants serve DIR [--port 4040] [--ip 127.0.0.1]"

  # The longest retention, so that the folder keeps all of its days.
  @retention 3_650
  @max_port 65_535

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  @spec run(keyword, [String.t()]) :: no_return
  defp run(options, ["serve", folder]) do
    dashboard = serve(folder, port!(options), ip!(options))
    Mix.shell().info("The tenants in #{folder}: #{Dashboard.address(dashboard)}\nStop with Ctrl-C.")
    monitor = Process.monitor(dashboard)
    receive do: ({:DOWN, ^monitor, :process, _pid, _reason} -> Mix.raise("the dashboard ended"))
  end

  defp run(_options, _arguments), do: refuse("a command and a folder are needed")

  @doc false
  # Opens the folder and starts its dashboard, both linked to the calling process.
  @spec serve(Path.t(), :inet.port_number(), :inet.ip_address()) :: pid
  def serve(folder, port, ip) do
    show_web_server()
    schema = folder |> Folder.schema() |> Command.ok!()
    Command.ok!(Tenants.start_link(name: __MODULE__, schema: schema, dir: folder, retention: @retention))
    Command.ok!(Dashboard.start_link(tenants: __MODULE__, port: port, ip: ip))
  end

  # Since Elixir 1.15, Mix sees only the applications that a project names.
  defp show_web_server do
    if function_exported?(Mix, :ensure_application!, 1), do: apply(Mix, :ensure_application!, [:inets])
  end

  defp port!(options) do
    port = options[:port] || 4_040
    if port in 0..@max_port, do: port, else: refuse("--port is 0 to #{@max_port}, got: #{port}")
  end

  defp ip!(options) do
    text = options[:ip] || "127.0.0.1"

    case :inet.parse_strict_address(String.to_charlist(text)) do
      {:ok, ip} -> ip
      {:error, _reason} -> refuse("--ip is an IP address, such as 127.0.0.1, got: #{text}")
    end
  end

  @spec refuse(String.t()) :: no_return
  defp refuse(message), do: Mix.raise("#{message}\n\nUsage: #{@usage}")
end
