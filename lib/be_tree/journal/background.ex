defmodule BeTree.Journal.Background do
  @moduledoc false
  # The timers and the background syncs of a journal. BeTree.Journal.Syncer implements them with a process; a test replaces it to
  # decide when time passes.

  @type syncer :: term

  @doc "Sends the calling process `message` after `ms` milliseconds."
  @callback send_later(message :: term, ms :: non_neg_integer) :: :ok

  @doc "Starts what syncs for the calling process. Returns it and a monitor of it."
  @callback start(files :: module) :: {syncer, reference}

  @doc "Syncs the file at `path`, and then sends the calling process `{tag, :ok}` or `{tag, {:error, error}}`."
  @callback sync(syncer, Path.t(), tag :: term) :: :ok

  @callback stop(syncer, reference) :: :ok
end
