defmodule BeTree.Test.Logs do
  @moduledoc "Captures the library's log lines about one subject."

  @doc "Returns the result of `fun`, and the lines with `about`, a text or a regular expression, that any process of the library logged meanwhile."
  def with_log(about, fun) do
    id = :"logs_#{System.unique_integer([:positive])}"
    tag = make_ref()
    :ok = :logger.add_handler(id, __MODULE__, %{config: {self(), tag, about}})
    :ok = :logger.add_handler_filter(:default, id, {&filter/2, about})

    try do
      result = fun.()
      {result, lines(tag)}
    after
      :logger.remove_handler(id)
      :logger.remove_handler_filter(:default, id)
    end
  end

  defp lines(tag) do
    receive do
      {^tag, line} -> [line | lines(tag)]
    after
      0 -> []
    end
  end

  # Runs in the logging process.
  @doc false
  def log(event, %{config: {pid, tag, about}}) do
    with line when line != nil <- line(event, about), do: send(pid, {tag, line})
  end

  defp filter(event, about), do: if(line(event, about), do: :stop, else: :ignore)

  defp line(%{meta: %{application: :be_tree}, msg: {:string, text}}, about) do
    line = IO.chardata_to_string(text)
    if line =~ about, do: line
  end

  defp line(_event, _about), do: nil
end
