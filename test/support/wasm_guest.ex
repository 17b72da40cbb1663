defmodule BeTree.Test.WasmGuest do
  @moduledoc false
  # Makes index modules without an index, whose searches run a test's code.

  import BeTree.WasmModule

  # Addresses of the outbox (12 bytes), the result and the inbox.
  @outbox 4
  @result 16
  @inbox 64
  @info 32_768
  @spent 40

  # The result of a search: 1 visited, 2 evaluated, and one id.
  @id 7
  @numbers <<1::little-64, 2::little-64, @id::little-64>>

  @counts ~w(expressions predicates strings nodes entries unindexed depth code_bytes memory_bytes)a
          |> Enum.map(&{&1, 0})
          |> :erlang.term_to_binary(minor_version: 2)

  # The body is a function, so that it can call itself.
  @body 0

  @doc "Returns the ids of a complete search."
  def ids, do: [@id]

  @doc """
  Returns a guest whose searches run `body`, a function without parameters and with the local variables `locals`, and then
  return `ids/0`. With `when_json: true` only searches for events in JSON run the body.

  `parts:` are further parts of the module for `BeTree.WasmModule.assemble/1`. `insert:` and `delete:` are the bodies of its
  changes, `inbox:` is code at the start of its inbox, and `spent:` is the body of the optional `be_tree_spent`. All counts
  are 0.
  """
  def assemble(body, options \\ []) do
    defaults = [
      when_json: false,
      locals: [],
      parts: [],
      insert: i32_const(0),
      delete: i32_const(0),
      inbox: [],
      spent: nil
    ]

    options = Keyword.validate!(options, defaults)
    {globals, parts} = Keyword.pop(options[:parts], :globals, [])
    is_other = if options[:when_json], do: [local_get(0), i32_const(1), i32_ne()], else: i32_const(0)

    [
      functions: [
        function(nil, [], [], body, options[:locals]),
        function("be_tree_abi", [], [:i32], i32_const(1)),
        function("be_tree_inbox", [:i32], [:i32], [options[:inbox], i32_const(@inbox)]),
        function("be_tree_outbox", [], [:i32], i32_const(@outbox)),
        function("be_tree_schema", [:i32], [:i32], i32_const(0)),
        function("be_tree_insert", [:i32], [:i32], options[:insert]),
        function("be_tree_delete", [:i64], [:i32], options[:delete]),
        function("be_tree_search", [:i32, :i32, :i32, :i32], [:i32], [
          block([is_other, branch_if(0), call(@body)]),
          [i32_const(@outbox), i32_const(@result), i32_store()],
          [i32_const(@outbox), i32_const(byte_size(@numbers)), i32_store(4)],
          i32_const(0)
        ]),
        function("be_tree_search_many", [:i64, :i32, :i32, :i32, :i32], [:i32], [
          [i32_const(@outbox), i32_const(@result), i32_store()],
          [i32_const(@outbox), i32_const(byte_size(@numbers)), i32_store(4)],
          i32_const(0)
        ]),
        function("be_tree_more", [:i64], [:i32], i32_const(0)),
        function("be_tree_resume", [], [:i32], i32_const(0)),
        function("be_tree_prepare", [:i32, :i32], [:i32], i32_const(0)),
        function("be_tree_explain", [:i32, :i32, :i64], [:i32], i32_const(0)),
        function("be_tree_info", [], [:i32], [
          [i32_const(@outbox), i32_const(@info), i32_store()],
          [i32_const(@outbox), i32_const(byte_size(@counts)), i32_store(4)],
          i32_const(0)
        ])
        | spent(options[:spent])
      ],
      memory: {1, nil},
      globals: [{"__stack_pointer", :i32, :mutable, 0} | globals],
      data: [{@result, @numbers}, {@spent, <<1>>}, {@info, @counts}]
    ]
    |> Keyword.merge(parts)
    |> BeTree.WasmModule.assemble()
  end

  defp spent(nil), do: []
  defp spent(body), do: [function("be_tree_spent", [], [:i32], body)]

  @doc "Returns the body of a deletion that reports a spent instance."
  def deletes_and_is_spent do
    [
      [i32_const(@outbox), i32_const(@spent), i32_store()],
      [i32_const(@outbox), i32_const(1), i32_store(4)],
      i32_const(0)
    ]
  end

  @doc "Returns a guest whose searches count `count` down."
  def spin(count), do: assemble([i32_const(count), local_set(0), count_down(0, [])], locals: [:i32])

  @doc "Returns a guest that accepts insertions of up to 5,000 bytes and traps in one of 6,000. It stores nothing."
  def trapping_insert do
    # Reads a byte at this distance from the end of its memory.
    read = [local_get(0), i32_load8_u(0x1_0000 - 5_500), drop()]
    assemble(nop(), insert: [read, i32_const(@outbox), i32_const(0), i32_store(4), i32_const(0)])
  end

  @doc "Returns code that loops endlessly if a length is 1,000 or more."
  def hang_when_long do
    block([local_get(0), i32_const(1_000), i32_div_u(), i32_eqz(), branch_if(0), loop(branch(0))])
  end

  @doc "Returns code that calls the body endlessly."
  def recurse, do: call(@body)
end
