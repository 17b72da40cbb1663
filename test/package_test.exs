defmodule BeTree.PackageTest do
  use ExUnit.Case, async: true

  # As Hex reads the list: wildcards, and directories with all that is in them.
  defp files do
    for pattern <- Mix.Project.config()[:package][:files],
        path <- Path.wildcard(pattern),
        file <- if(File.dir?(path), do: Path.wildcard(path <> "/**", match_dot: true), else: [path]),
        File.regular?(file),
        do: file
  end

  test "the package holds the module, what it is built from, and what tells that they agree" do
    assert Enum.filter(Mix.Project.config()[:package][:files], &(Path.wildcard(&1) == [])) == []
    files = files()

    for file <-
          ~w(lib/be_tree.ex lib/be_tree/runtime/wasmex.ex lib/mix/tasks/compile.be_tree_guest.ex mix.exs LICENSE) ++
            ~w(README.md CHANGELOG.md include/erl_betree.hrl docs/abi.md wasm/Cargo.lock wasm/host/build.rs wasm/host/src/lib.rs) ++
            ~w(wasm/guest/Cargo.toml wasm/index/src/lib.rs priv/be_tree.wasm priv/be_tree.wasm.sha256) do
      assert file in files
    end

    # What belongs to this machine or is built anew.
    assert Enum.filter(files, &(&1 =~ ~r"^(priv/native|wasm/target|_build|test|bench)/")) == []

    digest = Base.encode16(:crypto.hash(:sha256, File.read!("priv/be_tree.wasm")), case: :lower)
    assert File.read!("priv/be_tree.wasm.sha256") =~ ~r/^#{digest}  be_tree\.wasm$/m
  end
end
