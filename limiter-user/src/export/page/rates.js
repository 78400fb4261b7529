// Rates between two readings of an interface.

/** Growth of a counter. A counter that has become smaller restarted at 0. */
const growth = (now, before) => (now >= before ? now - before : now);

/** Forgets the readings of an interface. */
export function forget(state) {
  Object.assign(state, { points: [], last: null, sources: new Map() });
}

/**
 * Adds a reading: the rates since the last one to `state.points`, which keeps `span` milliseconds, and those of each
 * source to `state.sources`, by source and limit.
 */
export function addReading(state, at, attachment, sources, span) {
  // The exporter was restarted, and its clock with it.
  if (state.last && at < state.last.at) forget(state);
  const { last } = state;
  if (last && at === last.at) return;
  const known = last !== null && last.attachment.attached_at === attachment.attached_at;
  const seconds = last ? (at - last.at) / 1_000 : 0;
  state.last = { at, attachment };
  state.sources = new Map(sources.map((source) => {
    const key = `${source.source} ${source.limit}`;
    const before = known ? state.sources.get(key)?.source : undefined;
    const rate = (name) => growth(source[name], before[name]) / seconds;
    const rates = before && { passed: rate("passed_packets"), dropped: rate("dropped_packets") };
    return [key, { source, rates }];
  }));
  if (!last) return;
  const rates = (unit) => Object.fromEntries([["passed", "passed"], ["dropped", "dropped"], ["wouldDrop", "would_drop"]]
    .map(([name, field]) => [name, known ? growth(attachment[field][unit], last.attachment[field][unit]) / seconds : null]));
  state.points.push({ at, ...rates("packets"), bytes: rates("bytes") });
  state.points = state.points.filter((point) => at - point.at <= span);
}
