// Inflates a module that is a part of the JavaScript.

/** Returns the bytes of a module, given deflated and in base64. */
export async function inflate(deflated) {
  const bytes = Uint8Array.from(atob(deflated), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}
