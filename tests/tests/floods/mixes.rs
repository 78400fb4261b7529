//! Attacks of three strengths in the traffic of three hosts.

use std::{collections::BTreeMap, io::Cursor, path::Path};

use fastrand::Rng;
use limiter_config::{Exempt, file, places::Places};
use limiter_tests::captures::{pcap, replay};
use limiter_user::plan::{
    capture::Capture,
    flood::{self, Answer, Asked, Explanation, Guard, Picture, Sample},
};

use super::generated::{Attack, Made, Ordinary, capture};

const SECONDS: u64 = 8;
const ORDINARY: usize = 3_000;
const SALT: u64 = 7;

fn sample(packets: &[Made]) -> (Sample, f64) {
    let file = pcap(&capture(packets, SECONDS));
    let mut capture = Capture::new("test", Cursor::new(file)).unwrap();
    flood::read::sample(&mut capture, SALT, &Places::default(), |_| ())
}

pub fn picture(packets: &[Made]) -> Picture {
    let (sample, seconds) = sample(packets);
    Picture::of_sample(SALT, &sample, seconds, usize::MAX)
}

pub fn explained(packets: &[Made], picture: &Picture) -> Explanation {
    explained_with(packets, picture, false)
}

fn explained_with(packets: &[Made], picture: &Picture, loose: bool) -> Explanation {
    let (sample, seconds) = sample(packets);
    let asked = Asked {
        interface: None,
        seconds,
        limits: &[],
        guard: &Guard::default(),
        loose,
        without_payload: false,
    };
    flood::explain(&asked, &sample, Some(picture))
}

/// Share of these packets that the offered limits match, by the limiter's own policy.
pub fn matched(explanation: &Explanation, packets: &[Made]) -> f64 {
    if explanation.patterns.is_empty() {
        return 0.0;
    }
    let packets = packets.iter().filter(|made| !made.is_connection);
    let packets: Vec<_> = packets.cloned().collect();
    let patterns = &explanation.patterns;
    let limits = patterns.iter().map(|pattern| {
        let rate = format!("rate = \"{}\"", pattern.rate);
        assert!(pattern.limit.contains(&rate), "{}", pattern.limit);
        pattern.limit.replace(&rate, "rate = \"1/d\"\nburst = 1")
    });
    let limits: String = limits.collect();
    let settings = file::parse(&limits, Path::new(".")).unwrap().settings;
    let (outcome, _) = replay(&pcap(&capture(&packets, SECONDS)), &settings).unwrap();
    // Each limit admits one packet.
    outcome.verdicts.dropped.packets as f64 / (packets.len() - patterns.len()) as f64
}

#[test]
fn attacks_are_told_from_ordinary_traffic_at_each_strength() {
    let mut rng = Rng::with_seed(5);
    for ordinary in Ordinary::ALL {
        let before = ordinary.packets(&mut rng, 2 * ORDINARY, false);
        let mut picture = picture(&before);
        // They came in twice the time.
        picture.packets_per_second /= 2.0;
        picture.limited_per_second /= 2.0;
        for strength in [1_000, 3_000, 9_000] {
            let mut missed = BTreeMap::new();
            for attack in Attack::ALL {
                let attack_packets: Vec<_> =
                    (0..strength).map(|_| attack.packet(&mut rng)).collect();
                let now = ordinary.packets(&mut rng, ORDINARY, false);
                let mut mixed = [attack_packets.clone(), now.clone()].concat();
                rng.shuffle(&mut mixed);
                // The segments of a connection come in their order.
                let connections = now.iter().filter(|made| made.is_connection);
                mixed.retain(|made| !made.is_connection);
                mixed.extend(connections.cloned());
                let explanation = explained(&mixed, &picture);
                let found = matched(&explanation, &attack_packets);
                let cost = matched(&explanation, &now);
                println!(
                    "{ordinary:?} {strength} {attack:?}: {:.2} % of the attack, {:.3} % of ordinary packets by {:?}",
                    100.0 * found,
                    100.0 * cost,
                    explanation
                        .patterns
                        .iter()
                        .map(|pattern| &pattern.matches)
                        .collect::<Vec<_>>()
                );
                assert!(cost <= 0.01, "{ordinary:?} {attack:?}: {explanation:#?}");
                if found < 0.99 || cost > 0.001 {
                    missed.insert(format!("{attack:?}"), explanation);
                }
            }
            assert!(missed.len() <= 2, "{ordinary:?}, {strength}: {missed:#?}");
        }
    }
}

