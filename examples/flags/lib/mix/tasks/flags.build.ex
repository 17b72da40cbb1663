defmodule Mix.Tasks.Flags.Build do
  @shortdoc "Writes the image of the flags in a text file"
  @moduledoc """
  Writes the image of the flags in a text file, `flags.txt` unless another is named, to the folder of the configuration.

      mix flags.build [FILE]
  """

  use Mix.Task

  @requirements ["app.config"]

  @impl Mix.Task
  def run(arguments) do
    {:ok, _applications} = Application.ensure_all_started(:be_tree)
    [schema, dir] = for key <- [:schema, :dir], do: Application.fetch_env!(:flags, key)

    case arguments |> List.first("flags.txt") |> File.read!() |> Flags.Image.build(schema, dir) do
      {:ok, count} -> Mix.shell().info("#{count} flags are in #{Flags.Image.path(dir)}")
      {:error, reason} -> Mix.raise(reason)
    end
  end
end
