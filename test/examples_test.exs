defmodule BeTree.ExamplesTest do
  # The applications in examples/: each is a mix project whose own tests run here, in a VM of its own, on the build of these tests.
  use ExUnit.Case, async: true

  alias BeTree.Test.Packaging

  @moduletag timeout: 600_000

  @examples for path <- Path.wildcard("examples/*/mix.exs"), do: path |> Path.dirname() |> Path.basename()

  for example <- @examples do
    test "the tests of examples/#{example} pass" do
      folder = Path.join("examples", unquote(example))
      build = Path.join(System.tmp_dir!(), "be_tree_example_#{unquote(example)}_#{System.pid()}")
      on_exit(fn -> File.rm_rf!(build) end)
      File.mkdir_p!(Path.join(build, "lib"))
      # BeTree is compiled already, and `--no-deps-check` uses it as it is.
      File.ln_s!(Application.app_dir(:be_tree), Path.join(build, "lib/be_tree"))

      variables = [{"MIX_ENV", "test"}, {"MIX_BUILD_PATH", build}]
      output = Packaging.mix!(folder, ["test", "--no-deps-check", "--warnings-as-errors"], variables)
      assert output =~ ~r/\b[1-9]\d* tests?, 0 failures/
    end
  end
end
