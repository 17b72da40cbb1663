defmodule Mix.BeTree.Build do
  @moduledoc false
  # Paths of compiled files, and notes of the compilers.
  #
  # Compiled files belong to the build of the user's project; the folder of the sources, possibly a dependency, stays
  # unchanged. Only rebar_mix takes priv/ from the sources: rebar3 fetches a dependency into its own build, calls Mix there,
  # and keeps only the BEAM files of Mix's build.

  @kept "be_tree"
  @notes "be_tree.notes"

  @doc "Returns the build's priv directory. It is never a link to the sources' one."
  @spec priv() :: Path.t()
  def priv do
    priv = if rebar?(), do: Path.expand("priv"), else: Path.join(Mix.Project.app_path(), "priv")

    # Mix links the directory to that of the sources if there is one. It merges the two if it finds a directory.
    with {:ok, _sources} <- File.read_link(priv), do: File.rm!(priv)
    File.mkdir_p!(priv)
    priv
  end

  @doc """
  Returns the path of a hard link to a file in the priv directory. The link survives when Mix deletes the application's
  build, as in `mix deps.compile --force`.
  """
  @spec kept(Path.t()) :: Path.t()
  def kept(path), do: Path.join([Mix.Project.build_path(), @kept, Path.basename(path)])

  @doc "Returns the hard links to a file in all environments of the project."
  @spec kept_anywhere(Path.t()) :: [Path.t()]
  def kept_anywhere(path) do
    # With MIX_BUILD_PATH the builds of other environments cannot be located.
    if System.get_env("MIX_BUILD_PATH"),
      do: [kept(path)],
      else: Path.wildcard(Path.join([Path.dirname(Mix.Project.build_path()), "*", @kept, Path.basename(path)]))
  end

  @doc """
  Returns the target directory of cargo, and whether it is kept.

  `CARGO_TARGET_DIR` and the directory of our own checkout are kept. The one in a user's project, a gigabyte with wasmtime, is
  deleted when its result is installed.
  """
  @spec target() :: {Path.t(), :keep | :delete}
  def target do
    own = Mix.Project.config()[:cargo_target_dir]

    cond do
      directory = System.get_env("CARGO_TARGET_DIR") -> {Path.expand(directory, "wasm"), :keep}
      own != nil and not rebar?() -> {Path.expand(own), :keep}
      true -> {Path.join(Mix.Project.app_path(), "cargo"), :delete}
    end
  end

  defp rebar?, do: File.cwd!() =~ ~r"/_build/[^/]+/(lib|plugins)/[^/]+$"

  @doc "Prints a note, unless the compiler's last note was the same."
  @spec note_once(atom, String.t()) :: :ok
  def note_once(compiler, text) do
    notes = notes()

    unless notes[compiler] == text do
      Mix.shell().info(text)
      write_notes(Map.put(notes, compiler, text))
    end

    :ok
  end

  @doc "Forgets the last note of a compiler."
  @spec forget_note(atom) :: :ok
  def forget_note(compiler) do
    notes = notes()
    if is_map_key(notes, compiler), do: write_notes(Map.delete(notes, compiler)), else: :ok
  end

  defp notes do
    case File.read(notes_path()) do
      {:ok, bytes} -> :erlang.binary_to_term(bytes)
      {:error, :enoent} -> %{}
    end
  end

  defp write_notes(notes) do
    File.mkdir_p!(Path.dirname(notes_path()))
    File.write!(notes_path(), :erlang.term_to_binary(notes))
  end

  defp notes_path, do: Path.join(Mix.Project.manifest_path(), @notes)
end
