defmodule BeTree.Release.TargetsTest do
  use ExUnit.Case, async: true

  alias BeTree.Release.Targets

  @installed Application.app_dir(:be_tree, "priv/native/be_tree_host.so")

  test "of_this_system begins with this platform, whose NIF is the installed one" do
    assert [own | others] = Targets.of_this_system()
    assert Targets.build!(own) == @installed
    assert others -- Targets.names() == []
    refute own in others
  end

  test "build! names the system that builds another system's NIF" do
    for {name, system} <- [{"aarch64-apple-darwin", "macOS"}, {"aarch64-unknown-linux-gnu", "Linux"}],
        name not in Targets.of_this_system() do
      assert_raise Mix.Error, "the NIF for #{name} is built on #{system}", fn -> Targets.build!(name) end
    end
  end

  test "build! names all targets if the target is unknown" do
    error = assert_raise Mix.Error, fn -> Targets.build!("z80-sharp-gameboy") end
    assert error.message =~ "there is no target z80-sharp-gameboy"
    for name <- Targets.names(), do: assert(error.message =~ name)
  end
end
