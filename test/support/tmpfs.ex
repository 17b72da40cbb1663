defmodule BeTree.Test.Tmpfs do
  @moduledoc "A small file system in memory, for tests that fill it."

  @doc """
  Calls `function` with `folder` while a file system of this size is mounted there. Without the right to mount it prints a
  note and does nothing.
  """
  def with_room(folder, size, function) do
    case System.cmd("mount", ["-t", "tmpfs", "-o", "size=#{size}", "tmpfs", folder], stderr_to_stdout: true) do
      {_output, 0} ->
        try do
          function.(folder)
        after
          System.cmd("umount", ["-l", folder])
        end

      {output, _status} ->
        IO.puts("Left out: a full file system, because none can be mounted here: #{String.trim(output)}")
    end
  end
end
