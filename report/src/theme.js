// Light and dark: the system's, until the reader chooses.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
};

/** Calls back whenever the colors changed. */
export const onTheme = (listener) => listeners.push(listener);

export const colors = () => {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: read("text"),
    muted: read("muted"),
    line: read("line"),
    card: read("card"),
    series: [1, 2, 3, 4].map((number) => read(`series-${number}`)),
  };
};

export const themeButton = (button) => {
  const update = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    listeners.forEach((listener) => listener());
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    update();
  });
  dark.addEventListener("change", update);
  update();
};
