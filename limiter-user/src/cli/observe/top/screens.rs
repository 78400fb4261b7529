//! The screens in `docs/images`: exact, as text and as pictures.

use std::{fmt::Write, time::Duration};

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

use crate::{
    documents::compare,
    show::live::{Dialog, Palette, View, example},
};

/// The size of a character in a picture.
const CELL: (u16, u16) = (8, 17);
const INK: &str = "#d8d8d8";
const PAPER: &str = "#16181d";

fn view(sources: u32) -> View {
    let palette = Palette { is_coloured: true };
    let mut view = View::new(example::flood(sources), Duration::from_secs(1), palette);
    view.now = humantime::parse_rfc3339("2026-11-21T06:03:02Z").unwrap();
    view
}

fn drawn(view: &mut View, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area();
    let rows = (0..area.height).map(|row| {
        let cells = (0..area.width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    });
    rows.collect()
}

/// The ink and the paper of a character.
fn colours(cell: &Cell) -> (&'static str, &'static str) {
    let ink = match cell.fg {
        Color::Red => "#ff6b68",
        Color::Yellow => "#e5c07b",
        Color::Green => "#8fd28f",
        Color::Cyan => "#6cc7d9",
        _ if cell.modifier.contains(Modifier::DIM) => "#8b919c",
        _ => INK,
    };
    match cell.modifier.contains(Modifier::REVERSED) {
        true => (PAPER, ink),
        false => (ink, PAPER),
    }
}

/// The screen as a picture. Runs of one style are one text, whose length is fixed for any font.
fn picture(buffer: &Buffer) -> String {
    let area = buffer.area();
    let (width, height) = (area.width * CELL.0 + 16, area.height * CELL.1 + 16);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{PAPER}\"/>\n"
    );
    for row in 0..area.height {
        let cells: Vec<_> = (0..area.width)
            .map(|column| &buffer[(column, row)])
            .collect();
        let mut column = 0;
        for run in cells.chunk_by(|a, b| a.style() == b.style()) {
            let text: String = run.iter().map(|cell| cell.symbol()).collect();
            let (ink, paper) = colours(run[0]);
            let length = u16::try_from(run.len()).unwrap() * CELL.0;
            let (x, y) = (8 + column * CELL.0, 8 + row * CELL.1);
            column += u16::try_from(run.len()).unwrap();
            if paper != PAPER {
                let high = CELL.1;
                writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{length}\" height=\"{high}\" fill=\"{paper}\"/>").unwrap();
            }
            if text.trim().is_empty() {
                continue;
            }
            let text = text
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            let bold = match run[0].modifier.contains(Modifier::BOLD) {
                true => " font-weight=\"bold\"",
                false => "",
            };
            let y = y + 13;
            writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" xml:space=\"preserve\" fill=\"{ink}\"{bold}>{text}</text>"
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

#[test]
fn screens_in_the_book_are_those_of_the_view() {
    for (width, height) in [(80, 24), (40, 12), (200, 50)] {
        let buffer = drawn(&mut view(60), (width, height));
        compare(&format!("images/top-{width}x{height}.txt"), &text(&buffer));
        if width < 200 {
            compare(
                &format!("images/top-{width}x{height}.svg"),
                &picture(&buffer),
            );
        }
    }
    let mut asked = view(60);
    asked.sample.chosen = 1;
    asked.dialog = Some(Dialog::Confirm {
        command: "ban eth0 192.0.2.7 --for 10m".to_owned(),
        warning: None,
    });
    let buffer = drawn(&mut asked, (80, 24));
    compare("images/top-ban.txt", &text(&buffer));
    let mut helped = view(60);
    helped.help = true;
    compare("images/top-help.txt", &text(&drawn(&mut helped, (80, 24))));
}
