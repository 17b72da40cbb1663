defmodule BeTree.Input.OptionsTest do
  use ExUnit.Case, async: true

  alias BeTree.Input.Options

  @definitions [
    name: [type: {:check, "an atom", &__MODULE__.name?/1}, required: true, doc: "an atom"],
    count: [type: :positive, default: 3, doc: "a number"],
    size: [type: {:bytes, 1, 9}, default: {:computed, &__MODULE__.size/0}, default_doc: "the size", doc: "bytes"],
    form: [type: {:one_of, [:a, :b, :c]}, doc: "a form"],
    only: [type: {:one_of, [:a]}, default: :a, doc: "the only form"],
    budget: [type: :budget, default: :infinity, doc: "fuel"],
    timeout: [type: {:nullable, :timeout}, doc: "milliseconds"],
    loud: [type: :boolean, default: false, doc: "whether it is loud"],
    other: [type: :any, doc: "anything"]
  ]

  def name?(name), do: is_atom(name) and name != nil
  def size, do: 5

  test "validate!/2 adds defaults and omits options without one" do
    assert Options.validate!([name: :x], @definitions) ==
             [name: :x, count: 3, size: 5, only: :a, budget: :infinity, loud: false]
  end

  test "validate!/2 keeps the first value of a repeated option" do
    options = Options.validate!([count: 1, name: :x, count: 2, timeout: nil, form: :b, other: 7], @definitions)
    assert {options[:count], options[:timeout], options[:form], options[:other]} == {1, nil, :b, 7}
    assert Options.put!(%{count: 0}, [count: 1, count: 2], @definitions) == %{count: 1}
  end

  test "validate!/2 names the option and the expected values in its error" do
    for {options, message} <- [
          {[], "the option :name is missing; it takes an atom"},
          {[name: 1], "the option :name takes an atom, got: 1"},
          {[name: :x, count: 0], "the option :count takes a positive integer, got: 0"},
          {[name: :x, size: 10], "the option :size takes bytes, an integer from 1 to 9, got: 10"},
          {[name: :x, form: :d], "the option :form takes :a, :b or :c, got: :d"},
          {[name: :x, only: :b], "the option :only takes :a, got: :b"},
          {[name: :x, budget: -1], "the option :budget takes a positive integer or :infinity, got: -1"},
          {[name: :x, loud: nil], "the option :loud takes true or false, got: nil"},
          {[name: :x, timeout: -1],
           "the option :timeout takes milliseconds from 0 to 4294967295, the most that a process can wait, or :infinity, got: -1"},
          {[unknown: 1],
           "unknown keys [:unknown]; the options are :name, :count, :size, :form, :only, :budget, :timeout, :loud, :other"},
          {[timout: 1],
           "unknown keys [:timout]; did you mean :timeout? All the options are :name, :count, :size, :form, :only, :budget, :timeout, " <>
             ":loud, :other"},
          {%{name: :x}, "options are a keyword list, got: %{name: :x}"},
          {[:name], "options are a keyword list, got: [:name]"}
        ] do
      assert_raise ArgumentError, message, fn -> Options.validate!(options, @definitions) end

      if options != [],
        do: assert_raise(ArgumentError, message, fn -> Options.put!(defaults(), options, @definitions) end)
    end
  end

  defp defaults, do: Map.new(@definitions, fn {name, _definition} -> {name, nil} end)

  test "docs/1 renders options with their defaults" do
    assert Options.docs(Keyword.take(@definitions, [:name, :count, :size, :loud])) ==
             """
               * `:name` - an atom.
               * `:count` - a number. Defaults to `3`.
               * `:size` - bytes. Defaults to the size.
               * `:loud` - whether it is loud. Defaults to `false`.\
             """
  end
end
