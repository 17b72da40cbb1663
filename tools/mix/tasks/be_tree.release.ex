defmodule Mix.Tasks.BeTree.Release do
  @shortdoc "Builds the package and the archives of the NIF"
  @moduledoc """
  This task builds what is published of a version.

      mix be_tree.release [--target TARGET] [--out DIR]

  It writes into `_build/release`, or another folder:

    * `libbe_tree_host-v0.1.0-nif-2.15-x86_64-unknown-linux-gnu.so.tar.gz` - the NIF for a target, as `rustler_precompiled`
      downloads it;
    * `checksum-Elixir.BeTree.Runtime.Native.exs` - the checksums of all such archives in this folder. Copy those of other
      systems here first; the task names the targets without an archive;
    * `be_tree-0.1.0` and `be_tree-0.1.0.tar.gz` - the package: the files of `package()[:files]` in `mix.exs`, with the
      WebAssembly module, its SHA-256 and these checksums. `mix hex.publish` belongs in this folder, not in the checkout;
    * the SHA-256 of each archive beside it;
    * `be_tree-0.1.0.tar` - Hex's own package, where Hex is installed.

  ## Options

    * `--target` - a target by Rust's name; repeatable. Without it, all targets of this system:

      | target | built on |
      | --- | --- |
      | `x86_64-unknown-linux-gnu`, `aarch64-unknown-linux-gnu` | Linux; the other one with a cross compiler, `gcc-aarch64-linux-gnu` or `gcc-x86-64-linux-gnu` |
      | `x86_64-apple-darwin`, `aarch64-apple-darwin` | macOS |

    * `--out` - the folder.

  ## Example

      mix be_tree.release --out /tmp/release
  """

  use Mix.Task

  alias BeTree.Release
  alias BeTree.Release.Targets
  alias Mix.BeTree.Command

  @requirements ["compile"]

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, [out: :string, target: :keep], &run/2)

  defp run(options, rest) do
    if rest != [], do: Mix.raise("mix be_tree.release takes no argument, got: #{Enum.join(rest, " ")}")

    folder = Keyword.get(options, :out, "_build/release")
    targets = Keyword.get_values(options, :target)
    targets = if targets == [], do: Targets.of_this_system(), else: targets
    %{archives: archives, package: package, missing: missing} = Release.write(folder, targets)
    for path <- archives ++ [package], do: Mix.shell().info(path)

    if missing != [] do
      Mix.shell().info("""
      No archive for #{Enum.join(missing, ", ")}: run this task on their systems, copy their archives into #{folder}, and run it again.
      """)
    end

    if Code.ensure_loaded?(Hex), do: hex(String.trim_trailing(package, ".tar.gz"))
  end

  defp hex(staged) do
    path = Path.expand(staged <> ".tar")

    case System.cmd("mix", ["hex.build", "--output", path], cd: staged, stderr_to_stdout: true) do
      {_text, 0} -> Mix.shell().info(path)
      {text, status} -> Mix.raise("mix hex.build failed (exit status #{status}):\n\n#{text}")
    end
  end
end
