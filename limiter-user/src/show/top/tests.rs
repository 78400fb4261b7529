//! Tests of the state, and of its picture on virtual screens.

use std::{net::IpAddr, time::Duration};

use proptest::prelude::*;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode as Key, KeyEvent, KeyModifiers},
    style::Color,
};
use serde_json::json;

use super::*;
use crate::{
    config::Key as BucketKey,
    observe::{
        Count, Interface, Limit, Sources,
        busiest::{Activity, Filter, Place},
        live::{Row, Sample},
    },
};

const PLAIN: Theme = Theme {
    colour: false,
    unicode: true,
};

fn count(packets: u64) -> Count {
    Count { packets, bytes: 0 }
}

fn limit(name: &str, passed: u64, dropped: u64) -> Limit {
    Limit {
        name: name.to_owned(),
        rate: "5/s".to_owned(),
        burst: "10".to_owned(),
        key: "/32,/64".to_owned(),
        r#match: None,
        cost: None,
        algorithm: "token-bucket".to_owned(),
        shadow: false,
        passed: count(passed),
        dropped: count(dropped),
        would_drop: count(0),
    }
}

fn interface(limits: Vec<Limit>, passed: u64, dropped: u64) -> Interface {
    let json = json!({
        "name": "eth0", "ifindex": 2, "mode": "native", "program_id": 17, "version": "0.1.0",
        "attached_at": "2026-11-21T06:00:00Z", "shadow": false, "malformed": "drop", "frags": true,
        "exempt": [], "limits": limits, "lists": [], "drops": {}, "passes": {}, "events_lost": 0,
        "seen": count(passed + dropped), "passed": count(passed), "dropped": count(dropped),
        "would_drop": count(0),
        "sources": Sources { tracked: 3, capacity: 65_536, ..Sources::default() },
    });
    serde_json::from_value(json).unwrap()
}

/// A source with its packets since the last scan. Its totals are ten times as high.
fn busy(address: &str, passed: u64, over: u64) -> Row {
    let key = BucketKey::default();
    let of = key.of(0, address.parse::<IpAddr>().unwrap(), 0);
    Row {
        source: key.show(&of),
        limit: "default".to_owned(),
        network: key.network(&of),
        listed: None,
        reason: None,
        activity: Activity {
            passed: passed * 10,
            over: over * 10,
            drops: true,
            passed_since: passed,
            over_since: over,
            tokens: 0.5,
        },
        place: Place::from(&of),
    }
}

/// A sample two seconds after the one before.
fn sample(limits: Vec<Limit>, passed: u64, dropped: u64, sources: Vec<Row>) -> Event {
    Event::Sample(Box::new(Sample {
        interface: interface(limits, passed, dropped),
        matching: sources.len() as u64,
        elapsed: Some(Duration::from_secs(2)),
        rows: sources,
    }))
}

fn sources() -> Vec<Row> {
    vec![
        busy("192.0.2.66", 10, 4_000),
        busy("192.0.2.7", 12, 0),
        busy("2001:db8:1:2::1", 10, 200),
    ]
}

fn started() -> State {
    let state = State::new(200, Duration::from_secs(1));
    let first = vec![limit("default", 100, 1_000)];
    let second = vec![limit("default", 132, 5_200)];
    let (state, _) = state.after(sample(first, 100, 1_000, sources()));
    state.after(sample(second, 132, 5_200, sources())).0
}

fn press(state: State, keys: &[Key]) -> (State, Effect) {
    let first = (state, Effect::None);
    let press =
        |(state, _): (State, Effect), key: &Key| state.after(Event::Key(KeyEvent::from(*key)));
    keys.iter().fold(first, press)
}

fn typed(state: State, text: &str) -> State {
    let keys: Vec<_> = text.chars().map(Key::Char).collect();
    press(state, &keys).0
}

fn screen(state: &State, width: u16, height: u16, theme: Theme) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, theme)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(width));
    let lines = cells.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// The text on a screen of 80 columns and 24 lines.
fn text(state: &State) -> String {
    screen(state, 80, 24, PLAIN).join("\n")
}

/// The sources on the screen, from top to bottom.
fn order(state: &State) -> Vec<String> {
    let rows = state.rows();
    rows.iter().map(|row| row.source.clone()).collect()
}

