// Starts everything, and answers keys, changes of scheme, and printing.

const spoken = document.getElementById("spoken");
const PAPER_WIDTH = 640; // CSS pixels: what A4 leaves between margins and the frame of a chart

// Arrow keys walk along a chart: a row of its table is shown and spoken.
function walk(entry, by) {
  const { columns } = entry.chart;
  if (!columns.length) return;
  const rows = rowsOf(columns);
  entry.at = Math.min(rows - 1, Math.max(0, entry.at + by));
  spoken.textContent = columns.map((column) => `${column.title}: ${cellText(column.values[entry.at])}`).join("; ");
  const axis = entry.plot._fullLayout?.xaxis;
  if (axis && entry.plot._fullLayout.hovermode === "x unified") {
    const steps = columns.find((column) => entry.at < column.values.length); // of two runs the first that is so long
    Plotly.Fx.hover(entry.plot, { xval: steps.values[entry.at] });
  }
}

function addKeys() {
  const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
  for (const entry of charts.values()) {
    entry.plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") Plotly.Fx.unhover(entry.plot);
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      walk(entry, steps[event.key]);
    });
  }
}

function setPaper(on) {
  document.documentElement.classList.toggle("paper", on);
  for (const entry of charts.values()) entry.width = on ? PAPER_WIDTH : 0;
  drawAll();
}

addCharts();
addLegends();
addTables();
addKeys();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
matchMedia("print").addEventListener("change", (event) => setPaper(event.matches));
drawInTurn();
