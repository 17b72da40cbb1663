defmodule Mix.Tasks.BeTree.Release do
  @shortdoc "Builds the package and the archive of the NIF"
  @moduledoc """
  This task builds what is published of a version.

      mix be_tree.release [--out DIR]

  It writes into `_build/release`, or another folder:

    * `libbe_tree_host-v0.1.0-nif-2.15-x86_64-unknown-linux-gnu.so.tar.gz` - the NIF for this platform, as
      `rustler_precompiled` downloads it;
    * `checksum-Elixir.BeTree.Runtime.Native.exs` - the checksums of all such archives in this folder. Copy those of other
      platforms here first;
    * `be_tree-0.1.0` and `be_tree-0.1.0.tar.gz` - the package: the files of `package()[:files]` in `mix.exs`, with the
      WebAssembly module, its SHA-256 and these checksums. `mix hex.publish` belongs in this folder, not in the checkout;
    * the SHA-256 of each archive beside it;
    * `be_tree-0.1.0.tar` - Hex's own package, where Hex is installed.

  ## Options

    * `--out` - the folder.

  ## Example

      mix be_tree.release --out /tmp/release
  """

  use Mix.Task

  alias Mix.BeTree.Command

  @requirements ["compile"]

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, [out: :string], &run/2)

  defp run(options, rest) do
    if rest != [], do: Mix.raise("mix be_tree.release takes no argument, got: #{Enum.join(rest, " ")}")

    folder = Keyword.get(options, :out, "_build/release")
    %{package: package, archive: archive} = BeTree.Release.write(folder)
    for path <- [archive, package], do: Mix.shell().info(path)
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
