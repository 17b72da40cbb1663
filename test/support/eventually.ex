defmodule BeTree.Test.Eventually do
  @moduledoc """
  Waits for an effect of another process or of a thread of the host.
  """

  @doc "Calls `check` every 10 milliseconds until it returns true. Fails the test after `seconds`."
  def eventually(check, seconds \\ 30), do: ask(check, seconds, 100 * seconds)

  defp ask(check, seconds, attempts) do
    cond do
      check.() ->
        :ok

      attempts == 0 ->
        ExUnit.Assertions.flunk(
          "did not come true within #{seconds} seconds: #{inspect(BeTree.Engine.Native.counts())}"
        )

      true ->
        Process.sleep(10)
        ask(check, seconds, attempts - 1)
    end
  end
end
