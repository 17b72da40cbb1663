defmodule BeTree.Test.Files do
  @moduledoc false

  # Writes a file into the folder and returns its path.
  def write(folder, name, content) do
    path = Path.join(folder, name)
    File.write!(path, content)
    path
  end
end
