defmodule BeTree.Test.Notices do
  @moduledoc "Receives the notices of a server of rules."

  @doc "Returns the notices of the server `name` that the calling process has received, and takes them from its messages."
  def notices(name) do
    receive do
      {BeTree.Rules.Server, ^name, notices} -> notices ++ notices(name)
    after
      0 -> []
    end
  end
end
