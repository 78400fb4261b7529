//! The course of a fixed and an adaptive run, as SVG.

use std::fmt::Write as _;

use super::{PHASES, Second};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 60.0;
/// The slowest time in the picture, in seconds.
const SLOWEST: f64 = 5.0;

/// Two panels: times of ordinary clients in both runs, and the part of the rate in force in the adaptive one.
pub fn svg(fixed: &[Second], adaptive: &[Second]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0,
        2.0 * HEIGHT + 110.0
    );
    // A logarithmic axis from 10 ms on.
    let time = |seconds: f64| (seconds.max(0.01) / 0.01).log10() / (SLOWEST / 0.01).log10();
    panel(
        &mut svg,
        30.0,
        "slowest answer to ordinary clients (s)",
        &[
            (0.01, 0.0),
            (0.1, time(0.1)),
            (1.0, time(1.0)),
            (SLOWEST, 1.0),
        ],
    );
    curve(&mut svg, 30.0, "#c0392b", fixed, |second| {
        time(second.slowest)
    });
    curve(&mut svg, 30.0, "#2471a3", adaptive, |second| {
        time(second.slowest)
    });
    let top = HEIGHT + 80.0;
    panel(
        &mut svg,
        top,
        "part of the rate in force",
        &[(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)],
    );
    curve(&mut svg, top, "#c0392b", fixed, |second| second.scale);
    curve(&mut svg, top, "#2471a3", adaptive, |second| second.scale);
    let (x, y) = (LEFT + WIDTH - 150.0, HEIGHT + 48.0);
    let _ = write!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"#c0392b\">fixed limit</text>\n<text x=\"{}\" y=\"{y}\" fill=\"#2471a3\">adaptive</text>\n</svg>\n",
        x + 80.0
    );
    svg
}

fn horizontal(second: f64) -> f64 {
    let all: u64 = PHASES.iter().sum();
    LEFT + WIDTH * second / all as f64
}

fn panel(svg: &mut String, top: f64, title: &str, marks: &[(f64, f64)]) {
    let [begin, end] = [PHASES[0], PHASES[0] + PHASES[1]].map(|second| horizontal(second as f64));
    let _ = write!(
        svg,
        "<rect x=\"{begin:.0}\" y=\"{top}\" width=\"{:.0}\" height=\"{HEIGHT}\" fill=\"#f2f2f2\"/>\n<text x=\"{LEFT}\" y=\"{}\">{title}</text>\n",
        end - begin,
        top - 8.0
    );
    for (text, share) in marks {
        let y = top + HEIGHT * (1.0 - share);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {y:.1}h{WIDTH}\" stroke=\"#cccccc\"/>\n<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>\n",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for second in (0..=PHASES.iter().sum::<u64>()).step_by(10) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{second} s</text>",
            horizontal(second as f64),
            top + HEIGHT + 16.0
        );
    }
}

fn curve(svg: &mut String, top: f64, color: &str, run: &[Second], share: impl Fn(&Second) -> f64) {
    let points = run.iter().zip(0_u32..).map(|(second, number)| {
        let y = top + HEIGHT * (1.0 - share(second).clamp(0.0, 1.0));
        format!("{:.0},{y:.1}", horizontal(f64::from(number) + 0.5))
    });
    let points: Vec<_> = points.collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
        points.join(" ")
    );
}
