defmodule BeTree.Output.Text do
  @moduledoc false
  # Converts messages to binaries in the encoding of their sink. This runs in the sender.

  alias BeTree.Input.Describe

  @type encoding :: :unicode | :latin1 | nil

  @doc "Returns the bytes of a message: iodata, or text (chardata) for a sink with an encoding."
  @spec encode!(term, encoding) :: binary
  def encode!(message, nil) do
    case attempt(fn -> IO.iodata_to_binary(message) end) do
      bytes when is_binary(bytes) -> bytes
      :error -> refuse("iodata, a binary or a list of bytes and binaries", message)
    end
  end

  def encode!(message, encoding) do
    case attempt(fn -> :unicode.characters_to_binary(message) end) do
      text when is_binary(text) and encoding == :latin1 ->
        latin1(text)

      text when is_binary(text) ->
        text

      _error ->
        refuse("text in UTF-8, a string or a list of characters and strings, because its sink is a device", message)
    end
  end

  defp attempt(convert) do
    convert.()
  rescue
    ArgumentError -> :error
  end

  # `io:format` writes characters that the device does not have in the same way.
  defp latin1(text) do
    case :unicode.characters_to_binary(text, :utf8, :latin1) do
      bytes when is_binary(bytes) -> bytes
      {_error, _bytes, _rest} -> for <<character::utf8 <- text>>, into: "", do: escape(character)
    end
  end

  defp escape(character) when character < 256, do: <<character>>
  defp escape(character), do: "\\x{#{Integer.to_string(character, 16)}}"

  @spec refuse(String.t(), term) :: no_return
  defp refuse(expected, message) do
    raise ArgumentError, "a message is #{expected}, got: #{Describe.kind(message)}"
  end
end
