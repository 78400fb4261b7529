use std::time::Duration;

use ratatui::{Terminal, backend::TestBackend};
use serde_json::json;

use super::{example::*, *};
use crate::observe::{Order, Sample};

fn view(sample: Sample) -> View {
    View::new(sample, Duration::from_secs(1), Palette::default())
}

/// The lines on a screen of this size, without the spaces at their ends.
fn lines(view: &mut View, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row| {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

fn place(lines: &[String], text: &str) -> usize {
    let place = lines.iter().position(|line| line.contains(text));
    place.unwrap_or_else(|| panic!("{text}: {lines:#?}"))
}

#[test]
fn flood_of_new_sources_is_the_first_reason_on_every_screen() {
    for size in [(80, 24), (40, 12), (200, 50)] {
        let lines = lines(&mut view(flood(60)), size);
        let [dropped, new, limit] = ["dropped", "  new sources (spoofed?)", "  over a limit"]
            .map(|text| place(&lines, text));
        assert_eq!([new, limit], [dropped + 1, dropped + 2], "{lines:#?}");
        assert!(lines[new].contains("42,000/s"), "{lines:#?}");
    }
}

#[test]
fn small_screen_has_a_source_and_no_reasons_of_the_past() {
    for (size, rows) in [
        ((40, 12), 1),
        ((80, 11), 1),
        ((80, 10), 1),
        ((80, 9), 1),
        ((80, 30), 14),
    ] {
        let mut view = view(flood(60));
        let lines = lines(&mut view, size);
        place(&lines, ">192.0.2.66 ");
        assert!(view.rows >= rows, "{lines:#?}");
        let is_large = size.1 >= 20;
        let past = lines.iter().any(|line| line.contains("denied sources"));
        assert_eq!(past, is_large, "{lines:#?}");
    }
}

#[test]
fn few_new_sources_are_no_flood() {
    let mut sample = flood(3);
    let before = sample.before.as_mut().unwrap();
    before.drops = from(json!({
        "new_source": {"packets": 4_612_306, "bytes": 0}, "limit": {"packets": 100, "bytes": 0}
    }));
    let lines = lines(&mut view(sample), (80, 24));
    let new = place(&lines, "  new sources");
    assert_eq!(new, place(&lines, "dropped ") + 1, "{lines:#?}");
    assert!(!lines[new].contains("spoofed"), "{lines:#?}");
}

#[test]
fn limit_counts_what_known_sources_were_over_it_and_not_new_ones() {
    let mut sample = flood(3);
    // The limit's own counters have the refused new sources.
    sample.interface.limits[0].dropped = from(json!({"packets": 4_649_616, "bytes": 0}));
    let lines = lines(&mut view(sample), (80, 24));
    let row = &lines[place(&lines, "source  5/s")];
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["source", "5/s", "50", "2,010", "132", "4,649,616"]);
}

#[test]
fn idle_limits_share_a_line_until_all_are_asked_for() {
    let mut view = view(flood(3));
    let folded = lines(&mut view, (80, 24));
    assert!(
        folded.contains(&"LIMITS idle: ssh 5/m".to_owned()),
        "{folded:#?}"
    );
    view.all_limits = true;
    let unfolded = lines(&mut view, (80, 24));
    place(&unfolded, "ssh     5/m");
    assert!(
        !unfolded.iter().any(|line| line.contains("idle")),
        "{unfolded:#?}"
    );
}

#[test]
fn limits_without_room_are_counted() {
    let mut sample = flood(3);
    let limit = sample.interface.limits[0].clone();
    for number in 0..40_u64 {
        let name = format!("limit{number}");
        sample.over.insert(name.clone(), number + 1);
        sample.interface.limits.push(crate::observe::Limit {
            name,
            ..limit.clone()
        });
        let before = sample.before.as_mut().unwrap();
        before.limits = sample.interface.limits.clone();
    }
    let lines = lines(&mut view(sample), (80, 24));
    let rest = place(&lines, " more: L lists all");
    let rows = rest - place(&lines, "LIMIT ") - 1;
    assert!(
        lines[rest].contains(&format!("{} more", 41 - rows)),
        "{lines:#?}"
    );
    // Those with the most packets over them are shown.
    place(&lines, "source   5/s");
    place(&lines, "limit39");
    place(&lines, "DROP/s");
}

#[test]
fn shadow_and_trial_have_lines_from_side_to_side() {
    let mut sample = flood(3);
    sample.interface.shadow = true;
    for (size, texts) in [
        (
            (80, 24),
            [
                "SHADOW: nothing is dropped; packets",
                "to keep it: limiter keep eth0",
            ],
        ),
        (
            (40, 12),
            [
                "SHADOW: nothing is dropped",
                "ON TRIAL 1m 58s: limiter keep eth0",
            ],
        ),
    ] {
        let mut view = view(sample.clone());
        view.now = humantime::parse_rfc3339("2026-11-21T06:03:02Z").unwrap();
        let lines = lines(&mut view, size);
        for text in texts {
            assert!(place(&lines, text) < 5, "{lines:#?}");
        }
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let row = u16::try_from(place(&lines, "SHADOW")).unwrap();
        let last = &terminal.backend().buffer()[(size.0 - 1, row)];
        assert!(last.modifier.contains(ratatui::style::Modifier::REVERSED));
    }
}

#[test]
fn columns_are_there_only_if_they_have_something_to_show() {
    let mut sample = flood(3);
    let shown = |sample: &Sample| lines(&mut view(sample.clone()), (200, 50)).join("\n");
    for absent in ["WOULD DROP", "HELD"] {
        assert!(!shown(&sample).contains(absent), "{}", shown(&sample));
    }
    sample.interface.limits.truncate(1);
    assert!(
        !shown(&sample).contains("LIMIT   PASS/s"),
        "{}",
        shown(&sample)
    );
    sample.interface.limits[0].hold = Some("10s".to_owned());
    sample.top.sources[0].held_seconds = Some(4.5);
    sample.interface.limits[0].shadow = true;
    for present in ["WOULD DROP", "HELD", "4.5 s"] {
        assert!(shown(&sample).contains(present), "{}", shown(&sample));
    }
}

#[test]
fn numbers_of_a_row_are_whole_at_any_width() {
    let mut sample = flood(3);
    sample.top.sources[0].tokens = 1_234_567.9;
    let whole = lines(&mut view(sample.clone()), (200, 24));
    let whole: Vec<_> = whole[place(&whole, ">192.0.2.66")]
        .split_whitespace()
        .collect();
    for width in 20..120 {
        let lines = lines(&mut view(sample.clone()), (width, 24));
        let row = &lines[place(&lines, ">192.0")];
        for cell in row.split_whitespace().skip(1) {
            assert!(whole.contains(&cell), "{width}: {cell} of {row}");
        }
    }
}

#[test]
fn chosen_source_is_marked_and_always_on_the_screen() {
    let mut view = view(flood(60));
    for chosen in [0, 5, 59, 30, 58, 0] {
        view.sample.chosen = chosen;
        let name = view.sample.top.sources[chosen].source.clone();
        for size in [(80, 24), (40, 12), (80, 24)] {
            let lines = lines(&mut view, size);
            place(&lines, &format!(">{name} "));
        }
    }
}

#[test]
fn sources_beyond_the_described_ones_are_not_mistaken() {
    // The sample has the sources from number 40 on.
    let mut sample = flood(60);
    sample.top.sources.drain(..40);
    (sample.first, sample.chosen, sample.matching) = (40, 50, 4_812);
    let name = sample.top.sources[10].source.clone();
    let lines = lines(&mut view(sample), (80, 24));
    place(&lines, &format!(">{name} "));
    let bar = &lines[place(&lines, "SOURCES")];
    assert!(bar.contains("-51 of 4,812 by DROP/s"), "{bar}");
}

#[test]
fn order_and_filter_are_said() {
    let mut view = view(flood(60));
    view.order = Order::Tokens;
    view.reversed = true;
    view.filter = "198.51".to_owned();
    let seen = lines(&mut view, (80, 24));
    place(&seen, "by TOKENS reversed with 198.51");
    place(&seen, "TOKENS▲");
    view.sample.top.sources.clear();
    view.sample.matching = 0;
    place(
        &lines(&mut view, (80, 24)),
        "no source matches the filter: Esc clears it",
    );
}

#[test]
fn names_of_others_do_not_reach_the_terminal_as_controls() {
    let mut sample = flood(3);
    let evil = "x\u{1b}[2J\u{202e}\n";
    sample.top.sources[0].source = evil.to_owned();
    sample.top.sources[0].limit = evil.to_owned();
    sample.interface.limits[0].name = evil.to_owned();
    sample.interface.limits[1].name = evil.to_owned();
    sample.interface.name = evil.to_owned();
    let mut view = view(sample);
    view.filter = evil.to_owned();
    view.result = Some(Told {
        text: evil.to_owned(),
        is_error: true,
    });
    for dialog in [
        None,
        Some(Dialog::Filter(evil.to_owned())),
        Some(Dialog::Waiting(evil.to_owned())),
        Some(Dialog::Confirm {
            command: evil.to_owned(),
            warning: Some(evil.to_owned()),
        }),
    ] {
        view.dialog = dialog;
        let text = lines(&mut view, (200, 50)).concat();
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\n']), "{text:?}");
        assert!(text.contains("x\\u{1b}[2J"), "{text}");
    }
}

#[test]
fn last_line_has_the_keys_that_fit_and_questions_stand_there() {
    let mut view = view(flood(3));
    for (width, keys) in [(20, "q quit  ? help"), (12, "q quit"), (0, "")] {
        let lines = lines(&mut view, (width, 10));
        assert_eq!(lines.last().unwrap(), keys);
    }
    view.paused = true;
    assert!(lines(&mut view, (80, 24))[23].starts_with("PAUSED  q quit  ? help"));
    view.result = Some(Told {
        text: "eth0: 192.0.2.66 banned for 10m".to_owned(),
        is_error: false,
    });
    assert_eq!(
        lines(&mut view, (80, 24))[22],
        "eth0: 192.0.2.66 banned for 10m"
    );
    view.dialog = Some(Dialog::Confirm {
        command: "ban eth0 192.0.2.66 --for 10m".to_owned(),
        warning: None,
    });
    let seen = lines(&mut view, (80, 24));
    assert_eq!(
        seen[23],
        "limiter ban eth0 192.0.2.66 --for 10m -- y does it, any other key leaves"
    );
    view.help = true;
    place(&lines(&mut view, (80, 24)), "any key leaves this help");
    let small = lines(&mut view, (40, 12)).join(" ");
    for key in ["b: ban", "q Esc: quit", "/: filter", "Tab: next interface"] {
        assert!(small.contains(key), "{small}");
    }
}

#[test]
fn nothing_of_any_size_panics() {
    for width in 0..45 {
        for height in 0..16 {
            let mut view = view(flood(9));
            view.sample.interface.shadow = true;
            // Each width and each height has both.
            view.help = (width + height) % 2 == 0;
            lines(&mut view, (width, height));
        }
    }
}

#[test]
fn table_of_senders_scrolls_below_its_titles() {
    let mut table = vec![
        "eth0: 40 packets/s".to_owned(),
        " SOURCE  PACKETS/s".to_owned(),
    ];
    table.extend((1..=40).map(|number| format!(" 192.0.2.{number}  1")));
    let mut view = view(flood(9));
    for (first, bar, top) in [
        (0, "WHO SENDS 1-20 of 40; w counts again", "192.0.2.1 "),
        (99, "WHO SENDS 21-40 of 40; w counts again", "192.0.2.21 "),
    ] {
        let content = Content::Senders(table.clone());
        view.page = Some(Page { content, first });
        let lines = lines(&mut view, (80, 24));
        assert!(lines[0].starts_with(bar), "{lines:#?}");
        assert_eq!(lines[1], table[0]);
        assert_eq!(lines[2], table[1]);
        assert!(lines[3].contains(top), "{lines:#?}");
    }
    assert_eq!(view.page.unwrap().first, 20, "the last rows are the end");
}
