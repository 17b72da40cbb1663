defmodule BeTree.ErrorTest do
  use ExUnit.Case, async: true
  doctest BeTree.Error

  defp excerpt(text, column) do
    error = %BeTree.Error{kind: :syntax, message: "why", text: text, column: column}
    assert ["why", "", "    " <> line, "    " <> caret] = error |> Exception.message() |> String.split("\n")
    {line, caret}
  end

  test "message/1 is the message, with the column if there is no text" do
    assert Exception.message(%BeTree.Error{kind: :type, message: "why"}) == "why"
    assert Exception.message(%BeTree.Error{kind: :type, message: "why", text: "a"}) == "why"
    assert Exception.message(%BeTree.Error{kind: :type, message: "why", column: 7}) == "why (column 7)"
  end

  test "message/1 begins with the position in a list, or with the subscription" do
    tree = BeTree.new!(a: :integer)

    assert_raise BeTree.Error, ~r/^position 1: an id is an integer/, fn ->
      BeTree.insert_all!(tree, [{1, "a = 1"}, {"x", "a"}])
    end

    assert_raise BeTree.Error, ~r/^position 1: attribute `a`/, fn -> BeTree.search_many!(tree, [%{a: 1}, %{a: "x"}]) end
    {:error, error} = BeTree.insert_all(tree, [{1, "a = 1"}, {2, "a ="}])
    assert Exception.message(error) =~ ~r/^subscription 2: expected .*\n\n    a =\n/s
  end

  test "inspect/1 leaves out the fields that are nil" do
    assert inspect(%BeTree.Error{kind: :type, message: "why", column: 7}) ==
             ~s(%BeTree.Error{kind: :type, message: "why", column: 7})
  end

  test "an error can be raised" do
    assert_raise BeTree.Error, "why", fn -> raise BeTree.Error, kind: :type, message: "why" end
  end

  test "message/1 puts the caret under the column" do
    assert excerpt("abc", 1) == {"abc", "^"}
    assert excerpt("abc", 3) == {"abc", "  ^"}
    assert excerpt("äöü = 1", 5) == {"äöü = 1", "    ^"}
  end

  test "message/1 puts the caret behind a text that ends too early" do
    assert excerpt("abc", 4) == {"abc", "   ^"}
    assert excerpt("abc", 400) == {"abc", "   ^"}
    assert excerpt("", 1) == {"", "^"}
  end

  test "message/1 shows the line of the column" do
    assert excerpt("first\nsecond\nthird", 8) == {"second", " ^"}
    assert excerpt("first\nsecond\nthird", 6) == {"first", "     ^"}
    assert excerpt("first\nsecond\nthird", 14) == {"third", "^"}
  end

  test "message/1 gives tabs and control characters one column" do
    assert excerpt("a\tb\e[31m\r\n", 4) == {"a b [31m ", "   ^"}
  end

  test "message/1 gives each byte of invalid UTF-8 one column" do
    assert excerpt(<<"a", 0xFF, 0xC3, "b">>, 4) == {"a\uFFFD\uFFFDb", "   ^"}
  end

  test "message/1 cuts a long line to a window around the column" do
    text = String.duplicate("x", 1_000) <> "!" <> String.duplicate("y", 1_000)

    assert excerpt(text, 1_001) ==
             {"..." <> String.duplicate("x", 40) <> "!" <> String.duplicate("y", 31) <> "...",
              String.duplicate(" ", 43) <> "^"}

    assert excerpt(text, 1) == {String.duplicate("x", 32) <> "...", "^"}
    assert excerpt(text, 2_001) == {"..." <> String.duplicate("y", 41), String.duplicate(" ", 43) <> "^"}
    assert {line, _caret} = excerpt(text, 41)
    assert String.starts_with?(line, "x")
  end
end
