// The reads of an index in this module: what they need goes in, they search, and the result comes out. A bound ends only the search.

import {
  beginBatch,
  beginExplanation,
  beginSearch,
  endRead,
  explained,
  foundIds,
  Image,
  runRead,
  takePart,
} from "./be_tree_web.js";
import { bounded, boundedRead } from "./bounds.js";
import { endable } from "./steps.js";

/** Returns the ids that a search of an index or an image finds. */
export function search(engine, json, only, forgiving, bounds) {
  if (engine instanceof Image) return bounded(() => engine.search(json, only, forgiving), null);
  return read(engine, bounds, (place) => {
    beginSearch(place, json, only, forgiving);
    endable(() => runRead(place));
    return foundIds(place);
  });
}

/** Returns an array of the ids for each event. */
export function searchMany(engine, events, only, forgiving, bounds) {
  if (engine instanceof Image) return bounded(() => engine.searchMany(events, only, forgiving), null);
  return read(engine, bounds, (place) => {
    const found = [];
    beginBatch(place, events, only, forgiving);
    do endable(() => runRead(place));
    while (!takePart(place, found));
    return found;
  });
}

/** Returns the explanation of a subscription. */
export function explain(engine, json, id, forgiving, bounds) {
  if (engine instanceof Image) return bounded(() => engine.explain(json, id, forgiving), null);
  return read(engine, bounds, (place) => {
    beginExplanation(place, json, id, forgiving);
    endable(() => runRead(place));
    return explained(place);
  });
}

/** Returns the trace of a search. */
export function trace(engine, json, forgiving) {
  return read(engine, null, () => endable(() => engine.trace(json, forgiving)));
}

/** Returns the parts of a search, with their counts. */
export function profile(engine, json, forgiving) {
  if (engine instanceof Image) return bounded(() => engine.profile(json, forgiving), null);
  return read(engine, null, () => endable(() => engine.profile(json, forgiving)));
}

function read(engine, bounds, parts) {
  const { place } = engine;
  return boundedRead(
    () => parts(place),
    () => endRead(place),
    bounds,
  );
}
