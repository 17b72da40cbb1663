defmodule BeTree.Pattern.Reader do
  @moduledoc false
  # Reads an EventBridge pattern by the rules of event-ruler's JSON compiler.

  alias BeTree.Domain.Path
  alias BeTree.Input.{Describe, Json}
  alias BeTree.Error

  @typedoc """
  A pattern joins fields by "and" and "or". A field passes if at least one of its tests does.
  """
  @type t :: {:and, [t]} | {:or, [t]} | {:field, path, [test]}
  @type path :: [String.t(), ...]
  @type scalar :: String.t() | number | boolean | nil
  @type test ::
          {:equal, scalar}
          | {:prefix | :suffix | :ignore_case | :prefix_ignore_case | :suffix_ignore_case | :wildcard | :cidr,
             String.t()}
          | {:numeric, [{String.t(), number}]}
          | {:exists, boolean}
          | {:but, [test]}

  # An object in `$or` with one of these names makes `$or` an ordinary field.
  @test_names ~w(exactly equals-ignore-case prefix suffix anything-but exists wildcard numeric cidr = < <= > >=) ++
                ~w(regex not-wildcard not-equals-ignore-case date-after date-on-or-after date-before date-on-or-before) ++
                ~w(in-date-range ip-address-in-range ip-address-not-in-range)

  # Bounds on a field's path: its levels, and the bytes of the names.
  @max_levels 100
  @max_path_bytes 4_000

  @doc "Returns the pattern in JSON text or in a decoded map."
  @spec read(BeTree.Pattern.t()) :: {:ok, t} | {:error, Error.t()}
  def read(text) when is_binary(text) do
    case Json.decode(text) do
      {:ok, decoded} ->
        # Fields have no locations in the JSON, so no column.
        read_object(decoded)

      {:error, {:twice, name, offset}} ->
        message = "an object has the name #{Describe.value(name)} twice; give all tests of a field in one array"
        {:error, syntax(message, text, offset)}

      {:error, offset} ->
        {:error, syntax(fault(binary_part(text, offset, byte_size(text) - offset)), text, offset)}
    end
  end

  def read(decoded), do: read_object(decoded)

  defp fault("\uFEFF" <> _rest),
    do: "a byte order mark (U+FEFF) is here, which belongs to a file and not to its text; leave it out"

  defp fault(_text), do: "the pattern is no JSON here; give a JSON object"

  defp syntax(message, text, offset) do
    column = text |> binary_part(0, offset) |> characters()
    %Error{kind: :syntax, message: message, text: text, column: column + 1}
  end

  defp characters(text), do: text |> String.codepoints() |> length()

  defp read_object(object) do
    {:ok, object(object, {[], 0})}
  catch
    {:refused, error} -> {:error, error}
  end

  defp object(object, path) when is_map(object) and not is_struct(object) do
    if map_size(object) == 0, do: refuse(path, "an object has one field or more")

    parts =
      for {name, value} <- Enum.sort(object) do
        unless is_binary(name) and String.valid?(name),
          do: refuse(path, "the name of a field is a string in UTF-8, got: #{Describe.value(name)}")

        if name == "$or" and either?(value),
          do: {:or, Enum.map(value, &object(&1, path))},
          else: field(value, deeper(path, name))
      end

    case parts do
      [part] -> part
      parts -> {:and, parts}
    end
  end

  defp object(other, path), do: refuse(path, "a pattern is an object, got: #{Describe.value(other)}")

  # Each test repeats the names on its path: without a limit a text of 200 KB could expand to gigabytes.
  defp deeper({names, bytes} = path, name) do
    bytes = bytes + byte_size(name)

    if length(names) == @max_levels,
      do:
        refuse(
          path,
          "its fields lie more than #{@max_levels} levels deep; flatten the events or leave these tests out"
        )

    if bytes > @max_path_bytes,
      do:
        refuse(
          path,
          "the names of a field and of the objects around it have more than #{@max_path_bytes} bytes; shorten them"
        )

    {[name | names], bytes}
  end

  # The path to a field, from the outermost name.
  defp names({names, _bytes}), do: Enum.reverse(names)

  defp either?([_one, _two | _more] = alternatives) do
    not List.improper?(alternatives) and
      Enum.all?(alternatives, &(is_map(&1) and not Enum.any?(Map.keys(&1), fn name -> name in @test_names end)))
  end

  defp either?(_other), do: false

  defp field(fields, path) when is_map(fields), do: object(fields, path)
  defp field([], path), do: refuse(path, "an array has one test or more")

  defp field(tests, path) when is_list(tests) do
    if List.improper?(tests), do: refuse(path, "an array is a proper list")
    {:field, names(path), Enum.map(tests, &test(&1, path))}
  end

  defp field(other, path) do
    refuse(
      path,
      "a field has an object or an array of tests, such as [#{example(other)}], got: #{Describe.value(other)}"
    )
  end

  defp example(string) when is_binary(string) and byte_size(string) <= 20, do: inspect(string)
  defp example(number) when is_float(number), do: inspect(number)
  defp example(_other), do: ~S("a")

  defp test(scalar, _path) when is_boolean(scalar) or is_nil(scalar), do: {:equal, scalar}
  defp test(number, path) when is_number(number), do: {:equal, number(number, path)}
  defp test(string, path) when is_binary(string), do: {:equal, string(string, path)}
  defp test(test, path) when is_map(test) and map_size(test) == 1, do: named(hd(Map.to_list(test)), path)

  defp test(other, path) do
    refuse(
      path,
      "a test is a string, a number, true, false, null or an object with one name, got: #{Describe.value(other)}"
    )
  end

  defp named({"exactly", string}, path), do: {:equal, string(string, path)}
  defp named({"prefix", value}, path), do: maybe_ignoring(value, path, :prefix, :prefix_ignore_case)
  defp named({"suffix", value}, path), do: maybe_ignoring(value, path, :suffix, :suffix_ignore_case)
  defp named({"equals-ignore-case", string}, path), do: {:ignore_case, string(string, path)}
  defp named({"wildcard", string}, path), do: {:wildcard, wildcard(string, path)}
  defp named({"cidr", string}, path), do: {:cidr, string(string, path)}
  defp named({"exists", boolean}, _path) when is_boolean(boolean), do: {:exists, boolean}
  defp named({"exists", other}, path), do: refuse(path, "exists is true or false, got: #{Describe.value(other)}")
  defp named({"numeric", list}, path), do: {:numeric, numeric(list, path)}
  defp named({"anything-but", value}, path), do: {:but, anything_but(value, path)}

  defp named({name, _value}, path) do
    tests = "exactly, prefix, suffix, equals-ignore-case, wildcard, anything-but, numeric, cidr and exists"
    refuse(path, "#{Describe.value(name)} is no test; the tests are #{tests}, and $or takes two objects or more")
  end

  defp maybe_ignoring(%{"equals-ignore-case" => string} = object, path, _plain, ignoring) when map_size(object) == 1,
    do: {ignoring, string(string, path)}

  defp maybe_ignoring(string, path, plain, _ignoring), do: {plain, string(string, path)}

  defp anything_but(object, path) when is_map(object) and map_size(object) == 1 do
    [{name, value}] = Map.to_list(object)

    test =
      case name do
        "prefix" ->
          &{:prefix, not_empty(&1, path)}

        "suffix" ->
          &{:suffix, not_empty(&1, path)}

        "equals-ignore-case" ->
          &{:ignore_case, string(&1, path)}

        "wildcard" ->
          &{:wildcard, wildcard(&1, path)}

        _other ->
          refuse(
            path,
            "anything-but takes prefix, suffix, equals-ignore-case or wildcard, got: #{Describe.value(name)}"
          )
      end

    value |> one_or_more(path) |> Enum.map(test)
  end

  defp anything_but(value, path) do
    values = one_or_more(value, path)

    unless Enum.all?(values, &is_binary/1) or Enum.all?(values, &is_number/1),
      do: refuse(path, "anything-but takes strings, or numbers, but not both, and nothing else")

    Enum.map(values, &test(&1, path))
  end

  defp one_or_more([_one | _more] = list, path), do: if(List.improper?(list), do: one_or_more([], path), else: list)
  defp one_or_more([], path), do: refuse(path, "anything-but takes one value or more")
  defp one_or_more(value, _path), do: [value]

  defp numeric(["=", number], path), do: [{"=", number(number, path)}]
  defp numeric([operator, number], path) when operator in ~w(< <= > >=), do: [{operator, number(number, path)}]

  defp numeric([above, bottom, below, top], path) when above in ~w(> >=) and below in ~w(< <=) do
    range = [{above, number(bottom, path)}, {below, number(top, path)}]
    if bottom >= top, do: refuse(path, "the first number of numeric is less than the second"), else: range
  end

  defp numeric(other, path) do
    forms = ~s(["=", 5], [">", 0] or [">", 0, "<=", 5])
    refuse(path, "numeric is like #{forms}, got: #{Describe.value(other)}")
  end

  defp number(number, path) when is_number(number) do
    # Longer integers exceed the range of floats.
    if is_integer(number) and abs(number) >= Bitwise.bsl(1, 1_023),
      do: refuse(path, "a number must fit a double"),
      else: number
  end

  defp number(other, path), do: refuse(path, "numeric takes numbers, got: #{Describe.value(other)}")

  defp string(string, path) when is_binary(string) do
    if String.valid?(string), do: string, else: refuse(path, "a string must be UTF-8")
  end

  defp string(other, path), do: refuse(path, "this test takes a string, got: #{Describe.value(other)}")

  defp not_empty("", path), do: refuse(path, "the prefix or suffix of anything-but is not empty")
  defp not_empty(other, path), do: string(other, path)

  # Refuses consecutive `*`, and escapes of anything but `*` and `\`.
  defp wildcard(string, path) do
    string = string(string, path)

    cond do
      Regex.match?(~r/\A(?:[^\\]|\\[*\\])*+\z/s, string) == false ->
        refuse(path, ~S(in a wildcard a backslash comes before `*` or a backslash), :syntax)

      Regex.match?(~r/\A(?:[^\\*]|\\.|\*(?!\*))*+\z/s, string) == false ->
        refuse(path, "a wildcard has no two `*` in a row; write one", :syntax)

      true ->
        string
    end
  end

  @typep place :: {[String.t()], non_neg_integer}

  @spec refuse(place, String.t()) :: no_return
  defp refuse(path, message), do: refuse(path, message, :type)

  @spec refuse(place, String.t(), Error.kind()) :: no_return
  defp refuse({[], _bytes}, message, kind), do: throw({:refused, %Error{kind: kind, message: message}})

  defp refuse(path, message, kind) do
    name = path |> names() |> Path.join()
    throw({:refused, %Error{kind: kind, attribute: name, message: "#{Describe.quoted(name)}: #{message}"}})
  end
end
