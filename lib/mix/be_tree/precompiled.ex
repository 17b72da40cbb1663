defmodule Mix.BeTree.Precompiled do
  @moduledoc false
  # A NIF compiled for a release, downloaded by the package rustler_precompiled.
  #
  # rustler_precompiled is called here, and not with its `use` in BeTree.Runtime.Native: that would decide when the module is
  # compiled, so a package that is added later would not be seen, and it would load the library with the module.

  alias Mix.BeTree.Crate

  # It is present only as a dependency.
  @compile {:no_warn_undefined, RustlerPrecompiled}

  @crate "be_tree_host"
  @module BeTree.Runtime.Native
  # The environment variable and the key of the application's environment that turn downloads off.
  @build_variable "BE_TREE_BUILD"
  @url_variable "BE_TREE_PRECOMPILED_URL"

  @doc "Returns the name of the file with the checksums of a release, in the folder of the package."
  @spec checksums_file() :: Path.t()
  def checksums_file, do: "checksum-#{@module}.exs"

  @doc "Returns the name of a library without its extension, as rustler_precompiled expects it."
  @spec library(String.t(), String.t(), String.t()) :: String.t()
  def library(version, nif_version, target), do: "lib#{@crate}-v#{version}-nif-#{nif_version}-#{target}"

  @doc "Returns whether `file`, the NIF, is or will be a download instead of a build."
  @spec chosen?(Path.t()) :: boolean
  def chosen?(file), do: not build_forced?() and (missing() == nil or downloaded?(file))

  defp downloaded?(file), do: File.exists?(checksums_file()) and Crate.fresh?(file, origin())

  defp origin do
    "precompiled, from #{Base.encode16(:crypto.hash(:sha256, File.read!(checksums_file())), case: :lower)}"
  end

  # Returns the missing preconditions of a download.
  defp missing do
    cond do
      not File.exists?(checksums_file()) -> :checksums
      not Code.ensure_loaded?(RustlerPrecompiled) -> :package
      url() == nil -> :url
      true -> nil
    end
  end

  @doc "Returns a sentence about getting the NIF by download instead of Rust."
  @spec instead() :: String.t()
  def instead do
    case missing() do
      :checksums ->
        "A released package of BeTree can also download its NIF. These sources have no checksums of released NIFs."

      :package ->
        "Or download the NIF: add {:rustler_precompiled, \"~> 0.8\"} to your dependencies."

      :url ->
        "Or download the NIF: set config :be_tree, precompiled_url: \"https://...\", the folder of the released archives."

      nil ->
        "Or download the NIF: unset #{@build_variable} and config :be_tree, force_build: true."
    end
  end

  # Options of this library, and of rustler_precompiled.
  defp build_forced? do
    Enum.any?([
      on?(@build_variable),
      Application.get_env(:be_tree, :force_build),
      on?("RUSTLER_PRECOMPILED_FORCE_BUILD_ALL"),
      Application.get_env(:rustler_precompiled, :force_build_all),
      Application.get_env(:rustler_precompiled, :force_build, [])[:be_tree]
    ])
  end

  defp on?(variable), do: System.get_env(variable) in ["1", "true"]

  defp url do
    System.get_env(@url_variable) || Application.get_env(:be_tree, :precompiled_url) || released(Mix.Project.config())
  end

  defp released(config) do
    if source = config[:source_url], do: "#{source}/releases/download/v#{config[:version]}"
  end

  @doc "Updates `file`, the NIF, for a Mix compiler."
  @spec compile(Path.t()) :: {:ok | :noop, []}
  def compile(file) do
    if downloaded?(file) do
      {:noop, []}
    else
      downloaded = download(File.read!(checksums_file()))
      installed = Crate.install(downloaded, file, origin())
      File.rm!(downloaded)
      installed
    end
  end

  defp download(checksums) do
    Mix.shell().info("Downloading #{@crate} from #{url()}")
    show_http()
    {targets, nif_versions} = names(checksums)

    options = [
      otp_app: :be_tree,
      crate: @crate,
      # rustler_precompiled requires a path in the address.
      base_url: String.trim_trailing(url(), "/") <> "/",
      version: Mix.Project.config()[:version],
      targets: targets,
      nif_versions: nif_versions,
      force_build: false
    ]

    case RustlerPrecompiled.__using__(@module, options) do
      {:ok, %{load_from: {:be_tree, path}}} ->
        Application.app_dir(:be_tree, path <> ".so")

      {:error, message} ->
        fail(message)

      {:force_build, _options} ->
        fail("rustler_precompiled has no archives of #{Mix.Project.config()[:version]}, a version under development")
    end
  end

  # Since Elixir 1.15, Mix sees only the applications that a project names.
  defp show_http do
    if function_exported?(Mix, :ensure_application!, 1) do
      Enum.each([:inets, :ssl, :public_key], &apply(Mix, :ensure_application!, [&1]))
    end
  end

  # Returns the targets and NIF versions in the names of the archives.
  defp names(checksums) do
    names = Regex.scan(~r/"lib#{@crate}-v.*?-nif-([\d.]+)-(.+?)\.so\.tar\.gz"/, checksums, capture: :all_but_first)
    {names |> Enum.map(&List.last/1) |> Enum.uniq(), names |> Enum.map(&hd/1) |> Enum.uniq()}
  end

  # The message ends with advice for libraries built by rustler, which is removed.
  @spec fail(String.t()) :: no_return
  defp fail(message) do
    reason =
      message
      |> String.split("\n\n", parts: 2)
      |> hd()
      |> String.replace_prefix("Error while downloading precompiled NIF: ", "")
      |> String.trim_trailing(".")

    Mix.raise("""
    The NIF of BeTree cannot be downloaded from #{url()}: #{reason}.
    #{if reason =~ "checksum", do: kept_archive()}
    To compile the NIF with Rust instead, set #{@build_variable}=1 or config :be_tree, force_build: true.
    """)
  end

  defp kept_archive do
    "\nrustler_precompiled keeps what it downloads. When the archive is right at its source, delete the wrong one in " <>
      "#{cache()}.\n"
  end

  defp cache do
    System.get_env("RUSTLER_PRECOMPILED_GLOBAL_CACHE_PATH") ||
      :filename.basedir(:user_cache, "rustler_precompiled/precompiled_nifs")
  end
end
