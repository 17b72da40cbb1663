defmodule BeTree.Test.Packaging do
  @moduledoc false
  # Makes projects that depend on BeTree in a test's folder.

  import ExUnit.Assertions

  @doc "Runs Mix in a folder, without the variables of this run of Mix."
  @spec mix(Path.t(), [String.t()], [{String.t(), String.t() | nil}]) ::
          {output :: String.t(), status :: non_neg_integer}
  def mix(folder, arguments, variables \\ []) do
    none = for name <- ~w(MIX_ENV MIX_BUILD_PATH MIX_EXS MIX_TARGET CARGO_TARGET_DIR BE_TREE_BUILD), do: {name, nil}
    # The last one counts.
    variables = Map.to_list(Map.merge(Map.new(none), Map.new(variables)))
    System.cmd(System.find_executable("mix"), arguments, cd: folder, env: variables, stderr_to_stdout: true)
  end

  @doc "Like `mix/3`, but requires success. Returns the output."
  @spec mix!(Path.t(), [String.t()], [{String.t(), String.t() | nil}]) :: String.t()
  def mix!(folder, arguments, variables \\ []) do
    {output, status} = mix(folder, arguments, variables)
    assert status == 0, output
    output
  end

  @doc "Writes files, named by paths in the folder."
  @spec write(Path.t(), %{Path.t() => iodata}) :: :ok
  def write(folder, files) do
    for {path, content} <- files do
      path = Path.join(folder, path)
      File.mkdir_p!(Path.dirname(path))
      File.write!(path, content)
    end

    :ok
  end

  @doc "Writes an executable file, and returns its path."
  @spec script(Path.t(), iodata) :: Path.t()
  def script(path, content) do
    File.mkdir_p!(Path.dirname(path))
    File.write!(path, content)
    File.chmod!(path, 0o755)
    path
  end

  @doc "Returns the paths of all files in a folder, with their content."
  @spec files(Path.t()) :: %{Path.t() => binary}
  def files(folder) do
    for path <- Path.wildcard(folder <> "/**", match_dot: true), File.regular?(path), into: %{} do
      {Path.relative_to(path, folder), File.read!(path)}
    end
  end

  @doc "Makes a folder of links to the programs that Mix and a release need, without Rust."
  @spec programs(Path.t()) :: Path.t()
  def programs(folder) do
    File.mkdir_p!(folder)

    for name <-
          ~w(mix elixir erl sh bash env awk basename cat cp cut date dirname expr grep head id ln ls mkdir mv od) ++
            ~w(readlink realpath rm sed sleep sort stty tail test touch tput tr uname wc),
        program = System.find_executable(name) do
      File.ln_s!(program, Path.join(folder, name))
    end

    folder
  end

  @doc """
  Makes a dependency (folder `be_tree`) with BeTree's compilers, mix.exs and empty crates, and an application (folder `app`)
  that depends on it.

  Returns their paths, the environment variables for Mix with and without a fake Rust, a script, and the path of its log.
  """
  @spec projects(Path.t()) :: %{atom => term}
  def projects(folder) do
    be_tree = Path.join(folder, "be_tree")
    compilers = ["mix.exs" | Path.wildcard("lib/mix/be_tree/*.ex")] ++ Path.wildcard("lib/mix/tasks/compile.*.ex")
    write(be_tree, Map.new(compilers, &{&1, File.read!(&1)}))

    write(be_tree, %{
      "wasm/Cargo.toml" => "[workspace]",
      "wasm/Cargo.lock" => "version = 4",
      "wasm/index/src/lib.rs" => "// the index",
      "wasm/guest/src/lib.rs" => "// the guest",
      "wasm/rules_guest/src/lib.rs" => "// the guest of rules",
      "wasm/host/src/lib.rs" => "// the host"
    })

    write(folder, %{"app/mix.exs" => project("app", ~s({:be_tree, path: "../be_tree"}))})
    without = programs(Path.join(folder, "programs"))
    rust = rust(Path.join(folder, "rust"))

    %{
      app: Path.join(folder, "app"),
      be_tree: be_tree,
      log: Path.join(rust, "log"),
      # ERL_LIBS may hold a wasmex.
      rust: [{"PATH", "#{rust}:#{without}"}, {"ERL_LIBS", nil}],
      no_rust: [{"PATH", without}, {"ERL_LIBS", nil}]
    }
  end

  @doc "Returns the text of a mix.exs."
  @spec project(String.t(), String.t(), String.t()) :: String.t()
  def project(app, deps, version \\ "1.0.0") do
    """
    defmodule #{Macro.camelize(app)}.MixProject do
      use Mix.Project
      def project, do: [app: :#{app}, version: "#{version}", deps: [#{deps}]]
    end
    """
  end

  # A fake cargo that logs its arguments, and writes the name of the package and a source as its result.
  defp rust(folder) do
    script(Path.join(folder, "cargo"), """
    #!/bin/sh
    [ "$1" = --version ] && echo "cargo 1.99.0" && exit
    echo "$*" >>"#{folder}/log"
    while [ $# -gt 0 ]; do
      case "$1" in
        --package) package=$2 ;;
        --profile) profile=$2 ;;
        --target) target=$2 ;;
        --target-dir) folder=$2 ;;
      esac
      shift
    done
    mkdir -p "$folder/$target/$profile/deps"
    for name in be_tree_guest.wasm be_tree_rules_guest.wasm libbe_tree_host.so libbe_tree_host.dylib; do
      echo "$package of $(cat host/src/lib.rs)" >"$folder/$target/$profile/$name"
    done
    """)

    # The real one warns too.
    script(Path.join(folder, "rustc"), """
    #!/bin/sh
    [ -z "$MAKEFLAGS$MFLAGS" ] || echo "warning: failed to connect to jobserver" >&2
    echo '#{folder}'
    """)

    File.write!(Path.join(folder, "libstd-0.rlib"), "")
    folder
  end

  @doc "Returns the packages that the fake cargo has built, in order."
  @spec cargo_calls(Path.t()) :: [String.t()]
  def cargo_calls(log) do
    case File.read(log) do
      {:ok, text} -> ~r/--package (\w+)/ |> Regex.scan(text, capture: :all_but_first) |> List.flatten()
      {:error, :enoent} -> []
    end
  end

  @doc "Serves a folder by HTTP until the calling process ends. Returns the address."
  @spec serve(Path.t()) :: String.t()
  def serve(folder) do
    {:ok, socket} = :gen_tcp.listen(0, [:binary, ip: {127, 0, 0, 1}, packet: :http_bin, active: false])
    {:ok, port} = :inet.port(socket)
    # The socket closes with the process that opened it, which ends the loop.
    spawn_link(fn -> accept(socket, folder) end)
    "http://127.0.0.1:#{port}"
  end

  defp accept(listening, folder) do
    with {:ok, socket} <- :gen_tcp.accept(listening) do
      {:ok, {:http_request, :GET, {:abs_path, "/" <> name}, _version}} = :gen_tcp.recv(socket, 0)
      :ok = :gen_tcp.send(socket, response(File.read(Path.join(folder, name))))
      :gen_tcp.close(socket)
      accept(listening, folder)
    end
  end

  defp response({:ok, bytes}) do
    ["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: #{byte_size(bytes)}\r\n\r\n", bytes]
  end

  defp response({:error, _reason}), do: "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
end
