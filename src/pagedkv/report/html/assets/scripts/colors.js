// Roles of colors -> colors, as the style sheet has them now: light, dark, or paper.

const COLOR_KEYS = new Set(["color", "fillcolor", "bgcolor", "bordercolor", "linecolor"]);

function cssColor(role) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${role}`).trim();
}

function colorOf(name) {
  if (name === "transparent") return "rgba(0,0,0,0)";
  const [role, opacity] = name.split("/");
  const color = cssColor(role);
  if (opacity === undefined) return color;
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${opacity})`;
}

// A copy in which every color is one; data arrays are shared, not copied.
function colored(value, key = "") {
  if (COLOR_KEYS.has(key)) return Array.isArray(value) ? value.map(colorOf) : colorOf(value);
  if (Array.isArray(value) || value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, colored(inner, name)]));
}
