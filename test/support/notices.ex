defmodule BeTree.Test.Notices do
  @moduledoc "Receives the notices of a server of rules."

  @doc """
  Takes the received notices of the server `name` from the mailbox of the calling process, and returns them. Messages about restarts are
  left out.
  """
  def notices(name) do
    receive do
      {BeTree.Rules.Server, ^name, :restarted} -> notices(name)
      {BeTree.Rules.Server, ^name, notices} -> notices ++ notices(name)
    after
      0 -> []
    end
  end
end
