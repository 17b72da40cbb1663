defmodule Mix.Tasks.ExpressionsWithIdsTest do
  # The four tasks that read expressions, with a schema in JSON and ids of the user.
  use BeTree.Test.TaskCase, task: "be_tree.match"

  import BeTree.Test.Files

  alias BeTree.Input.Json

  @schema """
  {
    "active": {"type": "boolean", "optional": true},
    "age": {"type": "integer", "min": 0, "max": 120, "coerce": true},
    "price": {"type": "float", "optional": true, "min": 0},
    "country": {"type": "string", "optional": true, "count": 300},
    "plan": {"type": "integer_enum", "optional": true},
    "scores": {"type": "integer_list", "optional": true},
    "tags": {"type": "string_list", "optional": true},
    "seen": {"type": "segments", "optional": true},
    "frequency_caps": {"type": "frequency_caps", "optional": true},
    "now": {"type": "integer", "optional": true},
    "addr": {"type": "ip", "optional": true, "onMismatch": "undefined"},

    "at": {"type": "datetime", "optional": true, "unit": "second"},
    "user": {"address": {"city": {"type": "string", "optional": true}}},
    "items": {"type": "object_list", "optional": true},
    "items.sku": "string"
  }
  """

  @expressions [
    {"adult", "age >= 21"},
    {"north \"1\"", "country in ('CA', 'US')\nand not active"},
    {"city", "user.address.city = \"Quebec\""},
    {"item", "any items (sku = 'é')"},
    {"capped", "age > 100 and within_frequency_cap(\"flight\", \"ns\", 1, 60)"}
  ]

  @events ~s({"age": "30", "country": "CA", "active": false, "addr": "nowhere", "items": [{"sku": "é"}]}\n) <>
            ~s({"age": 3, "user": {"address": {"city": "Quebec"}}, "price": 1.5, "at": 1704067200}\n)

  @results ~s(["adult","north \\"1\\"","item"]\n["city"]\n)

  setup %{tmp_dir: folder} do
    field = fn text -> [?", String.replace(text, "\"", "\"\""), ?"] end

    csv =
      for {id, text} <- @expressions do
        [field.(id), ",", field.(text), ",", if(id == "capped", do: "7", else: ""), "\r\n"]
      end

    json =
      for {id, text} <- @expressions do
        constants = if id == "capped", do: %{constants: %{flight_id: 7}}, else: %{}
        [%{id: id, expression: text} |> Map.merge(constants) |> Json.encode(), "\n"]
      end

    %{
      schema: ["--schema", write(folder, "schema", @schema)],
      csv: write(folder, "rows", ["id,expression,flight_id\r\n" | csv]),
      json: write(folder, "objects", json),
      events: ["--events", write(folder, "events", @events)]
    }
  end

  defp refused(schema, path, events, folder) do
    arguments = schema ++ ["--expressions", path] ++ events
    String.replace(refusal(arguments), folder <> "/", "")
  end

  test "match reads CSV and JSON, and prints the ids of the file", %{tmp_dir: folder} = files do
    for path <- [files.csv, files.json] do
      out = Path.join(folder, "results")
      run(files.schema ++ ["--expressions", path, "--out", out] ++ files.events)
      assert File.read!(out) == @results
    end
  end

  test "match takes ids that are all integers as those of the index", %{tmp_dir: folder} = files do
    out = Path.join(folder, "results")

    for content <- ["id,expression\n9,age > 1\n18446744073709551615,age > 2\n", ~s({"id":9,"expression":"age > 1"}\n)] do
      run(files.schema ++ ["--expressions", write(folder, "numbers.csv", content), "--out", out] ++ files.events)
      assert File.read!(out) =~ ~r/\A\[9(,18446744073709551615)?\]\n/
    end

    # With a leading zero an id is a string.
    path = write(folder, "zeros.csv", "expression,id\nage > 1,007\nage > 2,8\n")
    run(files.schema ++ ["--expressions", path, "--out", out] ++ files.events)
    assert File.read!(out) == ~s(["007","8"]\n["007","8"]\n)
  end

  test "image build keeps the ids beside the image, for match and profile", %{tmp_dir: folder} = files do
    [image, ids, out] = for name <- ["image.wasm", "image.ids", "results"], do: Path.join(folder, name)
    build = ["build", "--expressions", files.csv, "--out", image] ++ files.schema
    error = assert_raise Mix.Error, fn -> Mix.Task.rerun("be_tree.image", build) end
    assert Exception.message(error) =~ ~r/an image has no other ids; name a file .*: --ids .*\.ids$/
    refute File.exists?(image)

    Mix.Task.rerun("be_tree.image", build ++ ["--ids", ids])
    assert File.read!(ids) =~ ~s({"id":"adult","number":1}\n{"id":"north \\"1\\"","number":2}\n)
    run(["--image", image, "--ids", ids, "--out", out] ++ files.events)
    assert File.read!(out) == @results
    run(["--image", image, "--out", out] ++ files.events)
    assert File.read!(out) == "[1,2,4]\n[3]\n"

    all_said()
    Mix.Task.rerun("be_tree.profile", ["--image", image, "--ids", ids] ++ files.events)
    assert said() =~ ~r/^item /m

    assert refusal(files.schema ++ ["--ids", ids, "--expressions", files.csv] ++ files.events) =~
             "--ids belongs to --image"

    wrong = write(folder, "wrong", "{\"id\":\"adult\",\"number\":1}\n{\"id\":2}\n")
    assert refusal(["--image", image, "--ids", wrong] ++ files.events) =~ "wrong:2:1: a line has an id and its number"
  end

  test "profile and tune name expressions by the ids of the file", %{tmp_dir: folder} = files do
    Mix.Task.rerun("be_tree.profile", files.schema ++ ["--expressions", files.json] ++ files.events)
    assert said() =~ ~r/^item /m

    out = Path.join(folder, "tuned")

    Mix.Task.rerun(
      "be_tree.tune",
      files.schema ++ ["--expressions", files.csv, "--budget", "--out", out] ++ files.events
    )

    json = out |> Path.join("tune.json") |> File.read!() |> Json.decode!()
    assert Enum.any?(json["subscriptions"], &(&1["id"] == "item" and &1["text"] =~ "any items"))
  end

  for {name, content, expected} <- [
        {"an expression of CSV", "id,expression\na,age > 3\nb,\"country = \"\"x\"\" and\nage >\"\n", "rows.csv:4:6: "},
        {"an unknown attribute of JSON",
         ~S({"id": "\"expression\": \"", "expression": "country = \"\u00e9\" and agee > 3"}), "rows.csv:1:70: "},
        {"an id that is there twice", "id,expression\na,age > 3\na,age > 5\n",
         "rows.csv:3:1: the id \"a\" is there twice, first in line 2"},
        {"a number that is there twice", "id,expression\n1,age > 3\n1,age > 5\n", "rows.csv:3: "},
        {"a comma without quotes", "id,expression\na,plan in (1, 2)\n", "rows.csv:2:1: has 3 fields for the 2 columns"},
        {"a quote without an end", "id,expression\na,\"age > 3\n",
         "rows.csv:2:3: the quote that begins here has no end"},
        {"a quote in a plain field", "id,expression\na,country = \"x\"\n",
         "rows.csv:2:3: a field with a quote is in quotes"},
        {"text behind a quote", "id,expression\na,\"age > 3\" \n",
         "rows.csv:2:12: expected a comma or the end of the line"},
        {"an empty file", "", "rows.csv: is empty; it begins with the header id,expression"},
        {"another header", "name,expression\na,age > 3\n", "rows.csv:1:1: the header names the columns"},
        {"a column that is there twice", "id,expression,expression\na,age > 3,age > 5\n",
         "rows.csv:1:1: the header has the column expression twice"},
        {"a name with an escape", ~S({"id": 1, "\u0065xpression": "age >"}), "rows.csv:1: "},
        {"a missing column", "id,flight_id\na,3\n", "rows.csv:1:1: the header has no column expression"},
        {"a constant that is no integer", "id,expression,flight_id\na,age > 3,x\n",
         "rows.csv:2:11: the constant flight_id"},
        {"an empty id", "id,expression\n,age > 3\n", "rows.csv:2:1: an id is an integer or a string that is not empty"},
        {"another name in JSON", ~s({"id": 1, "expr": "age > 3"}), "rows.csv:1:11: there is no \"expr\""},
        {"a missing name in JSON", ~s({"id": 1}), "rows.csv:1:1: the line has no expression"},
        {"a wrong id in JSON", ~s({"id": 1.5, "expression": "age > 3"}),
         "rows.csv:1:2: an id is an integer or a string"},
        {"broken JSON", ~s({"id": 1, "expression": "age > 3"}\n{"id": 2 "expression"}),
         "rows.csv:2:10: this is no JSON"}
      ] do
    test "match refuses #{name} at its place", %{tmp_dir: folder} = files do
      path = write(folder, "rows.csv", unquote(content))
      assert refused(files.schema, path, files.events, folder) =~ unquote(expected)
    end
  end

  for {name, content, expected} <- [
        {"broken JSON", "{\n \"age\": \"integer\"\n \"plan\": 3}", "schema:3:2: this is no JSON"},
        {"an unknown type", "\n{\n \"user\": {\n  \"age\": \"int\"}}",
         "schema:4:3: `user.age`: \"int\" is no type; the types are boolean"},
        {"an unknown option", "{\"age\": {\"type\": \"integer\", \"least\": 3}}",
         "schema:1:2: `age`: there is no option \"least\""},
        {"a bound that does not fit", "{\"age\": {\"type\": \"integer\", \"min\": \"x\"}}",
         "schema:1:2: min: of `age`"},
        {"a domain that is none", "{\"age\": 3}", "schema:1:2: `age`: a domain is a type, or an object"},
        {"a name that is there twice", "{\"age\": \"integer\",\n\"age\": \"integer\"}",
         "schema:2:1: the name \"age\" is there twice"},
        {"a schema without attributes", "{}", "schema: a schema is a JSON object with an attribute or more"}
      ] do
    test "match refuses #{name} in a schema at its place", %{tmp_dir: folder} = files do
      write(folder, "schema", unquote(content))
      assert refused(files.schema, files.csv, files.events, folder) =~ unquote(expected)
    end
  end

  test "match refuses two inputs from the standard input" do
    assert refusal(["--expressions", "-", "--events", "-"]) =~ "--expressions and --events are both -"
  end
end
