defmodule BeTree.Bench.Rules.Chart do
  @moduledoc false
  # Draws how times grow with the size of a workload: an SVG with logarithmic axes.

  @width 640
  @height 420
  @left 70
  @right 150
  @top 30
  @bottom 50
  @colors ~w(#1b6ca8 #d1495b #3a7d44 #edae49 #66558e #444444)

  @type line :: {name :: String.t(), [{size :: number, milliseconds :: number}]}

  @spec svg(String.t(), String.t(), [line]) :: iodata
  def svg(title, sizes, lines) do
    points = Enum.flat_map(lines, &elem(&1, 1))
    x = scale(Enum.map(points, &elem(&1, 0)), @left, @width - @right)
    y = scale(Enum.map(points, &elem(&1, 1)), @height - @bottom, @top)

    [
      ~s(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{@width} #{@height}" font-family="sans-serif" font-size="12">\n),
      ~s(<rect width="#{@width}" height="#{@height}" fill="white"/>\n),
      ~s(<text x="#{@left}" y="18" font-size="14">#{title}</text>\n),
      for(
        {size, _time} <- Enum.uniq_by(points, &elem(&1, 0)),
        do: text(x.(size), @height - @bottom + 18, "middle", size)
      ),
      text((@left + @width - @right) / 2, @height - 12, "middle", sizes),
      for(power <- powers(points), do: [rule(y.(power)), text(@left - 6, y.(power) + 4, "end", label(power))]),
      for({{name, points}, color} <- Enum.zip(lines, Stream.cycle(@colors)), do: line(name, points, color, x, y)),
      "</svg>\n"
    ]
  end

  defp powers(points) do
    {least, most} = points |> Enum.map(&elem(&1, 1)) |> Enum.min_max()

    for power <- floor(:math.log10(least))..ceil(:math.log10(most)),
        time = :math.pow(10, power),
        time >= least,
        time <= most,
        do: time
  end

  defp label(time) when time >= 1_000, do: "#{round(time / 1_000)} s"
  defp label(time) when time >= 1, do: "#{round(time)} ms"
  defp label(time), do: "#{round(time * 1_000)} us"

  defp scale(values, from, to) do
    {least, most} = Enum.min_max(values)
    span = :math.log(most / least)
    fn value -> from + (to - from) * if(span == 0, do: 0.5, else: :math.log(value / least) / span) end
  end

  defp line(name, points, color, x, y) do
    points = for {size, time} <- Enum.sort(points), do: {x.(size), y.(time)}
    {last_x, last_y} = List.last(points)
    path = Enum.map_join(points, " ", fn {x, y} -> "#{round(x)},#{round(y)}" end)

    [
      ~s(<polyline points="#{path}" fill="none" stroke="#{color}" stroke-width="2"/>\n),
      for({x, y} <- points, do: ~s(<circle cx="#{round(x)}" cy="#{round(y)}" r="3" fill="#{color}"/>\n)),
      ~s(<text x="#{round(last_x) + 8}" y="#{round(last_y) + 4}" fill="#{color}">#{name}</text>\n)
    ]
  end

  defp rule(y),
    do: ~s(<line x1="#{@left}" x2="#{@width - @right}" y1="#{round(y)}" y2="#{round(y)}" stroke="#dddddd"/>\n)

  defp text(x, y, anchor, text), do: ~s(<text x="#{round(x)}" y="#{round(y)}" text-anchor="#{anchor}">#{text}</text>\n)
end
