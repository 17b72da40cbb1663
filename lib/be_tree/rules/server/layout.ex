defmodule BeTree.Rules.Server.Layout do
  @moduledoc false
  # The files in a server's folder besides its journals: one that names its partitions and their keys, because a fact is found in the
  # partition of its key only, and one that says that its clock is the system's. A journal has an identity, by which the refusal of a
  # folder names the server that owns it.

  alias BeTree.Journal
  alias BeTree.Journal.Disk
  alias BeTree.Error
  alias BeTree.Rules.Server.Routes
  alias BeTree.Server.Store

  @file_name "partitions"
  @live "live"
  @identity "BeTree rules 2"

  @typedoc "The key of each fact type, among other things."
  @type keyed :: %{required(:keys) => %{String.t() => String.t() | :all}, optional(atom) => term}

  @doc "Checks that a folder has these partitions, or none yet, and writes them to it."
  @spec keep(Path.t() | nil, Routes.t()) :: :ok | {:error, Error.t()}
  def keep(nil, _routes), do: :ok

  def keep(dir, routes) do
    dir = IO.chardata_to_string(dir)
    new = %{partitions: routes.partitions, keys: routes.keys}

    case read(dir) do
      {:ok, ^new} ->
        :ok

      {:ok, %{partitions: count} = old} when count == routes.partitions ->
        with :ok <- check_keys(old, new), do: write(dir, @file_name, :erlang.term_to_binary(new))

      {:ok, %{partitions: count}} ->
        other("has #{partitions(count)}, not #{routes.partitions}; start the server with `partitions: #{count}`", dir)

      :none ->
        cond do
          Journal.content?(dir) -> other_owner(dir, Journal.identity(dir))
          any_partition?(dir) -> other("lacks its file `#{@file_name}`; take the folder from a copy", dir)
          true -> write(dir, @file_name, :erlang.term_to_binary(new))
        end

      {:error, error} ->
        {:error, error}
    end
  end

  @doc "Checks that a folder has no partitions."
  @spec none(Path.t() | nil) :: :ok | {:error, Error.t()}
  def none(nil), do: :ok

  def none(dir) do
    dir = IO.chardata_to_string(dir)

    case read(dir) do
      :none ->
        :ok

      {:ok, %{partitions: count}} ->
        other("was written with #{partitions(count)}; start the server with `partitions: #{count}`", dir)

      {:error, error} ->
        {:error, error}
    end
  end

  @doc "Returns the clock of a server with this option: the system's if the folder went live."
  @spec clock(Path.t() | nil, :facts | :system) :: {:ok, :facts | :system} | {:error, Error.t()}
  def clock(nil, clock), do: {:ok, clock}

  def clock(dir, clock) do
    path = dir |> IO.chardata_to_string() |> Path.join(@live)

    case File.lstat(path) do
      {:ok, _live} -> {:ok, :system}
      {:error, reason} when reason in [:enoent, :enotdir] -> {:ok, clock}
      {:error, reason} -> file_error("read", path, reason)
    end
  end

  @doc "Makes the clock of a folder the system's, for good."
  @spec go_live(Path.t() | nil) :: :ok | {:error, Error.t()}
  def go_live(nil), do: :ok
  def go_live(dir), do: write(IO.chardata_to_string(dir), @live, "time moves by the system's clock\n")

  @doc "Checks that the fact types which both have keep their keys."
  @spec check_keys(keyed, keyed) :: :ok | {:error, Error.t()}
  def check_keys(%{keys: old}, %{keys: new}) do
    case for {type, key} <- old, Map.get(new, type, key) != key, do: {type, key} do
      [] ->
        :ok

      [{type, key} | _more] ->
        message =
          "the facts of `#{type}` lie in the partitions of #{key(key)}, not of #{key(new[type])}; leave that key as it is, or insert the " <>
            "facts into a new server"

        {:error, %Error{kind: :other_schema, message: message}}
    end
  end

  defp key(:all), do: "all"
  defp key(field), do: "`#{field}`"

  defp partitions(1), do: "1 partition"
  defp partitions(count), do: "#{count} partitions"

  defp other(fault, dir) do
    {:error, %Error{kind: :other_schema, message: "the folder #{dir} #{fault}, or give it another folder"}}
  end

  @doc "Returns the identity of the journal of rules without partitions."
  @spec identity :: String.t()
  def identity, do: @identity

  @doc "Returns the identity of the journal of the partition with this number."
  @spec identity(non_neg_integer, pos_integer) :: String.t()
  def identity(number, partitions), do: "#{@identity}, partition #{number} of #{partitions}"

  @doc "Returns the error of a folder whose journal has this other identity, which is `nil` if it is unknown."
  @spec other_owner(Path.t(), binary | nil) :: {:error, Error.t()}
  def other_owner(dir, @identity),
    do: other("was written without partitions; start the server without `partitions:`", dir)

  def other_owner(dir, @identity <> ", partition " <> place),
    do: other("holds only partition #{place}; start the server with the folder of all partitions", dir)

  def other_owner(dir, "BeTree rules " <> _version),
    do: other("was written by another version of BeTree; start the server with that version", dir)

  def other_owner(dir, nil), do: foreign("has a journal whose owner cannot be read", dir)

  def other_owner(dir, identity) do
    if Store.subscriptions?(identity),
      do: foreign("holds the subscriptions of a BeTree.Server", dir),
      else: foreign("holds no rules", dir)
  end

  defp foreign(fault, dir) do
    message = "the folder #{dir} #{fault}; give the server of rules another folder"
    {:error, %Error{kind: :other_schema, message: message}}
  end

  # Foreign files, such as those of a file system, and the leftovers of a failed start are no content.
  defp any_partition?(dir) do
    names = with {:error, _reason} <- File.ls(dir), do: {:ok, []}
    partitions = for "partition-" <> _number = name <- elem(names, 1), do: Path.join(dir, name)
    Enum.any?(partitions, &Journal.content?/1)
  end

  defp read(dir) do
    path = Path.join(dir, @file_name)

    case File.read(path) do
      {:ok, bytes} -> decode(bytes, path)
      {:error, reason} when reason in [:enoent, :enotdir] -> :none
      {:error, reason} -> file_error("read", path, reason)
    end
  end

  defp decode(bytes, path) do
    case :erlang.binary_to_term(bytes, [:safe]) do
      %{partitions: count, keys: keys} = layout when is_integer(count) and is_map(keys) -> {:ok, layout}
      _other -> damaged(path)
    end
  rescue
    ArgumentError -> damaged(path)
  end

  defp damaged(path),
    do: {:error, %Error{kind: :damaged, message: "the file #{path} is damaged; take the folder from a copy"}}

  # The file is there as a whole or not at all.
  defp write(dir, name, bytes) do
    path = Path.join(dir, name)
    new = path <> ".new"

    with :ok <- Disk.make_folder(dir),
         :ok <- fill(new, bytes),
         :ok <- Disk.rename(new, path),
         :ok <- Disk.sync_folder(dir) do
      :ok
    else
      {:error, reason} -> file_error("write", path, reason)
    end
  end

  # A start that failed may have left the file.
  defp fill(path, bytes) do
    with gone when gone in [:ok, {:error, :enoent}] <- Disk.delete(path),
         {:ok, device} <- Disk.create(path) do
      filled = with :ok <- Disk.pwrite(device, 0, bytes), do: Disk.sync(device)
      closed = Disk.close(device)
      with :ok <- filled, do: closed
    end
  end

  defp file_error(verb, path, reason) do
    {:error,
     %Error{kind: :file, message: "cannot #{verb} #{path}: #{:file.format_error(reason)}; mend that, and start again"}}
  end
end
