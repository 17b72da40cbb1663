# Measures the first tree and the first rules of a fresh VM, with the code that the build compiled ahead and without it.
#
#     MIX_ENV=prod mix run bench/start.exs [VMs]
#
# The VMs, 7 of each kind, take turns. Each loads all modules of Elixir first, as a release does when it starts.

defmodule BeTree.Bench.Start do
  @moduledoc false

  @vm """
  {:ok, modules} = (Application.load(:be_tree); :application.get_key(:be_tree, :modules))
  :ok = :code.ensure_modules_loaded(modules)
  {tree, {:ok, _tree}} = :timer.tc(fn -> BeTree.new(age: :integer) end)
  text = "fact order(id: integer) rule seen when o: order then notify seen(id: o.id)"
  {rules, {:ok, _rules}} = :timer.tc(fn -> BeTree.Rules.new(text) end)
  IO.puts("\#{tree} \#{rules}")
  """

  def run(vms) do
    folder = Path.join(System.tmp_dir!(), "be_tree_start_#{System.pid()}")
    without = Path.join(folder, "be_tree")
    File.mkdir_p!(without)
    for part <- ["ebin", "priv"], do: File.cp_r!(Application.app_dir(:be_tree, part), Path.join(without, part))
    File.rm_rf!(Path.join(without, "priv/native/code"))

    times =
      for _turn <- 1..vms, {kind, library} <- [ahead: Application.app_dir(:be_tree), compiled: without] do
        {kind, first(library)}
      end

    File.rm_rf!(folder)

    for kind <- [:compiled, :ahead] do
      [trees, rules] = for({^kind, pair} <- times, do: pair) |> Enum.zip_with(& &1)
      IO.puts("#{kind}: first tree #{text(trees)}, then first rules #{text(rules)}")
    end
  end

  # Returns the microseconds of the first tree and the first rules of a VM.
  defp first(library) do
    {output, 0} = System.cmd(System.find_executable("elixir"), ["-pa", Path.join(library, "ebin"), "-e", @vm])
    for number <- String.split(output), do: String.to_integer(number)
  end

  defp text(microseconds) do
    sorted = Enum.sort(microseconds)

    [low, median, high] =
      for position <- [0, div(length(sorted), 2), -1], do: Float.round(Enum.at(sorted, position) / 1_000, 1)

    "#{median} ms (#{low} to #{high})"
  end
end

BeTree.Bench.Start.run(if(System.argv() == [], do: 7, else: String.to_integer(hd(System.argv()))))
