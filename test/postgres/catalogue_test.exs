Code.require_file("examples/postgres/catalogue.ex")

defmodule BeTree.CatalogueTest do
  # examples/postgres, with a PostgreSQL: `make test PART=postgres`.
  use ExUnit.Case

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Server
  alias BeTree.Test.{Attack, Postgres, Servers}

  @moduletag :foreign
  @moduletag timeout: :infinity
  @schema [age: :integer, country: {:string, optional: true}]
  @countries ~w(CA US DE)
  @select "SELECT id, expression FROM subscriptions"

  # The source of the example, by the connection of the tests. It turns notifications into the messages of the example.
  defmodule Source do
    @behaviour Catalogue

    @impl Catalogue
    def listen do
      owner = self()

      with {:ok, connection} <- Postgres.connect("catalogue", &send(owner, {:changed, String.to_integer(&1)})) do
        [] = Postgres.query!(connection, "LISTEN subscriptions")
        {:ok, connection}
      end
    end

    @impl Catalogue
    def all(connection, function) do
      Postgres.stream(connection, "SELECT id, expression FROM subscriptions", fn rows ->
        function.(Stream.map(rows, &row/1))
      end)
    end

    @impl Catalogue
    def get(connection, ids) do
      sql = "SELECT id, expression FROM subscriptions WHERE id IN (#{Enum.join(ids, ",")})"
      for columns <- Postgres.query!(connection, sql), do: row(columns)
    end

    def load do
      {:ok, connection} = Postgres.connect()
      for columns <- Postgres.query!(connection, "SELECT id, expression FROM subscriptions"), do: row(columns)
    end

    defp row([id, expression]), do: {String.to_integer(id), expression}
  end

  setup [:quiet, :folder]

  setup do
    {:ok, database} = Postgres.connect()
    Postgres.query!(database, "DROP TABLE IF EXISTS subscriptions; DROP FUNCTION IF EXISTS notify_subscription")
    Postgres.query!(database, File.read!("examples/postgres/catalogue.sql"))
    Postgres.query!(database, "DROP ROLE IF EXISTS catalogue; CREATE ROLE catalogue LOGIN")
    Postgres.query!(database, "GRANT SELECT ON subscriptions TO catalogue")
    :rand.seed(:exsss, Attack.seed())
    %{database: database}
  end

  defp expression, do: "age >= #{:rand.uniform(50)} and country = '#{Enum.random(@countries)}'"

  defp fill(database, count) do
    rows = for id <- 1..count, do: "(#{id}, $$#{expression()}$$)"
    [] = Postgres.query!(database, "INSERT INTO subscriptions VALUES #{Enum.join(rows, ", ")}")
  end

  # One random change of the table, of some rows.
  defp change(database, ids) do
    id = Enum.random(ids)

    sql =
      case :rand.uniform(5) do
        1 ->
          "DELETE FROM subscriptions WHERE id = #{id}"

        2 ->
          "DELETE FROM subscriptions WHERE id BETWEEN #{id} AND #{id + 20}"

        3 ->
          "UPDATE subscriptions SET id = (SELECT max(id) + 1 FROM subscriptions) WHERE id = #{id}"

        4 ->
          "UPDATE subscriptions SET expression = $$#{expression()}$$ WHERE id BETWEEN #{id} AND #{id + 20}"

        5 ->
          "INSERT INTO subscriptions VALUES (#{id}, $$#{expression()}$$) ON CONFLICT (id) DO UPDATE SET expression = excluded.expression"
      end

    [] = Postgres.query!(database, sql)
  end

  # The ids of the rows that an event makes true, by plain evaluation.
  defp evaluate(rows, %{age: age, country: country}) do
    matching =
      for [id, expression] <- rows,
          [_all, least, ^country] <- [Regex.run(~r/^age >= (\d+) and country = '(\w+)'$/, expression)],
          age >= String.to_integer(least),
          do: String.to_integer(id)

    Enum.sort(matching)
  end

  # Returns whether the server has the rows of the table, and searches find what they should.
  defp equal?(name, database) do
    rows = Postgres.query!(database, @select)
    events = for age <- [0, 10, 30, 60], country <- @countries, do: %{age: age, country: country}
    texts = for [id, expression] <- rows, into: %{}, do: {String.to_integer(id), expression}

    texts(name) == texts and Enum.all?(events, &(BeTree.search(name, &1) == {:ok, evaluate(rows, &1)}))
  end

  # A subscription may be deleted meanwhile.
  defp texts(name), do: for(id <- Server.ids!(name), {:ok, text} <- [Server.fetch(name, id)], into: %{}, do: {id, text})

  defp connections(database),
    do: Postgres.query!(database, "SELECT pid FROM pg_stat_activity WHERE usename = 'catalogue'")

  defp terminate(database) do
    for [pid] <- connections(database) do
      Postgres.query!(database, "SELECT pg_terminate_backend(#{pid})")
      eventually(fn -> [pid] not in connections(database) end)
    end
  end

  defp start_catalogue(name) do
    id = {:catalogue, name}
    spec = Supervisor.child_spec({Catalogue, server: name, source: Source, retry_after: 20}, id: id)

    start_supervised!(%{
      id: :supervisor,
      start: {Supervisor, :start_link, [[spec], [strategy: :one_for_one, max_restarts: 100]]}
    })
  end

  test "a server is loaded from a table, and leaves wrong rows out", %{database: database} do
    fill(database, 2_000)
    Postgres.query!(database, "INSERT INTO subscriptions VALUES (5001, 'age >='), (5002, 'size = 1')")
    name = Servers.start(schema: @schema, load: {Source, :load, []}, on_error: :collect)
    refute equal?(name, database)
    assert [{5001, %{kind: :syntax}}, {5002, %{kind: :unknown_attribute}}] = Server.faults!(name)
    Postgres.query!(database, "DELETE FROM subscriptions WHERE id > 5000")
    assert equal?(name, database)
  end

  test "a server follows a table, also after its connection was killed and changes were missed", context do
    %{database: database, folder: folder} = context
    fill(database, 2_000)
    name = Servers.start(schema: @schema, dir: folder)
    start_catalogue(name)
    eventually(fn -> equal?(name, database) end)
    assert Server.version!(name) == 1

    for _round <- 1..Attack.size(5, 100) do
      for _change <- 1..40, do: change(database, 1..2_100)
      eventually(fn -> equal?(name, database) end)

      # No connection comes back before the changes are made.
      Postgres.query!(database, "ALTER ROLE catalogue NOLOGIN")
      terminate(database)
      version = Server.version!(name)
      for _change <- 1..40, do: change(database, 1..2_100)
      assert Server.version!(name) == version
      Postgres.query!(database, "ALTER ROLE catalogue LOGIN")
      eventually(fn -> equal?(name, database) end)
      # All that was missed is one change.
      assert Server.version!(name) == version + 1
    end

    stop_supervised!(:supervisor)
    stop_supervised!(name)
    again = Servers.start(schema: @schema, dir: folder)
    assert equal?(again, database)
  end

  test "a killed connection without missed changes changes nothing", %{database: database} do
    fill(database, 500)
    name = Servers.start(schema: @schema)
    start_catalogue(name)
    eventually(fn -> equal?(name, database) end)

    for _round <- 1..3 do
      terminate(database)
      eventually(fn -> connections(database) != [] end)
    end

    # It listens again: this change comes.
    Postgres.query!(database, "UPDATE subscriptions SET expression = $$age >= 0 and country = 'CA'$$ WHERE id = 1")
    eventually(fn -> equal?(name, database) end)
    assert Server.version!(name) == 2
  end

  test "a wrong row leaves its subscription as it was, until the row is right", %{database: database} do
    fill(database, 10)
    name = Servers.start(schema: @schema)
    start_catalogue(name)
    eventually(fn -> equal?(name, database) end)
    former = Server.fetch!(name, 3)
    Postgres.query!(database, "UPDATE subscriptions SET expression = 'age >=' WHERE id = 3")
    Postgres.query!(database, "UPDATE subscriptions SET expression = $$age >= 1 and country = 'DE'$$ WHERE id = 4")
    eventually(fn -> Server.fetch!(name, 4) == "age >= 1 and country = 'DE'" end)
    assert Server.fetch!(name, 3) == former
    Postgres.query!(database, "UPDATE subscriptions SET expression = $$age >= 2 and country = 'DE'$$ WHERE id = 3")
    eventually(fn -> equal?(name, database) end)
  end
end
