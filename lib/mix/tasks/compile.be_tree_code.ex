defmodule Mix.Tasks.Compile.BeTreeCode do
  @moduledoc false
  # This task compiles the sandboxed modules to machine code for this machine, with the NIF, in the folder `priv/native/code` of
  # the project's build. A VM then loads that code in milliseconds, in place of compiling the modules for seconds.
  #
  # `mix compile` runs it after the modules and the NIF are there, also where the NIF was downloaded. It needs no Rust. It starts
  # a VM for the NIF, because a VM cannot load another NIF later. While the NIF and the modules are the same, the task does
  # nothing; `--force` does not change that.
  #
  # If the NIF cannot run here, because it was compiled for another platform for example, the task prints the reason once, and each VM
  # compiles the modules. A VM also does that if its CPU lacks features of the CPU that the code was compiled for.

  use Mix.Task.Compiler

  alias Mix.BeTree.Build
  alias Mix.Tasks.Compile.{BeTreeGuest, BeTreeHost}

  @folder "native/code"

  @impl Mix.Task.Compiler
  def run(_arguments) do
    files = [BeTreeHost.crate().file | modules()]
    origin = if Enum.all?(files, &File.exists?/1), do: origin(files)

    cond do
      origin == nil -> {:noop, []}
      fresh?(origin) -> {:noop, []}
      true -> compile(origin)
    end
  end

  defp modules, do: for(crate <- BeTreeGuest.crates(), do: crate.file)

  defp origin(files), do: for(file <- files, do: :crypto.hash(:sha256, File.read!(file)))

  # The names of the files are kept, because none are made where the NIF cannot run.
  defp fresh?(origin) do
    with {:ok, text} <- File.read(stamp()), {^origin, names} <- :erlang.binary_to_term(text) do
      Enum.all?(names, &File.exists?(Path.join(folder(), &1)))
    else
      _absent_or_other -> false
    end
  end

  defp compile(origin) do
    part = folder() <> ".#{System.pid()}"

    case start(part) do
      {_output, 0} -> Build.forget_note(:be_tree_code)
      {reason, _status} -> note(reason)
    end

    names = install(part)
    File.mkdir_p!(Path.dirname(stamp()))
    File.write!(stamp(), :erlang.term_to_binary({origin, names}))
    {:ok, []}
  end

  # Runs a VM without the arguments and the name of this one.
  defp start(part) do
    erl = Path.join([:code.root_dir(), "bin", "erl"])

    paths =
      for path <- [:code.lib_dir(:elixir, :ebin), Mix.Project.compile_path()], argument <- ["-pa", path], do: argument

    call =
      "[Priv, Folder | Files] = [unicode:characters_to_binary(A) || A <- init:get_plain_arguments()], " <>
        "'Elixir.BeTree.Runtime.MachineCode':compile_ahead(Priv, Folder, Files)."

    arguments = paths ++ ["-noinput", "-eval", call, "-extra", Build.priv(), part | modules()]
    env = [{"ERL_CRASH_DUMP_BYTES", "0"} | for(name <- ~w(ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS), do: {name, nil})]
    System.cmd(erl, Enum.map(arguments, &to_string/1), env: env, stderr_to_stdout: true)
  end

  defp note(reason) do
    Build.note_once(
      :be_tree_code,
      "BeTree: the modules are not compiled to machine code here, so each VM compiles them. #{String.trim(reason)}"
    )
  end

  # Moves the files of a folder to that of the build, one by one, and returns their names. Deletes all others.
  defp install(part) do
    names = if File.dir?(part), do: File.ls!(part), else: []
    old = if File.dir?(folder()), do: File.ls!(folder()) -- names, else: []
    if names != [], do: File.mkdir_p!(folder())

    for name <- names do
      # Other users may run a release.
      File.chmod!(Path.join(part, name), 0o644)
      File.rename!(Path.join(part, name), Path.join(folder(), name))
    end

    for path <- [part | Enum.map(old, &Path.join(folder(), &1))], do: File.rm_rf!(path)
    names
  end

  defp folder, do: Path.join(Build.priv(), @folder)

  defp stamp, do: Path.join(Mix.Project.manifest_path(), "compile.be_tree_code")

  @impl Mix.Task.Compiler
  def clean do
    Build.forget_note(:be_tree_code)
    for path <- [folder(), stamp()], do: File.rm_rf!(path)
    :ok
  end
end
