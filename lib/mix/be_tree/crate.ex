defmodule Mix.BeTree.Crate do
  @moduledoc false
  # A crate and its installed file. The crate belongs to the workspace wasm/ unless it names another.
  #
  # The SHA-256 of the file stands beside it, in the format of sha256sum, below the digest of the sources and flags. While
  # both match, nothing runs, not even cargo, so a packaged file needs no Rust.

  alias Mix.BeTree.{Build, Toolchain}

  @enforce_keys [:package, :profile, :sources, :product, :file]
  defstruct [
    :package,
    :profile,
    :sources,
    :product,
    :file,
    :target,
    :remark,
    :kept,
    workspace: "wasm",
    rustflags: [],
    others: []
  ]

  @typedoc """
  The build of a crate: `package`, `profile` and `target` of cargo, `rustflags`, the source files (`sources`, wildcards from
  the `workspace`), the name of cargo's result (`product`), the path of the installed file (`file`), a second name that it gets
  (`kept`), paths where the same file may lie already (`others`), and a `remark` for the waiting user.
  """
  @type t :: %__MODULE__{
          workspace: Path.t(),
          package: String.t(),
          profile: String.t(),
          sources: [String.t()],
          product: String.t(),
          file: Path.t(),
          kept: Path.t() | nil,
          others: [Path.t()],
          target: String.t() | nil,
          remark: String.t() | nil,
          rustflags: [String.t()]
        }

  @doc """
  Updates the crate's file for a Mix compiler: copies it from one of its other paths, or builds it.

  Calls `find_toolchain` only if a build is necessary. Without a toolchain it calls `otherwise` with the message about what
  is missing.
  """
  @spec compile(t, (... -> {:ok, Toolchain.t()} | {:error, String.t()}), (String.t() -> result)) ::
          {:ok | :noop, []} | result
        when result: term
  def compile(crate, find_toolchain, otherwise \\ &Mix.raise/1) do
    origin = origin(crate)

    cond do
      fresh?(crate.file, origin) -> {:noop, []}
      other = Enum.find(crate.others, &fresh?(&1, origin)) -> install_and_keep(other, crate, origin)
      true -> build_and_install(crate, origin, find_toolchain.(), otherwise)
    end
  end

  defp build_and_install(_crate, _origin, {:error, missing}, otherwise), do: otherwise.(missing)

  defp build_and_install(crate, origin, {:ok, toolchain}, _otherwise) do
    {target, afterwards} = Build.target()
    installed = crate |> build(toolchain, target) |> install_and_keep(crate, origin)
    # A failed build is kept, so the next one resumes.
    if afterwards == :delete, do: File.rm_rf!(target)
    installed
  end

  defp install_and_keep(from, %{kept: nil} = crate, origin), do: install(from, crate.file, origin)

  defp install_and_keep(from, crate, origin) do
    unless from == crate.kept, do: install(from, crate.kept, origin)
    install(crate.kept, crate.file, origin, &link_or_copy!/2)
  end

  defp link_or_copy!(from, to), do: if(File.ln(from, to) != :ok, do: File.cp!(from, to))

  @doc "Deletes the crate's file. cargo's results stay, so the next compilation is quick."
  @spec clean(t) :: :ok
  def clean(crate) do
    for file <- [crate.file, crate.kept], file != nil, path <- [file, digest_file(file)], do: File.rm_rf!(path)
    :ok
  end

  @doc "Returns whether a file is complete and built from this origin."
  @spec fresh?(Path.t(), String.t()) :: boolean
  def fresh?(file, origin) do
    with {:ok, bytes} <- File.read(file), {:ok, text} <- File.read(digest_file(file)) do
      text == digest_text(file, bytes, origin)
    else
      {:error, _reason} -> false
    end
  end

  @doc "Installs a file with the text about its origin."
  @spec install(Path.t(), Path.t(), String.t(), (Path.t(), Path.t() -> term)) :: {:ok, []}
  def install(from, file, origin, copy \\ &File.cp!/2) do
    File.mkdir_p!(Path.dirname(file))

    # A rename keeps the old library for running VMs; overwriting it would crash them. Other processes, also in this VM, may
    # install the same file at this time.
    unfinished = "#{file}.#{System.pid()}.#{System.unique_integer([:positive])}"
    copy.(from, unfinished)
    File.rename!(unfinished, file)
    # A rename between two hard links of one file does nothing and leaves both.
    File.rm_rf!(unfinished)
    File.write!(digest_file(file), digest_text(file, File.read!(file), origin))
    {:ok, []}
  end

  # The text that lies beside a file.
  defp digest_text(file, bytes, origin) do
    "# #{origin}\n#{hex(:crypto.hash(:sha256, bytes))}  #{Path.basename(file)}\n"
  end

  @doc "Returns the path of the text beside a file."
  @spec digest_file(Path.t()) :: Path.t()
  def digest_file(file), do: file <> ".sha256"

  @doc "Returns the text that names the sources and flags of a build."
  @spec origin(t) :: String.t()
  def origin(crate), do: "built from #{digest(crate)}"

  # Digests contents, not times: a checkout or an unpacked package has arbitrary times.
  defp digest(crate) do
    sources =
      for pattern <- ["Cargo.toml", "Cargo.lock" | crate.sources],
          path <- crate.workspace |> Path.join(pattern) |> Path.wildcard() |> Enum.sort(),
          do: {path, :crypto.hash(:sha256, File.read!(path))}

    target = crate.target || :erlang.system_info(:system_architecture)
    recipe = {crate.package, crate.profile, target, flags(crate)}
    hex(:crypto.hash(:sha256, :erlang.term_to_binary({recipe, sources}, minor_version: 2)))
  end

  # The crate's flags replace the user's, which are meant for the user's machine. Without them the user's apply.
  defp flags(%{rustflags: []}) do
    for name <- ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"], flags = System.get_env(name), do: "#{name}=#{flags}"
  end

  defp flags(%{rustflags: flags}), do: flags

  defp hex(digest), do: Base.encode16(digest, case: :lower)

  defp build(crate, toolchain, target) do
    Mix.shell().info("Compiling #{crate.package} with Rust #{toolchain.version}#{crate.remark}")

    # The lock file is used as is: fuel depends on the versions in it.
    arguments =
      ["build", "--locked", "--package", crate.package, "--profile", crate.profile, "--target-dir", target] ++
        if(crate.target, do: ["--target", crate.target], else: []) ++ toolchain.arguments

    options = [cd: crate.workspace, env: environment(crate, toolchain), stderr_to_stdout: true]

    case System.cmd(toolchain.cargo, arguments, options) do
      {_log, 0} -> Path.join([target, crate.target || "", crate.profile, crate.product])
      {log, status} -> Mix.raise("cargo could not build #{crate.package} (exit status #{status}):\n\n#{log}")
    end
  end

  defp environment(%{rustflags: []}, toolchain), do: toolchain.env

  defp environment(crate, toolchain) do
    flags = crate.rustflags ++ toolchain.rustflags ++ remap_paths(crate)
    [{"CARGO_ENCODED_RUSTFLAGS", Enum.join(flags, "\x1f")} | toolchain.env]
  end

  # Panic messages contain paths of sources, so the path of this build is removed.
  defp remap_paths(crate) do
    cargo_home = System.get_env("CARGO_HOME") || Path.expand("~/.cargo")
    ["--remap-path-prefix=#{Path.expand(crate.workspace)}=be_tree", "--remap-path-prefix=#{cargo_home}=cargo"]
  end
end
