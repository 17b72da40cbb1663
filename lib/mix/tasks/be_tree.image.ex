defmodule Mix.Tasks.BeTree.Image do
  @shortdoc "Builds, describes or verifies an image of an index"
  @moduledoc """
  Builds an image: an index as one file, a WebAssembly module (`BeTree.Image`).

      mix be_tree.image build --expressions FILE [--schema FILE] [--constants FILE] [--ids FILE] [--portable] --out FILE
      mix be_tree.image info FILE
      mix be_tree.image verify FILE

  `build` reads files in the formats of `BeTree.Files`, as `mix be_tree.match` does. `mix be_tree.match --image` matches events against an image.
  `info` prints the header of an image. `verify` reads the whole image, starts its module, and checks the header.

  ## Options

    * `--expressions` - the expressions;
    * `--schema` - the attributes, unless the file of expressions begins with them;
    * `--constants` - the ids and constants of the expressions;
    * `--on-mismatch` - with `undefined` a value of an event that does not fit an optional attribute counts as undefined
      (`BeTree.Domain`). Defaults to `error`, and belongs to `--expressions`;
    * `--ids` - a file for the ids of expressions. An image has only unsigned 64-bit integers. If the expressions have another id, they are
      numbered from 1, and this file has a line for each: `{"id":"a7","number":1}`. `mix be_tree.match --image` takes it as `--ids`;
    * `--portable` - makes an image without vector instructions (SIMD), for WebAssembly runtimes that lack them, such as Chicory
      on the JVM. Its searches take longer where both run (`docs/guides/image.md`). The first use builds the module with Rust, in a
      minute or more; a released package has it;
    * `--quiet` - no progress. Otherwise the task tells it on the standard error: on a terminal in one line, else every ten seconds;
    * `--out` - the image.

  ## Example

      mix be_tree.image build --schema betree_defs --expressions betree_exprs --out ads.wasm
      mix be_tree.match --image ads.wasm --events betree_events
      mix be_tree.image build --schema schema.json --expressions expressions.csv --ids ads.ids --out ads.wasm
      mix be_tree.image build --portable --schema betree_defs --expressions betree_exprs --out portable.wasm

  Each input may be a pipe, or `-` for the standard input: it is opened and read once. An existing image is replaced when the new one is complete. The
  output may be a pipe or a device, and must not be one of the inputs.

  On an error the task prints it and ends with status 1.
  """

  use Mix.Task

  alias BeTree.{Guest, Image}
  alias Mix.BeTree.{Command, PortableGuest, Progress}
  alias BeTree.Files.{Ids, Match}

  import BeTree.Input.Describe, only: [grouped: 1]

  @requirements ["app.start"]

  @switches [
    expressions: :string,
    schema: :string,
    constants: :string,
    on_mismatch: :string,
    ids: :string,
    quiet: :boolean,
    portable: :boolean,
    out: :string
  ]

  @usage "mix be_tree.image build --expressions FILE [--schema FILE] [--constants FILE] [--ids FILE] [--portable] --out FILE\n" <>
           "       mix be_tree.image info FILE\n" <>
           "       mix be_tree.image verify FILE"

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, ["build"]), do: build(options)
  defp run([], ["info", path]), do: info(path)
  defp run([], ["verify", path]), do: verify(path)
  defp run(_options, _other), do: Mix.raise("expected build, or info or verify and a file\n\nUsage: #{@usage}")

  defp build(options) do
    Command.require!(options, [:expressions, :out], @usage)
    inputs = Command.values_of(options, [:expressions, :schema, :constants])
    for path <- Command.values_of(options, [:out, :ids]), do: Command.check_output!(path, inputs)
    if options[:ids] == options[:out], do: Mix.raise("--ids and --out are the same file; name two")
    files = Keyword.take(options, [:schema, :constants])
    tree_options = [on_mismatch: Command.on_mismatch!(options), guest: if(options[:portable], do: portable_guest())]

    {bytes, summary, subscriptions} =
      Progress.run(options, fn show ->
        files = [progress: show, check: &check_ids(&1, options)] ++ files
        {tree, summary, subscriptions} = build!(options[:expressions], files, tree_options)
        show.("making the image", nil)
        {Command.ok!(Image.to_binary(tree)), summary, subscriptions}
      end)

    info = Command.ok!(Image.info({:binary, bytes}))

    if options[:ids] do
      numbers = for subscription <- subscriptions, do: elem(subscription, 0)
      Command.write_output!(options[:ids], Ids.text(summary.ids, numbers), inputs)
    end

    Command.write_output!(options[:out], bytes, inputs)
    Mix.shell().info("#{grouped(summary.expressions)} expressions in #{grouped(info.length)} bytes, #{info.sha256}")
  end

  defp build!(path, files, tree_options) do
    case Match.build_with_subscriptions(path, files, tree_options) do
      {:ok, tree, summary, subscriptions} -> {tree, summary, subscriptions}
      {:error, error} -> Mix.raise(Exception.message(error))
    end
  end

  defp check_ids(ids, options) do
    if ids && !options[:ids] do
      path = options[:expressions]

      Mix.raise(
        "#{path}: an id is no unsigned 64-bit integer, and an image has no other ids; " <>
          "name a file that keeps the ids: --ids #{Path.rootname(path)}.ids"
      )
    end
  end

  defp portable_guest, do: Command.ok!(Guest.load(PortableGuest.read!()))

  defp info(path) do
    info = Command.ok!(Image.info(path))
    counts = for {name, count} <- Enum.sort(info.counts), do: {"index #{name}", grouped(count)}

    rows = [
      {"format", "version #{info.version}, interface version #{info.abi}"},
      {"bytes", grouped(info.length)},
      {"memory", "#{grouped(info.memory)} bytes"},
      {"sha256", info.sha256},
      {"module's sha256", info.guest_sha256},
      {"attributes", grouped(length(info.schema))} | counts
    ]

    Mix.shell().info(Enum.map_join(rows, "\n", fn {label, text} -> "  " <> String.pad_trailing(label, 23) <> text end))
  end

  defp verify(path) do
    bytes = Command.read_input!(path)
    Command.ok!(Image.verify({:binary, bytes}))
    info = Command.ok!(Image.info({:binary, bytes}))
    Mix.shell().info("#{path} is sound: #{grouped(info.counts.expressions)} expressions, #{info.sha256}")
  end
end
