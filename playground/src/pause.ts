// Waits until nobody types.

/** The milliseconds after the last key before a text is read. */
const PAUSE = 120;

let pause: ReturnType<typeof setTimeout> | undefined;

/** Calls `run` after a pause. A later call replaces it. */
export function afterPause(run: () => void) {
  endPause();
  pause = setTimeout(() => {
    pause = undefined;
    run();
  }, PAUSE);
}

/** Calls nothing after this pause. */
export function endPause() {
  clearTimeout(pause);
  pause = undefined;
}

/** Tells whether a changed text waits to be read. */
export const isPausing = () => pause !== undefined;
