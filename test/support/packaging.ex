defmodule BeTree.Test.Packaging do
  @moduledoc false
  # Projects that depend on BeTree, in a folder of a test.

  import ExUnit.Assertions

  @doc "Runs Mix in a folder. The variables of this run of Mix are not passed on."
  @spec mix(Path.t(), [String.t()], [{String.t(), String.t() | nil}]) ::
          {output :: String.t(), status :: non_neg_integer}
  def mix(folder, arguments, variables \\ []) do
    none = for name <- ~w(MIX_ENV MIX_BUILD_PATH MIX_EXS MIX_TARGET CARGO_TARGET_DIR BE_TREE_BUILD), do: {name, nil}
    # The last one counts.
    variables = Map.to_list(Map.merge(Map.new(none), Map.new(variables)))
    System.cmd(System.find_executable("mix"), arguments, cd: folder, env: variables, stderr_to_stdout: true)
  end

  @doc "Like `mix/3`, for a run that succeeds. Returns the output."
  @spec mix!(Path.t(), [String.t()], [{String.t(), String.t() | nil}]) :: String.t()
  def mix!(folder, arguments, variables \\ []) do
    {output, status} = mix(folder, arguments, variables)
    assert status == 0, output
    output
  end

  @doc "Writes files, named by paths in the folder."
  @spec write(Path.t(), %{Path.t() => iodata}) :: :ok
  def write(folder, files) do
    for {path, content} <- files do
      path = Path.join(folder, path)
      File.mkdir_p!(Path.dirname(path))
      File.write!(path, content)
    end

    :ok
  end

  @doc "Writes an executable file, and returns its path."
  @spec script(Path.t(), iodata) :: Path.t()
  def script(path, content) do
    File.mkdir_p!(Path.dirname(path))
    File.write!(path, content)
    File.chmod!(path, 0o755)
    path
  end

  @doc "Returns the paths of all files in a folder, with their content."
  @spec files(Path.t()) :: %{Path.t() => binary}
  def files(folder) do
    for path <- Path.wildcard(folder <> "/**", match_dot: true), File.regular?(path), into: %{} do
      {Path.relative_to(path, folder), File.read!(path)}
    end
  end

  @doc "Makes a folder of links to the programs that Mix and a release need, which has no Rust."
  @spec programs(Path.t()) :: Path.t()
  def programs(folder) do
    File.mkdir_p!(folder)

    for name <-
          ~w(mix elixir erl sh bash env awk basename cat cp cut date dirname expr grep head id ln ls mkdir mv od) ++
            ~w(readlink realpath rm sed sleep sort stty tail test touch tput tr uname wc),
        program = System.find_executable(name) do
      File.ln_s!(program, Path.join(folder, name))
    end

    folder
  end
end
