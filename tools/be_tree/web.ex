defmodule BeTree.Web do
  @moduledoc """
  Builds the package for JavaScript: the index behind wasm-bindgen (`wasm/web`), in `_build/web/package`.

  A compilation runs only if its sources changed, whatever the environment of Mix.
  """

  alias BeTree.Web.CommonJs
  alias Mix.BeTree.{Crate, Toolchain}

  @workspace "wasm/web"
  @folder "_build/web"
  @package "_build/web/package"

  @module_name "be_tree_web_bg.wasm"
  @generated ["be_tree_web.js", @module_name]

  # The classes, which are written as CommonJS too.
  @shared ~w(arguments.js attempt.js be_tree_web.js error.js event.js image.js library.js module.js profile.js schema.js)
  @types "js/index.d.ts"

  @doc "Builds the package, unless it is up to date, and returns its folder."
  @spec build() :: Path.t()
  def build do
    Crate.compile(module(), &Toolchain.wasm32/0)
    Crate.compile(bindgen(), &Toolchain.native/0)
    files = files()
    inputs = [module().file, bindgen().file, "tools/be_tree/web.ex", "tools/be_tree/web/common_js.ex" | files]
    digest = inputs |> Enum.map(&File.read!/1) |> then(&:crypto.hash(:sha256, &1)) |> Base.encode16(case: :lower)
    stamp = @package <> ".sha256"

    if File.read(stamp) != {:ok, digest} do
      assemble(files)
      File.write!(stamp, digest)
    end

    Path.expand(@package)
  end

  # What the package has beside the module and the JavaScript that wasm-bindgen writes.
  defp files do
    sources = Path.wildcard(Path.join(@workspace, "js/*"))
    ["LICENSE" | Enum.map(~w(README.md package.json), &Path.join(@workspace, &1))] ++ sources
  end

  defp assemble(files) do
    File.rm_rf!(@package)
    File.mkdir_p!(@package)
    run!(bindgen().file, [module().file, @package])
    for file <- File.ls!(@package), file not in @generated, do: File.rm!(Path.join(@package, file))
    for file <- files, do: File.cp!(file, Path.join(@package, Path.basename(file)))
    File.cp!(Path.join(@workspace, @types), Path.join(@package, "index.d.cts"))
    File.write!(Path.join(@package, "embedded.js"), embedded(File.read!(Path.join(@package, @module_name))))

    for file <- @shared do
      source = File.read!(Path.join(@package, file))
      File.write!(Path.join(@package, Path.rootname(file) <> ".cjs"), CommonJs.convert(source))
    end
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

  defp module do
    %Crate{
      workspace: @workspace,
      package: "be_tree_web",
      profile: "web",
      target: "wasm32-unknown-unknown",
      # Inlining makes the module larger.
      rustflags: ~w(-C target-feature=+simd128 -C llvm-args=-inline-threshold=0),
      sources: ["src/**/*.rs", "../Cargo.toml", "../index/Cargo.toml", "../index/src/**/*.rs"],
      product: "be_tree_web.wasm",
      file: Path.join(@folder, "be_tree_web.wasm"),
      remark: ", a minute"
    }
  end

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
