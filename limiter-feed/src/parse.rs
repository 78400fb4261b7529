//! The formats of lists, and of CrowdSec's decisions.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use ipnet::{IpNet, Ipv6Net};
use serde::Deserialize;

use crate::{
    left_out::{LeftOut, Reason},
    settings::LONGEST,
};

/// Fails, with the reason, if the ban of a prefix is most likely a mistake.
pub fn bannable(net: &IpNet) -> Result<(), String> {
    let shortest = if net.max_prefix_len() == 32 { 8 } else { 16 };
    if net.prefix_len() < shortest {
        return Err(format!(
            "{net} is too much of the Internet to ban: ban /{shortest} or longer, or use `limiter deny add`"
        ));
    }
    // Among bans, these addresses are those of IPv4.
    let mapped = Ipv6Net::new_assert([0, 0, 0, 0, 0, 0xffff, 0, 0].into(), 96).into();
    if net.contains(&mapped) || IpNet::contains(&mapped, net) {
        return Err(format!(
            "{net} has IPv4 addresses in IPv6 form: write them as in 192.0.2.7"
        ));
    }
    Ok(())
}

fn prefix(text: &str) -> Option<IpNet> {
    let net = text.parse().ok();
    let net = net.or_else(|| text.parse().ok().map(|address: IpAddr| address.into()));
    let net = net.map(|net: IpNet| net.trunc());
    net.filter(|net| bannable(net).is_ok())
}

/// A line of a list in JSON, as Spamhaus writes it.
#[derive(Deserialize)]
struct Line {
    #[serde(alias = "ip", alias = "range", alias = "prefix")]
    cidr: Option<String>,
}

/// The entries of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries {
    /// Prefixes that may be banned.
    pub prefixes: BTreeSet<IpNet>,
    /// The other entries.
    pub left_out: Vec<LeftOut>,
}

/// Reads a list. Each line has one address or prefix, alone, before a space, comma, `;` or `#`, or in JSON under `cidr`,
/// `ip`, `range` or `prefix`.
/// Fails if more than a tenth of the entries cannot be read or must not be banned, or if there is no entry.
pub fn list(text: &str) -> Result<Entries, String> {
    let mut all = Entries::default();
    let (mut entries, mut last_invalid) = (0_u64, 0);
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.trim_start_matches('\u{feff}').trim();
        let read = if line.starts_with('{') {
            match serde_json::from_str(line) {
                // A line about the list itself.
                Ok(Line { cidr: None }) => continue,
                Ok(Line { cidr: Some(cidr) }) => prefix(&cidr),
                Err(_) => None,
            }
        } else if line.is_empty() || line.starts_with(['#', ';', '/']) {
            continue;
        } else {
            let end = |character: char| character.is_whitespace() || ",;#".contains(character);
            prefix(line.split(end).next().unwrap_or_default())
        };
        entries += 1;
        match read {
            Some(net) => drop(all.prefixes.insert(net)),
            None => {
                last_invalid = number;
                let first = || format!("line {number}, '{line}'");
                LeftOut::add(&mut all.left_out, Reason::Invalid, first);
            }
        }
    }
    match all.left_out.first().map_or(0, |invalid| invalid.entries) {
        invalid if invalid * 10 > entries => Err(format!(
            "{invalid} of {entries} entries are not addresses or prefixes to ban, the last in line {last_invalid}"
        )),
        _ if all.prefixes.is_empty() => Err("it has no addresses".to_owned()),
        _ => Ok(all),
    }
}

/// An answer of CrowdSec's stream.
#[derive(Deserialize)]
struct Answer {
    new: Option<Vec<Decision>>,
    deleted: Option<Vec<Decision>>,
}

#[derive(Deserialize)]
struct Decision {
    value: String,
    #[serde(default)]
    scenario: String,
    #[serde(rename = "type")]
    kind: String,
    duration: String,
}

/// Changes of CrowdSec's decisions.
#[derive(Debug, Default, PartialEq)]
pub struct Decisions {
    /// New bans, with their time and scenario.
    pub new: Vec<(IpNet, Duration, String)>,
    /// Bans that have ended.
    pub deleted: Vec<IpNet>,
    /// Decisions that become no bans.
    pub left_out: Vec<LeftOut>,
}

/// Reads an answer of CrowdSec's stream. Those that have ended are left out; others than bans are counted.
/// Fails if the answer is not valid.
pub fn decisions(answer: &[u8]) -> Result<Decisions, String> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let mut read = Decisions::default();
    let is_ban = |decision: &Decision| decision.kind.eq_ignore_ascii_case("ban");
    for decision in answer.new.unwrap_or_default() {
        let (kind, value) = (&decision.kind, &decision.value);
        if !is_ban(&decision) {
            let first = || format!("'{kind}' of {value}");
            LeftOut::add(&mut read.left_out, Reason::NotBan, first);
            continue;
        }
        match (prefix(value), time(&decision.duration)) {
            (Some(net), Some(time)) if !time.is_zero() => {
                read.new.push((net, time, decision.scenario));
            }
            (_, Some(time)) if time.is_zero() => {}
            _ => {
                let first = || format!("{value} for {}", decision.duration);
                LeftOut::add(&mut read.left_out, Reason::Invalid, first);
            }
        }
    }
    let deleted = answer.deleted.unwrap_or_default().into_iter();
    let deleted = deleted.filter(is_ban);
    read.deleted = deleted
        .filter_map(|decision| prefix(&decision.value))
        .collect();
    Ok(read)
}

