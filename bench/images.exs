# Searches two images of 10,000 expressions of ad targeting, with and without vector instructions, in this library and in the
# WebAssembly runtimes of other languages. A program's time of a search is the difference between two files of events, divided by
# the difference of their lengths: without the start, and with reading the event and printing its ids. Times are processor times,
# and the median of `runs` pairs. A runtime with other ids than this library's ends the benchmark with status 1.
#
# make bench CASE=images, after scripts/setup runtimes

alias BeTree.{Files, Guest, Image, ImagePrograms, Workload}

runs = 3
few = 1_000
repeats = 50

folder = Path.join(Mix.Project.build_path(), "bench_images")
files = Workload.write(Workload.W3, %{Workload.W3.defaults() | expressions: 10_000, events: few}, folder)
events = File.read!(files.events)
many_path = Path.join(folder, "many_events")
File.write!(many_path, String.duplicate(events, repeats))
{:ok, schema, subscriptions} = Files.load(files.expressions, schema: files.schema, constants: files.constants)
ImagePrograms.build!()
{:ok, portable} = Guest.load(Mix.BeTree.PortableGuest.read!())

images =
  for {build, guest} <- [fast: nil, portable: portable], into: %{} do
    tree = BeTree.new!(schema, guest: guest)
    BeTree.insert_all!(tree, subscriptions)
    path = Path.join(folder, "#{build}.wasm")
    Image.write!(tree, path)
    {build, path}
  end

median = fn times -> times |> Enum.sort() |> Enum.at(div(length(times), 2)) end
lines = String.split(events, "\n", trim: true)

say = fn runtime, build, times ->
  [least, middle, most] = for time <- [Enum.min(times), median.(times), Enum.max(times)], do: Float.round(time / 1, 1)
  IO.puts(String.pad_trailing("#{runtime} #{build}", 20) <> "#{middle} us (#{least} to #{most})")
end

IO.puts(
  "processor time of a search, median and range of #{runs} runs; #{length(subscriptions)} expressions, #{few} events of JSON"
)

for {build, path} <- images do
  index = Image.read!(path)
  search = fn -> Enum.each(lines, &BeTree.search!(index, {:json, &1})) end

  used = fn ->
    {before, _since} = :erlang.statistics(:runtime)
    for _repeat <- 1..repeats, do: search.()
    {now, _since} = :erlang.statistics(:runtime)
    1_000 * (now - before) / (few * repeats)
  end

  search.()
  say.("beam", build, for(_run <- 1..runs, do: used.()))
end

index = Image.read!(images.fast)
expected = for line <- lines, do: "[" <> Enum.join(BeTree.search!(index, {:json, line}), ",") <> "]"

time = fn runtime, build, path ->
  {0, _errors, found, elapsed} = ImagePrograms.run(runtime, images[build], path)

  if Enum.take(found, few) != expected do
    IO.puts("#{runtime} finds other ids in the #{build} image than this library")
    System.halt(1)
  end

  elapsed
end

for {runtime, build} <- ImagePrograms.all() do
  pairs = for _run <- 1..runs, do: {time.(runtime, build, files.events), time.(runtime, build, many_path)}
  say.(runtime, build, for({short, long} <- pairs, do: (long - short) / (few * (repeats - 1))))
end
