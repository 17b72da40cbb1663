defmodule BeTree.Tenants.Dashboard.Http do
  @moduledoc false
  # The module that OTP's web server calls for each request of the dashboard. It replies to GET with the page and with JSON, and
  # to everything else with an error. No path of the file system is part of it: the server has no module that serves files.
  #
  # On a loopback address a request must name this machine as its host. Otherwise a page of another site, whose name its owner
  # points at 127.0.0.1, could read the tenants through the user's browser.

  alias BeTree.Input.Json

  # The fields of the record mod in inets/include/httpd.hrl that a request is read from.
  @config_db 5
  @method 6
  @request_uri 8
  @headers 11

  # Bytes of the address of a request, its head and its body.
  @max_uri 4_096
  @max_head 8_192
  @max_body 1_024
  @max_connections 64
  @idle_seconds 30

  @page_type "text/html; charset=utf-8"
  @json_type "application/json; charset=utf-8"

  @typedoc "Replies to a path and its query."
  @type handler :: (path :: String.t(), query :: %{String.t() => String.t()} -> reply)

  @typedoc "JSON, or the page as a function of the nonce of its script."
  @type reply :: {:json, status :: pos_integer, map} | {:json_text, String.t()} | {:page, (String.t() -> iodata)}

  @doc "Starts a server that is linked to the calling process. Returns the port."
  @spec start_link(:inet.ip_address(), :inet.port_number(), handler) :: {:ok, :inet.port_number()} | {:error, term}
  def start_link(address, port, handler) do
    # The server requires a folder for each, and reads neither.
    folder = String.to_charlist(System.tmp_dir!())

    config = [
      port: port,
      bind_address: address,
      ipfamily: if(tuple_size(address) == 8, do: :inet6, else: :inet),
      server_name: ~c"be_tree",
      server_root: folder,
      document_root: folder,
      server_tokens: :none,
      modules: [__MODULE__],
      max_uri_size: @max_uri,
      max_header_size: @max_head,
      max_body_size: @max_body,
      max_clients: @max_connections,
      keep_alive_timeout: @idle_seconds,
      be_tree_dashboard: {handler, loopback?(address)}
    ]

    # By `apply/3`, because the library works without the application inets.
    with {:ok, server} <- apply(:inets, :start, [:httpd, config, :stand_alone]) do
      # With the port 0 the system chooses one.
      [{{:httpd_instance_sup, _address, port, _profile}, _pid, _type, _modules}] = Supervisor.which_children(server)
      {:ok, port}
    end
  end

  defp loopback?({127, _, _, _}), do: true
  defp loopback?({0, 0, 0, 0, 0, 0, 0, 1}), do: true
  defp loopback?(_other), do: false

  @doc false
  # The callback of httpd.
  def unquote(:do)(request) do
    {handler, loopback?} = apply(:httpd_util, :lookup, [elem(request, @config_db), :be_tree_dashboard])

    reply =
      cond do
        elem(request, @method) != ~c"GET" ->
          error(405, "only GET is served")

        loopback? and not this_machine?(elem(request, @headers)) ->
          error(403, "the host of the request is not this machine")

        true ->
          route(elem(request, @request_uri), handler)
      end

    {:proceed, [response: respond(reply)]}
  end

  defp this_machine?(headers) do
    case List.keyfind(headers, ~c"host", 0) do
      {_name, host} -> List.to_string(host) =~ ~r/\A(localhost|127\.0\.0\.1|\[::1\])(:\d+)?\z/i
      nil -> false
    end
  end

  defp route(uri, handler) do
    [path | query] = uri |> List.to_string() |> String.split("?", parts: 2)
    handler.(path, query |> Enum.join() |> URI.decode_query())
  rescue
    # A query that is no UTF-8, or has a wrong escape.
    ArgumentError -> error(400, "the address of the request is malformed")
  end

  @doc "Returns the reply of an error."
  @spec error(pos_integer, String.t()) :: reply
  def error(status, text), do: {:json, status, %{error: text}}

  defp respond({:page, page}) do
    nonce = 18 |> :crypto.strong_rand_bytes() |> Base.url_encode64()
    # Charts set styles of their elements.
    policy =
      "default-src 'none'; script-src 'nonce-#{nonce}'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "

    respond(200, @page_type, page.(nonce), policy)
  end

  defp respond({:json, status, map}), do: respond(status, @json_type, Json.encode(map), "default-src 'none'; ")
  defp respond({:json_text, text}), do: respond(200, @json_type, text, "default-src 'none'; ")

  defp respond(status, type, body, policy) do
    body = IO.iodata_to_binary(body)

    head = [
      code: status,
      content_type: String.to_charlist(type),
      content_length: Integer.to_charlist(byte_size(body)),
      cache_control: ~c"no-store"
    ]

    others = [
      {~c"content-security-policy",
       String.to_charlist(policy <> "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")},
      {~c"x-content-type-options", ~c"nosniff"},
      {~c"referrer-policy", ~c"no-referrer"}
    ]

    {:response, head ++ others, body}
  end
end
