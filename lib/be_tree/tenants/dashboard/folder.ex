defmodule BeTree.Tenants.Dashboard.Folder do
  @moduledoc false
  # The schema of the tenants in a folder. The journal of a folder has the schema as its identity, so nothing else has to tell it.

  alias BeTree.{Domain, Error}
  alias BeTree.Input.Describe
  alias BeTree.Journal.{Disk, Recovery}

  @doc "Returns the schema of the tenants in a folder, in the form of `BeTree.Domain`. Changes nothing there."
  @spec schema(Path.t()) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(folder) do
    journal = Path.join(folder, "journal")

    with true <- File.dir?(journal),
         # No schema is encoded as no bytes, so a folder with tenants has another identity.
         {:error, {:identity, identity}} <- Recovery.run(Disk, journal, "") do
      decode(folder, identity)
    else
      {:error, %Error{} = error} -> {:error, error}
      _nothing -> refuse(:file, "there are no tenants in #{Describe.value(folder)}; it is the folder of `dir:`")
    end
  end

  defp decode(folder, identity) do
    identity |> :erlang.binary_to_term([:safe]) |> Domain.from_term()
  rescue
    ArgumentError ->
      refuse(:damaged, "the journal in #{Describe.value(folder)} has no schema: it belongs to something else")
  end

  defp refuse(kind, message), do: {:error, %Error{kind: kind, message: message}}
end
