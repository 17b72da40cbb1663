defmodule BeTree.Input.JsonTest do
  use ExUnit.Case, async: true

  alias BeTree.Input.Json

  test "encode/1 and decode/1 round-trip" do
    for term <- [
          nil,
          true,
          -12,
          1.5e300,
          18_446_744_073_709_551_615,
          "",
          "ä \"quoted\" \\ \n\t\e 𝄞",
          [],
          %{},
          [1, [2, %{"a" => [nil]}]],
          %{"b" => %{"c" => "d"}, "a" => 1}
        ] do
      assert term |> Json.encode() |> Json.decode() == {:ok, term}
    end
  end

  test "encode/1 sorts keys, writes atoms as strings and replaces bytes that are not UTF-8" do
    assert Json.encode(%{b: :x, a: 1.0}) == ~S({"a":1.0,"b":"x"})
    assert Json.decode!(Json.encode(<<255, ?a>>)) == "ÿa"
  end

  test "decode/1 reads all forms of JSON values" do
    assert Json.decode!(~S( { "a" : [ 1 , -0.5e-2 , "\u00e4\ud834\udd1e\/\b\f\r" ] , "b":false } )) ==
             %{"a" => [1, -0.005, "ä𝄞/\b\f\r"], "b" => false}
  end

  test "decode/1 returns the offset of a fault" do
    for {text, offset} <- [
          {"", 0},
          {"[1,]", 3},
          {"{\"a\" 1}", 5},
          {"{1}", 1},
          {"[1 2]", 3},
          {"nul", 0},
          {"1 x", 2},
          {~S("\q"), 1},
          {~S("\ud834"), 1},
          {"[1e999]", 1},
          {"[01]", 2},
          {"1.e5", 1},
          {<<?", 255, ?">>, 1},
          {"\"a\nb\"", 2},
          {"[" <> String.duplicate("9", 401) <> "]", 1}
        ] do
      assert {text, Json.decode(text)} == {text, {:error, offset}}
    end

    assert {:error, _offset} = Json.decode(~S("abc))

    for {text, name, offset} <- [
          {~s({"a": 1, "b": 2, "a": 1}), "a", 17},
          {~S([{"é": {"x": 1, "\u0078": 2}}]), "x", 17},
          {~s({"": 1,"":2}), "", 7}
        ] do
      assert {text, Json.decode(text)} == {text, {:error, {:twice, name, offset}}}
    end

    assert Json.decode(~s([{"a": 1}, {"a": 2, "b": {"a": 3}}])) == {:ok, [%{"a" => 1}, %{"a" => 2, "b" => %{"a" => 3}}]}
    assert_raise ArgumentError, "the name \"a\" again at byte 7", fn -> Json.decode!(~s({"a":1,"a":2})) end
    assert_raise ArgumentError, "no JSON at byte 1", fn -> Json.decode!("[") end
  end
end
