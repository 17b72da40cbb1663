# Measures changes and syncs of a server with a folder that has all or nearly all of the subscriptions already.
#
#     MIX_ENV=prod mix run bench/catalogue.exs [subscriptions]
#
# Each case runs five times, with 50,000 subscriptions unless the argument says otherwise. The journal is synced for each change.

defmodule BeTree.Bench.Catalogue do
  @moduledoc false

  alias BeTree.{Journal, Server}

  @runs 5
  @differences 10

  def run(size) do
    folder = Path.join(System.tmp_dir!(), "be_tree_catalogue_#{System.pid()}")
    {:ok, _pid} = Server.start_link(name: __MODULE__, schema: schema(), dir: folder)
    rows = for id <- 1..size, do: {id, text(id, 0)}
    {:ok, ^size} = Server.insert_all(__MODULE__, rows)

    change = fn part, other ->
      Server.change!(__MODULE__, put: Enum.concat(different(part, other), rest(part, rows)))
    end

    measure("#{size} identical puts in one change", fn _run -> change.(0, rows) end)
    measure("#{@differences} puts in one change", &Server.change!(__MODULE__, put: different(@differences, &1)))
    measure("sync of #{size}, no differences", fn _run -> sync(rows, @runs) end)
    measure("sync of #{size}, #{@differences} differences", &sync(rows, @runs + &1))
    :ok = Server.stop(__MODULE__)
    File.rm_rf!(folder)
  end

  defp sync(rows, other),
    do: Server.sync!(__MODULE__, Stream.concat(different(@differences, other), rest(@differences, rows)))

  defp different(count, other), do: for(id <- 1..count//1, do: {id, text(id, other)})
  defp rest(count, rows), do: Enum.drop(rows, count)

  defp schema, do: [age: :integer, country: :string, plan: :integer, score: :float]

  defp text(id, other) do
    "age >= #{rem(id, 60)} and country = 'c#{rem(id, 200)}' and (plan = #{rem(id, 7)} or score > #{id}.#{other})"
  end

  defp measure(title, fun) do
    before = bytes()
    times = for run <- 1..@runs, do: fn -> fun.(run) end |> :timer.tc() |> elem(0)
    [fastest, _, median, _, slowest] = Enum.sort(times)
    written = div(bytes() - before, @runs)
    IO.puts("#{title}: #{ms(median)} ms (#{ms(fastest)} to #{ms(slowest)}), #{written} bytes of journal each")
  end

  defp ms(microseconds), do: Float.round(microseconds / 1_000, 1)

  # The bytes of all changes in the journal: a base takes none of them away.
  defp bytes do
    %{journal: %{journal: journal}} = :sys.get_state(Server.Table.process(__MODULE__))
    Journal.written(journal)
  end
end

BeTree.Bench.Catalogue.run(if(System.argv() == [], do: 50_000, else: String.to_integer(hd(System.argv()))))
