defmodule :rabbit_be_tree_policy do
  @moduledoc false
  # The policies be-tree-fuel, be-tree-memory and be-tree-while-building: the callback of the broker's behaviour
  # rabbit_policy_validator.

  alias BeTreeExchange.Config

  # See :rabbit_exchange_type_be_tree.
  Module.register_attribute(__MODULE__, :behavior, persist: true)
  Module.put_attribute(__MODULE__, :behavior, :rabbit_policy_validator)

  @names ["fuel", "memory", "while-building"]

  Module.register_attribute(__MODULE__, :rabbit_boot_step, accumulate: true, persist: true)

  @rabbit_boot_step {__MODULE__,
                     [
                       description: ~c"policies of the exchange type x-be-tree",
                       mfa: {__MODULE__, :register, []},
                       cleanup: {__MODULE__, :unregister, []},
                       requires: :rabbit_registry,
                       enables: :recovery
                     ]}

  def register do
    for name <- @names, do: :rabbit_registry.register(:policy_validator, "be-tree-" <> name, __MODULE__)
    :ok
  end

  def unregister do
    for name <- @names, do: :rabbit_registry.unregister(:policy_validator, "be-tree-" <> name)
    :ok
  end

  def validate_policy(terms) do
    Enum.find_value(terms, :ok, fn {"be-tree-" <> name, value} ->
      case Config.check(name, value) do
        {:ok, _value} -> nil
        {:error, reason} -> {:error, ~c"be-tree-~ts ~ts", [name, reason]}
      end
    end)
  end
end
