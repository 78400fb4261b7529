// Packets per second over time, as paths of an SVG.

const WIDTH = 120;
const HEIGHT = 100;

/** The smallest round number that is not less than `value`. */
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((round) => round >= value);
}

/**
 * Draws points {at, passed, dropped, wouldDrop}: at in milliseconds, the rest in packets per second, null if
 * not known. `now` is the right edge, `span` milliseconds before it the left one.
 */
export function draw(figure, points, now, span, format) {
  points = points.filter((point) => now - point.at <= span);
  const rates = points.filter((point) => point.passed !== null);
  const most = roundUp(Math.max(10, ...rates.map((point) => Math.max(point.passed, point.dropped, point.wouldDrop))));
  const x = (point) => (WIDTH * (1 - (now - point.at) / span)).toFixed(2);
  const y = (rate) => (HEIGHT * (1 - rate / most)).toFixed(2);
  const line = (name) => runs(points).map((run) => "M" + run.map((p) => `${x(p)} ${y(p[name])}`).join("L")).join("");
  const area = (name) => runs(points)
    .map((run) => `M${x(run[0])} ${HEIGHT}L` + run.map((p) => `${x(p)} ${y(p[name])}`).join("L")
      + `L${x(run[run.length - 1])} ${HEIGHT}Z`)
    .join("");
  const set = (selector, path) => figure.querySelector(selector).setAttribute("d", path);
  set(".line.passed", line("passed"));
  set(".line.dropped", line("dropped"));
  set(".line.would-drop", rates.some((point) => point.wouldDrop > 0) ? line("wouldDrop") : "");
  set(".area.passed", area("passed"));
  set(".area.dropped", area("dropped"));
  figure.querySelector(".most").textContent = format(most);
  figure.querySelector(".half").textContent = format(most / 2);
}

/** Groups of consecutive points with known rates. */
function runs(points) {
  const found = [[]];
  for (const point of points) {
    if (point.passed === null) found.push([]);
    else found[found.length - 1].push(point);
  }
  return found.filter((run) => run.length > 0);
}
