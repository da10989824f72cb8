// Draws charts with plotly.js, and again when colors change.

const FONT = getComputedStyle(document.body).fontFamily;
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false, doubleClick: "reset" };
const data = JSON.parse(document.getElementById("data").textContent);
const charts = new Map();

function axisStyle(axis) {
  return {
    gridcolor: cssColor("grid"), linecolor: cssColor("line"), zerolinecolor: cssColor("line"), automargin: true, ...axis,
    ...(axis.title ? { title: { standoff: 10, ...axis.title } } : {}),
  };
}

function layoutOf(chart) {
  const { xaxis = {}, yaxis = {}, ...rest } = chart.layout;
  // A finger that drags over a chart wants to scroll the page.
  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  return {
    hovermode: "x unified", ...colored(rest), dragmode, showlegend: false, autosize: true,
    margin: { l: 56, r: 16, t: 10, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 13, color: cssColor("text") },
    hoverlabel: { bgcolor: cssColor("panel"), bordercolor: cssColor("line"), font: { color: cssColor("text"), size: 13 } },
    xaxis: axisStyle(xaxis), yaxis: axisStyle(yaxis),
  };
}

// Numbers inside a bar must be read on the bar.
function barText(trace, role) {
  if (trace.type !== "bar" || !trace.text) return {};
  return {
    insidetextfont: { color: cssColor(role === "neutral" ? "inside-neutral" : "inside") },
    outsidetextfont: { color: cssColor("text") },
  };
}

function tracesOf(entry) {
  const { chart, hidden } = entry;
  if (chart.kind === "map") return mapTraces(chart, hidden);
  return chart.traces.map((trace, place) => ({
    ...colored(trace.spans ? spanPoints(trace, chart) : trace), ...barText(trace, trace.marker?.color), visible: !hidden.has(place),
  }));
}

function draw(entry) {
  const layout = { ...layoutOf(entry.chart), ...(entry.width ? { width: entry.width, autosize: false } : {}) };
  layout.height = entry.height;
  layout.shapes = spanShapes(entry.chart, entry.hidden);
  return Plotly.react(entry.plot, tracesOf(entry), layout, CONFIG);
}

function drawAll() {
  for (const entry of charts.values()) draw(entry);
}

// One chart at a time, so that the page answers while the later ones are drawn.
async function drawInTurn() {
  for (const entry of charts.values()) {
    draw(entry);
    await new Promise((resume) => setTimeout(resume));
  }
  document.documentElement.dataset.ready = "true";
}

function addCharts() {
  for (const plot of document.querySelectorAll(".plot")) {
    const name = plot.dataset.chart;
    charts.set(name, { name, plot, chart: data[name], hidden: new Set(), height: plot.clientHeight, width: 0, at: -1 });
  }
}
