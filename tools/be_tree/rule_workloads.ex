defmodule BeTree.RuleWorkloads do
  @moduledoc false
  # Workloads of stateful rules with known results: Miss Manners and Waltzdb. Each is `{rules, facts}`: the text, and the facts in their
  # order. The last fact sets the rules off. The files of wasm/rules/workloads have rules and data.

  @folder Path.expand("../../wasm/rules/workloads", __DIR__)

  @type workload :: {String.t(), [{atom, keyword}]}

  @doc "Returns Miss Manners with 8, 16, 32, 64 or 128 guests."
  @spec manners(8 | 16 | 32 | 64 | 128) :: workload
  def manners(guests) do
    lists = for paragraph <- "manners.guests" |> read() |> String.split("\n\n"), do: String.split(paragraph)

    hobbies =
      for {<<sex::binary-size(1), hobbies::binary>>, number} <-
            lists |> Enum.find(&(length(&1) == guests)) |> Enum.with_index(1),
          <<hobby <- hobbies>>,
          do: {:guest, name: Integer.to_string(number), sex: sex, hobby: hobby - ?0}

    {read("manners.rules"), hobbies ++ [last_seat: [seat: guests], counter: [value: 1], context: [state: "start"]]}
  end

  @doc "Returns Waltzdb for a drawing of this many regions."
  @spec waltzdb(pos_integer) :: workload
  def waltzdb(regions) do
    {read("waltzdb.rules"), labels() ++ lines(regions) ++ [stage: [value: "duplicate"]]}
  end

  defp labels do
    for {[name, ends], id} <- "waltzdb.labels" |> rows() |> Enum.with_index(1) do
      [n1, n2, n3] = for side <- 0..2, do: String.slice(ends, side, 1)
      {:label, name: name, id: id, n1: n1, n2: n2, n3: n3}
    end
  end

  defp lines(regions) do
    parts =
      Enum.group_by(rows("waltzdb.drawing"), &hd/1, fn [_part | numbers] -> Enum.map(numbers, &String.to_integer/1) end)

    for cell <- 0..regions,
        {part, x, y} <-
          [{"links", 0, 0}, {"block", 0, 0}, {"block", 6, 0}, {"block", 0, 6}, {"block", 6, 6}] ++
            if(cell > 0, do: [{"back", 0, 0}], else: []),
        [x1, y1, x2, y2] <- parts[part] do
      [p1, p2] = for {px, py} <- [{x1, y1}, {x2, y2}], do: 10_000 * (px + x + 12 * cell) + py + y
      {:line, p1: p1, p2: p2}
    end
  end

  defp rows(name), do: for(row <- name |> read() |> String.split("\n", trim: true), do: String.split(row))

  defp read(name), do: File.read!(Path.join(@folder, name))
end
