// The legend: buttons that show and hide what they name.

function toggle(entry, button) {
  const key = entry.chart.keys[Number(button.dataset.key)];
  const shown = button.getAttribute("aria-pressed") === "true";
  button.setAttribute("aria-pressed", String(!shown));
  for (const one of key.state === null ? key.traces : [key.state]) {
    if (shown) entry.hidden.add(one);
    else entry.hidden.delete(one);
  }
  draw(entry);
}

function addLegends() {
  for (const entry of charts.values()) {
    for (const button of entry.plot.parentElement.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => toggle(entry, button));
    }
  }
}
