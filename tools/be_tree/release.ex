defmodule BeTree.Release do
  @moduledoc """
  Builds the published files of a version: the package, and the NIF's archive for this platform.

  The package holds exactly the files of `package()[:files]` in `mix.exs`. The WebAssembly module comes from the build. The
  checksums cover the archives in the release folder, so those of other platforms must be there too.
  """

  alias Mix.BeTree.{Crate, PortableGuest, Precompiled, Toolchain}

  # NIFs of rustler also run on later versions: OTP 22 and newer.
  @nif_version "2.15"

  @doc "Writes all files into `folder`, and returns the paths of the package and the archive."
  @spec write(Path.t()) :: %{package: Path.t(), archive: Path.t()}
  def write(folder) do
    archive = archive(folder, built("native/be_tree_host.so"), version(), target!())
    # Into the build, from which it is packaged.
    _portable = PortableGuest.read!()
    package = package(folder)
    for path <- [package, archive], do: write_sha256(path)
    %{package: package, archive: archive}
  end

  @doc "Writes a NIF's archive under rustler_precompiled's name, and returns its path."
  @spec archive(Path.t(), Path.t(), String.t(), String.t()) :: Path.t()
  def archive(folder, nif, version, target) do
    name = Precompiled.library(version, @nif_version, target) <> ".so"
    path = Path.join(folder, name <> ".tar.gz")
    tar!(path, [{name, nif}])
    path
  end

  @doc "Writes the package as a folder and as an archive of it, and returns the path of the archive."
  @spec package(Path.t()) :: Path.t()
  def package(folder) do
    name = "be_tree-#{version()}"
    staged = Path.join(folder, name)
    File.rm_rf!(staged)
    checksums = Path.join(folder, Precompiled.checksums_file())
    File.mkdir_p!(folder)
    File.write!(checksums, checksums(folder))

    for {path, source} <- files(folder) do
      target = Path.join(staged, path)
      File.mkdir_p!(Path.dirname(target))
      File.cp!(source, target)
    end

    archive = staged <> ".tar.gz"
    tar!(archive, for({path, _source} <- files(folder), do: {Path.join(name, path), Path.join(staged, path)}))
    archive
  end

  @doc """
  Returns the files of the package, and where each is copied from. Raises if a pattern of the list matches nothing.
  """
  @spec files(Path.t()) :: [{Path.t(), Path.t()}]
  def files(folder) do
    for pattern <- Mix.Project.config()[:package][:files], file <- matching(pattern, folder), do: file
  end

  # Like Hex, expands wildcards and directories with all content.
  defp matching(pattern, folder) do
    root = root(pattern, folder)

    found =
      for path <- root |> Path.join(pattern) |> Path.wildcard(),
          file <- if(File.dir?(path), do: Path.wildcard(path <> "/**", match_dot: true), else: [path]),
          File.regular?(file),
          do: {Path.relative_to(file, root), file}

    if found == [], do: Mix.raise("package()[:files] in mix.exs: #{pattern} matches no file"), else: found
  end

  defp root("priv/" <> _path, _folder), do: Application.app_dir(:be_tree)
  defp root("checksum-" <> _name, folder), do: Path.expand(folder)
  defp root(_pattern, _folder), do: File.cwd!()

  @doc "Returns the checksums of all archives of this version in a folder, in rustler_precompiled's format."
  @spec checksums(Path.t()) :: iodata
  def checksums(folder) do
    archives = Path.wildcard(Path.join(folder, Precompiled.library(version(), "*", "*") <> ".so.tar.gz"))
    ["%{\n", for(path <- archives, do: ~s(  "#{Path.basename(path)}" => "sha256:#{sha256(path)}",\n)), "}\n"]
  end

  defp write_sha256(path), do: File.write!(Crate.digest_file(path), "#{sha256(path)}  #{Path.basename(path)}\n")

  defp sha256(path), do: :sha256 |> :crypto.hash(File.read!(path)) |> Base.encode16(case: :lower)

  defp built(path), do: Application.app_dir(:be_tree, Path.join("priv", path))

  defp version, do: Mix.Project.config()[:version]

  # Rust's name of this platform.
  defp target! do
    with {:ok, toolchain} <- Toolchain.native(),
         {text, 0} <- System.cmd(toolchain.rustc, ["-vV"]),
         [_all, target] <- Regex.run(~r/^host: (.+)$/m, text) do
      target
    else
      _missing -> Mix.raise("rustc -vV does not tell the name of this platform")
    end
  end

  defp tar!(path, files) do
    File.mkdir_p!(Path.dirname(path))
    files = for {name, source} <- files, do: {String.to_charlist(name), String.to_charlist(source)}
    :ok = :erl_tar.create(String.to_charlist(path), files, [:compressed])
  end
end
