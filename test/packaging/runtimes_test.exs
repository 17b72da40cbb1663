defmodule BeTree.Packaging.RuntimesTest do
  # A node without the NIF and without wasmex, which then gets wasmex.
  use ExUnit.Case, async: true

  alias BeTree.Runtime
  alias BeTree.Runtime.{Wasmex, Wasmtime}

  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    folder = Path.expand("be_tree", folder)
    File.mkdir_p!(Path.join(folder, "priv"))
    File.cp!(Application.app_dir(:be_tree, "priv/be_tree.wasm"), Path.join(folder, "priv/be_tree.wasm"))
    File.cp_r!(Application.app_dir(:be_tree, "ebin"), Path.join(folder, "ebin"))
    others = for path <- :code.get_path(), not (List.to_string(path) =~ ~r"/(be_tree|wasmex)[^/]*/ebin$"), do: path
    # ERL_LIBS may hold wasmex.
    {:ok, peer, _node} = :peer.start(%{wait_boot: 120_000, connection: :standard_io, env: [{~c"ERL_LIBS", ~c""}]})
    on_exit(fn -> :peer.stop(peer) end)
    :ok = :peer.call(peer, :code, :add_paths, [[String.to_charlist(Path.join(folder, "ebin")) | others]], :infinity)
    {:ok, peer: peer}
  end

  defp call(peer, module, function, arguments), do: :peer.call(peer, module, function, arguments, :infinity)

  defp refusal(peer) do
    assert {:error, %BeTree.Error{kind: :bad_module, message: message}} = call(peer, BeTree, :new, [[age: :integer]])
    message
  end

  test "errors name the available runtimes and a setting that asks for a missing one", %{peer: peer} do
    assert call(peer, Runtime, :available, []) == []
    assert call(peer, Runtime, :default, []) == Wasmtime
    assert refusal(peer) =~ "the built-in runtime cannot be used here: "
    assert refusal(peer) =~ "compile BeTree again with Rust (mix deps.compile be_tree --force), or add {:wasmex, "
    refute refusal(peer) =~ "config"

    for {runtime, fault, remedy} <- [
          {Wasmtime, "be_tree_host", "or add {:wasmex, "},
          {Wasmex, "the application wasmex", "add {:wasmex, "}
        ] do
      :ok = call(peer, Application, :put_env, [:be_tree, :runtime, runtime])
      assert refusal(peer) =~ fault
      assert refusal(peer) =~ "config :be_tree, runtime: #{inspect(runtime)} asks for it: remove that setting, or"
      assert refusal(peer) =~ remedy
    end

    for {module, fault} <- [{No.Such.Runtime, "which is not here"}, {Enum, "which does not implement BeTree.Runtime"}] do
      :ok = call(peer, Application, :put_env, [:be_tree, :runtime, module])
      assert %ArgumentError{message: message} = catch_error(call(peer, Runtime, :default, []))
      assert message =~ "config :be_tree, runtime: #{inspect(module)} names a module #{fault}"
      assert message =~ "or remove the setting"
    end
  end

  test "a later build finds wasmex when it is added", %{peer: peer} do
    assert call(peer, Runtime, :available, []) == []
    {:module, _module} = call(peer, :code, :load_binary, [Elixir.Wasmex.Native, ~c"stand-in", stand_in()])
    assert call(peer, Runtime, :available, []) == [Wasmex]
    assert call(peer, Runtime, :default, []) == Wasmex
  end

  # A stub of wasmex 0.15 with the functions that the runtime checks for.
  defp stand_in do
    functions =
      [store_or_caller_set_fuel: 3, store_or_caller_get_fuel: 2, instance_call_exported_function: 6] ++
        [instance_set_global_value: 5, instance_get_global_value: 4, memory_write_binary: 5, memory_read_binary: 5] ++
        [memory_grow: 4, memory_size: 3]

    forms =
      for {name, arity} <- functions do
        {:function, 1, name, arity, [{:clause, 1, List.duplicate({:var, 1, :_}, arity), [], [{:atom, 1, :ok}]}]}
      end

    head = [{:attribute, 1, :module, Elixir.Wasmex.Native}, {:attribute, 1, :export, functions}]
    {:ok, Elixir.Wasmex.Native, code} = :compile.forms(head ++ forms)
    code
  end
end
