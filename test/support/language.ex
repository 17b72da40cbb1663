defmodule BeTree.Test.Language do
  @moduledoc false
  # The conformance corpus of test/conformance, with its attributes and constants.

  @folder Path.expand("../conformance", __DIR__)
  @files Map.new(["language.exs", "refusals.exs", "extensions.exs", "paths.exs"], &{&1, Path.join(@folder, &1)})
  for {_name, path} <- @files, do: @external_resource(path)

  @rows @files |> Map.fetch!("language.exs") |> Code.eval_file() |> elem(0)
  @refusals @files |> Map.fetch!("refusals.exs") |> Code.eval_file() |> elem(0)

  {extension_rows, extension_refusals} = @files |> Map.fetch!("extensions.exs") |> Code.eval_file() |> elem(0)
  @extension_rows extension_rows
  @extension_refusals extension_refusals

  {path_rows, path_refusals} = @files |> Map.fetch!("paths.exs") |> Code.eval_file() |> elem(0)
  @path_rows path_rows
  @path_refusals path_refusals

  @doc "Returns `[{expression, event, whether it is true}]`."
  def rows, do: @rows ++ @extension_rows ++ @path_rows

  @doc "Returns `[{expression, kind, attribute, column}]`."
  def refusals, do: @refusals ++ @extension_refusals ++ @path_refusals

  @doc "Returns the rows in erl-be-tree's language."
  def flat_rows, do: @rows

  @doc "Returns the refusals in erl-be-tree's language."
  def flat_refusals, do: @refusals

  @doc "Returns the attributes that `rows/0` and `refusals/0` name."
  def schema do
    flat_schema() ++
      [
        ip: {:ip, optional: true},
        at: {:datetime, optional: true},
        t: {:string, optional: true},
        items: {:list, [sku: {:string, optional: true}, qty: {:integer, optional: true}], optional: true},
        user: [name: {:string, optional: true}, address: %{zip: {:integer, optional: true}}],
        "`a b`.`c.d`": {:integer, optional: true},
        loose: [i: {:integer, optional: true, coerce: true}, s: {:string, optional: true, coerce: true}]
      ]
  end

  @doc "Returns the attributes that `flat_rows/0` and `flat_refusals/0` name."
  def flat_schema do
    [
      b: {:boolean, optional: true},
      i: {:integer, optional: true},
      j: {:integer, optional: true},
      f: {:float, optional: true},
      s: {:string, optional: true},
      e: {:integer_enum, optional: true},
      il: {:integer_list, optional: true},
      sl: {:string_list, optional: true},
      seg: {:segments, optional: true},
      now: {:integer, optional: true},
      latitude: {:float, optional: true},
      longitude: {:float, optional: true},
      segments_with_timestamp: {:segments, optional: true},
      frequency_caps: {:frequency_caps, optional: true}
    ]
  end

  @doc "Returns the values of `event`, one for each attribute, in the order of the schema."
  def record(event) do
    {:ok, domains} = BeTree.Domain.parse(schema())

    for %{name: name} <- domains, not String.starts_with?(name, "items.") do
      {:ok, path} = BeTree.Domain.Path.fields(name)
      Enum.reduce(path, event, fn field, map -> if is_map(map), do: map[String.to_existing_atom(field)] end)
    end
  end

  def constants, do: [flight_id: 10, advertiser_id: 20, campaign_id: 30, campaign_group_id: 40, product_id: 50]

  @doc "Returns the expressions of `rows` as subscriptions, numbered from 0."
  def subscriptions(rows \\ rows()) do
    for {{text, _event, _holds}, id} <- Enum.with_index(rows), do: {id, text, constants: constants()}
  end
end