#[test]
fn made_up_ordinary_packets_have_no_pattern() {
    let mut rng = Rng::with_seed(9);
    for ordinary in Ordinary::ALL {
        let picture = picture(&ordinary.packets(&mut rng, ORDINARY, false));
        let flood = ordinary.packets(&mut rng, 10_000, true);
        let flood: Vec<_> = flood
            .into_iter()
            .filter(|made| !made.is_connection)
            .collect();
        let now = ordinary.packets(&mut rng, ORDINARY, false);
        let explanation = explained(&[flood, now].concat(), &picture);
        assert_eq!(
            explanation.answer,
            Answer::NoPattern,
            "{ordinary:?}: {explanation:#?}"
        );
        assert!(explanation.advice.contains("nothing separates them"));
    }
}

#[test]
fn ordinary_traffic_is_no_flood() {
    let mut rng = Rng::with_seed(11);
    let picture = picture(&Ordinary::Web.packets(&mut rng, ORDINARY, false));
    let again = explained(&Ordinary::Web.packets(&mut rng, ORDINARY, false), &picture);
    assert_eq!(again.answer, Answer::NoFlood, "{again:#?}");
    let few = explained(&Ordinary::Dns.packets(&mut rng, 100, false), &picture);
    assert_eq!(few.answer, Answer::TooFew);
    let attack: Vec<_> = (0..1_000).map(|_| Attack::Syn.packet(&mut rng)).collect();
    let without = explained(&attack, &Picture::new(SALT));
    assert_eq!(without.answer, Answer::NoPicture);
    assert!(without.patterns.is_empty());
}

#[test]
fn control_traffic_and_own_sessions_are_never_matched() {
    let mut rng = Rng::with_seed(13);
    let picture = picture(&Ordinary::Web.packets(&mut rng, ORDINARY, false));
    let attack: Vec<_> = (0..4_000).map(|_| Attack::Ack.packet(&mut rng)).collect();
    let explanation = explained(&attack, &picture);
    assert_eq!(explanation.patterns.len(), 1, "{explanation:#?}");
    let matches = &explanation.patterns[0].matches;
    assert!(matches.contains("established = false"), "{matches}");
    let exempting = Guard {
        exempt: Exempt {
            established: true,
            ..Exempt::default()
        },
        session: None,
    };
    let (sample, seconds) = sample(&attack);
    let asked = Asked {
        interface: Some("eth0"),
        seconds,
        limits: &[("flood".to_owned(), String::new())],
        guard: &exempting,
        loose: false,
        without_payload: true,
    };
    let explanation = flood::explain(&asked, &sample, Some(&picture));
    let pattern = &explanation.patterns[0];
    assert!(!pattern.matches.contains("established"), "{pattern:?}");
    assert!(
        pattern
            .command
            .starts_with("limiter limit eth0 flood-2 --match '{ ")
    );
}

#[test]
fn rule_that_matches_many_ordinary_packets_is_offered_only_with_loose() {
    let mut rng = Rng::with_seed(15);
    let mut before = Ordinary::Web.packets(&mut rng, 3_800, false);
    before.extend(Ordinary::Game.packets(&mut rng, 200, false));
    let picture = picture(&before);
    let flood = Ordinary::Game.packets(&mut rng, 12_000, true);
    let now = [flood, before].concat();
    let strict = explained(&now, &picture);
    assert_eq!(strict.answer, Answer::Costly, "{strict:#?}");
    assert!(strict.patterns.is_empty(), "{strict:#?}");
    assert!(strict.advice.contains("--loose"), "{}", strict.advice);
    let withheld = strict.costly.unwrap();
    assert!(withheld.of_ordinary > 0.01, "{withheld:?}");
    let loose = explained_with(&now, &picture, true);
    assert_eq!(loose.answer, Answer::Pattern, "{loose:#?}");
    assert!(
        (0.01..0.2).contains(&loose.patterns[0].of_ordinary),
        "{loose:#?}"
    );
}
