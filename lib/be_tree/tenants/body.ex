defmodule BeTree.Tenants.Body do
  @moduledoc false
  # The compact form of a tenant: all that brings it back into a shard.
  #
  # The store keeps a body as bytes, and after it the records of later changes and statistics, the tail. Reading a tenant applies the
  # tail to the body. Statistics are absolute: a record of a day replaces the one before. The store also keeps records of days
  # (BeTree.Tenants.Day).

  alias BeTree.{Error, Input}
  alias BeTree.Tenants.{Clock, Declaration, Quota, Usage}

  @version 2

  # A tenant with more expressions has an instance of its own, so that its long searches hold up no other tenant.
  @max_shared_expressions 10_000

  defstruct expressions: %{},
            stats: :default,
            quota: :default,
            instance: :shared,
            origin: nil,
            statistics: nil,
            usage: [],
            debt: {0, 0}

  @typedoc "An expression with its constants and the declaration of its statistics."
  @type expression :: {String.t(), Input.Subscription.constants(), Declaration.t() | nil}

  @typedoc """
    * `:stats`, `:quota` - those of the tenant, or `:default` for the options of the tenants;
    * `:instance` - whether the tenant shares an instance of the index module, or asks for its own;
    * `:origin` - the name of this copy of the tenant in records of days;
    * `:statistics` - the statistics of the latest day, or `nil`;
    * `:usage` - the bills of days that are not stored with their statistics yet;
    * `:debt` - the fuel that the tenant had spent beyond what its quota had paid for, and the time in seconds since 1970.
  """
  @type t :: %__MODULE__{
          expressions: %{BeTree.id() => expression},
          stats: Declaration.t() | nil | :default,
          quota: Quota.t() | nil | :default,
          instance: :shared | :own,
          origin: binary | nil,
          statistics: {Clock.day(), binary} | nil,
          usage: [{Clock.day(), Usage.totals()}],
          debt: {non_neg_integer, non_neg_integer}
        }

  @typedoc "A checked change. Without `:stats`, `:quota` or `:instance`, they stay as they are. The first one of a tenant has its `:origin`."
  @type change :: %{
          :delete => [BeTree.id()],
          :put => [{BeTree.id(), expression}],
          optional(:stats) => Declaration.t() | nil,
          optional(:quota) => Quota.t() | nil,
          optional(:instance) => :shared | :own,
          optional(:origin) => binary
        }

  @doc "Returns the tenant that the store has read."
  @spec read(BeTree.Tenants.Store.found()) :: {:ok, t} | {:error, Error.t()}
  def read(%{body: bytes, statistics: statistics, tail: changes}) do
    with {:ok, body} <- decode(bytes),
         {:ok, fields} <- decode_statistics(statistics),
         do: {:ok, Enum.reduce(changes, struct!(body, fields), &change/2)}
  end

  defp decode(nil), do: {:ok, %__MODULE__{}}
  defp decode(bytes), do: decode_term(bytes, "a body", &match?(%__MODULE__{}, &1))

  defp decode_statistics(nil), do: {:ok, %{}}
  defp decode_statistics({_day, bytes}), do: decode_term(bytes, "the statistics", &is_map/1)

  @doc "Returns the bytes of a term that the store keeps."
  @spec encode_term(term) :: binary
  def encode_term(term), do: :erlang.term_to_binary({@version, term}, minor_version: 2)

  @doc "Returns the term of these bytes, or an error that begins with `name`."
  @spec decode_term(binary, String.t(), (term -> boolean)) :: {:ok, term} | {:error, Error.t()}
  # The digest of the store was right, so other bytes are those of another version of this library.
  def decode_term(bytes, name, right?) do
    with {@version, term} <- :erlang.binary_to_term(bytes), true <- right?.(term) do
      {:ok, term}
    else
      _other -> other_version(name)
    end
  rescue
    ArgumentError -> other_version(name)
  end

  defp other_version(name) do
    message = "#{name} of a tenant is of another version of this library; start the version that wrote it"
    {:error, %Error{kind: :damaged, message: message}}
  end

  @doc "Applies a change."
  @spec change(change, t) :: t
  def change(change, %__MODULE__{expressions: expressions} = body) do
    expressions = expressions |> Map.drop(change.delete) |> Map.merge(Map.new(change.put))
    struct!(body, change |> Map.take([:stats, :quota, :instance, :origin]) |> Map.put(:expressions, expressions))
  end

  @doc "Returns whether the tenant comes into an instance of its own."
  @spec place(t) :: :shared | :own
  def place(%__MODULE__{instance: :shared, expressions: expressions})
      when map_size(expressions) <= @max_shared_expressions,
      do: :shared

  def place(%__MODULE__{}), do: :own

  @doc "Returns the bytes of a body."
  @spec encode(t) :: binary
  def encode(%__MODULE__{} = body), do: encode_term(body)

  @doc "Returns the bytes of statistics that are newer than the body: some of its fields."
  @spec encode_statistics(map) :: binary
  def encode_statistics(fields), do: encode_term(fields)
end
