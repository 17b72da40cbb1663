defmodule Mix.BeTree.Toolchain do
  @moduledoc false
  # Finds the Rust that builds BeTree's crates: the cargo on the PATH, or Debian's (packages rustc-web and cargo-web, in
  # /usr/bin) if the one on the PATH is older than wasmtime needs or cannot build for wasm32.

  # The rust-version of wasmtime: its crates refuse an older Rust.
  @oldest "1.95.0"
  @wasm32 "wasm32-unknown-unknown"
  @debian_cargo "/usr/bin/cargo"
  @debian_rustc "/usr/bin/rustc"

  @enforce_keys [:cargo, :rustc, :version]
  defstruct [:cargo, :rustc, :version, env: [], arguments: [], rustflags: []]

  @typedoc """
  A cargo and its inputs: environment variables, arguments of `cargo build`, and flags of rustc.
  """
  @type t :: %__MODULE__{
          cargo: Path.t(),
          rustc: Path.t(),
          version: Version.t(),
          env: [{String.t(), String.t()}],
          arguments: [String.t()],
          rustflags: [String.t()]
        }

  @doc """
  Returns the toolchain that builds for this machine, or a message with the missing packages.
  """
  @spec native() :: {:ok, t} | {:error, String.t()}
  def native do
    found = installed()

    case Enum.find(found, &new_enough?/1) do
      %__MODULE__{} = toolchain -> {:ok, toolchain}
      nil -> {:error, rust_missing(found)}
    end
  end

  @doc """
  Returns the toolchain that builds for #{@wasm32}, or a message with the missing packages.

  A toolchain with the target's standard library is preferred to one that can build that library from its source.
  """
  @spec wasm32() :: {:ok, t} | {:error, String.t()}
  def wasm32 do
    found = installed()
    usable = Enum.filter(found, &new_enough?/1)

    cond do
      usable == [] -> {:error, rust_missing(found)}
      toolchain = Enum.find(usable, &wasm32_std?/1) -> {:ok, toolchain}
      toolchain = Enum.find(usable, &wasm32_std_source?/1) -> {:ok, building_std(toolchain)}
      true -> {:error, wasm32_missing(usable)}
    end
  end

  defp installed do
    [on_path(), debian()] |> Enum.filter(& &1) |> Enum.uniq_by(& &1.cargo)
  end

  defp on_path do
    with cargo when cargo != nil <- System.find_executable("cargo"),
         rustc when rustc != nil <- System.find_executable(System.get_env("RUSTC", "rustc")),
         {:ok, version} <- version(cargo) do
      %__MODULE__{cargo: cargo, rustc: rustc, version: version}
    else
      _ -> nil
    end
  end

  defp debian do
    with cargo when cargo != nil <- System.find_executable(@debian_cargo),
         rustc when rustc != nil <- System.find_executable(@debian_rustc),
         {:ok, version} <- version(cargo) do
      %__MODULE__{cargo: cargo, rustc: rustc, version: version, env: [{"RUSTC", rustc}]}
    else
      _ -> nil
    end
  end

  # rustup's cargo is a proxy. It fails without a toolchain, and then counts as missing.
  defp version(cargo) do
    with {:ok, "cargo " <> version} <- ask(cargo, ["--version"]) do
      version |> String.split() |> hd() |> Version.parse()
    end
  end

  defp new_enough?(toolchain), do: Version.compare(toolchain.version, @oldest) != :lt

  defp wasm32_std?(toolchain) do
    case ask(toolchain.rustc, ["--print", "target-libdir", "--target", @wasm32]) do
      {:ok, directory} -> Path.wildcard(Path.join(directory, "libstd-*.rlib")) != []
      {:error, _} -> false
    end
  end

  defp wasm32_std_source?(toolchain) do
    case ask(toolchain.rustc, ["--print", "sysroot"]) do
      {:ok, sysroot} ->
        File.exists?(Path.join(sysroot, "lib/rustlib/src/rust/library/Cargo.toml")) and
          System.find_executable("wasm-ld") != nil

      {:error, _} ->
        false
    end
  end

  # -Zbuild-std is a nightly option, which RUSTC_BOOTSTRAP enables in a stable compiler.
  defp building_std(toolchain) do
    %{
      toolchain
      | env: [{"RUSTC_BOOTSTRAP", "1"}, {"CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld"} | toolchain.env],
        arguments: ["-Zbuild-std=std,panic_abort"],
        rustflags: ["-C", "linker-flavor=wasm-ld"]
    }
  end

  # Unset, because rustc under a parallel make would warn that it cannot share make's jobs.
  @alone [{"MAKEFLAGS", nil}, {"MFLAGS", nil}, {"CARGO_MAKEFLAGS", nil}]

  defp ask(program, arguments) do
    case System.cmd(program, arguments, stderr_to_stdout: true, env: @alone) do
      {output, 0} -> {:ok, String.trim(output)}
      {output, _} -> {:error, output}
    end
  end

  defp rust_missing(found) do
    """
    BeTree is partly Rust, and needs Rust #{@oldest} or newer; #{describe(found)}. Install it, then compile again:

        with rustup, see https://rustup.rs:   rustup update stable
        on Debian 12:                         apt-get install rustc-web cargo-web
    """
  end

  defp wasm32_missing(found) do
    """
    be_tree.wasm needs Rust's standard library for #{@wasm32}; #{describe(found)}, without it. \
    Install it, then compile again:

        with rustup:    rustup target add #{@wasm32}
        on Debian 12:   apt-get install rustc-web cargo-web rust-web-src lld
    """
  end

  defp describe([]), do: "no cargo was found on the PATH or in /usr/bin"
  defp describe(found), do: "found " <> Enum.map_join(found, ", ", &"#{&1.cargo} #{&1.version}")
end
