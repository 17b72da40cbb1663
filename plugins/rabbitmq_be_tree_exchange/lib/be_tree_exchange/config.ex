defmodule BeTreeExchange.Config do
  @moduledoc false
  # Reads the arguments of an exchange, and the policies that replace them.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Records, Schema}

  @default_fuel 100_000_000
  @default_memory 0x4000_0000

  @enforce_keys [:schema, :source, :routing_key, :fuel, :memory, :while_building]
  defstruct @enforce_keys

  @typedoc """
  `source` of the event; `routing_key`: whether it is an attribute; `fuel` of a message; bytes of `memory`; `while_building`:
  whether a publish waits for an index that is being built, or uses the last complete one.
  """
  @type t :: %__MODULE__{
          schema: [BeTree.Domain.t()],
          source: :headers | :payload,
          routing_key: boolean,
          fuel: pos_integer,
          memory: pos_integer,
          while_building: :wait | :last
        }

  @doc "Returns the configuration of an exchange, or the reason for which it is refused."
  @spec read(Records.exchange()) :: {:ok, t} | {:error, String.t()}
  def read(exchange(arguments: arguments) = exchange) do
    with {:ok, schema} <- schema(argument(arguments, "x-schema")),
         {:ok, source} <- source(argument(arguments, "x-event")),
         {:ok, routing_key} <- routing_key(schema),
         {:ok, fuel} <- limit(exchange, "fuel", @default_fuel),
         {:ok, memory} <- limit(exchange, "memory", @default_memory),
         {:ok, while_building} <- while_building(exchange) do
      {:ok,
       %__MODULE__{
         schema: schema,
         source: source,
         routing_key: routing_key,
         fuel: fuel,
         memory: memory,
         while_building: while_building
       }}
    end
  end

  defp schema({:longstr, json}), do: Schema.parse(json)
  defp schema({:table, pairs}), do: Schema.parse(value(:table, pairs))

  defp schema(_missing) do
    {:error, "the argument x-schema is missing; give the attributes as JSON, such as {\"price\": \"float\"}"}
  end

  defp source(nil), do: {:ok, :headers}
  defp source({:longstr, "headers"}), do: {:ok, :headers}
  defp source({:longstr, "payload"}), do: {:ok, :payload}
  defp source(_other), do: {:error, "x-event is headers or payload"}

  defp routing_key(schema) do
    case Enum.find(schema, &(&1.name == "routing_key")) do
      nil -> {:ok, false}
      %{type: :string} -> {:ok, true}
      _other -> {:error, "x-schema: the attribute `routing_key` is the routing key of the message; its type is string"}
    end
  end

  defp limit(exchange, name, default) do
    case option(exchange, name) do
      :undefined -> {:ok, default}
      value -> with({:error, reason} <- check(name, value), do: {:error, "x-#{name} #{reason}"})
    end
  end

  defp while_building(exchange) do
    case option(exchange, "while-building") do
      :undefined -> {:ok, :wait}
      value -> with({:error, reason} <- check("while-building", value), do: {:error, "x-while-building #{reason}"})
    end
  end

  # An argument wins over the policy.
  defp option(exchange, name), do: :rabbit_policy.get_arg("x-" <> name, "be-tree-" <> name, exchange)

  @doc "Returns the value of an option that an argument or a policy may set."
  @spec check(String.t(), term) :: {:ok, term} | {:error, String.t()}
  def check(limit, value) when limit in ["fuel", "memory"] do
    if is_integer(value) and value in 1..0x7FFF_FFFF_FFFF_FFFF, do: {:ok, value}, else: {:error, "is a number above 0"}
  end

  def check("while-building", "wait"), do: {:ok, :wait}
  def check("while-building", "last"), do: {:ok, :last}
  def check("while-building", _other), do: {:error, "is wait or last"}
end
