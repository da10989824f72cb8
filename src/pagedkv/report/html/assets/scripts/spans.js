// Spans of rows: drawn as shapes, one path a kind, and pointed at through a line that nobody sees.
// As lines with gaps they would be an element of the page each, which takes seconds where there are thousands.

function spanPoints(trace, chart) {
  const { spans, stroke, ...rest } = trace;
  const points = { x: [], y: [], customdata: [] };
  for (const [row, first, last] of spans) {
    points.x.push(first, (first + last + 1) / 2, last + 1);
    points.y.push(row, row, row);
    const words = [chart.extra.requests[row], first, last];
    points.customdata.push(words, words, words);
  }
  return { ...rest, ...points, line: { color: "transparent", width: 0 }, hoverlabel: { bordercolor: rest.line.color } };
}

function pathShape(parts, color, width) {
  return { type: "path", path: parts.join(""), line: { color: colorOf(color), width } };
}

function spanShapes(chart, hidden) {
  const shown = chart.traces.filter((trace, place) => trace.spans && !hidden.has(place));
  const lines = shown.map(({ spans, line }) => pathShape(
    spans.map(([row, first, last]) => `M${first},${row}L${last + 1},${row}`), line.color, line.width,
  ));
  const strokes = shown.filter((trace) => trace.stroke).map(({ spans, stroke, line }) => pathShape(
    spans.map(([row, , last]) => `M${last + 1},${row - stroke}L${last + 1},${row + stroke}`), line.color, 2,
  ));
  return [...lines, ...strokes];
}
