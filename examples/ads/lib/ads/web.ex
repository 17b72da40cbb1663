defmodule Ads.Web do
  @moduledoc """
  The ad server over HTTP, by OTP's own web server.

  | request | reply |
  | --- | --- |
  | `PUT /campaigns/7?price=250&budget=1000`, its targeting in the body | 204 |
  | `DELETE /campaigns/7` | 204 |
  | `POST /bid`, the bid request as JSON in the body | 200 with the campaign, or 204 |
  | `POST /campaigns/7/why`, the bid request in the body | 200 with the explanation |
  | `GET /` | a page with all campaigns |

  A refused expression or bid request is 400, with the reason in the body.
  """

  use GenServer

  require Record

  Record.defrecordp(:mod, Record.extract(:mod, from_lib: "inets/include/httpd.hrl"))

  def start_link(options), do: GenServer.start_link(__MODULE__, options, name: __MODULE__)

  @doc "Returns the port on which the server listens."
  @spec port() :: :inet.port_number()
  def port, do: GenServer.call(__MODULE__, :port)

  # The application inets supervises the web server, and this process stops it together with the ad server.
  @impl GenServer
  def init(port: port, dir: dir) do
    Process.flag(:trap_exit, true)
    root = String.to_charlist(Path.expand(dir))

    {:ok, httpd} =
      :inets.start(
        :httpd,
        [port: port, bind_address: {127, 0, 0, 1}, server_name: ~c"ads", server_root: root, document_root: root] ++
          [modules: [__MODULE__], max_body_size: 1_000_000]
      )

    Process.link(httpd)
    {:ok, httpd}
  end

  @impl GenServer
  def handle_call(:port, _from, httpd), do: {:reply, :httpd.info(httpd)[:port], httpd}

  @impl GenServer
  def handle_info({:EXIT, httpd, reason}, httpd), do: {:stop, reason, httpd}

  @impl GenServer
  def terminate(_reason, httpd), do: :inets.stop(:httpd, httpd)

  # The callback of `:httpd` for each request.
  @doc false
  def unquote(:do)(mod(method: method, request_uri: uri, entity_body: body)) do
    uri = URI.parse(to_string(uri))
    path = String.split(uri.path || "/", "/", trim: true)
    {status, type, text} = reply(to_string(method), path, URI.decode_query(uri.query || ""), IO.iodata_to_binary(body))
    head = [code: status, content_type: String.to_charlist(type), content_length: ~c"#{byte_size(text)}"]
    {:proceed, [response: {:response, head, text}]}
  end

  defp reply("GET", [], _query, _body), do: {200, "text/html; charset=utf-8", Ads.Page.html(Ads.list())}

  defp reply("POST", ["bid"], _query, body) do
    case Ads.bid({:json, body}) do
      {:ok, {id, price}} -> {200, "application/json", ~s({"campaign":#{id},"price":#{price}}\n)}
      {:ok, nil} -> none()
      {:error, error} -> refuse(error)
    end
  end

  defp reply("PUT", ["campaigns", id], query, body) do
    with {:ok, id} <- natural(id), {:ok, price} <- natural(query["price"]), {:ok, budget} <- natural(query["budget"]) do
      to_reply(Ads.put(id, body, price, budget))
    else
      :error ->
        {400, "text/plain; charset=utf-8",
         "id, price and budget are natural numbers: PUT /campaigns/7?price=250&budget=1000\n"}
    end
  end

  defp reply("DELETE", ["campaigns", id], _query, _body) do
    with {:ok, id} <- natural(id), do: to_reply(Ads.delete(id)), else: (:error -> missing())
  end

  defp reply("POST", ["campaigns", id, "why"], _query, body) do
    with {:ok, id} <- natural(id), {:ok, why} <- Ads.why(id, {:json, body}) do
      {200, "text/plain; charset=utf-8", "#{why}\n"}
    else
      :error -> missing()
      {:error, error} -> refuse(error)
    end
  end

  defp reply(_method, _path, _query, _body), do: missing()

  defp natural(text) do
    case Integer.parse(text || "") do
      {number, ""} when number in 0..0xFFFF_FFFF -> {:ok, number}
      _other -> :error
    end
  end

  defp to_reply(:ok), do: none()
  defp to_reply({:error, error}), do: refuse(error)

  defp none, do: {204, "text/plain", ""}
  defp missing, do: {404, "text/plain", "there is no such page\n"}

  defp refuse(%{kind: :not_found}), do: missing()
  defp refuse(%{kind: kind} = error) when kind in [:timeout, :overloaded], do: error(503, error)
  defp refuse(error), do: error(400, error)

  defp error(status, error), do: {status, "text/plain; charset=utf-8", Exception.message(error) <> "\n"}
end
