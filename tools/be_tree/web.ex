defmodule BeTree.Web do
  @moduledoc """
  Builds the package for JavaScript: the index and the rules behind wasm-bindgen (`wasm/web`), each a module of its own, in
  `_build/web/package`.

  A compilation runs only if its sources changed, whatever the environment of Mix.
  """

  alias BeTree.Web.{CommonJs, Inline}
  alias Mix.BeTree.{Crate, Toolchain}

  @workspace "wasm/web"
  @folder "_build/web"
  @package "_build/web/package"

  # Each module, by the name of its crate; the file that has it within JavaScript; and further arguments of its build.
  @modules [{"be_tree_web", "embedded.js", ["metered"]}, {"be_tree_rules_web", "rules_embedded.js", []}]

  # The classes, which are written as CommonJS too.
  @shared ~w(arguments.js attempt.js be_tree_rules_web.js be_tree_web.js bounds.js caret.js error.js event.js image.js image_bytes.js library.js module.js profile.js
             reads.js rules_facts.js rules_library.js rules_module.js schema.js steps.js worker_client.js
             worker_inline.js worker_of_thread.js worker_serve.js)
  # The types of the ES modules. TypeScript needs a copy with the ending .d.cts for `require`.
  @types ~w(index.d.ts rules.d.ts worker.d.ts)

  @doc "Builds the package, unless it is up to date, and returns its folder."
  @spec build() :: Path.t()
  def build do
    modules = for {name, _embedded, _arguments} <- @modules, do: module(name)
    for module <- modules, do: Crate.compile(module, &Toolchain.wasm32/0)
    Crate.compile(bindgen(), &Toolchain.native/0)
    files = files()
    tools = [bindgen().file, "tools/be_tree/web.ex", "tools/be_tree/web/common_js.ex", "tools/be_tree/web/inline.ex"]
    inputs = Enum.map(modules, & &1.file) ++ tools ++ files
    digest = inputs |> Enum.map(&File.read!/1) |> then(&:crypto.hash(:sha256, &1)) |> Base.encode16(case: :lower)
    stamp = @package <> ".sha256"

    if File.read(stamp) != {:ok, digest} do
      assemble(files)
      File.write!(stamp, digest)
    end

    Path.expand(@package)
  end

  # What the package has beside the modules and the JavaScript that wasm-bindgen writes.
  defp files do
    sources = Path.wildcard(Path.join(@workspace, "js/*"))
    ["LICENSE" | Enum.map(~w(README.md package.json), &Path.join(@workspace, &1))] ++ sources
  end

  defp assemble(files) do
    File.rm_rf!(@package)
    File.mkdir_p!(@package)
    for {name, _embedded, arguments} <- @modules, do: run!(bindgen().file, [module(name).file, @package | arguments])
    for file <- Path.wildcard(Path.join(@package, "*.d.ts")), do: File.rm!(file)
    for file <- files, do: File.cp!(file, Path.join(@package, Path.basename(file)))

    for file <- @types do
      types = File.read!(Path.join(@package, file))
      File.write!(Path.join(@package, Path.basename(file, ".ts") <> ".cts"), String.replace(types, ".js\"", ".cjs\""))
    end

    for {name, embedded, _arguments} <- @modules do
      module = File.read!(Path.join(@package, name <> "_bg.wasm"))
      File.write!(Path.join(@package, embedded), embedded(module))
    end

    for file <- @shared do
      source = File.read!(Path.join(@package, file))
      File.write!(Path.join(@package, Path.rootname(file) <> ".cjs"), CommonJs.convert(source))
    end

    script = Inline.script(&File.read!(Path.join(@package, &1)), "worker_inline.cjs")
    File.write!(Path.join(@package, "worker_source.js"), Inline.as_text(script))
  end

  defp embedded(module) do
    stream = :zlib.open()
    :ok = :zlib.deflateInit(stream, :best_compression, :deflated, -15, 9, :default)
    deflated = :zlib.deflate(stream, module, :finish)
    :ok = :zlib.close(stream)

    "// The module, deflated and in base64.\nexport const deflated =\n  \"#{deflated |> IO.iodata_to_binary() |> Base.encode64()}\";\n"
  end

  defp run!(program, arguments) do
    case System.cmd(Path.expand(program), arguments, stderr_to_stdout: true) do
      {_output, 0} -> :ok
      {output, status} -> Mix.raise("#{program} failed (exit status #{status}):\n\n#{output}")
    end
  end

  defp module(name) do
    %Crate{
      workspace: @workspace,
      package: name,
      profile: "web",
      target: "wasm32-unknown-unknown",
      # Inlining makes the module larger.
      rustflags: ~w(-C target-feature=+simd128 -C llvm-args=-inline-threshold=0),
      sources: sources(name) ++ ["../Cargo.toml", "../{index,module}/Cargo.toml", "../{index,module}/src/**/*.rs"],
      product: name <> ".wasm",
      file: Path.join(@folder, name <> ".wasm"),
      remark: ", a minute"
    }
  end

  defp sources("be_tree_web"), do: ["src/**/*.rs"]

  defp sources("be_tree_rules_web"),
    do: ["rules/Cargo.toml", "rules/src/**/*.rs", "../rules/Cargo.toml", "../rules/src/**/*.rs"]

  defp bindgen do
    %Crate{
      workspace: @workspace,
      package: "be_tree_bindgen",
      profile: "bindgen",
      sources: ["bindgen/Cargo.toml", "bindgen/src/**/*.rs"],
      product: "be_tree_bindgen",
      file: Path.join(@folder, "be_tree_bindgen"),
      remark: ", a minute, once"
    }
  end
end
