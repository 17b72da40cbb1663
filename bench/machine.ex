defmodule BeTree.Bench.Machine do
  @moduledoc false
  # Describes the machine and the versions of the measured programs.

  alias BeTree.Bench.Native

  @spec describe() :: map
  def describe do
    %{
      cpu: cpu(),
      schedulers: System.schedulers_online(),
      otp: System.otp_release(),
      elixir: System.version(),
      wasmtime: Native.version("wasmtime"),
      a_tree: Native.version("a-tree"),
      quamina: Native.version("quamina")
    }
  end

  @spec line(map) :: String.t()
  def line(machine) do
    "#{machine.cpu}, #{machine.schedulers} schedulers; OTP #{machine.otp}, Elixir #{machine.elixir}, " <>
      "wasmtime #{machine.wasmtime}; beside a-tree #{machine.a_tree}, quamina #{machine.quamina}"
  end

  defp cpu do
    with {:ok, text} <- File.read("/proc/cpuinfo"),
         [_all, model] <- Regex.run(~r/^model name\s*:\s*(.+)$/m, text) do
      model
    else
      _unknown -> to_string(:erlang.system_info(:system_architecture))
    end
  end
end
