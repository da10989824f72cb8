// Spans of rows as one broken line: from the first step to the end of the last one, with a middle to point at.

function spanPoints(trace, chart) {
  const { spans, ...rest } = trace;
  const points = { x: [], y: [], customdata: [] };
  for (const [row, first, last] of spans) {
    points.x.push(first, (first + last + 1) / 2, last + 1, null);
    points.y.push(row, row, row, null);
    const words = [chart.extra.requests[row], first, last];
    points.customdata.push(words, words, words, words);
  }
  return { ...rest, ...points };
}
