defmodule BeTree.Release.Targets do
  @moduledoc """
  The platforms that have a compiled NIF in a release, by Rust's names, and the build of each.

  A system builds the NIFs of its own targets: Linux with the linkers of Debian's cross compilers, macOS with Apple's.
  """

  alias Mix.BeTree.{Crate, Toolchain}
  alias Mix.Tasks.Compile.BeTreeHost

  # The linker's default is the one of the system.
  @targets [
    %{name: "x86_64-unknown-linux-gnu", system: {:unix, :linux}, linker: "x86_64-linux-gnu-gcc"},
    %{name: "aarch64-unknown-linux-gnu", system: {:unix, :linux}, linker: "aarch64-linux-gnu-gcc"},
    %{name: "x86_64-apple-darwin", system: {:unix, :darwin}, linker: nil},
    %{name: "aarch64-apple-darwin", system: {:unix, :darwin}, linker: nil}
  ]

  @doc "Returns the names of all targets."
  @spec names() :: [String.t()]
  def names, do: for(target <- @targets, do: target.name)

  @doc "Returns the targets that this system builds: this platform's first."
  @spec of_this_system() :: [String.t()]
  def of_this_system do
    own = platform!()
    [own | for(target <- @targets, target.system == :os.type(), target.name != own, do: target.name)]
  end

  @doc "Builds the NIF of a target, and returns its path. Raises if the target, its linker or Rust's library for it is missing."
  @spec build!(String.t()) :: Path.t()
  def build!(name) do
    if name == platform!(), do: Application.app_dir(:be_tree, "priv/native/be_tree_host.so"), else: cross_build!(name)
  end

  defp cross_build!(name) do
    target = Enum.find(@targets, &(&1.name == name)) || Mix.raise(unknown(name))
    if target.system != :os.type(), do: Mix.raise("the NIF for #{name} is built on #{system(target.system)}")
    file = Path.join([Mix.Project.build_path(), "targets", name, "be_tree_host.so"])
    crate = %{BeTreeHost.crate() | target: name, remark: " for #{name}", file: file, kept: nil, others: []}
    Crate.compile(crate, fn -> toolchain(target) end)
    file
  end

  defp unknown(name), do: "there is no target #{name}; the targets are #{Enum.join(names(), ", ")}"

  defp system({:unix, :darwin}), do: "macOS"
  defp system({:unix, :linux}), do: "Linux"

  defp toolchain(target) do
    with {:ok, toolchain} <- Toolchain.native() do
      check_library!(toolchain, target.name)
      {:ok, %{toolchain | env: linker!(target) ++ toolchain.env}}
    end
  end

  defp check_library!(toolchain, name) do
    {folder, 0} = System.cmd(toolchain.rustc, ["--print", "target-libdir", "--target", name])

    if folder |> String.trim() |> Path.join("libstd-*.rlib") |> Path.wildcard() == [],
      do: Mix.raise("Rust's library for #{name} is missing: rustup target add #{name}")
  end

  defp linker!(%{linker: nil}), do: []

  defp linker!(%{name: name, linker: linker}) do
    if System.find_executable(linker) == nil,
      do: Mix.raise("#{linker} is missing, which links for #{name}: apt-get install #{package(linker)}")

    variable = name |> String.upcase() |> String.replace("-", "_")
    [{"CARGO_TARGET_#{variable}_LINKER", linker}, {"CC_#{String.replace(name, "-", "_")}", linker}]
  end

  # Debian's package of x86_64-linux-gnu-gcc is gcc-x86-64-linux-gnu.
  defp package(linker), do: "gcc-" <> (linker |> String.replace_suffix("-gcc", "") |> String.replace("_", "-"))

  defp platform! do
    with {:ok, toolchain} <- Toolchain.native(),
         {text, 0} <- System.cmd(toolchain.rustc, ["-vV"]),
         [_all, target] <- Regex.run(~r/^host: (.+)$/m, text) do
      target
    else
      _missing -> Mix.raise("rustc -vV does not tell the name of this platform")
    end
  end
end
