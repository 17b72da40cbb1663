# Writes the archives that a broker loads, into the folder of the first argument: the plugin, BeTree with its NIF, and the applications
# of Elixir. The broker expands the archives when it starts, so the NIF is a file then. The pages of reports stay out: the broker has no use
# for them, and OTP 27 failed to expand one of them.
[folder] = System.argv()
File.mkdir_p!(folder)

archive = fn app, source ->
  vsn = Application.spec(app, :vsn)
  name = "#{app}-#{vsn}"

  paths =
    for part <- ["ebin", "priv"],
        path <- Path.wildcard(Path.join([source, part, "**"])),
        File.regular?(path) and Path.extname(path) != ".html",
        do: path

  files = for path <- paths, do: {String.to_charlist(Path.join(name, Path.relative_to(path, source))), File.read!(path)}

  target = Path.join(folder, name <> ".ez")
  {:ok, _path} = :zip.create(String.to_charlist(target), files)
  IO.puts("#{target}: #{div(File.stat!(target).size, 1024)} KB")
end

for app <- [:rabbitmq_be_tree_exchange, :be_tree, :elixir, :logger] do
  :ok = with({:error, {:already_loaded, _app}} <- Application.load(app), do: :ok)
  archive.(app, Application.app_dir(app))
end
