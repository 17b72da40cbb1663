defmodule BeTreeExchange.Event do
  @moduledoc false
  # The event of a message: its headers, or its payload.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Config, Records}

  @doc "Returns the event, or `:content_type` for a payload that is not JSON."
  @spec of(Records.message(), Config.t()) :: {:ok, BeTree.Event.t()} | {:error, :content_type}
  def of(message, %Config{source: :headers} = config) do
    {content, keys} = decode(message)
    event = for {name, type, value} <- headers(content), do: {name, value(type, value)}
    {:ok, with_key(event, keys, config)}
  end

  def of(message, %Config{source: :payload} = config) do
    {content, keys} = decode(message)

    if json?(content_type(content)),
      do: {:ok, {:json, payload_with_key(payload(content), keys, config)}},
      else: {:error, :content_type}
  end

  defp with_key(event, keys, %{routing_key: true}),
    do: [{"routing_key", first(keys)} | List.keydelete(event, "routing_key", 0)]

  defp with_key(event, _keys, _config), do: event

  defp first([key | _others]), do: key
  defp first([]), do: ""

  # A message without a content type may have JSON; the search refuses it otherwise.
  defp json?(:undefined), do: true
  defp json?(""), do: true

  defp json?(type) do
    type = type |> String.split(";") |> hd() |> String.trim() |> String.downcase(:ascii)
    type in ["application/json", "text/json"] or String.ends_with?(type, "+json")
  end

  # Of a repeated name the last value counts, so that a payload cannot replace the key.
  defp payload_with_key(payload, keys, %{routing_key: true}) do
    trimmed = trim(payload)

    if trimmed != "" and :binary.last(trimmed) == ?} do
      open = trimmed |> binary_part(0, byte_size(trimmed) - 1) |> trim()
      comma = if open == "{", do: "", else: ","
      IO.iodata_to_binary([open, comma, "\"routing_key\":", BeTree.Input.Json.encode(first(keys)), "}"])
    else
      payload
    end
  end

  defp payload_with_key(payload, _keys, _config), do: payload

  # JSON's space only: `String.trim/1` needs UTF-8.
  defp trim(<<>>), do: ""

  defp trim(text) do
    if :binary.last(text) in ~c" \n\r\t", do: trim(binary_part(text, 0, byte_size(text) - 1)), else: text
  end
end
