defmodule BeTree.Bench.Machine do
  @moduledoc false
  # Describes the machine and the versions of the measured programs.

  alias BeTree.Bench.Native

  @spec describe() :: map
  def describe do
    BeTree.Tune.Machine.describe()
    |> Map.take([:cpu, :schedulers, :otp, :elixir])
    |> Map.merge(%{
      wasmtime: Native.version("wasmtime"),
      a_tree: Native.version("a-tree"),
      quamina: Native.version("quamina")
    })
  end

  @spec line(map) :: String.t()
  def line(machine) do
    "#{machine.cpu}, #{machine.schedulers} schedulers; OTP #{machine.otp}, Elixir #{machine.elixir}, " <>
      "wasmtime #{machine.wasmtime}; beside a-tree #{machine.a_tree}, quamina #{machine.quamina}"
  end
end
