// Reads the counters each second and shows them. Text from outside is only ever text, never markup.

import { draw } from "./chart.js";

const MINUTES = 120_000;
const INTERVAL = 1_000;
const PATIENCE = 10_000;

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tokens = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** Section of the page and last reading of each interface, by name. */
const shown = new Map();
const byId = (id) => document.getElementById(id);

async function fetchJson(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** Growth of a counter. A counter that has become smaller restarted at 0. */
const growth = (now, before) => (now >= before ? now - before : now);

/** Appends the rates since the last reading to the points of the last minutes. */
function addPoint(state, at, attachment) {
  const last = state.last;
  if (last && at === last.at) return;
  state.last = { at, attachment };
  if (!last) return;
  const known = last.attachment.attached_at === attachment.attached_at;
  const rate = (name) => (known ? (growth(attachment[name].packets, last.attachment[name].packets) * 1_000) / (at - last.at) : null);
  state.points.push({ at, passed: rate("passed"), dropped: rate("dropped"), wouldDrop: rate("would_drop") });
  state.points = state.points.filter((point) => at - point.at <= MINUTES);
}

function forget(state) {
  Object.assign(state, { points: [], last: null });
}

function section(name) {
  let state = shown.get(name);
  if (!state) {
    const element = byId("interface").content.firstElementChild.cloneNode(true);
    const parts = {};
    for (const part of element.querySelectorAll("[data-is]")) parts[part.dataset.is] = part;
    state = { element, parts };
    forget(state);
    shown.set(name, state);
    byId("interfaces").append(element);
  }
  return state;
}

/** Replaces the rows of a table's body. Each cell knows its heading, for screens that are too narrow for columns. */
function fill(body, rows) {
  const headings = [...body.parentElement.querySelectorAll("th")].map((heading) => heading.textContent);
  body.replaceChildren(...rows.map((cells) => {
    const line = document.createElement("tr");
    cells.forEach(([text, kind = ""], index) => {
      const cell = line.insertCell();
      cell.textContent = text;
      cell.className = kind;
      if (headings[index]) cell.dataset.heading = headings[index];
    });
    return line;
  }));
}

function showOrHide(element, text) {
  element.hidden = !text;
  if (typeof text === "string") element.textContent = text;
}

function showInterface(state, attachment) {
  const { parts } = state;
  parts.name.textContent = attachment.name;
  parts.mode.textContent = attachment.mode;
  showOrHide(parts.shadow, attachment.shadow);
  showOrHide(parts.trial, attachment.try_until && `on trial until ${attachment.try_until}`);
  showOrHide(parts.fallback, attachment.fallback && `Generic mode, because native mode was refused: ${attachment.fallback}`);

  const last = state.points[state.points.length - 1];
  const rate = (value) => (typeof value === "number" ? `${short.format(value)}/s` : "–");
  parts["passed-rate"].textContent = rate(last?.passed);
  parts["dropped-rate"].textContent = rate(last?.dropped);
  parts["would-drop-rate"].textContent = rate(last?.wouldDrop);
  state.element.classList.toggle("no-shadow", attachment.would_drop.packets === 0);
  const { tracked, entries, capacity } = attachment.sources;
  parts.sources.textContent = short.format(tracked);
  parts.full.textContent = `table ${Math.floor((100 * entries) / capacity)} % full`;
  const axis = (number) => short.format(number);
  draw(parts.minutes, state.points, state.last.at, MINUTES, axis);

  fill(parts.limits, attachment.limits.map((limit) => [
    [limit.shadow ? `${limit.name} (shadow)` : limit.name],
    [limit.scale < 1 ? `${Math.round(100 * limit.scale)} % of ${limit.rate}` : limit.rate, "whole"], [limit.burst, "whole"], [limit.key],
    [whole.format(limit.passed.packets), "number"],
    [whole.format(limit.would_drop.packets), "number shadow"],
    [whole.format(limit.dropped.packets), "number"],
  ]));
  fill(parts.reasons, [
    ...Object.entries(attachment.drops).map(([reason, count]) => [[reason], [whole.format(count.packets), "number"]]),
    [["would drop (shadow)", "shadow"], [whole.format(attachment.would_drop.packets), "number shadow"]],
  ]);
}

function showTop(state, top) {
  const rows = top.sources.map((source) => [
    [source.source], [source.limit],
    [whole.format(source.dropped_packets), source.dropped_packets > 0 ? "number dropping" : "number"],
    [whole.format(source.would_drop_packets), "number shadow"],
    [whole.format(source.passed_packets), "number"],
    [tokens.format(source.tokens), "number"],
  ]);
  fill(state.parts.top, rows.length ? rows : [[["no source in the table", "none"]]]);
}

async function refresh() {
  const value = await fetchJson("api/status");
  const at = value.read_at_ms;
  for (const attachment of value.interfaces) {
    const state = section(attachment.name);
    // The exporter was restarted, and its clock with it.
    if (state.last && at < state.last.at) forget(state);
    addPoint(state, at, attachment);
    showInterface(state, attachment);
    showTop(state, value.tops.find((top) => top.interface === attachment.name));
  }
  const names = new Set(value.interfaces.map((attachment) => attachment.name));
  for (const [name, state] of shown) {
    if (names.has(name)) continue;
    state.element.remove();
    shown.delete(name);
  }
  byId("nothing").hidden = names.size > 0;
  byId("errors").hidden = value.errors.length === 0;
  byId("errors").replaceChildren(...value.errors.map((error) => {
    const line = document.createElement("li");
    line.textContent = error;
    return line;
  }));
}

async function run() {
  const state = byId("state");
  let answered = null;
  for (;;) {
    try {
      await refresh();
      answered = new Date();
      state.textContent = "live";
      state.className = "";
    } catch (error) {
      const since = answered ? `no answer since ${answered.toLocaleTimeString()}` : "no answer";
      state.textContent = `${since}: ${error.message}`;
      state.className = "lost";
    }
    await new Promise((wake) => setTimeout(wake, INTERVAL));
  }
}

run();
