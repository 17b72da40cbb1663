defmodule BeTree.Web do
  @moduledoc """
  Builds the package for JavaScript: the index behind wasm-bindgen (`wasm/web`), in `_build/web/package`.

  A compilation runs only if its sources changed, whatever the environment of Mix.
  """

  alias Mix.BeTree.{Crate, Toolchain}

  @workspace "wasm/web"
  @folder "_build/web"
  @package "_build/web/package"

  # What the package has beside the module and the JavaScript that wasm-bindgen writes.
  @files [
    "LICENSE" | Enum.map(~w(README.md package.json js/index.js js/index.d.ts js/profile.js), &Path.join(@workspace, &1))
  ]
  @generated ~w(be_tree_web.js be_tree_web_bg.wasm)

  @doc "Builds the package, unless it is up to date, and returns its folder."
  @spec build() :: Path.t()
  def build do
    Crate.compile(module(), &Toolchain.wasm32/0)
    Crate.compile(bindgen(), &Toolchain.native/0)
    inputs = [module().file, bindgen().file | @files]
    digest = inputs |> Enum.map(&File.read!/1) |> then(&:crypto.hash(:sha256, &1)) |> Base.encode16(case: :lower)
    stamp = @package <> ".sha256"

    if File.read(stamp) != {:ok, digest} do
      assemble()
      File.write!(stamp, digest)
    end

    Path.expand(@package)
  end

  defp assemble do
    File.rm_rf!(@package)
    File.mkdir_p!(@package)
    run!(bindgen().file, [module().file, @package])
    for file <- File.ls!(@package), file not in @generated, do: File.rm!(Path.join(@package, file))
    for file <- @files, do: File.cp!(file, Path.join(@package, Path.basename(file)))
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
