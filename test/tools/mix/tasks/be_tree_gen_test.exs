defmodule Mix.Tasks.BeTree.GenTest do
  use BeTree.Test.TaskCase, task: "be_tree.gen"

  test "writes W1 as Erlang terms and prints the next command", %{tmp_dir: folder} do
    run(["W1", "--out", folder, "--expressions", "3", "--events", "2", "--attributes", "64", "--seed", "7"])

    text = said()
    assert text =~ ~r/^3 expressions and 2 events in \d+ ms/
    assert text =~ "mix be_tree.match --expressions #{folder}/expressions.txt --events #{folder}/events.txt"

    assert {:ok, [domains, <<_::binary>>, _, _]} = :file.consult(Path.join(folder, "expressions.txt"))
    assert {length(domains), hd(domains)} == {64, {:par1, :bool, :disallow_undefined}}
    assert {:ok, [bits, _]} = :file.consult(Path.join(folder, "events.txt"))
    assert length(bits) == 64 and Enum.uniq(bits) -- [0, 1] == []
  end

  test "writes W3 as be-tree's lines, the same for one seed", %{tmp_dir: folder} do
    [first, second] = for name <- ["first", "second"], do: Path.join(folder, name)
    for out <- [first, second], do: run(["W3", "--out", out, "--expressions", "30", "--events", "5"])

    assert Enum.sort(File.ls!(first)) == ["betree_constants", "betree_defs", "betree_events", "betree_exprs"]
    for name <- File.ls!(first), do: assert(File.read!(Path.join(first, name)) == File.read!(Path.join(second, name)))

    [declaration | declarations] = first |> Path.join("betree_defs") |> File.stream!() |> Enum.to_list()
    assert {declaration, length(declarations)} == {"country|string|true|200\n", 121}
    constants = first |> Path.join("betree_constants") |> File.stream!() |> Enum.to_list()
    assert {hd(constants), length(constants)} == {"1,1,1,1,1\n", 30}
  end

  test "takes the options of each workload", %{tmp_dir: folder} do
    for {options, domains} <- [
          {["W2", "--sharing", "0.8"], 1_000},
          {["W4", "--near-miss"], 6},
          {["W5", "--dimensions", "7", "--skew", "0.0", "--equality", "1.0", "--matching", "0.5"], 7}
        ] do
      run(options ++ ["--out", folder, "--expressions", "3", "--events", "2"])
      lines = for name <- ["betree_defs", "betree_exprs", "betree_events"], do: File.read!(Path.join(folder, name))
      assert for(text <- lines, do: length(String.split(text, "\n", trim: true))) == [domains, 3, 2]
    end
  end

  test "refuses wrong arguments and names the right ones", %{tmp_dir: folder} do
    out = ["--out", folder]
    assert refusal([]) =~ "one workload is to be named\n\nUsage: mix be_tree.gen WORKLOAD --out FOLDER"
    assert refusal(["W7"] ++ out) == "there is no workload W7, only W1, W2, W3, W4, W5, W8, W9"
    assert refusal(["W1"]) =~ "--out missing\n\nUsage: "
    assert refusal(["W1", "--attributes", "65"] ++ out) == "--attributes is 64, 96 or 128, got: 65"
    assert refusal(["W3", "--attributes", "64"] ++ out) == "W3 has no --attributes"
    assert refusal(["W1", "--near-miss"] ++ out) == "W1 has no --near-miss"
    assert refusal(["W2", "--sharing", "-0.1"] ++ out) == "--sharing is 0.0 or more, got: -0.1"
    assert refusal(["W5", "--skew", "-1.0"] ++ out) == "--skew is 0.0 or more, got: -1.0"
    assert refusal(["W5", "--dimensions", "0"] ++ out) == "--dimensions is 1 or more, got: 0"
    assert refusal(["W5", "--equality", "1.5"] ++ out) == "--equality is from 0.0 to 1.0, got: 1.5"
    assert refusal(["W5", "--matching", "0.0"] ++ out) == "--matching is from 0.001 to 1.0, got: 0.0"
    assert refusal(["W1", "--events", "-1"] ++ out) == "--events is 0 or more, got: -1"
    assert refusal(["W1", "--events", "many"] ++ out) =~ "--events : Expected type integer, got \"many\""
    assert refusal(["W1", "--event", "1"] ++ out) =~ "--event : Unknown option. Did you mean --events?"

    file = Path.join(folder, "file")
    File.write!(file, "")
    assert refusal(["W1", "--out", file]) =~ "could not make directory"
  end
end
