// The block map: cells are states (negative) or owners; one color a state, some shades for owners.

// A row of cells with nothing where no request ran.
function withGaps(row, gaps) {
  if (!gaps.size) return row;
  return row.flatMap((value, moment) => (gaps.has(moment) ? [value, null] : [value]));
}

function mapTraces(chart, hidden) {
  const { states, owner_shades: shades, steps } = chart.extra;
  const gaps = new Set(chart.extra.gaps);
  const [cells] = chart.traces;
  const place = new Map(states.map(([, code], index) => [code, index]));
  const names = new Map(states.map(([role, code]) => [code, role]));
  const shade = (cell) => (cell < 0 ? place.get(cell) : states.length + (cell % shades));
  const words = (cell, moment) => `step ${steps[moment]}: ${cell < 0 ? names.get(cell) : `request ${cell}`}`;
  const z = cells.z.map((row) => withGaps(row.map(shade), gaps));
  const text = cells.z.map((row) => withGaps(row.map(words), gaps));
  const roles = [
    ...states.map(([role]) => (hidden.has(role) ? "transparent" : role)),
    ...Array.from({ length: shades }, (_, index) => (hidden.has("owner") ? "transparent" : `owner-${index + 1}`)),
  ];
  const colorscale = roles.flatMap((role, index) => [
    [index / roles.length, colorOf(role)],
    [(index + 1) / roles.length, colorOf(role)],
  ]);
  return [{
    ...cells, z, text, colorscale, zmin: -0.5, zmax: roles.length - 0.5, showscale: false, hoverongaps: false,
    hovertemplate: "block %{y:,d}, %{text}<extra></extra>",
  }];
}
