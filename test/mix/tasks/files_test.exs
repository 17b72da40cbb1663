defmodule Mix.Tasks.FilesTest do
  # Every task with every kind of file.
  use BeTree.Test.TaskCase, task: "be_tree.match"

  import BeTree.Test.Files

  alias BeTree.Image
  alias BeTree.Test.Tmpfs

  @terms "[{age,int,disallow_undefined}].\n<<\"age >= 21\">>.\n<<\"age >= 65\">>.\n"
  @records "[30].\n[70].\n"
  @results "[1]\n[1,2]\n"
  @rules "fact login(user: string, ok: boolean)\nrule failed when l: login(ok = false) then notify failed(user: l.user)\n"
  @facts ~s({"login": {"user": "ann", "ok": false}}\n{"login": {"user": "bob", "ok": true}}\n)

  setup %{tmp_dir: folder} do
    image = Path.join(folder, "image.wasm")
    {:ok, schema, subscriptions} = BeTree.Files.load(write(folder, "terms", @terms))
    tree = BeTree.new!(schema)
    BeTree.insert_all!(tree, subscriptions)
    Image.write!(tree, image)

    files = %{
      terms: Path.join(folder, "terms"),
      records: write(folder, "records", @records),
      image: image,
      rules: write(folder, "rules", @rules),
      facts: write(folder, "facts", @facts),
      defs: write(folder, "defs", "age|integer|false\n"),
      lines: write(folder, "lines", "age >= 21\nage >= 65\n"),
      constants: write(folder, "constants", "1,1,1,1,1\n2,1,1,1,1\n"),
      jsonl: write(folder, "jsonl", ~s({"age": 30}\n{"age": 70}\n)),
      patterns: write(folder, "patterns", ~s({"age": [{"numeric": [">=", 21]}]}\n{"age": [{"numeric": [">=", 65]}]}\n))
    }

    %{files: files, tree: tree}
  end

  defp task(name, arguments), do: Mix.Task.rerun(name, arguments)

  defp message(fun) do
    fun.()
    flunk("expected an error")
  rescue
    error in [Mix.Error, BeTree.Files.Error] -> Exception.message(error)
  end

  # Commands that write a file: a name, the input, and a function that returns :ok or the message of the refusal.
  defp writers(files, tree) do
    [
      {"image build", files.terms, &task!("be_tree.image", ["build", "--expressions", files.terms, "--out", &1])},
      {"match", files.terms,
       &task!("be_tree.match", ["--expressions", files.terms, "--events", files.records, "--out", &1])},
      {"match --image", files.image,
       &task!("be_tree.match", ["--image", files.image, "--events", files.records, "--out", &1])},
      {"profile", files.records,
       &task!("be_tree.profile", ["--expressions", files.terms, "--events", files.records, "--folded", &1])},
      {"erl_betree_bench:std_stats", files.records, &bench(:std_stats, files, &1)},
      {"erl_betree_bench:std_output", files.terms, &bench(:std_output, files, &1)},
      {"BeTree.Image.write", nil,
       fn path -> with {:error, error} <- Image.write(tree, path), do: Exception.message(error) end},
      {"erl_betree:betree_write_dot", nil,
       fn path ->
         {:ok, betree} = :erl_betree.betree_make([[{:a, :bool, :allow_undefined}]])
         with {:error, :failed} <- :erl_betree.betree_write_dot(betree, String.to_charlist(path)), do: "failed"
       end},
      {"tune", files.terms,
       fn path ->
         arguments = ["--expressions", files.terms, "--events", files.records, "--budget", "--out", Path.dirname(path)]
         result = task!("be_tree.tune", arguments)
         File.rm(Path.join(Path.dirname(path), "tune.html"))
         result
       end},
      {"erl_bench generate", nil,
       fn path ->
         arguments = ~w(generate --parameters 64 --expressions 2 --events 2 --dir) ++ [Path.dirname(path)]
         result = task!("be_tree.erl_bench", arguments)
         File.rm(Path.join(Path.dirname(path), "P_64_Ex_2.txt"))
         result
       end}
    ]
  end

  defp bench(function, files, path) do
    ExUnit.CaptureIO.capture_io(fn ->
      send(self(), {:bench, apply(:erl_betree_bench, function, [files.terms, files.records, path])})
    end)

    receive do
      {:bench, :ok} -> :ok
      {:bench, {:error, {:bad_file, message}}} -> message
    end
  end

  defp task!(name, arguments) do
    task(name, arguments)
    :ok
  rescue
    error in Mix.Error -> Exception.message(error)
  end

  # The names of files that a task chooses.
  @names %{"tune" => "tune.json", "erl_bench generate" => "P_64_Ev_2.txt"}

  defp place(folder, name), do: Path.join(folder, @names[name] || "out")

  # Calls `fun` with the name of each writer, its input, its function, and a new folder.
  defp each_writer(%{files: files, tree: tree, tmp_dir: folder}, fun) do
    for {{name, input, write}, number} <- Enum.with_index(writers(files, tree)) do
      own = Path.join(folder, "writer_#{number}")
      File.mkdir!(own)
      fun.(name, input, write, own)
    end
  end

  # A device made for the test, because no test may write to the machine's.
  defp device!(path, minor) do
    with {_output, 0} <- System.cmd("mknod", [path, "c", "1", "#{minor}"], stderr_to_stdout: true),
         {:ok, device} <- :file.open(path, [:read, :raw]) do
      :file.close(device)
      path
    else
      _other ->
        IO.puts("Left out: a device, because none can be made and opened at #{path}")
        nil
    end
  end

  defp fifo!(path) do
    {_output, 0} = System.cmd("mkfifo", [path])
    path
  end

  # Writes a file's bytes to a pipe.
  defp fed(folder, source) do
    path = fifo!(Path.join(folder, "pipe_#{System.unique_integer([:positive])}"))
    {path, Task.async(fn -> System.cmd("sh", ["-c", "cat \"$0\" > \"$1\"", source, path]) end)}
  end

  describe "an output file" do
    test "is replaced with its mode kept and no other file left", context do
      each_writer(context, fn name, _input, write, folder ->
        path = place(folder, name)
        File.write!(path, "old")
        File.chmod!(path, 0o640)
        assert {name, write.(path)} == {name, :ok}
        assert {name, File.stat!(path).mode} == {name, 0o100640}
        refute File.read!(path) == "old"
        assert {name, File.ls!(folder)} == {name, [Path.basename(path)]}
      end)
    end

    test "follows a symbolic link", context do
      each_writer(context, fn name, _input, write, folder ->
        elsewhere = Path.join(folder, "elsewhere")
        File.mkdir!(elsewhere)
        target = write(elsewhere, "target", "old")
        path = place(folder, name)
        File.ln_s!("elsewhere/target", path)
        assert {name, write.(path)} == {name, :ok}
        assert {name, File.read_link(path)} == {name, {:ok, "elsewhere/target"}}
        refute File.read!(target) == "old"
        assert File.ls!(elsewhere) == ["target"]
      end)
    end

    test "is created at the target of a symbolic link", %{tmp_dir: folder, tree: tree} do
      path = Path.join(folder, "link")
      File.ln_s!("target", path)
      assert Image.write(tree, path) == :ok
      assert File.lstat!(path).type == :symlink
      assert Image.verify(Path.join(folder, "target")) == :ok
    end

    test "never replaces a device", context do
      each_writer(context, fn name, _input, write, folder ->
        if null = device!(place(folder, name), 3) do
          assert {name, write.(null)} == {name, :ok}
          assert {name, File.stat!(null).type} == {name, :device}
          File.rm!(null)
        end

        if full = device!(place(folder, name), 7) do
          assert {name, write.(full)} |> elem(1) =~ ~r/no space left on device|failed/
          assert {name, File.stat!(full).type} == {name, :device}
        end
      end)
    end

    test "may be a pipe", context do
      each_writer(context, fn name, _input, write, folder ->
        path = fifo!(place(folder, name))
        reader = Port.open({:spawn_executable, System.find_executable("cat")}, [:binary, :exit_status, args: [path]])
        assert {name, write.(path)} == {name, :ok}
        assert {name, byte_size(drain(reader, "")) > 0} == {name, true}
        assert {name, File.stat!(path).type} == {name, :other}
      end)
    end

    test "is refused if it is also the input, under any name", context do
      each_writer(context, fn name, input, write, folder ->
        if input do
          content = File.read!(input)
          path = place(folder, name)

          for link <- [&File.ln!/2, &File.ln_s!/2] do
            link.(input, path)

            assert {name, write.(path)} |> elem(1) =~
                     ": the command reads this file too, as #{input}; name another file for the output"

            assert {name, File.read!(input)} == {name, content}
            assert {name, File.ls!(folder)} == {name, [Path.basename(path)]}
            File.rm!(path)
          end
        end
      end)
    end

    test "is refused if it is a folder or its folder is missing", context do
      each_writer(context, fn name, _input, write, folder ->
        path = place(folder, name)
        File.mkdir!(path)
        assert {name, write.(path)} |> elem(1) =~ ~r/illegal operation on a directory|failed/
        assert {name, File.ls!(path)} == {name, []}

        if name not in Map.keys(@names) do
          assert {name, write.(Path.join([folder, "none", "out"]))} |> elem(1) =~ ~r/no such file or directory|failed/
        end
      end)
    end

    test "keeps its content on a full or read-only disk", context do
      each_writer(context, fn name, _input, write, folder ->
        Tmpfs.with_room(folder, "64k", fn folder ->
          path = place(folder, name)
          File.write!(path, "old")
          fill = File.open!(Path.join(folder, "filler"), [:write, :raw])
          assert :file.write(fill, :binary.copy("x", 100_000)) == {:error, :enospc}
          File.close(fill)
          assert {name, write.(path)} |> elem(1) =~ ~r/no space left on device|failed/
          assert {name, File.read!(path)} == {name, "old"}
          assert {name, Enum.sort(File.ls!(folder))} == {name, Enum.sort(["filler", Path.basename(path)])}
          {_output, 0} = System.cmd("mount", ["-o", "remount,ro", folder])
          assert {name, write.(path)} |> elem(1) =~ ~r/read-only file system|failed/
          assert {name, File.read!(path)} == {name, "old"}
        end)
      end)
    end

    test "is unchanged after a failed command", %{files: files, tmp_dir: folder} do
      bad = write(folder, "bad", "[30].\n[x].\n")
      out = write(folder, "out", "old")
      expressions = ["--expressions", files.terms]
      assert message(fn -> task("be_tree.match", expressions ++ ["--events", bad, "--out", out]) end) =~ "bad:2"
      assert message(fn -> task("be_tree.profile", expressions ++ ["--events", bad, "--folded", out]) end) =~ "bad:2"
      wrong = write(folder, "wrong", @terms <> "<<\"age >\">>.\n")
      assert message(fn -> task("be_tree.image", ["build", "--expressions", wrong, "--out", out]) end) =~ "wrong:4"

      assert message(fn -> task("be_tree.match", ["--expressions", wrong, "--events", bad, "--out", out]) end) =~
               "wrong:4"

      assert {:error, {:bad_file, _message}} = :erl_betree_bench.std_output(files.terms, bad, out)
      assert File.read!(out) == "old"
      assert folder |> File.ls!() |> Enum.filter(&String.starts_with?(&1, ".be_tree")) == []
    end

    test "is refused if it is the file behind the standard output", %{files: files, tmp_dir: folder} do
      out = Path.join(folder, "out")
      arguments = ["--expressions", files.terms, "--events", files.records, "--out", "/dev/stdout"]
      assert {_output, 1} = separate("match", arguments, "> #{out} 2> #{out}.error")
      assert File.read!(out <> ".error") =~ "/dev/stdout: this stands for a file that the shell has opened"
      assert {output, 0} = separate("match", arguments, "| cat")
      assert output =~ @results
    end
  end

  defp drain(port, bytes) do
    receive do
      {^port, {:data, more}} -> drain(port, bytes <> more)
      {^port, {:exit_status, 0}} -> bytes
    end
  end

  # Runs a task in another VM, with standard input and output of the shell.
  defp separate(task, arguments, redirection, before \\ "") do
    module = Mix.Task.get!("be_tree." <> task)
    code = "Mix.start(); {:ok, _} = Application.ensure_all_started(:be_tree); #{inspect(module)}.run(System.argv())"
    paths = for path <- :code.get_path(), path = to_string(path), path =~ "_build", do: ["-pa", path]
    command = Enum.map_join(List.flatten(["elixir", paths, "-e", code, "--"]) ++ arguments, " ", &"'#{&1}'")
    System.cmd("sh", ["-c", "#{before} #{command} #{redirection}"])
  end

  # Commands that read: a name, the files by role, and a function that runs the task with other paths.
  defp readers(files) do
    [
      {"match of terms", Map.take(files, [:terms, :records]),
       &task("be_tree.match", ["--expressions", &1.terms, "--events", &1.records])},
      {"match of lines", Map.take(files, [:lines, :defs, :constants, :jsonl]),
       &task(
         "be_tree.match",
         ["--expressions", &1.lines, "--schema", &1.defs, "--constants", &1.constants, "--events", &1.jsonl]
       )},
      {"match of patterns", Map.take(files, [:patterns, :jsonl]),
       &task("be_tree.match", ["--expressions", &1.patterns, "--events", &1.jsonl])},
      {"match of an image", Map.take(files, [:image, :records]),
       &task("be_tree.match", ["--image", &1.image, "--events", &1.records])},
      {"profile", Map.take(files, [:terms, :records]),
       &task("be_tree.profile", ["--expressions", &1.terms, "--events", &1.records])},
      {"image info", Map.take(files, [:image]), &task("be_tree.image", ["info", &1.image])},
      {"image verify", Map.take(files, [:image]), &task("be_tree.image", ["verify", &1.image])},
      {"rules", Map.take(files, [:rules, :facts]), &task("be_tree.rules", ["run", &1.rules, &1.facts])}
    ]
  end

  # Texts without times and paths.
  defp result(read, files) do
    read.(files)
    said = all_said() |> Enum.join("\n") |> String.replace(~r/ in [\d,]+ ms|[\d,]+ a second|p50.*/, "")
    Enum.reduce(files, said, fn {_role, path}, said -> String.replace(said, path, "PATH") end)
  end

  describe "an input file" do
    test "may be a pipe or a symbolic link, and is read once", %{files: files, tmp_dir: folder} do
      for {name, inputs, read} <- readers(files) do
        expected = result(read, inputs)

        for {role, source} <- inputs do
          {pipe, feeder} = fed(folder, source)
          assert {name, role, result(read, %{inputs | role => pipe})} == {name, role, expected}
          Task.await(feeder, :infinity)
          link = Path.join(folder, "link_#{System.unique_integer([:positive])}")
          File.ln_s!(source, link)
          assert {name, role, result(read, %{inputs | role => link})} == {name, role, expected}
        end
      end
    end

    test "is refused by name if it is missing or a folder", %{files: files, tmp_dir: folder} do
      missing = Path.join(folder, "missing")

      for {name, inputs, read} <- readers(files), {role, _source} <- inputs do
        assert {name, role, message(fn -> read.(%{inputs | role => missing}) end)} |> elem(2) =~
                 ~r/#{missing}: no such file or directory/

        assert {name, role, message(fn -> read.(%{inputs | role => folder}) end)} |> elem(2) =~
                 ~r/#{folder}: (illegal operation on a directory|it is a directory; expected a file)/
      end
    end

    test "is refused if it is empty or has no expressions, events or facts", %{files: files, tmp_dir: folder} do
      empty = write(folder, "empty", "")
      null = device!(Path.join(folder, "null"), 3)

      for path <- [empty, null], path != nil, {name, inputs, read} <- readers(files), {role, _source} <- inputs do
        outcome =
          try do
            result(read, %{inputs | role => path})
          rescue
            error in [Mix.Error, BeTree.Files.Error] -> Exception.message(error)
          end

        expected =
          case role do
            :image -> "this is no image"
            :defs -> "age"
            :constants -> "has 0 lines for the 2 expressions"
            role when role in [:terms, :patterns] -> "has no attributes"
            :lines -> "has 0 lines|has 2 lines for the 0 expressions"
            role when role in [:records, :jsonl] -> "events                 0, |There are no events"
            :rules -> "there is no fact type"
            :facts -> "0 facts inserted"
          end

        assert {name, role, outcome} |> elem(2) =~ ~r/#{expected}/
      end
    end

    test "is refused by name if it is unreadable", %{files: files} do
      File.chmod!(files.records, 0)

      # Root reads any file.
      case File.read(files.records) do
        {:ok, _bytes} ->
          run(["--expressions", files.terms, "--events", files.records])
          assert said() =~ ~r/events +2,/

        {:error, :eacces} ->
          assert refusal(["--expressions", files.terms, "--events", files.records]) =~ "records: permission denied"
      end
    end

    test "may be the standard input, read without losing a line", %{tmp_dir: folder, files: files} do
      count = 20_000
      events = write(folder, "many", for(n <- 1..count, do: ["[", to_string(rem(n, 100)), "].\n"]))
      out = Path.join(folder, "out")
      arguments = ["--expressions", files.terms, "--events", "/dev/stdin", "--out", out]

      assert {output, 0} = separate("match", arguments, "", "cat #{events} |")
      assert output =~ ~r/events +20,000,/
      assert out |> File.read!() |> String.split("\n", trim: true) |> length() == count

      assert {output, 0} =
               separate("match", ["--image", "/dev/stdin", "--events", files.records], "", "cat #{files.image} |")

      assert output =~ ~r/matches +3,/
    end

    test "may begin with a byte order mark", %{files: files, tmp_dir: folder} do
      for {name, inputs, read} <- readers(files), name not in ["image info", "image verify"] do
        expected = result(read, inputs)

        for {role, source} <- inputs, role != :image do
          marked = write(folder, "marked", "\uFEFF" <> File.read!(source))
          assert {name, role, result(read, %{inputs | role => marked})} == {name, role, expected}
        end
      end
    end
  end

  test "is read once by tune", %{files: files, tmp_dir: folder} do
    {terms, terms_feeder} = fed(folder, files.terms)
    {records, records_feeder} = fed(folder, files.records)
    task("be_tree.tune", ["--expressions", terms, "--events", records, "--budget", "--out", Path.join(folder, "tuned")])
    for feeder <- [terms_feeder, records_feeder], do: Task.await(feeder, :infinity)
    json = Path.join([folder, "tuned", "tune.json"])
    {compared, compared_feeder} = fed(folder, json)
    {bad, bad_feeder} = fed(folder, write(folder, "bad", "[30].\n[x].\n"))
    arguments = ["--expressions", files.terms, "--budget", "--compare", compared]
    assert message(fn -> task("be_tree.tune", arguments ++ ["--events", bad, "--out", folder]) end) =~ "#{bad}:2: "
    for feeder <- [compared_feeder, bad_feeder], do: Task.await(feeder, :infinity)
  end

  test "image reads a schema with every option in a VM that has read none before", %{tmp_dir: folder} do
    image = Path.join(folder, "options.wasm")
    schema = [at: {:datetime, optional: true, unit: :second, on_mismatch: :undefined}, n: {:integer, coerce: true}]
    schema |> BeTree.new!() |> Image.write!(image)
    assert {output, 0} = separate("image", ["info", image], "")
    assert output =~ ~r/attributes +2/
  end

  test "is read once by erl_bench", %{files: files, tmp_dir: folder} do
    stats = write(folder, "stats", "{n_events,9}.\n{snapshot_freq,3}.\n{nano_diffs,[1,2]}.\n")
    {base, base_feeder} = fed(folder, stats)
    assert [{:min, _percent, _value} | _more] = :erl_betree_bench.compare_stats(base, stats)
    Task.await(base_feeder, :infinity)
    {terms, terms_feeder} = fed(folder, files.terms)
    {records, records_feeder} = fed(folder, files.records)
    assert :erl_betree_bench.check(terms, records) == {2, []}
    for feeder <- [terms_feeder, records_feeder], do: Task.await(feeder, :infinity)
  end
end
