defmodule Ads.Page do
  @moduledoc "The dashboard: a page with all campaigns and figures of the index, which reloads itself."

  @doc "Returns the page as HTML."
  @spec html([{BeTree.id(), String.t(), pos_integer, integer}]) :: String.t()
  def html(campaigns) do
    info = BeTree.Server.info!(Ads.Campaigns)
    schema = Enum.map_join(BeTree.Server.schema!(Ads.Campaigns), ", ", & &1.name)

    """
    <!DOCTYPE html>
    <html lang="en">
    <title>Campaigns</title>
    <meta http-equiv="refresh" content="2">
    <h1>#{info.expressions} campaigns</h1>
    <p>Attributes: #{escape(schema)}. Version #{info.version}, #{div(info.memory_bytes, 1024)} KiB.</p>
    <table>
    <tr><th>campaign<th>targeting<th>price<th>budget left</tr>
    #{Enum.map_join(campaigns, "\n", &row/1)}
    </table>
    </html>
    """
  end

  defp row({id, targeting, price, left}), do: "<tr><td>#{id}<td>#{escape(targeting)}<td>#{price}<td>#{left}</tr>"

  defp escape(text), do: String.replace(text, ["&", "<", ">"], &%{"&" => "&amp;", "<" => "&lt;", ">" => "&gt;"}[&1])
end
