defmodule BeTree.Bench.Tenants.Child do
  @moduledoc false
  # Runs a part of the benchmark in a VM of its own, whose result comes by a file.

  import BeTree.Bench.Run

  # Best fit in the order of addresses, which the peer's tables need against fragmentation.
  @flags "+MEas aobf"

  @doc "Raises unless the VM runs with the flags of the benchmark."
  def check_flags! do
    unless strategy() == :aobf do
      Mix.raise(
        "this VM allocates for ETS by #{strategy()}, and the peer needs #{@flags}. " <>
          "Run the benchmark by: make bench CASE=tenants, or with ELIXIR_ERL_OPTIONS=\"#{@flags}\""
      )
    end
  end

  defp strategy do
    [{:instance, _number, instance} | _others] = :erlang.system_info({:allocator, :ets_alloc})
    instance[:options][:as]
  end

  @doc "Returns the result of the part `name` in a VM of its own."
  def run(name, options, arguments \\ []) do
    path = Path.join(folder(), "#{name}.result")
    File.rm(path)

    {_output, 0} =
      System.cmd("mix", command(name, path, options, arguments), env: environment(), into: IO.stream(:stderr, :line))

    path |> File.read!() |> :erlang.binary_to_term()
  end

  @doc "Starts a VM with the part `name`. Returns its port and its process of the operating system."
  def open(name, options, arguments) do
    arguments = ["-c", "exec mix \"$@\"", "sh" | command(name, "/dev/null", options, arguments)]
    env = for {name, value} <- environment(), do: {~c"#{name}", ~c"#{value}"}
    port = Port.open({:spawn_executable, "/bin/sh"}, [:binary, :exit_status, line: 4_096, args: arguments, env: env])
    {:os_pid, process} = Port.info(port, :os_pid)
    {port, process}
  end

  defp command(name, path, options, arguments) do
    quick = if options.quick, do: ["--quick"], else: []
    ["run", "--no-compile", "bench/tenants.exs", "--child", name, "--result", path] ++ quick ++ ["--" | arguments]
  end

  defp environment, do: [{"MIX_ENV", "#{Mix.env()}"}, {"ELIXIR_ERL_OPTIONS", @flags}]
end