#[test]
fn screen_of_80_by_24_has_expected_lines() {
    let screen = screen(&started(), 80, 24, PLAIN);
    let expected = [
        "eth0 native  3 of 65,536 sources  every 1s",
        "passed         16/s         132 in all                                         █",
        "dropped     2,100/s       5,200 in all                                         █",
        "LIMIT                                     PASS/s    DROP/s     PASSED    DROPPED",
        "default 5/s, burst 10, per /32,/64            16     2,100        132      5,200",
        "3 sources by dropped/s",
        "  SOURCE               LIST     PASS/s    DROP/s     PASSED    DROPPED    TOKENS",
        "> 192.0.2.66                       5.0     2,000        100     40,000       0.5",
        "  2001:db8:1:2::/64                5.0       100        100      2,000       0.5",
        "  192.0.2.7                        6.0         0        120          0       0.5",
    ];
    assert_eq!(screen[..10], expected);
    assert!(screen[10..23].iter().all(String::is_empty));
    assert!(screen[23].starts_with("q quit  s sort"), "{screen:#?}");
}

#[test]
fn small_screen_shows_totals_and_the_busiest_sources() {
    let screen = screen(&started(), 40, 10, PLAIN);
    assert!(screen[1].starts_with("passed         16/s"), "{screen:#?}");
    assert!(screen[2].starts_with("dropped     2,100/s"), "{screen:#?}");
    let at = screen.iter().position(|line| line.contains("SOURCE"));
    let at = at.unwrap_or_else(|| panic!("no sources: {screen:#?}"));
    assert_eq!(screen[at], "  SOURCE               DROP/s    DROPPED");
    assert_eq!(screen[at + 1], "> 192.0.2.66            2,000     40,000");
    assert!(screen[9].starts_with("q quit"), "{screen:#?}");
}

#[test]
fn large_screen_shows_all_limits_columns_and_the_curve() {
    let mut limits: Vec<_> = (0..6).map(|i| limit(&format!("limit{i}"), i, i)).collect();
    limits[3].dropped.packets = 0;
    let (state, _) = started().after(sample(limits, 200, 6_000, sources()));
    let screen = screen(&state, 200, 60, PLAIN);
    let text = screen.join("\n");
    for word in [
        "limit0", "limit5", "SOURCE", "LIMIT", "LIST", "PASS/s", "DROP/s", "PASSED", "DROPPED",
        "TOKENS",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(screen[1..7].iter().any(|line| line.contains('█')), "{text}");
}

#[test]
fn screen_without_unicode_is_ascii_only() {
    let none = Theme {
        colour: false,
        unicode: false,
    };
    for line in screen(&started(), 80, 24, none) {
        assert!(line.is_ascii(), "{line}");
    }
    let variables = |set: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = set.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let of = |set: &'static [(&str, &str)]| {
        let Theme { colour, unicode } = Theme::of(variables(set));
        (colour, unicode)
    };
    assert_eq!(of(&[]), (true, false));
    assert_eq!(of(&[("NO_COLOR", "1"), ("LANG", "C.UTF-8")]), (false, true));
    assert_eq!(
        of(&[("NO_COLOR", ""), ("LANG", "de_DE.utf8")]),
        (true, true)
    );
    assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]), (true, false));
}

#[test]
fn screen_without_colour_sets_no_colours() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let asked = press(started(), &[Key::Char('d')]).0;
    let mut colours = |colour| {
        let theme = Theme { colour, ..PLAIN };
        terminal.draw(|frame| draw(frame, &asked, theme)).unwrap();
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
}

#[test]
fn sort_key_reorders_the_shown_rows_at_once() {
    let state = started();
    let [first, second, third] = ["192.0.2.66", "2001:db8:1:2::/64", "192.0.2.7"];
    assert_eq!(order(&state), [first, second, third]);
    let (state, effect) = press(state, &[Key::Char('s'), Key::Char('s')]);
    assert_eq!(effect, Effect::None);
    assert_eq!(order(&state), [third, first, second]);
    assert!(text(&state).contains("by passed/s"));
    assert_eq!(state.wanted().order, state.order, "the next reading");
    let (state, _) = press(state, &[Key::Char('S'), Key::Char('S'), Key::Char('S')]);
    assert_eq!(order(&state), [third, first, second]);
    assert_eq!(state.order.name(), "address");
}

