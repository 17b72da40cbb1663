defmodule Mix.BeTree.Crate do
  @moduledoc false
  # A crate and the file that it is built to. The crate belongs to the workspace wasm/ unless it names another.
  #
  # The SHA-256 of the file and of its sources lie beside it, in the format of sha256sum. While these agree, nothing runs,
  # not even cargo, so a file that came with the package needs no Rust.

  alias Mix.BeTree.Toolchain

  @workspace "wasm"

  @enforce_keys [:package, :profile, :sources, :product, :file]
  defstruct [:package, :profile, :sources, :product, :file, :target, :remark, workspace: @workspace, rustflags: []]

  @typedoc """
  The build of a crate: `package`, `profile` and `target` of cargo, `rustflags`, the source files (`sources`, wildcards from
  the `workspace`), the name of cargo's result (`product`), the path of the installed file (`file`), and a `remark` for the
  waiting user.
  """
  @type t :: %__MODULE__{
          workspace: Path.t(),
          package: String.t(),
          profile: String.t(),
          sources: [String.t()],
          product: String.t(),
          file: Path.t(),
          target: String.t() | nil,
          remark: String.t() | nil,
          rustflags: [String.t()]
        }

  @doc """
  Brings the crate's file up to date, for a Mix compiler. The function calls `find_toolchain` only if there is something to
  build. Without a toolchain it prints `otherwise`, which says how the library works without the file, and builds nothing. If
  `otherwise` is nil, it raises.
  """
  @spec compile(t, (... -> {:ok, Toolchain.t()} | {:error, String.t()}), String.t() | nil) :: {:ok | :noop, []}
  def compile(crate, find_toolchain, otherwise \\ nil) do
    sources = digest(crate)

    if up_to_date?(crate, sources) do
      {:noop, []}
    else
      update(crate, sources, find_toolchain.(), otherwise)
    end
  end

  defp update(crate, sources, {:ok, toolchain}, _otherwise) do
    crate |> build(toolchain) |> install(crate, sources)
    {:ok, []}
  end

  defp update(_crate, _sources, {:error, message}, nil), do: Mix.raise(message)

  defp update(_crate, _sources, {:error, _message}, otherwise) do
    Mix.shell().info("There is no Rust here that could build #{otherwise}")
    {:noop, []}
  end

  @doc """
  Deletes the crate's file. The results of cargo stay, so the next compilation is quick.
  """
  @spec clean(t) :: :ok
  def clean(crate) do
    Enum.each([crate.file, digest_file(crate)], &File.rm_rf!/1)
  end

  defp up_to_date?(crate, sources) do
    File.exists?(crate.file) and File.read(digest_file(crate)) == {:ok, digests(crate, sources)}
  end

  # Returns the lines that lie beside an up-to-date file.
  defp digests(crate, sources) do
    file = crate.file |> File.read!() |> then(&:crypto.hash(:sha256, &1)) |> hex()
    "# built from #{sources}\n#{file}  #{Path.basename(crate.file)}\n"
  end

  defp digest_file(crate), do: crate.file <> ".sha256"

  # Digests contents, not times: a checkout or an unpacked package has arbitrary times.
  defp digest(crate) do
    sources =
      for pattern <- ["Cargo.toml", "Cargo.lock" | crate.sources],
          path <- crate.workspace |> Path.join(pattern) |> Path.wildcard() |> Enum.sort(),
          do: {path, :crypto.hash(:sha256, File.read!(path))}

    recipe = {crate.package, crate.profile, crate.target || :erlang.system_info(:system_architecture), crate.rustflags}
    hex(:crypto.hash(:sha256, :erlang.term_to_binary({recipe, sources}, minor_version: 2)))
  end

  defp hex(digest), do: Base.encode16(digest, case: :lower)

  defp build(crate, toolchain) do
    Mix.shell().info("Compiling #{crate.package} with Rust #{toolchain.version}#{crate.remark}")

    # The lock file is kept: fuel numbers depend on the versions in it.
    arguments =
      ["build", "--locked", "--package", crate.package, "--profile", crate.profile, "--target-dir", target_dir()] ++
        if(crate.target, do: ["--target", crate.target], else: []) ++ toolchain.arguments

    options = [cd: crate.workspace, env: environment(crate, toolchain), stderr_to_stdout: true]

    case System.cmd(toolchain.cargo, arguments, options) do
      {_log, 0} -> Path.join([target_dir(), crate.target || "", crate.profile, crate.product])
      {log, status} -> Mix.raise("cargo could not build #{crate.package} (exit status #{status}):\n\n#{log}")
    end
  end

  # Own flags replace the user's, which are meant for the user's machine. Without own flags the user's stay.
  defp environment(%{rustflags: []}, toolchain), do: toolchain.env

  defp environment(crate, toolchain) do
    flags = crate.rustflags ++ toolchain.rustflags ++ remap_paths(crate)
    [{"CARGO_ENCODED_RUSTFLAGS", Enum.join(flags, "\x1f")} | toolchain.env]
  end

  # Panic messages hold the paths of sources. Hide where they were built.
  defp remap_paths(crate) do
    cargo_home = System.get_env("CARGO_HOME") || Path.expand("~/.cargo")
    ["--remap-path-prefix=#{Path.expand(crate.workspace)}=be_tree", "--remap-path-prefix=#{cargo_home}=cargo"]
  end

  # All Mix environments and workspaces share one directory, so that wasmtime is compiled once.
  defp target_dir() do
    Path.expand(System.get_env("CARGO_TARGET_DIR", "target"), @workspace)
  end

  # A rename keeps a library that a running VM has loaded. Overwriting it would crash that VM. Other processes may install
  # the same file at this time, from this VM too.
  defp install(product, crate, sources) do
    File.mkdir_p!(Path.dirname(crate.file))
    unfinished = "#{crate.file}.#{System.pid()}.#{System.unique_integer([:positive])}"
    File.cp!(product, unfinished)
    File.rename!(unfinished, crate.file)
    File.write!(digest_file(crate), digests(crate, sources))
    # priv/ may be new, and is linked into the build directory only if it exists.
    Mix.Project.build_structure()
  end
end
