defmodule BeTree.Journal.Background do
  @moduledoc false
  # What a journal leaves to time and to another process: messages that come later, and syncs while the owner writes on.
  # BeTree.Journal.Syncer has the system's; a test puts one in its place that does both when the test says so.

  @type syncer :: term

  @doc "Sends the calling process `message` after `ms` milliseconds."
  @callback send_later(message :: term, ms :: non_neg_integer) :: :ok

  @doc "Starts what syncs for the calling process. Returns it and a monitor of it."
  @callback start(files :: module) :: {syncer, reference}

  @doc "Syncs the file at `path`, and then sends the calling process `{tag, :ok}` or `{tag, {:error, error}}`."
  @callback sync(syncer, Path.t(), tag :: term) :: :ok

  @callback stop(syncer, reference) :: :ok
end
