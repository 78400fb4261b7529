//! Drawings: lines, marks and words.

use std::fmt::Write as _;

/// A drawing that grows.
pub struct Svg(String);

/// Where a text stands by its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Right of it.
    Start,
    /// Around it.
    Middle,
    /// Left of it.
    End,
}

/// A point, in pixels from the upper left corner.
pub type Point = (f64, f64);

impl Svg {
    /// An empty one, on white: a dark page would hide its words.
    pub fn new(width: f64, height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        ))
    }

    /// A line from point to point.
    pub fn line(&mut self, points: &[Point], colour: &str, width: f64, dashes: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        self.add(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        ));
    }

    /// A dot. Whoever points at it reads `title`.
    pub fn dot(&mut self, (x, y): Point, colour: &str, title: &str) {
        self.add(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{}</title></circle>",
            escaped(title)
        ));
    }

    /// Words.
    pub fn text(&mut self, (x, y): Point, anchor: Anchor, colour: &str, size: u32, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\" \
             font-size=\"{size}\">{}</text>",
            escaped(words)
        ));
    }

    /// The whole.
    pub fn finish(mut self) -> String {
        self.add("</svg>");
        self.0
    }

    fn add(&mut self, element: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_out() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((0.0, 0.0), Anchor::Start, "#000", 12, "a<b & c");
        assert!(svg.finish().contains(">a&lt;b &amp; c</text>"));
    }
}
