defmodule BeTree.Journal.Recovery do
  @moduledoc false
  # Finds what a folder holds: the newest base, and the changes after it in an unbroken sequence. It changes nothing.
  #
  # Only the last segment can end with an interrupted write. Its first invalid record ends the journal, unless a later record or the
  # manifest proves that the change there was durable. In that case, and for any other gap, the folder is damaged and refused.

  alias BeTree.Error.Attempt
  alias BeTree.Journal.{Base, Fault, Manifest, Segment}
  alias BeTree.Error

  @enforce_keys [:base, :manifest, :segments, :sources, :leftovers, :last, :cut]
  defstruct @enforce_keys

  @typedoc """
    * `:base` - the newest base, or `nil`;
    * `:manifest` - what the manifest says, or `nil` for a new folder;
    * `:segments` - the segments that may hold changes after the base, in order;
    * `:sources` - the segments that hold the changes after the base, each with the last version to be read from it;
    * `:leftovers` - files that an earlier owner did not finish, and those that the base replaces;
    * `:last` - the version of the last change;
    * `:cut` - the place at which the last segment is cut off, or `nil`.
  """
  @type t :: %__MODULE__{
          base: Base.t() | nil,
          manifest: Manifest.found() | nil,
          segments: [Segment.t()],
          sources: [{Segment.t(), pos_integer}],
          leftovers: [Path.t()],
          last: non_neg_integer,
          cut: %{path: Path.t(), at: non_neg_integer} | nil
        }

  @doc """
  Returns the content of a folder. `{:error, {:identity, identity}}` means that it belongs to an owner with this other identity.
  """
  @spec run(module, Path.t(), binary) :: {:ok, t} | {:error, Error.t() | {:identity, binary}}
  def run(files, folder, identity) do
    with {:ok, names} <- list(files, folder),
         bases = numbered(folder, names, ".base"),
         {:ok, base} <- newest(files, bases),
         :ok <- check_identity(base, identity),
         {:ok, segments} <- open(files, numbered(folder, names, ".log")),
         recovery = start(base, segments),
         needed = needed(segments, recovery.last + 1),
         {:ok, recovery} <- walk(files, needed, recovery),
         :ok <- check_sources(recovery.sources, identity),
         {:ok, manifest} <- manifest(files, folder, Manifest.file_name() in names, recovery),
         :ok <- check_manifest(manifest, folder, recovery) do
      kept = for {segment, _last} <- needed, do: segment
      leftovers = unfinished(folder, names) ++ replaced(bases, segments -- kept)

      {:ok,
       %{
         recovery
         | manifest: manifest,
           segments: kept,
           sources: Enum.reverse(recovery.sources),
           leftovers: leftovers
       }}
    end
  end

  defp list(files, folder) do
    with {:error, reason} <- files.list(folder), do: Fault.file("read", folder, reason)
  end

  # Files that the newest base replaces, left by an owner that was killed before it removed them.
  defp replaced(bases, segments) do
    older = for {_version, path} <- Enum.drop(bases, -1), do: path
    older ++ for(segment <- segments, do: segment.path)
  end

  defp unfinished(folder, names) do
    for name <- names, name =~ ~r/\A\d{16,}\.(log|base\.\d+)\.new\z/, do: Path.join(folder, name)
  end

  # A folder has a manifest before it has any other file.
  defp manifest(files, folder, true, _recovery), do: Manifest.read(files, folder)
  defp manifest(_files, _folder, false, %{base: nil, segments: []}), do: {:ok, nil}

  defp manifest(_files, folder, false, _recovery),
    do: Fault.damaged(Path.join(folder, Manifest.file_name()), "it is missing")

  defp check_manifest(nil, _folder, _recovery), do: :ok

  defp check_manifest(%{segment: segment, durable: durable}, folder, %{segments: segments, last: last}) do
    newest = List.last(segments)

    cond do
      segment > 0 and (newest == nil or newest.sequence < segment) ->
        Fault.damaged(Segment.path(folder, segment), "it is missing")

      last < durable ->
        path = if newest, do: newest.path, else: folder
        Fault.damaged(path, "its changes end with #{last}, and those up to #{durable} were on the disk once")

      true ->
        :ok
    end
  end

  defp numbered(folder, names, extension) do
    numbered = for name <- names, number = Segment.number(name, extension), do: {number, Path.join(folder, name)}
    Enum.sort(numbered)
  end

  defp newest(_files, []), do: {:ok, nil}
  defp newest(files, bases), do: Base.open(files, bases |> List.last() |> elem(1))

  defp open(files, paths) do
    Attempt.map(paths, fn {_sequence, path} -> Segment.open(files, path) end)
  end

  defp start(base, segments) do
    last = if base, do: base.version, else: 0

    %__MODULE__{
      base: base,
      manifest: nil,
      segments: segments,
      sources: [],
      leftovers: [],
      last: last,
      cut: nil
    }
  end

  @doc """
  Returns the segments that may hold changes from the version `from` on, each with the last version that no later segment
  replaces (`:open` for the last segment). A segment that lacks one of these versions is damaged.
  """
  @spec needed([Segment.t()], pos_integer) :: [{Segment.t(), non_neg_integer | :open}]
  def needed(segments, from) do
    {needed, _first} =
      segments
      |> Enum.reverse()
      |> Enum.map_reduce(:open, fn
        segment, :open -> {{segment, :open}, segment.first}
        segment, first -> {{segment, first - 1}, min(first, segment.first)}
      end)

    needed |> Enum.reverse() |> Enum.filter(fn {_segment, last} -> last == :open or last >= from end)
  end

  defp check_identity(nil, _identity), do: :ok
  defp check_identity(%{identity: identity}, identity), do: :ok
  defp check_identity(%{identity: other}, _identity), do: {:error, {:identity, other}}

  # A segment before the base may have another identity: the base may have changed it.
  defp check_sources(sources, identity) do
    Enum.find_value(sources, :ok, fn {segment, _last} ->
      with :ok <- check_identity(segment, identity), do: nil
    end)
  end

  defp walk(_files, [], recovery), do: {:ok, recovery}

  defp walk(files, [{segment, last} | rest], recovery) do
    missing = recovery.last + 1

    # A later segment replaces all of a segment that begins after its last version.
    cond do
      last != :open and segment.first > last -> walk(files, rest, recovery)
      segment.first > missing -> gap(segment, missing)
      true -> walk_in(files, segment, last, rest, recovery)
    end
  end

  defp walk_in(files, segment, last, rest, recovery) do
    with {:ok, {ending, at, next}, _last} <- Segment.reduce(files, segment, last, &within/2) do
      case ending do
        :halt -> walk(files, rest, source(recovery, segment, next - 1))
        _end_or_fault when last != :open and next > last -> walk(files, rest, source(recovery, segment, last))
        _end_or_fault when last != :open -> lost(segment, at, next)
        :end -> {:ok, source(recovery, segment, next - 1)}
        :fault -> cut(files, segment, at, next, recovery)
      end
    end
  end

  defp within(_change, :open), do: {:cont, :open}
  defp within(%{version: version}, last), do: {if(version > last, do: :halt, else: :cont), last}

  defp source(recovery, segment, last) do
    if last > recovery.last,
      do: %{recovery | sources: [{segment, last} | recovery.sources], last: last},
      else: recovery
  end

  defp cut(files, segment, at, next, recovery) do
    with {:ok, false} <- Segment.proof?(files, segment, at, max(next, recovery.last + 1)) do
      {:ok, %{source(recovery, segment, next - 1) | cut: %{path: segment.path, at: at}}}
    else
      {:ok, true} -> lost(segment, at, next)
      {:error, error} -> {:error, error}
    end
  end

  defp lost(segment, at, next), do: Fault.damaged(segment.path, "change #{next} at byte #{at} is not as it was written")

  defp gap(segment, missing) do
    Fault.damaged(segment.path, "it begins with change #{segment.first}, and change #{missing} is in no file")
  end
end