/// Reads a time as Go writes it: 3h59m58.1s. Parts of its smallest unit are left out. A time that is over is 0.
fn time(text: &str) -> Option<Duration> {
    if text.starts_with('-') {
        return Some(Duration::ZERO);
    }
    let mut in_part = false;
    let whole = |character: &char| {
        in_part = *character == '.' || (in_part && character.is_ascii_digit());
        !in_part
    };
    let text: String = text.chars().filter(whole).collect();
    let time = humantime::parse_duration(&text).ok()?;
    Some(time.min(Duration::from_secs(LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(all: &[&str]) -> BTreeSet<IpNet> {
        all.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn prefixes_that_nobody_means_to_ban_are_refused() {
        for (prefix, is_fine) in [
            ("10.0.0.0/8", true),
            ("10.0.0.0/7", false),
            ("0.0.0.0/0", false),
            ("2001::/16", true),
            ("2000::/15", false),
            ("::/16", false),
            ("::ffff:0:0/96", false),
            ("::ffff:192.0.2.1/128", false),
            ("::1/128", true),
        ] {
            let net = prefix.parse().unwrap();
            assert_eq!(bannable(&net).is_ok(), is_fine, "{prefix}");
        }
    }

    #[test]
    fn usual_formats_are_read() {
        let wanted = nets(&["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"]);
        for text in [
            "192.0.2.0/24\n198.51.100.7\r\n2001:db8::/32",
            "\u{feff}# a list\n\n192.0.2.9/24 # x\n198.51.100.7,ssh\n2001:db8::/32\tx\n",
            "; Spamhaus DROP List\n192.0.2.0/24 ; SBL1\n198.51.100.7/32 ; SBL2\n2001:db8::/32 ; SBL3\n",
            "{\"cidr\":\"192.0.2.0/24\",\"sblid\":\"SBL1\"}\n{\"ip\":\"198.51.100.7\"}\n{\"prefix\":\"2001:db8::/32\"}\n{\"type\":\"metadata\",\"records\":3}\n",
        ] {
            let read = list(text).unwrap();
            assert_eq!(
                (read.prefixes, read.left_out),
                (wanted.clone(), vec![]),
                "{text}"
            );
        }
    }

    #[test]
    fn pages_and_empty_lists_are_refused() {
        for text in [
            "",
            "# nothing\n",
            "<html><body>Blocked</body></html>",
            "0.0.0.0/0\n",
            "192.0.2.1\n{\"cidr\":\"192.0\n",
            "{\"cidr\": 7}",
        ] {
            assert!(list(text).is_err(), "{text}");
        }
        // A wrong line among many is left out.
        let many: String = (0..10).map(|last| format!("192.0.2.{last}\n")).collect();
        let read = list(&(many.clone() + "0.0.0.0/0")).unwrap();
        assert_eq!(read.prefixes.len(), 10);
        let first = "line 11, '0.0.0.0/0'".to_owned();
        let invalid = LeftOut {
            reason: Reason::Invalid,
            entries: 1,
            first,
        };
        assert_eq!(read.left_out, [invalid]);
        let why = list(&(many + "x\ny")).unwrap_err();
        assert!(why.contains("2 of 12") && why.contains("line 12"), "{why}");
    }

    #[test]
    fn decisions_are_read_as_crowdsec_writes_them() {
        let answer = r#"{"new":[
            {"duration":"3h59m58.123456s","id":1,"origin":"cscli","scenario":"manual 'ban'","scope":"Ip","type":"ban","value":"192.0.2.7"},
            {"duration":"1m0s","scenario":"x","scope":"Range","type":"Ban","value":"2001:db8::/32"},
            {"duration":"1h","scenario":"x","scope":"Ip","type":"captcha","value":"192.0.2.8"},
            {"duration":"-5m1.5s","scenario":"x","scope":"Ip","type":"ban","value":"192.0.2.9"},
            {"duration":"1h","scenario":"x","scope":"Country","type":"ban","value":"FR"},
            {"duration":"1h","scenario":"x","scope":"Range","type":"ban","value":"0.0.0.0/0"}
        ],"deleted":null}"#;
        let read = decisions(answer.as_bytes()).unwrap();
        let net = |net: &str| net.parse().unwrap();
        assert_eq!(
            read.new,
            [
                (
                    net("192.0.2.7/32"),
                    Duration::from_secs(14_398),
                    "manual 'ban'".to_owned()
                ),
                (
                    net("2001:db8::/32"),
                    Duration::from_secs(60),
                    "x".to_owned()
                ),
            ]
        );
        assert!(read.deleted.is_empty());
        let left_out: Vec<_> = read.left_out.iter().map(LeftOut::text).collect();
        assert_eq!(
            left_out,
            [
                "1 entry is left out (not bans): 'captcha' of 192.0.2.8",
                "2 entries are left out (not addresses or prefixes to ban), the first: FR for 1h"
            ]
        );
        for invalid in ["", "[]", "{\"new\":7}", "<html>"] {
            assert!(decisions(invalid.as_bytes()).is_err(), "{invalid}");
        }
    }

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, seconds) in [
            ("3h59m58.123s", Some(14_398)),
            ("47h0m0s", Some(169_200)),
            ("18446744073709551615s", Some(LONGEST)),
            ("0s", Some(0)),
            ("-1h2m", Some(0)),
            ("soon", None),
        ] {
            assert_eq!(time(text).map(|time| time.as_secs()), seconds, "{text}");
        }
        assert_eq!(time("999.5ms"), Some(Duration::from_millis(999)));
    }
}
