// The table below a chart, made when it is first opened: a thousand rows that nobody reads should cost nothing.

const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

function cellText(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? NUMBERS.format(value) : String(value);
}

// Two runs of different lengths stand side by side in one table.
function rowsOf(columns) {
  return Math.max(...columns.map((column) => column.values.length));
}

function add(parent, tag, text) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function fill(details) {
  const { columns } = data[details.dataset.table];
  const scroll = add(details, "div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  const table = add(scroll, "table");
  table.className = "grid";
  const head = add(add(table, "thead"), "tr");
  for (const column of columns) add(head, "th", column.title).scope = "col";
  const body = add(table, "tbody");
  for (let row = 0; row < rowsOf(columns); row += 1) {
    const line = add(body, "tr");
    columns.forEach((column, place) => {
      const cell = add(line, place === 0 ? "th" : "td", cellText(column.values[row]));
      if (place === 0) cell.scope = "row";
    });
  }
}

function addTables() {
  for (const details of document.querySelectorAll("details[data-table]")) {
    details.addEventListener("toggle", () => fill(details), { once: true });
  }
}
