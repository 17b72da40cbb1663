defmodule BeTree.Files.Terms do
  @moduledoc false
  # Reads a file of Erlang terms, each ended by a full stop, like `:file.consult/1`, but one term at a time and without
  # making atoms. It reads the terms of the two formats: integers, floats, atoms, strings, binaries, lists and tuples.
  #
  # `true`, `false` and `undefined` become these atoms; all other atoms become strings. A string in double quotes is a list
  # of characters, as in Erlang. A binary is the UTF-8 of the text between its quotes.
  #
  # A recursive-descent parser works on one line and reads the next line at its end. So a term may span lines, a line may
  # hold several terms, and nothing is scanned twice. Only strings and binaries must end on the line where they begin: `~p`
  # escapes their line ends.

  alias BeTree.Files.Reader

  # The formats need four levels. The bound keeps a file of brackets from overflowing the stack.
  @max_depth 16

  # Any unsigned 64-bit integer fits. The bound limits the time to read a long row of digits.
  @max_integer 0xFFFF_FFFF_FFFF_FFFF

  defguardp is_digit(character) when character in ?0..?9
  defguardp is_letter(character) when character in ?a..?z

  defguardp is_name(character)
            when character in ?a..?z or character in ?A..?Z or character in ?0..?9 or character in ~c"_@"

  @typedoc "A term with its position: the text and the number of its line, and the byte in the line."
  @type located :: {term, binary, pos_integer, non_neg_integer}

  # Returns a stream of the terms of `path`. Raises a `BeTree.Files.Error` at the first fault.
  @spec stream(Path.t()) :: Enumerable.t()
  def stream(path), do: Reader.stream(path, &take/1)

  # Returns the next term.
  @spec take(Reader.cursor()) :: {located, Reader.cursor()} | nil
  def take({rest, reader}) do
    case skip(rest, reader) do
      {:eof, _reader} -> nil
      {rest, reader} -> full_term(rest, reader)
    end
  end

  defp full_term(rest, start) do
    offset = offset(rest, start)
    {term, rest, reader} = value(rest, start, 0)

    case skip(rest, reader) do
      {"." <> rest, reader} -> {{term, start.text, start.number, offset}, {rest, reader}}
      {rest, reader} -> fail(rest, reader, "expected the full stop that ends a term")
    end
  end

  # Skips white space, comments and line ends. The returned text is never empty.
  defp skip(<<character, rest::binary>>, reader) when character in ~c" \t\r\f\v", do: skip(rest, reader)

  defp skip(rest, reader) when rest == "" or binary_part(rest, 0, 1) == "%" do
    case Reader.next_line(reader) do
      {:ok, reader} -> skip(reader.text, reader)
      :eof -> {:eof, reader}
    end
  end

  defp skip(rest, reader), do: {rest, reader}

  defp value(<<open, _::binary>> = rest, reader, @max_depth) when open in ~c"[{" do
    fail(rest, reader, "terms are nested at most #{@max_depth} deep")
  end

  defp value("[" <> rest, reader, depth), do: sequence(rest, reader, depth, ?])
  defp value("{" <> rest, reader, depth), do: sequence(rest, reader, depth, ?})
  defp value("<<" <> rest, reader, _depth), do: binary(rest, reader, [])
  defp value("\"" <> rest, reader, _depth), do: charlist(rest, reader)
  defp value("'" <> rest, reader, _depth), do: quoted(rest, reader, ?', [])
  defp value(<<digit, _::binary>> = rest, reader, _depth) when is_digit(digit), do: number(rest, reader, 1)
  defp value(<<?-, digit, _::binary>> = rest, reader, _depth) when is_digit(digit), do: number(rest, reader, -1)
  defp value(<<letter, _::binary>> = rest, reader, _depth) when is_letter(letter), do: atom(rest, reader)

  defp value(rest, reader, _depth),
    do: fail(rest, reader, "expected an Erlang term: a list, tuple, binary, number or atom")

  defp sequence(rest, reader, depth, close) do
    case skip(rest, reader) do
      {<<^close, rest::binary>>, reader} -> {finish([], close), rest, reader}
      {rest, reader} -> elements(rest, reader, depth, close, [])
    end
  end

  defp elements(rest, reader, depth, close, before) do
    {element, rest, reader} = value(rest, reader, depth + 1)
    after_element(rest, reader, depth, close, [element | before])
  end

  # The first two clauses serve nearly every element and skip the check for white space.
  defp after_element(<<?,, next, _::binary>> = rest, reader, depth, close, before) when next in ~c"0123456789tf<" do
    <<_comma, rest::binary>> = rest
    elements(rest, reader, depth, close, before)
  end

  defp after_element(<<close, rest::binary>>, reader, _depth, close, before) do
    {finish(before, close), rest, reader}
  end

  defp after_element(rest, reader, depth, close, before) do
    case skip(rest, reader) do
      {"," <> rest, reader} ->
        {rest, reader} = skip(rest, reader)
        elements(rest, reader, depth, close, before)

      {<<^close, rest::binary>>, reader} ->
        {finish(before, close), rest, reader}

      {rest, reader} ->
        fail(rest, reader, "expected a comma or the closing #{<<close>>}")
    end
  end

  defp finish(reversed, ?]), do: Enum.reverse(reversed)
  defp finish(reversed, ?}), do: reversed |> Enum.reverse() |> List.to_tuple()

  defp number(<<?-, digits::binary>> = rest, reader, -1), do: digits(digits, reader, -1, 0, rest)
  defp number(rest, reader, 1), do: digits(rest, reader, 1, 0, rest)

  defp digits(<<digit, rest::binary>>, reader, sign, integer, start) when is_digit(digit) do
    if integer > @max_integer, do: fail(start, reader, "an integer has at most 64 bits")
    digits(rest, reader, sign, integer * 10 + digit - ?0, start)
  end

  defp digits(<<?., digit, _::binary>>, reader, _sign, _integer, start) when is_digit(digit), do: float(start, reader)
  defp digits(rest, reader, sign, integer, _start), do: {sign * integer, rest, reader}

  defp float(start, reader) do
    [text] = Regex.run(~r/^-?\d+\.\d+(?:[eE][+-]?\d+)?/, start)
    {_text, rest} = :erlang.split_binary(start, byte_size(text))

    try do
      {String.to_float(text), rest, reader}
    rescue
      ArgumentError -> fail(start, reader, "a float is finite and has 64 bits")
    end
  end

  defp atom(rest, reader) do
    {name, rest} = :erlang.split_binary(rest, name_size(rest, 0))
    {known_atom(name), rest, reader}
  end

  defp known_atom("true"), do: true
  defp known_atom("false"), do: false
  defp known_atom("undefined"), do: :undefined
  defp known_atom(name), do: name

  defp name_size(<<character, rest::binary>>, size) when is_name(character), do: name_size(rest, size + 1)
  defp name_size(_rest, size), do: size

  defp charlist(rest, reader) do
    {text, rest, reader} = quoted(rest, reader, ?", [])

    if String.valid?(text),
      do: {String.to_charlist(text), rest, reader},
      else: fail(rest, reader, "the string that ends here is not UTF-8")
  end

  # Reads `<<"ab">>`, `<<"ab"/utf8>>`, `<<97,98>>`, and several of these in a row, the form in which Erlang prints long
  # binaries.
  defp binary(rest, reader, before) do
    case skip(rest, reader) do
      {">>" <> rest, reader} ->
        {before |> Enum.reverse() |> IO.iodata_to_binary(), rest, reader}

      {"\"" <> rest, reader} ->
        {text, rest, reader} = quoted(rest, reader, ?", [])
        rest |> after_segment() |> binary(reader, [text | before])

      {<<digit, _::binary>> = rest, reader} when is_digit(digit) ->
        {byte, after_byte, reader} = number(rest, reader, 1)
        unless byte in 0..255, do: fail(rest, reader, "a byte of a binary is from 0 to 255")
        after_byte |> after_segment() |> binary(reader, [byte | before])

      {rest, reader} ->
        fail(rest, reader, "expected a string, a byte or >>")
    end
  end

  defp after_segment("/utf8" <> rest), do: after_segment(rest)
  defp after_segment("," <> rest), do: rest
  defp after_segment(rest), do: rest

  # Returns the text up to the closing quote. Text without a backslash, the usual case, is a sub-binary of the line.
  defp quoted(rest, reader, mark, before) do
    case :erlang.split_binary(rest, plain_size(rest, mark, 0)) do
      {text, <<^mark, rest::binary>>} when before == [] ->
        {text, rest, reader}

      {text, <<^mark, rest::binary>>} ->
        {[text | before] |> Enum.reverse() |> IO.iodata_to_binary(), rest, reader}

      {text, <<?\\, rest::binary>>} ->
        {character, rest} = escaped(rest, reader)
        quoted(rest, reader, mark, [character, text | before])

      _unfinished ->
        fail("", reader, "expected the closing #{<<mark>>} in this line")
    end
  end

  defp plain_size(<<character, _::binary>>, mark, size) when character == mark or character == ?\\, do: size
  defp plain_size(<<_character, rest::binary>>, mark, size), do: plain_size(rest, mark, size + 1)
  defp plain_size("", _quote, size), do: size

  @escapes %{?b => ?\b, ?d => ?\d, ?e => ?\e, ?f => ?\f, ?n => ?\n, ?r => ?\r, ?s => ?\s, ?t => ?\t, ?v => ?\v}

  defp escaped("x{" <> rest, reader) do
    with {code, "}" <> after_code} <- Integer.parse(rest, 16), true <- code in 0..0xD7FF or code in 0xE000..0x10FFFF do
      {<<code::utf8>>, after_code}
    else
      _other -> fail(rest, reader, "expected a character's code in hexadecimal and a closing brace")
    end
  end

  defp escaped(<<?x, code::binary-size(2), after_code::binary>> = rest, reader) do
    case Integer.parse(code, 16) do
      {code, ""} when code >= 0 -> {<<code::utf8>>, after_code}
      _other -> fail(rest, reader, "expected two hexadecimal digits after \\x")
    end
  end

  defp escaped(<<digit, _::binary>> = rest, _reader) when digit in ?0..?7 do
    [octal] = Regex.run(~r/^[0-7]{1,3}/, rest)
    {_octal, rest} = :erlang.split_binary(rest, byte_size(octal))
    {<<String.to_integer(octal, 8)::utf8>>, rest}
  end

  defp escaped(<<letter, rest::binary>>, _reader) when is_map_key(@escapes, letter), do: {<<@escapes[letter]>>, rest}
  defp escaped(<<character, rest::binary>>, _reader), do: {<<character>>, rest}
  defp escaped("", reader), do: fail("", reader, "expected a character after the backslash")

  defp offset(rest, reader), do: byte_size(reader.text) - byte_size(rest)

  @spec fail(binary | :eof, Reader.t(), String.t()) :: no_return
  defp fail(:eof, reader, reason), do: fail("", reader, reason <> ", but the file ends here")

  defp fail(rest, reader, reason) do
    raise Reader.error(reader.path, reader.text, reader.number, offset(rest, reader), reason)
  end
end
