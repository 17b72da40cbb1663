defmodule BeTree.PrivacyTest do
  # Errors, printed handles and logs contain no part of an event.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.{Cluster, Error, Event, Search, Server}

  @schema [
    flag: {:boolean, optional: true},
    age: {:integer, optional: true},
    plan: {:integer_enum, optional: true},
    score: {:float, optional: true},
    name: {:string, optional: true},
    ages: {:integer_list, optional: true},
    names: {:string_list, optional: true},
    segments: {:segments, optional: true},
    caps: {:frequency_caps, optional: true},
    now: :integer
  ]

  # Each value of an event contains one of these, and nothing else does.
  @secrets ["sEcReT", "8675309"]

  # Values of every type, wrong for most attributes.
  @terms [
    "sEcReT",
    "`sEcReT` does not fit, given sEcReT, given 8675309",
    "a of type b: `sEcReT` does not fit 8675309",
    :sEcReT,
    8_675_309,
    -8_675_309,
    86_753_090_000_000_000_000_000,
    8_675_309.5,
    ["sEcReT", 8_675_309, 8_675_309.5],
    [["sEcReT"]],
    [{"sEcReT", 8_675_309}],
    [{8_675_309, 8_675_309, 8_675_309}],
    [{{"sEcReT", 8_675_309, "sEcReT"}, 8_675_309, 8_675_309}],
    [{{"flight", 8_675_309, "sEcReT"}, "sEcReT", nil}],
    [{{"flight", 8_675_309, 8_675_309}, 8_675_309, nil}],
    {"sEcReT", 8_675_309},
    %{"sEcReT" => 8_675_309},
    ~c"sEcReT"
  ]

  @json [
    ~s("sEcReT"),
    ~s("sEcReT given \\", given sEcReT"),
    ~s("` does not fit sEcReT ` does not fit "),
    "8675309",
    "-8675309.5",
    "8675309e300000",
    "86753090000000000000000000000",
    ~s(["sEcReT", 8675309]),
    ~s([["sEcReT", 8675309]]),
    ~s([[["flight", 8675309, "sEcReT"], 86753090000000000000000000000, null]]),
    ~s([[["sEcReT", 8675309, "sEcReT"], 8675309, null]]),
    ~s({"sEcReT": 8675309}),
    ~s("sEcReT),
    ~s("\\u12sEcReT"),
    ~s("sEcReT\n"),
    "sEcReT",
    "8675309sEcReT",
    "08675309"
  ]

  defp events do
    names = Keyword.keys(@schema)

    pairs = for name <- names, value <- @terms, do: %{name => value, :now => 8_675_309}
    records = for place <- 0..9, value <- @terms, do: {:record, List.replace_at(record(), place, value)}

    erlang =
      for place <- 0..9,
          value <- @terms,
          do: {:records, [List.to_tuple([:tag | List.replace_at(record(), place, value)])]}

    json = for name <- names, value <- @json, do: {:json, ~s({"now": 8675309, "#{name}": #{value}, "rest": "sEcReT"})}
    whole = ~s({"now": 8675309, "name": "sEcReT", "ages": [8675309, 8675309]})
    cut = for size <- 1..(byte_size(whole) - 1), do: {:json, binary_part(whole, 0, size)}

    others = [
      {:json, ~s({"now": 8675309} sEcReT)},
      {:json, ~s("sEcReT 8675309")},
      {:json, ~c"sEcReT"},
      {:record, [8_675_309]},
      {:record, "sEcReT"},
      {:records, [{:tag, "sEcReT"}]},
      {:records, "sEcReT"},
      {:prepared, "sEcReT"},
      %Event.Prepared{bytes: "sEcReT"},
      [{:name, "sEcReT"}, "sEcReT"],
      [{8_675_309, "sEcReT"}],
      %{name: "sEcReT"},
      "sEcReT",
      :sEcReT,
      8_675_309,
      8_675_309.5,
      {"sEcReT", 8_675_309}
    ]

    pairs ++ records ++ erlang ++ json ++ cut ++ others
  end

  defp record, do: List.duplicate(:undefined, 9) ++ [8_675_309]

  defp check(text, event) do
    for secret <- @secrets, String.contains?(text, secret), do: flunk("#{inspect(event)} is disclosed by #{text}")
    text
  end

  defp check_error(%Error{} = error, event) do
    check(Exception.message(error), event)
    check(inspect(error, limit: :infinity, printable_limit: :infinity), event)
    check(inspect(error, structs: false, limit: :infinity, printable_limit: :infinity), event)
  end

  defp server do
    name = :"server_#{System.unique_integer([:positive])}"
    start_supervised!({Server, name: name, schema: @schema}, id: name)
    Server.insert!(name, 1, "age > 3 or name = 'x'")
    name
  end

  test "an error of any call reveals no event" do
    name = server()
    tree = BeTree.new!(@schema)
    BeTree.insert!(tree, 1, "age > 3 or name = 'x'")
    index = BeTree.publish!(tree)
    cluster = Cluster.new([{name, node()}])

    refused =
      for event <- events(),
          {:error, error} <- [
            BeTree.search(tree, event),
            BeTree.search(index, event, stats: true),
            BeTree.search(name, event),
            BeTree.search_many(tree, [%{now: 1}, event]),
            index |> BeTree.stream([%{now: 1}, event], max_concurrency: 2) |> Enum.at(1) |> elem(1),
            BeTree.explain(tree, event, 1),
            BeTree.explain(name, event, 1),
            Search.start(tree, event),
            Event.prepare(tree, event),
            Cluster.search(cluster, event)
          ] do
        check_error(error, event)
        error.kind
      end

    # The terms cover all kinds of faults.
    assert refused |> Enum.uniq() |> Enum.sort() ==
             [:missing_attribute, :out_of_bounds, :syntax, :type]

    assert length(refused) > 3_000
  end

  test "an error has the attribute, the expected type and the column" do
    tree = BeTree.new!(@schema)
    assert {:error, error} = BeTree.search(tree, {:json, ~s({"now": 1, "age": "sEcReT"})})
    assert {error.kind, error.attribute, error.column, error.text} == {:type, "age", 19, nil}

    assert Exception.message(error) ==
             "attribute `age` of type integer: expected an integer, given a string (column 19)"

    assert {:error, error} = BeTree.search(tree, {:json, ~s({"now": 1, "age": 8675309000000000000000})})
    assert error.message == "attribute `age` of type integer: the integer does not fit signed 64 bits"
  end

  test "an ArgumentError reveals no event" do
    tree = BeTree.new!(@schema)

    for {module, function, arguments} <- [
          {BeTree, :search, [%{name: "sEcReT"}, tree]},
          {BeTree, :search, [{:json, "sEcReT"}, tree]},
          {BeTree, :search_many, [~s({"name": "sEcReT"}), [tree]]},
          {BeTree, :stream, [tree, {:json, "sEcReT"}]},
          {BeTree, :explain, [[name: "sEcReT"], %{now: 1}, 1]},
          {Cluster, :search, [%{name: "sEcReT"}, :some_name]}
        ] do
      error = assert_raise(ArgumentError, fn -> apply(module, function, arguments) end)
      check(Exception.message(error), error)
    end

    assert {:error, error} = BeTree.search_many(tree, {:json, "sEcReT"})
    check_error(error, nil)
  end

  test "inspect/1 of terms made with an event reveals none" do
    tree = BeTree.new!(@schema)
    BeTree.insert_all!(tree, for(id <- 1..200, do: {id, "age > #{id} or ends_with(name, 'x#{id}')"}))
    event = %{now: 8_675_309, age: 8_675_309, name: String.duplicate("sEcReT", 100)}
    check(inspect(Event.prepare!(tree, event)), event)
    {:yield, search} = Search.start(tree, event, slice: 1)
    check(inspect(search), event)
    check(inspect(search.slices), event)
    Search.cancel(search)

    for chunk <- BeTree.Search.Batch.chunks([event], %{strict: false, on_mismatch: :error}),
        do: check(inspect(chunk), event)

    # A cancelled search releases its tree soon after.
    eventually(fn -> inspect(tree) =~ ~r/^#BeTree<200 expressions, [0-9.]+ MB>$/ end)
    assert inspect(Cluster.new([{:a, :b}], shard: fn _id -> 0 end)) == "#BeTree.Cluster<1 shard>"
  end

  defmodule Handler do
    @moduledoc false
    # A :logger handler that sends each event as text. Erlang's format prints every value.
    def log(event, %{config: test}), do: send(test, {:log, event |> :logger_formatter.format(%{}) |> to_string()})
  end

  # Returns the log of `fun`, up to a line that the test itself logs at the end.
  defp logged(fun) do
    id = :"privacy_#{System.unique_integer([:positive])}"
    :ok = :logger.add_handler(id, Handler, %{config: self()})
    # The default handler would print it.
    :ok = :logger.add_handler_filter(:default, id, {fn _event, _extra -> :stop end, nil})

    try do
      fun.()
      :logger.error("the end of #{id}")
      collect("the end of #{id}", "")
    after
      :logger.remove_handler_filter(:default, id)
      :logger.remove_handler(id)
    end
  end

  defp collect(last, logged) do
    assert_receive {:log, text}
    if text =~ last, do: logged, else: collect(last, logged <> text)
  end

  # A view without a runtime makes a search raise, like a bug in the library would.
  defp break(name) do
    [{:view, view}] = :ets.lookup(name, :view)
    :ets.insert(name, {:view, %{view | runtime: :sEcReT_runtime}})
  end

  test "the log of a search that raises in a stream reveals no event" do
    name = server()
    break(name)
    events = for _ <- 1..600, do: %{now: 1, name: "event sEcReT"}

    log =
      logged(fn ->
        error =
          assert_raise UndefinedFunctionError, fn -> Enum.to_list(BeTree.stream(name, events, max_concurrency: 2)) end

        refute Exception.message(error) =~ "event sEcReT"
      end)

    assert log == ""
  end

  test "the log of a server's process reveals no event after a crash or unknown messages" do
    name = server()
    writer = BeTree.Test.Servers.process(name)

    log =
      logged(fn ->
        send(writer, {:json, "sEcReT"})
        assert {:error, error} = GenServer.call(writer, {:search, "sEcReT"})
        check_error(error, nil)
        :sys.replace_state(writer, fn _state -> %{name: "sEcReT"} end)
        assert {:error, %Error{kind: :no_server}} = Server.insert_all(name, [{8_675_309, "name = 'sEcReT'"}])
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
      end)

    assert log =~ "ignores an unknown message: a tuple of 2 elements"
    # Elixir's and Erlang's logs differ.
    assert log =~ ~r/(Generic server |GenServer #PID)<.*> terminating/
    assert log =~ "a map of 1 key"
    assert log =~ "it starts again"
    check(log, nil)
  end

  test "the status of a server's processes reveals no event" do
    name = server()
    Server.insert!(name, 2, "name = 'sEcReT'")
    writer = BeTree.Test.Servers.process(name)
    {:dictionary, dictionary} = Process.info(writer, :dictionary)

    for pid <- [writer, hd(dictionary[:"$ancestors"])] do
      text = inspect(:sys.get_status(pid), limit: :infinity, printable_limit: :infinity, structs: false)
      check(text, nil)
      refute text =~ "fuel_per_reduction"
    end
  end
end
