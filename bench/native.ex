defmodule BeTree.Bench.Native do
  @moduledoc false
  # Runs the programs of bench/native. `be_tree_bench` measures the index without Elixir, and `be_tree_bench_peers` measures
  # other crates.

  alias Mix.BeTree.Toolchain

  @workspace "bench/native"
  @ours "be_tree_bench"
  @peers "be_tree_bench_peers"

  @typedoc "The paths of the programs."
  @type programs :: %{ours: Path.t(), peers: Path.t()}

  # Builds the programs one after the other, because a joint build would unify their features.
  @spec build() :: programs
  def build do
    toolchain = toolchain!()
    Mix.shell().info("Compiling #{@ours} and #{@peers} with Rust #{toolchain.version} (minutes the first time)")
    %{ours: build(@ours, toolchain), peers: build(@peers, toolchain)}
  end

  defp build(package, toolchain) do
    target = Path.expand(System.get_env("CARGO_TARGET_DIR", "target"), "wasm")

    arguments = ["build", "--locked", "--release", "--package", package, "--target-dir", target] ++ toolchain.arguments

    case System.cmd(toolchain.cargo, arguments, cd: @workspace, env: toolchain.env, stderr_to_stdout: true) do
      {_log, 0} -> Path.join([target, "release", package])
      {log, status} -> Mix.raise("cargo could not build #{package} (exit status #{status}):\n\n#{log}")
    end
  end

  defp toolchain! do
    case Toolchain.native() do
      {:ok, toolchain} -> toolchain
      {:error, message} -> Mix.raise(message)
    end
  end

  # Returns the version of a crate in the lock file.
  @spec version(String.t()) :: String.t()
  def version(crate) do
    lock = File.read!(Path.join(@workspace, "Cargo.lock"))
    [_all, version] = Regex.run(~r/name = "#{crate}"\nversion = "([^"]+)"/, lock)
    version
  end

  # Runs the engines of the case and returns a row for each. Their results are written to the folder, for `results/1`.
  @spec run(programs, BeTree.Bench.Cases.t(), Path.t(), keyword) :: [map]
  def run(programs, bench, folder, limits) do
    limits = for {name, seconds} <- limits, argument <- [switch(name), to_string(seconds)], do: argument
    guest = ["--guest", Application.app_dir(:be_tree, "priv/be_tree.wasm")]
    slice = ["--slice", to_string(BeTree.Fuel.default_slice())]
    ours = execute(programs.ours, [folder | limits] ++ guest ++ slice ++ bench.engines, bench.name)
    peers = if bench.peers == [], do: [], else: execute(programs.peers, [folder | limits] ++ bench.peers, bench.name)
    ours ++ peers
  end

  defp switch(name), do: "--" <> String.replace(to_string(name), "_", "-")

  defp execute(program, arguments, name) do
    case System.cmd(program, arguments, stderr_to_stdout: true) do
      {lines, 0} -> lines |> String.split("\n", trim: true) |> Enum.map(&row(&1, name))
      {message, _status} -> Mix.raise("#{name}: #{String.trim(message)}")
    end
  end

  # Returns the number of ids of each event, and their sum.
  @spec results(Path.t()) :: [{count :: non_neg_integer, sum :: non_neg_integer}]
  def results(folder) do
    for line <- folder |> Path.join("results") |> File.read!() |> String.split("\n", trim: true) do
      [count, sum] = String.split(line)
      {String.to_integer(count), String.to_integer(sum)}
    end
  end

  defp row(line, name) do
    fields =
      for field <- String.split(line, "\t"), into: %{}, do: field |> String.split("=", parts: 2) |> List.to_tuple()

    {engine, fields} = Map.pop!(fields, "engine")
    [engine, format] = String.split(engine, ":")

    for {key, value} <- fields, into: %{case: name, engine: engine, format: format} do
      {String.to_atom(key), if(key == "skipped", do: value, else: String.to_integer(value))}
    end
  end
end
