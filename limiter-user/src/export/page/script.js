// Reads the counters each second and shows them. Text from outside is only ever text, never markup.

import { draw } from "./chart.js";
import { addReading, forget } from "./rates.js";
import { fill, isSelected, showOrHide, write } from "./text.js";

const MINUTES = 120_000;
const HOURS = 7_200_000;
const INTERVAL = 1_000;
const PATIENCE = 10_000;

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

const rate = (value) => (typeof value === "number" ? `${short.format(value)}/s` : "–");
const bits = (bytes) => (typeof bytes === "number" ? `${prefixed(8 * bytes)}bit/s` : "");

/** Section of the page, last reading and rates of each interface, by name. */
const shown = new Map();
const byId = (id) => document.getElementById(id);

/** A number with the prefix of its unit. */
function prefixed(value) {
  const step = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), 5);
  return `${three.format(value / 1000 ** step)} ${["", "k", "M", "G", "T", "P"][step]}`;
}

async function fetchJson(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

function section(name) {
  let state = shown.get(name);
  if (!state) {
    const element = byId("interface").content.firstElementChild.cloneNode(true);
    element.id = `interface-${name}`;
    const parts = {};
    for (const part of element.querySelectorAll("[data-is]")) parts[part.dataset.is] = part;
    state = { element, parts };
    forget(state);
    shown.set(name, state);
    byId("interfaces").append(element);
  }
  return state;
}

function showInterface(state, attachment) {
  const { parts } = state;
  write(parts.name, attachment.name);
  write(parts.mode, attachment.mode);
  showOrHide(parts.shadow, attachment.shadow);
  showOrHide(parts.trial, attachment.try_until && `on trial until ${attachment.try_until}`);
  showOrHide(parts.fallback, attachment.fallback && `Generic mode, because native mode was refused: ${attachment.fallback}`);

  const last = state.points[state.points.length - 1];
  for (const [part, name] of [["passed", "passed"], ["dropped", "dropped"], ["would-drop", "wouldDrop"]]) {
    write(parts[`${part}-rate`], rate(last?.[name]));
    write(parts[`${part}-bits`], bits(last?.bytes?.[name]));
  }
  state.element.classList.toggle("no-shadow", attachment.would_drop.packets === 0);
  const { tracked, entries, capacity } = attachment.sources;
  write(parts.sources, short.format(tracked));
  write(parts.full, `table ${Math.floor((100 * entries) / capacity)} % full`);
  draw(parts.minutes, state.points, state.last.at, MINUTES, (number) => short.format(number));

  fill(parts.limits, attachment.limits.map((limit) => [limit.name, [
    [limit.shadow ? `${limit.name} (shadow)` : limit.name],
    [limit.scale < 1 ? `${Math.round(100 * limit.scale)} % of ${limit.rate}` : limit.rate, "whole"], [limit.burst, "whole"], [limit.key],
    [whole.format(limit.passed.packets), "number"],
    [`${prefixed(limit.passed.bytes)}B`, "number"],
    [whole.format(limit.would_drop.packets), "number shadow"],
    [whole.format(limit.dropped.packets), "number"],
    [`${prefixed(limit.dropped.bytes)}B`, "number"],
  ]]));
  fill(parts.reasons, [
    ...Object.entries(attachment.drops).map(([reason, count]) => [reason, [
      [reason], [whole.format(count.packets), "number"], [`${prefixed(count.bytes)}B`, "number"],
    ]]),
    ["", [["would drop (shadow)", "shadow"], [whole.format(attachment.would_drop.packets), "number shadow"],
      [`${prefixed(attachment.would_drop.bytes)}B`, "number shadow"]]],
  ]);
  const bans = Object.entries(attachment.bans.by_origin).map(([origin, count]) => [`ban ${origin}`, [
    [origin === "hand" ? "bans by hand" : `bans of ${origin}`], [whole.format(count), "number"],
  ]]);
  const held = attachment.limits.filter((limit) => limit.held_sources !== null).map((limit) => [`hold ${limit.name}`, [
    [`held by ${limit.name}`], [whole.format(limit.held_sources), "number"],
  ]]);
  fill(parts.bans, [...bans, ...held]);
  parts.bans.parentElement.hidden = bans.length + held.length === 0;
}

function showTop(state, top) {
  const rows = top.sources.map((source) => {
    const since = state.sources.get(`${source.source} ${source.limit}`)?.rates;
    const dropped = source.dropped_packets > 0 ? "number dropping" : "number";
    return [`${source.source} ${source.limit}`, [
      [source.source], [source.limit],
      [rate(since?.dropped), dropped], [rate(since?.passed), "number"],
      [whole.format(source.dropped_packets), dropped],
      [whole.format(source.would_drop_packets), "number shadow"],
      [whole.format(source.passed_packets), "number"],
      [tenths.format(source.tokens), "number"],
      [source.held_seconds === null ? "" : `${tenths.format(source.held_seconds)} s`, "number"],
    ]];
  });
  fill(state.parts.top, rows.length ? rows : [["", [["no source in the table", "none"]]]]);
}

/** The list of interfaces, if there are several. */
function showIndex() {
  const list = byId("index");
  const names = [...shown.keys()];
  if (names.join("\n") !== [...list.children].map((line) => line.dataset.name).join("\n")) {
    list.replaceChildren(...names.map((name) => {
      const [line, link, dropped] = ["li", "a", "span"].map((kind) => document.createElement(kind));
      line.dataset.name = name;
      link.textContent = name;
      link.href = `#${encodeURIComponent(`interface-${name}`)}`;
      line.append(link, " ", dropped);
      return line;
    }));
  }
  list.parentElement.hidden = names.length < 2;
  for (const line of list.children) {
    const { points } = shown.get(line.dataset.name);
    write(line.lastChild, `dropped ${rate(points[points.length - 1]?.dropped)}`);
  }
}

function showErrors(errors) {
  const list = byId("errors");
  list.hidden = errors.length === 0;
  if (errors.join("\n") === [...list.children].map((line) => line.textContent).join("\n")) return;
  list.replaceChildren(...errors.map((error) => {
    const line = document.createElement("li");
    line.textContent = error;
    return line;
  }));
}

async function refresh() {
  const value = await fetchJson("api/status");
  const at = value.read_at_ms;
  write(byId("host"), value.host);
  document.title = `${value.host}: limiter`;
  for (const attachment of value.interfaces) {
    const state = section(attachment.name);
    const top = value.tops.find((top) => top.interface === attachment.name);
    addReading(state, at, attachment, top.sources, MINUTES);
    showInterface(state, attachment);
    showTop(state, top);
  }
  const names = new Set(value.interfaces.map((attachment) => attachment.name));
  for (const [name, state] of shown) {
    if (names.has(name)) continue;
    state.element.remove();
    shown.delete(name);
  }
  byId("nothing").hidden = names.size > 0;
  showIndex();
  showErrors([...value.errors, ...value.trials_over]);
}

/** Draws the last two hours, which the exporter keeps. */
async function refreshHours() {
  const { read_at_ms: now, step_ms: step, interfaces } = await fetchJson("api/history");
  for (const { name, passed, dropped, would_drop: wouldDrop } of interfaces) {
    const at = (index) => now - step * (passed.length - 1 - index);
    const points = passed.map((value, index) => ({
      at: at(index), passed: value, dropped: dropped[index], wouldDrop: wouldDrop[index],
    }));
    const figure = shown.get(name)?.parts.hours;
    if (figure) draw(figure, points, now, HOURS, (number) => short.format(number));
  }
  return step;
}

async function run() {
  const state = byId("state");
  let answered = null;
  let hoursDue = 0;
  for (;;) {
    try {
      await refresh();
      if (Date.now() >= hoursDue) hoursDue = Date.now() + await refreshHours();
      answered = new Date();
      state.textContent = isSelected(byId("interfaces")) ? "live; selected text stands still" : "live";
      state.className = "";
    } catch (error) {
      const since = answered ? `no answer since ${answered.toLocaleTimeString()}` : "no answer";
      state.textContent = `${since}: ${error.message}`;
      state.className = "lost";
      hoursDue = 0;
    }
    document.body.classList.toggle("old", state.className === "lost");
    await new Promise((wake) => setTimeout(wake, INTERVAL));
  }
}

run();
