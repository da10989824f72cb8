// The block map: cells are states (negative) or owners; one color a state, some shades for owners.

function mapTraces(chart, hidden) {
  const { states, owner_shades: shades } = chart.extra;
  const [cells] = chart.traces;
  const place = new Map(states.map(([, code], index) => [code, index]));
  const names = new Map(states.map(([role, code]) => [code, role]));
  const z = cells.z.map((row) => row.map((cell) => (cell < 0 ? place.get(cell) : states.length + (cell % shades))));
  const text = cells.z.map((row) => row.map((cell) => (cell < 0 ? names.get(cell) : `request ${cell}`)));
  const roles = [
    ...states.map(([role]) => (hidden.has(role) ? "transparent" : role)),
    ...Array.from({ length: shades }, (_, shade) => (hidden.has("owner") ? "transparent" : `owner-${shade + 1}`)),
  ];
  const colorscale = roles.flatMap((role, index) => [
    [index / roles.length, colorOf(role)],
    [(index + 1) / roles.length, colorOf(role)],
  ]);
  return [{
    ...cells, z, text, colorscale, zmin: -0.5, zmax: roles.length - 0.5, showscale: false,
    hovertemplate: "block %{y:,d}, step %{x:,d}: %{text}<extra></extra>",
  }];
}
