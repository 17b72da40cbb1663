defmodule BeTree.Tenants.DashboardTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet, Tenants}

  alias BeTree.Input.Json
  alias BeTree.{Domain, Error, Tenants}
  alias BeTree.Tenants.Dashboard
  alias BeTree.Tenants.Dashboard.{Folder, Label}

  doctest BeTree.Tenants.Dashboard

  setup :quiet

  defp serve(options \\ []) do
    name = start(options)
    Tenants.change!(name, "acme", put: [{1, "a > 0"}, {2, "a > 10"}], quota: [rate: 1_000_000_000])
    Tenants.change!(name, {:other, <<255>>}, put: [{1, "a < 0"}])
    for value <- 1..20, do: Tenants.match!(name, "acme", %{a: value})
    dashboard = start_supervised!({Dashboard, tenants: name, port: 0})
    {name, URI.parse(Dashboard.address(dashboard))}
  end

  # A request as bytes, because clients mend what a hostile one sends. Returns the status, the head and the body.
  defp request(uri, path, options \\ []) do
    {:ok, socket} = :gen_tcp.connect(~c"127.0.0.1", uri.port, [:binary, active: false])
    host = Keyword.get(options, :host, "127.0.0.1:#{uri.port}")
    method = Keyword.get(options, :method, "GET")
    :ok = :gen_tcp.send(socket, "#{method} #{path} HTTP/1.1\r\nhost: #{host}\r\nconnection: close\r\n\r\n")
    reply = read(socket, "")
    [head, body] = String.split(reply, "\r\n\r\n", parts: 2)
    ["HTTP/1.1", status | _reason] = String.split(head, " ")
    {String.to_integer(status), head, body}
  end

  defp read(socket, read) do
    case :gen_tcp.recv(socket, 0) do
      {:ok, more} -> read(socket, read <> more)
      {:error, :closed} -> read
    end
  end

  defp json(uri, path) do
    {200, _head, body} = request(uri, path)
    {:ok, json} = Json.decode(body)
    json
  end

  # The overview when all tenants were read.
  defp overview(uri, query) do
    path = "/api/overview?#{query}"
    eventually(fn -> json(uri, path)["progress"] == nil end)
    json(uri, path)
  end

  defp key(uri, name), do: Enum.find(overview(uri, "days=1")["tenants"], &(&1["name"] == name))["key"]

  describe "start_link/1" do
    test "refuses the name of no tenants, and a port in use" do
      assert {:error, %Error{kind: :no_server}} = Dashboard.start_link(tenants: :no_such_tenants, port: 0)
      {name, uri} = serve()
      assert {:error, %Error{kind: :file, message: message}} = Dashboard.start_link(tenants: name, port: uri.port)
      assert message =~ "#{uri.port}"
    end
  end

  describe "the JSON" do
    test "has the tenants by fuel with exact counts, and what matched" do
      {name, uri} = serve()
      overview = overview(uri, "days=7")
      assert [%{"name" => "acme", "events" => 20, "matches" => 30, "hot" => true} = acme, other] = overview["tenants"]
      assert other["events"] == 0
      {:ok, usage} = Tenants.usage(name, "acme")
      [totals] = Map.values(usage.days)
      assert acme["fuel"] == totals.search + totals.change + totals.load
      assert overview["total"]["matches"] == 30
      assert length(overview["by_day"]) == 7
      assert List.last(overview["by_day"])["events"] == 20

      assert [%{"id" => "1", "matches" => 20, "text" => "a > 0"}, %{"id" => "2", "matches" => 10}] =
               overview["expressions"]

      assert overview(uri, "days=1&search=ACM")["found"] == 1
    end

    test "has what a restored dump adds to earlier days" do
      clocks = clocks()
      options = [schema: [a: :integer]]
      [name, other] = for _name <- 1..2, do: start(options, %{clock: clock(clocks)})
      Tenants.change!(other, "acme", put: [{1, "a > 0"}])
      for value <- 1..5, do: Tenants.match!(other, "acme", %{a: value})
      pass(clocks, 86_400)
      Tenants.change!(name, "acme", put: [{1, "a > 0"}])
      Tenants.match!(name, "acme", %{a: 1})
      uri = URI.parse(Dashboard.address(start_supervised!({Dashboard, tenants: name, port: 0})))
      assert overview(uri, "days=7")["total"]["events"] == 1
      Tenants.restore!(name, Tenants.dump!(other, "acme"), existing: :keep)
      eventually(fn -> overview(uri, "days=7")["total"]["events"] == 6 end)
      assert %{"events" => 5} = Enum.at(overview(uri, "days=7")["by_day"], -2)
    end

    test "has a tenant, its report and its bill" do
      {name, uri} = serve()
      key = key(uri, "acme")
      tenant = json(uri, "/api/tenant?key=#{key}&days=1")
      assert %{"name" => "acme", "expressions_count" => 2, "quota" => %{"rate" => 1_000_000_000}} = tenant
      assert %{"events" => 20, "matched" => 20, "matches" => 30} = tenant["total"]
      assert [%{"id" => "1", "matches" => 20}, %{"id" => "2", "matches" => 10}] = tenant["expressions"]
      assert [[%{"events" => 20}], [_day], [_one, _two]] = json(uri, "/api/report?key=#{key}&days=1")
      assert json(uri, "/api/usage?key=#{key}")["module"] == elem(Tenants.usage(name, "acme"), 1).module
      assert json(uri, "/api/info")["tenants"] == 2
    end
  end

  describe "a request" do
    test "is refused for other paths, parameters, methods and hosts" do
      {_name, uri} = serve()
      assert {200, head, page} = request(uri, "/")
      assert head =~ "script-src 'nonce-"
      [nonce] = Regex.run(~r/'nonce-([^']+)'/, head, capture: :all_but_first)
      assert page =~ ~s(<script nonce="#{nonce}">)

      for path <- [
            "/../../../../etc/passwd",
            "/etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/mix.exs",
            "//",
            "/api",
            "/api/tenant/"
          ] do
        assert {status, _head, body} = request(uri, path)
        assert status in [400, 404] and not (body =~ "root:")
      end

      for query <- ["days=0", "days=2", "days=-1", "days=99999999999", "days=x"],
          do: assert({400, _head, _body} = request(uri, "/api/overview?" <> query))

      assert {400, _head, _body} = request(uri, "/api/tenant?days=1")
      assert {404, _head, _body} = request(uri, "/api/tenant?days=1&key=unknown")
      # Versions of Elixir differ in what they make of a wrong escape.
      for search <- ["%", "%zz", "%FF"] do
        assert {status, _head, _body} = request(uri, "/api/overview?search=#{search}")
        assert status in [200, 400]
      end

      assert {status, _head, _body} = request(uri, "/" <> String.duplicate("a", 10_000))
      assert status in 400..499

      for method <- ["POST", "PUT", "DELETE", "HEAD"],
          do: assert({405, _head, _body} = request(uri, "/", method: method))

      for host <- ["example.com", "127.0.0.1.example.com", ""],
          do: assert({403, _head, _body} = request(uri, "/", host: host))

      assert {200, _head, _body} = request(uri, "/api/info", host: "localhost:#{uri.port}")
    end
  end

  describe "Folder.schema/1" do
    @describetag :tmp_dir

    test "returns the schema of a folder, and refuses others", %{tmp_dir: folder} do
      tenants = Path.join(folder, "tenants")
      schema = [a: :integer, b: {:string, optional: true}]
      name = start(dir: tenants, schema: schema)
      Tenants.change!(name, 1, put: [{1, "a > 0"}])
      stop(name)
      assert Folder.schema(tenants) == Domain.parse(schema)
      assert {:error, %Error{kind: :file}} = Folder.schema(folder)
      assert {:error, %Error{kind: :file}} = Folder.schema(Path.join(folder, "missing"))
    end
  end

  describe "Label.tenant/1" do
    test "is a short text without control characters" do
      assert Label.tenant("acme") == "acme"
      assert Label.tenant({:customer, 3}) == "{:customer, 3}"
      assert Label.tenant(<<255>>) == "a binary of 1 byte" or Label.tenant(<<255>>) =~ "255"
      assert String.length(Label.tenant(String.duplicate("é", 1_000))) == 120
      refute Label.tenant("a\u202Eb\e[31m") =~ ~r/[\x{202E}\e]/u
    end
  end
end
