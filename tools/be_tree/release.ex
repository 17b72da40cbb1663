defmodule BeTree.Release do
  @moduledoc """
  Builds the published files of a version: the package, and an archive of the NIF for each target.

  The package holds exactly the files of `package()[:files]` in `mix.exs`. The WebAssembly module comes from the build. The
  checksums cover the archives in the release folder, so those of other platforms must be there too.
  """

  alias BeTree.Release.Targets
  alias Mix.BeTree.{Crate, PortableGuest, Precompiled}

  # NIFs of rustler also run on later versions: OTP 22 and newer.
  @nif_version "2.15"

  @doc """
  Writes the archives of these targets and the package into `folder`. Returns their paths, and the targets without an archive there.
  """
  @spec write(Path.t(), [String.t()]) :: %{archives: [Path.t()], package: Path.t(), missing: [String.t()]}
  def write(folder, targets) do
    archives = for target <- targets, do: archive(folder, Targets.build!(target), version(), target)
    # Into the build, from which it is packaged.
    _portable = PortableGuest.read!()
    package = package(folder)
    for path <- [package | archives], do: write_sha256(path)
    missing = for target <- Targets.names(), not File.exists?(archive_path(folder, version(), target)), do: target
    %{archives: archives, package: package, missing: missing}
  end

  @doc "Writes a NIF's archive under rustler_precompiled's name, and returns its path."
  @spec archive(Path.t(), Path.t(), String.t(), String.t()) :: Path.t()
  def archive(folder, nif, version, target) do
    path = archive_path(folder, version, target)
    tar!(path, [{Path.basename(path, ".tar.gz"), nif}])
    path
  end

  # rustler_precompiled names a library of macOS .so too.
  defp archive_path(folder, version, target),
    do: Path.join(folder, Precompiled.library(version, @nif_version, target) <> ".so.tar.gz")

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

  defp version, do: Mix.Project.config()[:version]

  defp tar!(path, files) do
    File.mkdir_p!(Path.dirname(path))
    files = for {name, source} <- files, do: {String.to_charlist(name), String.to_charlist(source)}
    :ok = :erl_tar.create(String.to_charlist(path), files, [:compressed])
  end
end
