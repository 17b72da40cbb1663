defmodule BeTree.PackageTest do
  use ExUnit.Case, async: true

  alias BeTree.Release

  @moduletag :tmp_dir

  @checksums "checksum-Elixir.BeTree.Runtime.Native.exs"

  defp sha256(bytes), do: :sha256 |> :crypto.hash(bytes) |> Base.encode16(case: :lower)

  defp unpack(archive) do
    {:ok, files} = :erl_tar.extract(String.to_charlist(archive), [:compressed, :memory])
    Map.new(files, fn {name, bytes} -> {List.to_string(name), bytes} end)
  end

  test "the package has the module, its sources, and the digests that connect them", %{tmp_dir: folder} do
    archive = Release.package(folder)

    files =
      for {"be_tree-" <> name, bytes} <- unpack(archive),
          [_version, path] = String.split(name, "/", parts: 2),
          into: %{},
          do: {path, bytes}

    for file <-
          ~w(lib/be_tree.ex lib/be_tree/runtime/wasmex.ex lib/mix/tasks/compile.be_tree_guest.ex mix.exs LICENSE) ++
            ~w(README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md include/erl_betree.hrl docs/contributing/abi.md wasm/Cargo.lock wasm/host/build.rs wasm/host/src/lib.rs) ++
            ~w(wasm/guest/Cargo.toml wasm/index/src/lib.rs priv/be_tree.wasm priv/be_tree.wasm.sha256 priv/tune.html priv/tenants.html) ++
            ~w(priv/be_tree_rules.wasm priv/be_tree_rules.wasm.sha256 wasm/rules_guest/src/lib.rs wasm/module/src/lib.rs) ++
            [@checksums] do
      assert is_map_key(files, file)
    end

    # Files of this machine, or built on demand.
    assert Enum.filter(Map.keys(files), &(&1 =~ ~r"^(priv/native|wasm/target|_build|test|tools|bench)/")) == []
    assert files["priv/be_tree.wasm.sha256"] =~ ~r/^#{sha256(files["priv/be_tree.wasm"])}  be_tree\.wasm$/m
    # Each equals the file here.
    assert Enum.reject(Map.keys(files), &(&1 =~ ~r/^(priv|checksum)/ or File.read!(&1) == files[&1])) == []
  end

  test "the NIF's archive and checksum have rustler_precompiled's names", %{tmp_dir: folder} do
    nif = Path.join(folder, "nif")
    File.write!(nif, "a NIF")
    library = "libbe_tree_host-v1.2.3-nif-2.15-x86_64-unknown-linux-gnu.so"
    archive = Release.archive(folder, nif, "1.2.3", "x86_64-unknown-linux-gnu")
    assert Path.basename(archive) == library <> ".tar.gz"
    assert unpack(archive) == %{library => "a NIF"}

    # Archives of another version are left out.
    of_this = Release.archive(folder, nif, Mix.Project.config()[:version], "x86_64-unknown-linux-gnu")
    {checksums, _bindings} = folder |> Release.checksums() |> IO.iodata_to_binary() |> Code.eval_string()
    assert checksums == %{Path.basename(of_this) => "sha256:" <> sha256(File.read!(of_this))}
  end
end
