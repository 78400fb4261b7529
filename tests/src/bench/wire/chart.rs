//! Draws each table: nanoseconds a packet, by the number of sources, a line a subject.

use super::{
    case::{Cpus, Family, Sources, Verdict},
    series::Measured,
    subject::Subject,
    svg::{Anchor, Point, Svg},
    table::{columns, rows, tables},
};
use crate::machine::Machine;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
// Margins around the field; on the right are the names of the lines.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 80.0;
const GREY: &str = "#888";
const BLACK: &str = "#222";
/// Pixels between two names, at least.
const LEADING: f64 = 14.0;

/// Names of files, and what to write into them.
pub fn all(measured: &[Measured], machine: &Machine) -> Vec<(String, String)> {
    let tables = tables(measured);
    tables
        .iter()
        .map(|table| (file_name(table[0]), draw(table, machine)))
        .collect()
}

fn file_name(one: &Measured) -> String {
    let family = match one.case.family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    };
    let verdict = match one.case.verdict {
        Verdict::Dropped => "dropped",
        Verdict::Passed => "passed",
    };
    let cpus = match one.case.cpus {
        Cpus::One => "",
        Cpus::Same => "-two-cpus-same",
        Cpus::Different => "-two-cpus-different",
    };
    format!("{family}-{verdict}{cpus}.svg")
}

/// A subject's colour, which is the same in all charts, and its dashes: what is limiter's own is solid.
fn style(subject: Subject) -> (&'static str, &'static str) {
    match subject {
        Subject::BareDrop | Subject::BarePass => ("#222", "2 3"),
        Subject::OneLine => ("#555", "6 2 1 2"),
        Subject::Limiter => ("#0b6e4f", ""),
        Subject::LimiterEight => ("#2ca58d", ""),
        Subject::LimiterLists => ("#5fb3d4", ""),
        Subject::LimiterNested => ("#3566b8", ""),
        Subject::LimiterFleet => ("#6a4c93", ""),
        Subject::LimiterWatched => ("#7a9a01", ""),
        Subject::LimiterEstablished => ("#b05a7a", ""),
        Subject::Reference => ("#8e5aa8", "8 3"),
        Subject::NftIngress => ("#c8553d", "8 3"),
        Subject::NftPrerouting => ("#e08e45", "8 3"),
        Subject::Hashlimit => ("#b8860b", "8 3"),
        Subject::TcPolice => ("#a05050", "8 3"),
        Subject::None => ("#888", "2 3"),
    }
}

/// Where things are in the field.
struct Axes {
    columns: Vec<Sources>,
    lowest: f64,
    highest: f64,
}

impl Axes {
    fn of(table: &[&Measured]) -> Self {
        let all = || table.iter().map(|one| one.sample.median);
        Self {
            columns: columns(table),
            lowest: all().fold(f64::INFINITY, f64::min) / 1.15,
            highest: all().fold(0.0, f64::max) * 1.15,
        }
    }

    fn x(&self, sources: Sources) -> f64 {
        let at = self.columns.iter().position(|column| *column == sources);
        let at = u32::try_from(at.unwrap_or(0)).unwrap_or(0);
        let gaps = u32::try_from(self.columns.len()).unwrap_or(1).max(2) - 1;
        LEFT + 20.0 + (WIDTH - LEFT - RIGHT - 40.0) * f64::from(at) / f64::from(gaps)
    }

    /// Logarithmic: the same distance is the same ratio.
    fn y(&self, nanoseconds: f64) -> f64 {
        let share = (nanoseconds / self.lowest).ln() / (self.highest / self.lowest).ln();
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }

    /// Round figures within the field.
    fn ticks(&self) -> Vec<f64> {
        let decades = [10.0, 100.0, 1_000.0, 10_000.0];
        let all = decades
            .iter()
            .flat_map(|decade| [1.0, 1.5, 2.0, 3.0, 5.0, 7.0].map(|step| decade * step));
        all.filter(|tick| (self.lowest..self.highest).contains(tick))
            .collect()
    }
}

fn draw(table: &[&Measured], machine: &Machine) -> String {
    let axes = Axes::of(table);
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.text(
        (LEFT, 24.0),
        Anchor::Start,
        BLACK,
        16,
        &table[0].case.title(),
    );
    svg.text(
        (LEFT, 42.0),
        Anchor::Start,
        GREY,
        12,
        "nanoseconds a packet (logarithmic), generator and veth included, by number of sources",
    );
    let Machine {
        cpu, kernel, date, ..
    } = machine;
    let below = format!("{cpu}, Linux {kernel}, {date}");
    svg.text((LEFT, HEIGHT - 16.0), Anchor::Start, GREY, 11, &below);
    draw_axes(&mut svg, &axes);
    draw_lines(&mut svg, &axes, table);
    svg.finish()
}

fn draw_axes(svg: &mut Svg, axes: &Axes) {
    for tick in axes.ticks() {
        let y = axes.y(tick);
        svg.line(&[(LEFT, y), (WIDTH - RIGHT, y)], "#e4e4e4", 1.0, "");
        svg.text(
            (LEFT - 8.0, y + 4.0),
            Anchor::End,
            GREY,
            12,
            &format!("{tick:.0}"),
        );
    }
    for &sources in &axes.columns {
        let at = (axes.x(sources), HEIGHT - BOTTOM + 20.0);
        let words = match sources {
            Sources::New => "every one new".to_owned(),
            Sources::Number(_) => sources.to_string(),
        };
        svg.text(at, Anchor::Middle, GREY, 12, &words);
    }
}

fn draw_lines(svg: &mut Svg, axes: &Axes, table: &[&Measured]) {
    let mut names: Vec<(f64, Subject)> = Vec::new();
    for subject in rows(table) {
        let (colour, dashes) = style(subject);
        let mut points: Vec<Point> = Vec::new();
        for one in table.iter().filter(|one| one.subject == subject) {
            let point = (axes.x(one.case.sources), axes.y(one.sample.median));
            let title = format!(
                "{}, {}: {:.0} ns",
                subject.name(),
                one.case.sources,
                one.sample.median
            );
            svg.dot(point, colour, &title);
            points.push(point);
        }
        svg.line(&points, colour, 1.5, dashes);
        names.push((points.last().map_or(0.0, |(_, y)| *y), subject));
    }
    names.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut free = 0.0_f64;
    for (y, subject) in names {
        let y = y.max(free);
        free = y + LEADING;
        let at = (WIDTH - RIGHT + 10.0, y + 4.0);
        svg.text(at, Anchor::Start, style(subject).0, 12, &subject.name());
    }
}
