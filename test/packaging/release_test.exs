defmodule BeTree.Packaging.ReleaseTest do
  # A release of a dependent application, started without a compiler and sources.
  use ExUnit.Case, async: true

  import BeTree.Test.Packaging

  alias BeTree.Test.Runtimes

  # chroot needs root, or a user namespace, which some systems forbid.
  @chroot Enum.find([["chroot"], ["unshare", "--map-root-user", "chroot"]], fn [program | arguments] ->
            System.find_executable(program) != nil and
              match?({_, 0}, System.cmd(program, arguments ++ ["/", "true"], stderr_to_stdout: true))
          end)

  setup_all do
    folder = Path.join(System.tmp_dir!(), "be_tree_release_#{System.unique_integer([:positive])}")
    on_exit(fn -> File.rm_rf!(folder) end)
    {:ok, folder: folder, releases: Map.new(Runtimes.all() -- Runtimes.missing(), &{&1, release(folder, &1)})}
  end

  for runtime <- Runtimes.all(), name = Runtimes.name(runtime) do
    @tag runtime: runtime
    test "a release runs without Elixir installed, with #{name}", %{folder: folder, releases: releases} do
      programs = programs(Path.join(folder, "programs of #{unquote(name)}"))
      for name <- ~w(elixir erl mix), do: File.rm!(Path.join(programs, name))
      variables = for {name, _value} <- System.get_env(), do: {name, nil}
      variables = Map.merge(Map.new(variables), Map.new([{"PATH", programs}, {"HOME", folder} | release_variables()]))
      command = Path.join(releases[unquote(runtime)], "bin/ads")
      {output, status} = System.cmd(command, ["eval", "Ads.main()"], env: variables, stderr_to_stdout: true)
      assert status == 0 and String.ends_with?(output, expected(unquote(runtime))), output
    end

    @tag runtime: runtime
    @tag skip: @chroot == nil && "neither chroot nor unshare may give a program a root of its own here"
    test "a release runs in an otherwise empty root, with #{name}", %{folder: folder, releases: releases} do
      root = Path.join(folder, "root of #{unquote(name)}")
      fill(root, releases[unquote(runtime)])
      variables = for {name, value} <- [{"PATH", "/bin"}, {"HOME", "/"} | release_variables()], do: "#{name}=#{value}"
      env = [System.find_executable("env"), "-i" | variables]
      [program | arguments] = List.wrap(@chroot) ++ [root] ++ env ++ ["/release/bin/ads", "eval", "Ads.main()"]
      # The VM may warn about a missing locale or library.
      {output, status} = System.cmd(program, arguments, stderr_to_stdout: true)
      assert status == 0 and String.ends_with?(output, expected(unquote(runtime))), output
    end
  end

  defp expected(runtime), do: "#{inspect(runtime)} finds [1, 2] and [1, 2]\n"

  # Builds the release, then deletes its sources except this checkout.
  defp release(folder, runtime) do
    variables = [
      {"MIX_ENV", "prod"},
      {"MIX_BUILD_PATH", Path.join(folder, "build")},
      {"ADS_RUNTIME", runtime |> Runtimes.name() |> String.downcase()},
      # The NIF that this checkout has compiled.
      {"CARGO_TARGET_DIR", Path.expand(System.get_env("CARGO_TARGET_DIR", "wasm/target"))}
    ]

    release = Path.join(folder, "release with #{Runtimes.name(runtime)}")
    mix!("test/packaging/app", ["release", "--path", release, "--overwrite"], variables)
    File.rm_rf!(Path.join(folder, "build"))
    release
  end

  defp release_variables, do: [{"RELEASE_DISTRIBUTION", "none"}, {"LC_ALL", "C.UTF-8"}]

  # Copies the release, the programs of its script, and the system libraries of all.
  defp fill(root, release) do
    for folder <- ~w(bin dev tmp), do: File.mkdir_p!(Path.join(root, folder))
    File.write!(Path.join(root, "dev/null"), "")
    File.cp_r!(release, Path.join(root, "release"))

    programs =
      for name <- ~w(sh env awk basename cat cut date dirname grep head id mkdir od readlink rm sed sort tail tr uname),
          program = System.find_executable(name),
          do: {name, program}

    for {name, program} <- programs, do: File.cp!(program, Path.join([root, "bin", name]))
    copy_to(root, System.find_executable("env"))

    binaries = Enum.flat_map(["erts-*/bin/*", "lib/**/*.so"], &Path.wildcard(Path.join(release, &1)))
    for file <- Enum.map(programs, &elem(&1, 1)) ++ binaries, library <- libraries(file), do: copy_to(root, library)
  end

  # Some files are no programs or libraries, and some of these are static.
  defp libraries(file) do
    {text, _status} = System.cmd("ldd", [file], stderr_to_stdout: true)
    ~r"(/\S+) \(0x"m |> Regex.scan(text, capture: :all_but_first) |> List.flatten()
  end

  defp copy_to(root, path) do
    target = Path.join(root, path)

    unless File.exists?(target) do
      File.mkdir_p!(Path.dirname(target))
      File.cp!(path, target)
    end
  end
end
