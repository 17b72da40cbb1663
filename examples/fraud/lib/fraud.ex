defmodule Fraud do
  @moduledoc """
  Fraud detection: facts of users and devices come in, rules join them over time, and the desk gets the cases.

  Without `at:` in `options` a fact has the time at which it comes; `at: milliseconds` gives it another.
  """

  alias BeTree.Rules.Server
  alias Fraud.{Desk, Rules}

  @type result :: :ok | {:error, BeTree.Error.t()}

  @spec login(String.t(), boolean, keyword) :: result
  def login(user, ok?, options \\ []), do: assert(:login, [user: user, ok: ok?] ++ options)

  @spec change_password(String.t(), String.t(), keyword) :: result
  def change_password(user, device, options \\ []),
    do: assert(:password_change, [user: user, device: device] ++ options)

  @spec confirm(String.t(), keyword) :: result
  def confirm(user, options \\ []), do: assert(:confirmation, [user: user] ++ options)

  @spec trust(String.t(), keyword) :: result
  def trust(device, options \\ []), do: assert(:trusted, [device: device] ++ options)

  @doc "Withdraws the trust in a device. Rules that it blocked fire now."
  @spec distrust(String.t()) :: result
  def distrust(device) do
    with {:ok, facts} <- Server.facts(Rules, :trusted) do
      for %{id: id, fields: %{"device" => ^device}} <- facts, do: {:ok, _page} = Server.retract(Rules, id)
      :ok
    end
  end

  @doc "Returns the cases, the oldest first."
  @spec cases() :: [Desk.case_of_fraud()]
  def cases, do: Desk.cases()

  @doc "Explains why a rule has fired, or which condition it lacks."
  @spec why(atom) :: {:ok, [BeTree.Rules.Explanation.t()]} | {:error, BeTree.Error.t()}
  def why(rule), do: Server.explain(Rules, rule)

  @doc "Reads the file of rules again, and keeps the facts. Wrong rules are refused with their line, and the present ones stay."
  @spec reload() :: result
  def reload, do: Server.swap(Rules, File.read!(Application.fetch_env!(:fraud, :rules)))

  defp assert(type, fields) do
    with {:ok, _page} <- Server.assert(Rules, {type, fields}), do: :ok
  end
end
