defmodule BeTree.Test.Language do
  @moduledoc false
  # The whole-language corpus of test/conformance, and the attributes and constants that its expressions name.

  @folder Path.expand("../conformance", __DIR__)
  @files Map.new(["language.exs", "refusals.exs"], &{&1, Path.join(@folder, &1)})
  for {_name, path} <- @files, do: @external_resource(path)

  @rows @files |> Map.fetch!("language.exs") |> Code.eval_file() |> elem(0)
  @refusals @files |> Map.fetch!("refusals.exs") |> Code.eval_file() |> elem(0)

  @doc "Returns `[{expression, event, whether it is true}]`."
  def rows, do: @rows

  @doc "Returns `[{expression, kind, attribute, column}]`."
  def refusals, do: @refusals

  def schema do
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
      ip: {:ip, optional: true},
      at: {:datetime, optional: true},
      t: {:string, optional: true},
      latitude: {:float, optional: true},
      longitude: {:float, optional: true},
      segments_with_timestamp: {:segments, optional: true},
      frequency_caps: {:frequency_caps, optional: true}
    ]
  end

  def constants, do: [flight_id: 10, advertiser_id: 20, campaign_id: 30, campaign_group_id: 40, product_id: 50]

  @doc "Returns the expressions as subscriptions, numbered from 0."
  def subscriptions do
    for {{text, _event, _holds}, id} <- Enum.with_index(@rows), do: {id, text, constants: constants()}
  end
end
