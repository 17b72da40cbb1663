// The worker's side of a `BeTreeWorker`: calls an index, and answers.

/**
 * Returns the function that answers a message with `post`. `library` has the class and `init`.
 */
export function serve({ BeTree, init }, post) {
  let tree = null;

  async function begin({ schema, options, image, maxMemory, subscriptions, deleted }) {
    await init();
    if (maxMemory !== undefined) BeTree.maxMemory = maxMemory;
    tree = image === undefined ? new BeTree(schema, options) : await BeTree.load(image);
    deleted.forEach(remove);
    tree.insertAll(subscriptions);
  }

  /** An id that the image never had is as good as deleted. */
  function remove(id) {
    try {
      tree.delete(id);
    } catch (error) {
      if (error.kind !== "not_found") throw error;
    }
  }

  return async ({ start, method, property, arguments: given }) => {
    try {
      if (start !== undefined) {
        await begin(start);
        return post({ result: undefined, steps: 0 });
      }
      const result = property === undefined ? tree[method](...given) : tree[property];
      post({ result, steps: tree.steps });
    } catch (error) {
      const { kind, name, message } = error;
      post({ error: { kind, name, message, cause: kind === undefined ? undefined : error.cause } });
    }
  };
}