#[test]
fn typed_filter_selects_rows() {
    let state = typed(started(), "/2001:DBq");
    assert_eq!(state.filter, "2001:DBq", "text without keys");
    assert_eq!(order(&state), [""; 0]);
    let (state, _) = press(state, &[Key::Backspace, Key::Enter]);
    assert_eq!(order(&state), ["2001:db8:1:2::/64"]);
    assert_eq!(state.wanted().filter, Filter::new("2001:db"));
    let text = text(&state);
    assert!(text.contains("filter: 2001:DB"), "{text}");
    let (state, _) = press(state, &[Key::Esc]);
    assert_eq!(order(&state).len(), 3);
    let state = typed(state, "/192.0.2.64/30");
    assert_eq!(order(&state), ["192.0.2.66"]);
    let (state, effect) = press(state, &[Key::Esc, Key::Char('q')]);
    assert_eq!((state.filter.as_str(), effect), ("", Effect::Leave));
}

#[test]
fn paused_screen_is_unchanged_and_the_curve_continues() {
    let (state, _) = press(started(), &[Key::Char('p')]);
    let before = screen(&state, 80, 24, PLAIN);
    assert!(before[0].starts_with("PAUSED"), "{before:#?}");
    let more = vec![limit("default", 200, 9_200)];
    let (state, _) = state.after(sample(more, 200, 9_200, vec![busy("192.0.2.9", 1, 1)]));
    assert_eq!(screen(&state, 80, 24, PLAIN), before);
    let (state, _) = press(state, &[Key::Char(' ')]);
    let last = vec![limit("default", 200, 9_200)];
    let (state, _) = state.after(sample(last, 200, 9_200, sources()));
    let history = state.picture.unwrap().history;
    let rates: Vec<_> = history.iter().map(|rate| rate.dropped).collect();
    assert_eq!(rates, [0.0, 2_000.0, 2_100.0]);
}

#[test]
fn selection_stays_on_its_source() {
    let (state, _) = press(started(), &[Key::Down]);
    let chosen = |state: &State| {
        let rows = state.rows();
        rows[state.selected(&rows)].source.clone()
    };
    assert_eq!(chosen(&state), "2001:db8:1:2::/64");
    let (state, _) = press(state, &[Key::Char('s'), Key::Char('s')]);
    assert_eq!(chosen(&state), "2001:db8:1:2::/64", "the last row");
    let (state, _) = press(state, &[Key::PageUp]);
    assert_eq!(chosen(&state), "192.0.2.7");
    let (state, _) = press(state, &[Key::End, Key::Down]);
    assert_eq!(chosen(&state), "2001:db8:1:2::/64");
    let gone = vec![busy("192.0.2.66", 10, 4_000)];
    let (state, _) = state.after(sample(vec![limit("default", 0, 0)], 0, 0, gone));
    assert_eq!(chosen(&state), "192.0.2.66", "the existing row");
    let (state, _) = press(state, &[Key::Home]);
    assert_eq!(state.selected(&state.rows()), 0);
    let empty = State::new(1, Duration::from_secs(1));
    let (state, effect) = press(empty, &[Key::Down, Key::Char('d')]);
    assert_eq!(effect, Effect::None);
    assert!(state.notice.is_some_and(|(_, failed)| failed));
}

#[test]
fn actions_need_confirmation() {
    let network = "192.0.2.66/32".parse().unwrap();
    let deny = |add| Action::List {
        list: "deny",
        add,
        network,
    };
    let (state, effect) = press(started(), &[Key::Char('d')]);
    assert_eq!(effect, Effect::Check(deny(true)));
    let warning = "WARNING: your SSH session".to_owned();
    let (asked, _) = state.after(Event::Warning(Some(warning)));
    let asking = text(&asked);
    assert!(
        asking.contains("WARNING: your SSH session") && asking.contains("Deny 192.0.2.66?"),
        "{asking}"
    );
    // Another source is now in the first line. The action still applies to the chosen source.
    let others = vec![busy("192.0.2.9", 0, 9_000), busy("192.0.2.66", 0, 1)];
    let (asked, _) = asked.after(sample(vec![limit("default", 0, 0)], 0, 0, others));
    for no in [Key::Char('n'), Key::Esc, Key::Enter, Key::Char('d')] {
        let (state, effect) = asked.clone().after(Event::Key(KeyEvent::from(no)));
        assert_eq!(effect, Effect::None, "{no:?}");
        let said = text(&state);
        assert!(said.contains("nothing was changed"), "{said}");
    }
    let (working, effect) = asked.after(Event::Key(KeyEvent::from(Key::Char('y'))));
    assert_eq!(effect, Effect::Do(deny(true)));
    let (working, effect) = press(working, &[Key::Char('y'), Key::Char('q')]);
    assert_eq!(effect, Effect::None, "one question at a time");
    let failed = Event::Done(Err("the lock is taken".to_owned()));
    let said = text(&working.clone().after(failed).0);
    assert!(said.contains("the lock is taken"), "{said}");

    let (state, _) = working.after(Event::Done(Ok("deny: 1 added".to_owned())));
    assert!(text(&state).contains("deny: 1 added"));
    let denied = Row {
        listed: Some("deny"),
        ..busy("192.0.2.66", 0, 0)
    };
    let others = vec![busy("192.0.2.9", 0, 9_000), denied];
    let (state, _) = state.after(sample(vec![limit("default", 0, 0)], 0, 0, others));
    let (state, effect) = press(state, &[Key::Char('d')]);
    assert_eq!(effect, Effect::Check(deny(false)), "the key a second time");
    let (_, effect) = press(state, &[Key::Esc, Key::Char('r')]);
    assert_eq!(effect, Effect::Check(Action::Reset { network }));
    let (_, effect) = press(started(), &[Key::Down, Key::Char('a')]);
    let network = "2001:db8:1:2::/64".parse().unwrap();
    let allow = Action::List {
        list: "allow",
        add: true,
        network,
    };
    assert_eq!(effect, Effect::Check(allow));
}

