//! CrowdSec's decisions, and the prefixes that may be banned.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use ipnet::{IpNet, Ipv6Net};
use limiter_lists::Range;
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
    // A server for both families logs the IPv4 client 192.0.2.7 as ::ffff:192.0.2.7.
    net.and_then(|net| Range::of_prefix(&net).prefixes().next())
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
    #[serde(default)]
    origin: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    scope: String,
    duration: String,
}

impl Decision {
    /// The prefix that it bans, and true if it only throttles, or the reason why it does neither.
    fn banned(&self) -> Result<(IpNet, bool), Reason> {
        let throttles = match self.kind.to_lowercase().as_str() {
            "ban" => false,
            "throttle" => true,
            "captcha" => return Err(Reason::Captcha),
            _ => return Err(Reason::NotBan),
        };
        match self.scope.to_lowercase().as_str() {
            "" | "ip" | "range" => {}
            "country" => return Err(Reason::Country),
            "as" => return Err(Reason::AutonomousSystem),
            _ => return Err(Reason::OtherScope),
        }
        let net = prefix(&self.value).ok_or(Reason::Invalid)?;
        bannable(&net).map_err(|_| Reason::TooLarge)?;
        Ok((net, throttles))
    }

    /// Its words for people.
    fn text(&self) -> String {
        let Self {
            kind,
            scope,
            value,
            duration,
            ..
        } = self;
        format!("'{kind}' of {scope} {value} for {duration}")
    }
}

/// A ban or a throttle that CrowdSec has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The prefix.
    pub prefix: IpNet,
    /// The time until it ends.
    pub time: Duration,
    /// The scenario.
    pub reason: String,
}

/// Changes of CrowdSec's decisions.
#[derive(Debug, Default, PartialEq)]
pub struct Decisions {
    /// New bans.
    pub new: Vec<Decided>,
    /// New throttles.
    pub throttles: Vec<Decided>,
    /// Bans that have ended.
    pub deleted: Vec<IpNet>,
    /// Throttles that have ended.
    pub throttles_deleted: Vec<IpNet>,
    /// Those of the new bans that the local engine or a person has decided, not a list of others.
    pub local: BTreeSet<IpNet>,
    /// Decisions that become no bans.
    pub left_out: Vec<LeftOut>,
}

/// Reads an answer of CrowdSec's stream. Decisions that have ended are left out; others that ban nothing are counted.
/// Fails if the answer is not valid.
pub fn decisions(answer: &[u8]) -> Result<Decisions, String> {
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let mut read = Decisions::default();
    for decision in answer.new.unwrap_or_default() {
        let time = time(&decision.duration);
        if time == Some(Duration::ZERO) {
            continue;
        }
        let banned = decision.banned();
        match banned.and_then(|banned| Ok((banned, time.ok_or(Reason::Invalid)?))) {
            Ok(((prefix, throttles), time)) => {
                let new = match throttles {
                    true => &mut read.throttles,
                    false => &mut read.new,
                };
                new.push(Decided {
                    prefix,
                    time,
                    reason: decision.scenario,
                });
                if !throttles && !is_of_others(&decision.origin) {
                    read.local.insert(prefix);
                }
            }
            Err(why) => LeftOut::add(&mut read.left_out, why, || decision.text()),
        }
    }
    let deleted = answer.deleted.unwrap_or_default();
    for (net, throttles) in deleted.iter().filter_map(|decision| decision.banned().ok()) {
        match throttles {
            true => read.throttles_deleted.push(net),
            false => read.deleted.push(net),
        }
    }
    Ok(read)
}

/// True for the origin of decisions that CrowdSec gets from its community or from lists: `CAPI`, `lists`, `lists:NAME`.
fn is_of_others(origin: &str) -> bool {
    origin.eq_ignore_ascii_case("capi") || origin.split(':').next() == Some("lists")
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
    fn decisions_are_read_as_crowdsec_writes_them() {
        let answer = r#"{"new":[
            {"duration":"3h59m58.123456s","id":1,"origin":"cscli","scenario":"manual 'ban'","scope":"Ip","type":"ban","value":"192.0.2.7"},
            {"duration":"1m0s","origin":"CAPI","scenario":"x","scope":"Range","type":"Ban","value":"2001:db8::/32"},
            {"duration":"1h","scenario":"x","scope":"Ip","type":"captcha","value":"192.0.2.8"},
            {"duration":"-5m1.5s","scenario":"x","scope":"Ip","type":"ban","value":"192.0.2.9"},
            {"duration":"2h","scenario":"x","scope":"Ip","type":"ban","value":"::ffff:198.51.100.7"},
            {"duration":"1h","scenario":"x","scope":"Country","type":"ban","value":"FR"},
            {"duration":"1h","scenario":"x","scope":"Range","type":"ban","value":"0.0.0.0/0"},
            {"duration":"1h","scenario":"x","scope":"AS","type":"ban","value":"64500"},
            {"duration":"1h","scenario":"x","scope":"AS","type":"ban","value":"64501"},
            {"duration":"1h","scenario":"x","scope":"Ip","type":"throttle","value":"192.0.2.10"},
            {"duration":"1h","scenario":"x","scope":"Ip","type":"delay","value":"192.0.2.11"},
            {"duration":"1h","scenario":"x","scope":"username","type":"ban","value":"root"},
            {"duration":"1h","scenario":"x","scope":"Ip","type":"ban","value":"192.0.2"}
        ],"deleted":null}"#;
        let read = decisions(answer.as_bytes()).unwrap();
        let net = |net: &str| net.parse().unwrap();
        let decided = |prefix, seconds, reason: &str| Decided {
            prefix: net(prefix),
            time: Duration::from_secs(seconds),
            reason: reason.to_owned(),
        };
        assert_eq!(
            read.new,
            [
                decided("192.0.2.7/32", 14_398, "manual 'ban'"),
                decided("2001:db8::/32", 60, "x"),
                decided("198.51.100.7/32", 7_200, "x"),
            ]
        );
        assert!(read.deleted.is_empty());
        assert_eq!(read.throttles, [decided("192.0.2.10/32", 3_600, "x")]);
        let local: Vec<_> = read.local.iter().copied().collect();
        assert_eq!(local, [net("192.0.2.7/32"), net("198.51.100.7/32")]);
        let left_out: Vec<_> = read.left_out.iter().map(LeftOut::text).collect();
        assert_eq!(
            left_out,
            [
                "1 entry is left out (captchas, which a web server must show): 'captcha' of Ip 192.0.2.8 for 1h",
                "1 entry is left out (countries: drop them with deny = { geoip = … } in the configuration): 'ban' of Country FR for 1h",
                "1 entry is left out (too much of the Internet to ban): 'ban' of Range 0.0.0.0/0 for 1h",
                "2 entries are left out (autonomous systems: drop them with deny = { asn = … } in the configuration), the first: 'ban' of AS 64500 for 1h",
                "1 entry is left out (not bans): 'delay' of Ip 192.0.2.11 for 1h",
                "1 entry is left out (not about addresses): 'ban' of username root for 1h",
                "1 entry is left out (not an address, prefix or range): 'ban' of Ip 192.0.2 for 1h"
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
