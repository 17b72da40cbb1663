defmodule BeTree.Test.Eventually do
  @moduledoc """
  Waits for an effect of another process or of a thread of the host.
  """

  alias BeTree.Test.Attack

  # Far more than a busy machine needs. A failure shows where the test hangs.
  @seconds 300
  @seconds_of_attack 3_000

  @doc "Calls `check` every 10 milliseconds until it returns true. Fails the test after some minutes."
  def eventually(check) do
    seconds = Attack.size(@seconds, @seconds_of_attack)
    ask(check, seconds, 100 * seconds)
  end

  defp ask(check, seconds, attempts) do
    cond do
      check.() ->
        :ok

      attempts == 0 ->
        ExUnit.Assertions.flunk(
          "did not come true within #{seconds} seconds: #{inspect(BeTree.Runtime.Native.counts())}"
        )

      true ->
        Process.sleep(10)
        ask(check, seconds, attempts - 1)
    end
  end
end
