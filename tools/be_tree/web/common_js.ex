defmodule BeTree.Web.CommonJs do
  @moduledoc false
  # ES modules as CommonJS: Node 18 and 20, and Jest, `require` nothing else.

  @doc """
  Returns the CommonJS of an ES module.

  It reads the forms that the package and wasm-bindgen write: `import {names} from "./file.js"` and `import * as name from "./file.js"` at
  the start of a line, `export` in front of a class, a function or a constant, and one list of exports.
  """
  @spec convert(String.t()) :: String.t()
  def convert(source) do
    names = for [_all, name] <- Regex.scan(~r/^export (?:async )?(?:class|function|const|let) (\w+)/m, source), do: name
    listed = for [_all, list] <- Regex.scan(~r/^export \{([^}]*)\};$/m, source), do: list

    body =
      source
      |> String.replace(~r/^import \{([^}]*)\} from "(.*)\.js";$/m, "const {\\1} = require(\"\\2.cjs\");")
      |> String.replace(~r/^import \* as (\w+) from "(.*)\.js";?$/m, "const \\1 = require(\"\\2.cjs\");")
      |> String.replace(~r/^export \{[^}]*\};\n/m, "")
      |> String.replace(~r/^export /m, "")
      |> String.replace(~r/^const \{.*\} = require/m, &String.replace(&1, " as ", ": "))

    if body =~ ~r/^(import|export)\b|import\.meta/m,
      do: Mix.raise("an import or export has a form that CommonJS does not get")

    "\"use strict\";\n#{body}\nmodule.exports = { #{Enum.join(names ++ Enum.map(listed, &exported/1), ", ")} };\n"
  end

  # `a, b as c` of an export is `a, c: b` of an object.
  defp exported(list), do: list |> String.trim() |> String.replace(~r/(\w+) as (\w+)/, "\\2: \\1")
end
