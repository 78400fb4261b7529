//! The keys and the columns, explained.

use ratatui::{style::Style, text::Line};

use crate::show::live::{
    grid::{flow, wrapped},
    view::View,
};

/// Keys, with their meaning in a word, and in a sentence.
const KEYS: [(&str, &str, &str); 18] = [
    (
        "Up Down",
        "choose",
        "choose a source; PgUp PgDn by a screen, Home End the first, the last",
    ),
    (
        "s S",
        "sort",
        "sort by the next column, by the one before; also > <",
    ),
    ("i", "reverse", "reverse the order"),
    (
        "/",
        "filter",
        "show sources by address, prefix or part of a name; Esc clears it",
    ),
    (
        "b",
        "ban",
        "ban the chosen source: asks for how long, then whether",
    ),
    (
        "a",
        "allow",
        "add the chosen source to the allow list: asks whether",
    ),
    (
        "r",
        "reset",
        "refill the buckets of the chosen source: asks whether",
    ),
    (
        "w",
        "who sends",
        "count for 5 s who sends what, whatever limit the packets meet",
    ),
    (
        "e",
        "explain",
        "explain in 10 s what is above ordinary traffic, with a limit for it",
    ),
    ("l", "all limits", "show idle limits, too"),
    (
        "L",
        "list limits",
        "list all limits; keys as for sources scroll",
    ),
    ("Tab", "next interface", "the next interface"),
    ("p Space", "pause", "pause, and go on"),
    ("? h", "help", "this help"),
    (
        "q Esc",
        "quit",
        "quit; Esc first leaves a question or a filter",
    ),
    (
        "OVER/s",
        "over the limit",
        "packets over the limit, of sources that have a bucket",
    ),
    (
        "(12)",
        "pass in shadow",
        "packets over a limit that pass because of shadow",
    ),
    (
        "new sources",
        "without a bucket",
        "sources without a bucket that are refused, as in a spoofed flood",
    ),
];

/// The lines of the help, at most `height` if they can be.
pub fn lines(view: &View, most: usize, height: usize) -> Vec<Line<'static>> {
    let palette = view.palette;
    let style = Style::new();
    let keys = KEYS.iter();
    let lines = keys.flat_map(|(key, _, text)| wrapped(&format!("{key:<12}{text}"), most, style));
    let lines: Vec<_> = lines.collect();
    let title = Line::styled("limiter top: any key leaves this help", palette.title());
    if lines.len() < height {
        return std::iter::once(title).chain(lines).collect();
    }
    let short = KEYS.map(|(key, word, _)| format!("{key}: {word}"));
    flow(&short, most, style)
}
