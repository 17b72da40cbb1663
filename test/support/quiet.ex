defmodule BeTree.Test.Quiet do
  @moduledoc "Silences OTP's crash reports of processes that tests end."

  @doc "Silences reports of supervisors and crashes until the test ends. A callback for `setup`."
  def quiet(_context) do
    id = :"quiet_#{System.unique_integer([:positive])}"
    # Of the default handler only: the handlers of other tests (BeTree.Test.Logs) still get the events.
    :logger.add_handler_filter(:default, id, {&filter/2, nil})
    ExUnit.Callbacks.on_exit(fn -> :logger.remove_handler_filter(:default, id) end)
  end

  defp filter(%{msg: {:report, %{label: {source, _what}}}}, _extra)
       when source in [:supervisor, :proc_lib, :gen_server],
       do: :stop

  defp filter(%{meta: %{application: :be_tree}}, _extra), do: :stop
  defp filter(_event, _extra), do: :ignore
end
