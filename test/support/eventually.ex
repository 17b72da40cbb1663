defmodule BeTree.Test.Eventually do
  @moduledoc """
  Waits for what another process, or a thread of the host, is about to do.
  """

  @doc "Asks `check` every 10 milliseconds until it is true; the test fails if it is not within `seconds`."
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
