defmodule BeTree.Web.Inline do
  @moduledoc false
  # A script that is one text: a worker that has no file runs it.

  @doc """
  Returns a classic script that runs a CommonJS file with all that it requires, and declares what the file exports. `read` returns the text
  of a file of the package.
  """
  @spec script((String.t() -> String.t()), String.t()) :: String.t()
  def script(read, file) do
    [_all, exports] = Regex.run(~r/^module\.exports = \{ (.*) \};$/m, read.(file))

    files =
      for {name, text} <- Enum.sort(files(%{}, file, read)),
          do: "files[\"./#{name}\"] = (require, module) => {\n#{without_comments(text)}};\n"

    """
    "use strict";
    const files = {};
    #{files}
    const loaded = {};
    function load(name) {
      if (loaded[name] === undefined) {
        const module = (loaded[name] = { exports: {} });
        files[name](load, module);
      }
      return loaded[name].exports;
    }
    const { #{exports} } = load("./#{file}");
    """
  end

  @doc "Returns an ES module that exports a script as the text `source`."
  @spec as_text(String.t()) :: String.t()
  def as_text(script) do
    escaped = String.replace(script, ["\\", "`", "$"], &("\\" <> &1))

    "// The script of a worker without a file: worker_inline.js and all that it imports.\nexport const source = `#{escaped}`;\n"
  end

  # The files that a file requires, and itself, with their texts.
  defp files(found, file, _read) when is_map_key(found, file), do: found

  defp files(found, file, read) do
    text = read.(file)
    required = for [_all, name] <- Regex.scan(~r/require\("\.\/(.*)"\)/, text), do: name
    Enum.reduce(required, Map.put(found, file, text), &files(&2, &1, read))
  end

  # Minifiers leave texts as they are. The comments are lines of their own.
  defp without_comments(text), do: String.replace(text, ~r{^ *(//.*|/\*\*[^*]*(\*(?!/)[^*]*)*\*/)\n}m, "")
end