#[test]
fn shared_bucket_row_has_no_source_actions() {
    let all_sources = Row {
        network: None,
        ..busy("192.0.2.66", 0, 0)
    };
    let (state, _) = started().after(sample(vec![limit("all", 0, 0)], 0, 0, vec![all_sources]));
    for key in ['d', 'a', 'r'] {
        let (state, effect) = press(state.clone(), &[Key::Char(key)]);
        assert_eq!(effect, Effect::None);
        let (notice, failed) = state.notice.unwrap();
        assert!(failed && notice.contains("--all"), "{notice}");
    }
}

#[test]
fn control_keys_work_in_every_state() {
    for before in ["", "/", "d"] {
        let state = typed(started(), before);
        let control = |key| KeyEvent::new(Key::Char(key), KeyModifiers::CONTROL);
        let (_, effect) = state.clone().after(Event::Key(control('c')));
        assert_eq!(effect, Effect::Leave, "{before:?}");
        let (_, effect) = state.after(Event::Key(control('z')));
        assert_eq!(effect, Effect::Suspend, "{before:?}");
    }
}

#[test]
fn shadow_drops_are_shown_apart_from_drops() {
    let mut shadowed = interface(vec![limit("default", 500, 0)], 500, 0);
    shadowed.shadow = true;
    shadowed.verdicts.would_drop.packets = 400;
    shadowed.limits[0].would_drop.packets = 400;
    let mut source = busy("192.0.2.66", 10, 40);
    source.activity.drops = false;
    let shadowed = Event::Sample(Box::new(Sample {
        interface: shadowed,
        matching: 1,
        elapsed: None,
        rows: vec![source],
    }));
    let (state, _) = State::new(200, Duration::from_secs(1)).after(shadowed);
    let text = text(&state);
    for words in ["SHADOW", "over            -/s         400 in all", "(400)"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The view does not panic, whatever the screen size, keys and counters.
    #[test]
    fn view_draws_on_screens_of_any_size(
        width in 1_u16..250,
        height in 1_u16..80,
        keys in prop::collection::vec(prop::sample::select(vec![
            Key::Char('s'), Key::Char('/'), Key::Char('d'), Key::Char('p'),
            Key::Char('y'), Key::Char('2'), Key::Down, Key::End, Key::PageDown, Key::Up,
            Key::Enter, Key::Esc, Key::Backspace,
        ]), 0..12),
        figures in prop::collection::vec((0..u64::MAX / 32, 0..u64::MAX / 32), 0..80),
        limits in 0_usize..40,
        notice in ".{0,300}",
        unicode: bool,
    ) {
        let sources = (1_u8..).zip(&figures).map(|(i, (passed, over))| {
            busy(&format!("192.0.2.{i}"), *passed, *over)
        });
        let sources: Vec<_> = sources.collect();
        let of = |i| limit(&format!("limit number {i}"), i as u64, 1_u64 << i);
        let limits: Vec<_> = (0..limits).map(of).collect();
        let (state, _) = started().after(sample(limits, 1 << 60, 1 << 61, sources));
        let (state, _) = state.after(Event::Done(Ok(notice)));
        let (state, _) = press(state, &keys);
        let theme = Theme { colour: true, unicode };
        let screen = screen(&state, width, height, theme);
        prop_assert_eq!(screen.len(), usize::from(height));
    }
}
