defmodule BeTree.Output.Sink.File do
  @moduledoc false
  # Appends to a file without a process between. Messages are delivered when the operating system has taken them.

  @behaviour BeTree.Output.Sink

  @impl true
  def open(path), do: :file.open(path, [:append, :raw, :binary])

  @impl true
  def form, do: :pages

  @impl true
  def write(pages, file) do
    case :file.write(file, pages) do
      :ok -> {:ok, file}
      {:error, reason} -> {:error, reason, file}
    end
  end

  @impl true
  def close(file), do: :file.close(file)
end
