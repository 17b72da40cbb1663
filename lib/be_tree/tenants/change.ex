defmodule BeTree.Tenants.Change do
  @moduledoc false
  # Checks the arguments of a change: the tenant, and the expressions, statistics and quota that it sets.

  alias BeTree.Domain
  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Input.{Check, Describe, Options, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Tenants.{Body, Declaration, Quota}

  @definitions [
    put: [
      type: :any,
      default: [],
      doc:
        "expressions to insert, or to replace where their ids exist: a list of `{id, expression}` and `{id, expression, options}`. An " <>
          "id is an unsigned integer of 64 bits. The options are `:constants`, as of `BeTree.insert/4`, and `:stats`, which is " <>
          "for this expression in place of the tenant's; `stats: []` counts its matches only"
    ],
    delete: [type: :any, default: [], doc: "ids to delete. All of them must exist"],
    stats: [
      type: :any,
      doc:
        "the statistics of the tenant's expressions, in place of the option of `start_link/1`, or `nil` for counts only"
    ],
    quota: [
      type: {:check, "nil, or a keyword list with :rate, :burst, :memory and :overflow", &Quota.valid?/1},
      doc: "the quota of the tenant, in place of the option of `start_link/1`, or `nil` for none"
    ],
    instance: [
      type: {:check, ":shared or :own", &__MODULE__.instance?/1},
      doc:
        "`:own` gives the tenant an instance of the index module, some 300 KB: its matches wait for those of no other tenant, and a trap in " <>
          "them reaches nobody else. `:shared`, the default, takes that back. The tenant moves when it is next matched"
    ]
  ]

  @put_options [:constants, :stats]

  @doc false
  def instance?(instance), do: instance in [:shared, :own]

  @doc "Returns the documentation of the parts of a change."
  @spec docs() :: String.t()
  def docs, do: Options.docs(@definitions)

  @doc "Returns `:ok` if `tenant` can be a tenant, or an error. A tenant that is kept in a folder has no process in it, for example."
  @spec check_tenant(term, Id.kind()) :: :ok | {:error, Error.t()}
  def check_tenant(tenant, kind) do
    with {:error, error} <- Id.check(tenant, kind),
         do: {:error, %{error | message: String.replace_prefix(error.message, "an id", "a tenant")}}
  end

  @doc "Returns the change of these parts. Raises an `ArgumentError` for other parts."
  @spec new(term, [Domain.t()]) :: {:ok, Body.change()} | {:error, Error.t()}
  def new(parts, schema) do
    parts = parts |> Options.validate!(@definitions) |> Map.new()

    with {:ok, deleted} <- ids(parts.delete),
         {:ok, put} <- puts(parts.put, schema),
         {:ok, settings} <- settings(parts, schema),
         do: {:ok, Map.merge(settings, %{put: put, delete: deleted})}
  end

  defp ids(ids) do
    with {:ok, ids} <- Subscription.ids(ids, :integer), :ok <- distinct(ids), do: {:ok, ids}
  end

  defp puts(puts, schema) do
    with :ok <- Check.enumerable(puts, "expressions to put"),
         {:ok, puts} <- puts |> Enum.with_index() |> Attempt.map(&put(&1, schema)),
         :ok <- distinct(for({id, _expression} <- puts, do: id)),
         do: {:ok, puts}
  end

  defp put({put, position}, schema) do
    with {:error, error} <- expression(put, schema), do: {:error, %{error | position: position}}
  end

  defp expression({id, text, options}, schema) when is_list(options) do
    Options.keyword!(options)
    {stats, options} = Keyword.pop(options, :stats)

    if unknown = Enum.find(Keyword.keys(options), &(&1 not in @put_options)) do
      raise ArgumentError, "unknown keys [#{Describe.value(unknown)}]; the options are :constants, :stats"
    end

    with {:ok, {id, text, constants}} <- Subscription.new({id, text, options}, :integer),
         {:ok, declaration} <- Declaration.new(stats, schema),
         do: {:ok, {id, {text, constants, declaration}}}
  end

  defp expression({id, text}, schema), do: expression({id, text, []}, schema)

  defp expression(other, _schema) do
    message = "an expression to put is {id, expression} or {id, expression, options}, got: #{Describe.value(other)}"
    {:error, %Error{kind: :type, message: message}}
  end

  defp distinct(ids) do
    case ids -- Enum.uniq(ids) do
      [] ->
        :ok

      [id | _others] ->
        {:error, %Error{kind: :duplicate_id, message: "a change has the id #{Describe.value(id)} twice"}}
    end
  end

  defp settings(parts, schema) do
    with {:ok, stats} <- stats(parts, schema),
         do: {:ok, parts |> Map.take([:instance]) |> Map.merge(stats) |> Map.merge(quota(parts))}
  end

  defp stats(%{stats: stats}, schema) do
    with {:ok, declaration} <- Declaration.new(stats, schema), do: {:ok, %{stats: declaration}}
  end

  defp stats(_parts, _schema), do: {:ok, %{}}

  defp quota(%{quota: quota}), do: %{quota: Quota.new!(quota)}
  defp quota(_parts), do: %{}
end
