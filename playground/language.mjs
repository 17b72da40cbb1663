// Makes the page of the expression language from the documentation of `BeTree`, so that there is one text of it.
import { readFile } from "node:fs/promises";
import { marked } from "marked";

/** Returns the page. */
export async function languagePage() {
  const source = await readFile(new URL("../lib/be_tree.ex", import.meta.url), "utf8");
  const section = /^ {2}## Expressions\n([^]*?)^ {2}## /m.exec(source);
  if (!section) throw new Error("lib/be_tree.ex: its documentation has no section `## Expressions`");
  // The text is indented, and in a string of Elixir a backslash escapes the next one.
  const text = section[1].replace(/^ {2}/gm, "").replaceAll("\\\\", "\\");
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>The expression language of BeTree</title>
    <link rel="icon" href="icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="style.css" />
  </head>
  <body>
    <main class="language">
      <h1>Expressions</h1>
${marked.parse(text)}
      <p><a href="./">The playground</a></p>
    </main>
  </body>
</html>
`;
}
