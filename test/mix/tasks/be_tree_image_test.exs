defmodule Mix.Tasks.BeTree.ImageTest do
  use BeTree.Test.TaskCase, task: "be_tree.image"

  import BeTree.Test.Files

  alias BeTree.{Image, Workload}

  defp match(arguments), do: Mix.Task.rerun("be_tree.match", arguments)

  test "builds an image that verifies and matches like its files", %{tmp_dir: folder} do
    files = Workload.write(Workload.W3, %{Workload.W3.defaults() | expressions: 300, events: 50}, folder)
    path = Path.join(folder, "index.wasm")
    sources = for role <- [:expressions, :schema, :constants], argument <- ["--#{role}", files[role]], do: argument
    run(["build", "--out", path | sources])
    sha256 = Image.info!(path).sha256
    assert said() =~ ~r/\A300 expressions in [\d,]+ bytes, #{sha256}\z/

    run(["info", path])
    info = said()
    assert info =~ ~r/^  format                 version 1, interface version 1$/m
    assert info =~ ~r/^  memory                 [\d,]+ bytes$/m
    assert info =~ ~r/^  sha256                 #{sha256}$/m
    assert info =~ ~r/^  attributes             122$/m
    assert info =~ ~r/^  index expressions      300$/m

    run(["verify", path])
    assert said() == "#{path} is sound: 300 expressions, #{sha256}"

    [expected, found] = for name <- ["expected", "found"], do: Path.join(folder, name)
    match(["--events", files.events, "--out", expected | sources])
    assert said() =~ ~r/^  expressions            300, built in [\d,]+ ms$/m
    match(["--events", files.events, "--out", found, "--image", path, "--stats"])
    assert said() =~ ~r/^  expressions            300, read in [\d,]+ ms$/m
    assert said() =~ ~r/^  index expressions      300$/m
    assert File.read!(found) == File.read!(expected)
    assert File.read!(found) =~ ~r/^\[\d+/m
  end

  test "reports faults of files with their place", %{tmp_dir: folder} do
    domains = write(folder, "defs", "age|integer|false\n")
    bad = write(folder, "bad", "age > 3\nage > 3 and\n")
    out = Path.join(folder, "index.wasm")
    assert refusal(["build", "--schema", domains, "--expressions", bad, "--out", out]) =~ ~r/\A#{bad}:2:12: /
    refute File.exists?(out)

    good = write(folder, "good", "age > 3\n")
    nowhere = Path.join([folder, "none", "index.wasm"])
    message = refusal(["build", "--schema", domains, "--expressions", good, "--out", nowhere])
    assert message == "#{nowhere}: no such file or directory"

    for command <- ["info", "verify"] do
      assert refusal([command, good]) =~ "this is no image: expected a WebAssembly module"
      assert refusal([command, nowhere]) =~ "#{nowhere}: no such file or directory"
    end

    run(["build", "--schema", domains, "--expressions", good, "--out", out])
    bytes = File.read!(out)
    File.write!(out, binary_part(bytes, 0, byte_size(bytes) - 1) <> "!")
    assert refusal(["verify", out]) =~ "its SHA-256 is "
    events = write(folder, "events", "")
    error = assert_raise(Mix.Error, fn -> match(["--image", out, "--events", events]) end)
    assert Exception.message(error) =~ "its SHA-256 is "
  end

  test "refuses wrong arguments and names the right ones", %{tmp_dir: folder} do
    usage = "\n\nUsage: mix be_tree.image build --expressions FILE "

    for arguments <- [[], ["info"], ["info", "a", "b"], ["burn", "a"], ["verify", "a", "--out", "b"], ["build", "a"]] do
      assert refusal(arguments) =~ "expected build, or info or verify and a file" <> usage
    end

    assert refusal(["build", "--out", "a"]) =~ "--expressions missing" <> usage
    error = assert_raise(Mix.Error, fn -> match(["--image", folder, "--expressions", "a", "--events", "b"]) end)
    assert Exception.message(error) =~ "--image and --expressions exclude each other\n\nUsage: mix be_tree.match "
    error = assert_raise(Mix.Error, fn -> match(["--image", folder]) end)
    assert Exception.message(error) =~ "--events missing\n\nUsage: mix be_tree.match "
  end
end
