defmodule BeTree.Tune.Report do
  @moduledoc false
  # Puts the JSON of a run into the HTML page that `make report` builds from `report/`.

  alias BeTree.Error

  @page "priv/tune.html"
  @placeholder "\"the run's JSON goes here\""

  @spec html(String.t()) :: {:ok, iodata} | {:error, Error.t()}
  def html(json) do
    with {:ok, page} <- page(), do: {:ok, fill(page, json)}
  end

  # Returns `:ok` if there is a page, or the error of `html/1`.
  @spec check() :: :ok | {:error, Error.t()}
  def check, do: with({:ok, _page} <- page(), do: :ok)

  defp page do
    with {:error, reason} <- :be_tree |> Application.app_dir(@page) |> File.read(),
         do: {:error, %Error{kind: :file, message: missing(reason)}}
  end

  # Escaping every `<` keeps the JSON from closing its script element.
  defp fill(page, json) do
    [before, behind] = String.split(page, @placeholder)
    [before, String.replace(json, "<", "\\u003c"), behind]
  end

  defp missing(reason) do
    "the page's program is missing (#{@page}: #{:file.format_error(reason)}). Released packages have it. " <>
      "In a checkout, install npm, then run: make report && mix compile"
  end
end
