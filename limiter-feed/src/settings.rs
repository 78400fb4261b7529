//! The configuration of a feed, a TOML file.

use std::{path::PathBuf, time::Duration};

use limiter_lists::Format;
use serde::{Deserialize, Deserializer, de::Error};
use ureq::http::Uri;

/// The configuration of a feed. Either `list` or `crowdsec` is set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Names of the interfaces; empty: all that limiter is attached to.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Path or URL of a list.
    pub list: Option<String>,
    /// URL of a local API of CrowdSec.
    pub crowdsec: Option<String>,
    /// File with CrowdSec's key for this bouncer.
    pub key_file: Option<PathBuf>,
    /// Time between two rounds. Default: an hour for a list, five seconds for CrowdSec.
    #[serde(default, deserialize_with = "duration")]
    pub interval: Option<Duration>,
    /// Lifetime of the bans of a list that is not renewed.
    #[serde(default = "day", deserialize_with = "lifetime")]
    pub keep: Duration,
    /// Maximum size of a list or an answer, in bytes.
    #[serde(default = "size")]
    pub max_size: u64,
    /// Maximum part of a list's bans, in per cent, by which a round may shorten or lengthen it.
    #[serde(default = "half")]
    pub max_change: usize,
    /// Maximum part of IPv4, or of the IPv6 networks (/48) of 2000::/3, that the bans may cover, in per cent.
    #[serde(default = "little", deserialize_with = "per_cent")]
    pub max_coverage: f64,
    /// Format of the list. None: it is found by the list itself.
    #[serde(default, deserialize_with = "format")]
    pub format: Option<Format>,
    /// Columns, JSON paths or sets of the list that have the addresses. Empty: they are found by the list itself.
    #[serde(default, deserialize_with = "one_or_several")]
    pub field: Vec<String>,
    /// Longest time in which a round reads its source.
    #[serde(default = "minute", deserialize_with = "lifetime")]
    pub timeout: Duration,
}

/// The longest time, in seconds: ten years.
pub(crate) const LONGEST: u64 = 10 * 366 * 24 * 3600;

fn day() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn size() -> u64 {
    32 << 20
}

fn half() -> usize {
    50
}

fn little() -> f64 {
    1.0
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

fn per_cent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let part = f64::deserialize(from)?;
    match (0.0..=100.0).contains(&part) {
        true => Ok(part),
        false => Err(D::Error::custom(
            "max-coverage is a part in per cent: write a number from 0 to 100",
        )),
    }
}

fn format<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Format>, D::Error> {
    match String::deserialize(from)?.as_str() {
        "auto" => Ok(None),
        name => name.parse().map(Some).map_err(D::Error::custom),
    }
}

fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "field is a name, or an array of names: write one as in \"ip\""
    )]
    enum Names {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::Several(names) => names,
    })
}

fn lifetime<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = humantime::parse_duration(&text).ok();
    time.filter(|time| (1..=LONGEST).contains(&time.as_secs()))
        .ok_or_else(|| {
            D::Error::custom(format!(
                "'{text}' is not a time from a second to ten years: write one as in \"30s\", \"10m\" or \"1day\""
            ))
        })
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    lifetime(from).map(Some)
}

impl Settings {
    /// Reads a configuration.
    /// Fails with the mistake, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mistake = match (&settings.list, &settings.crowdsec, &settings.key_file) {
            (Some(list), None, None) if !is_url(list) && !list.starts_with('/') => {
                return Err(format!(
                    "list = \"{list}\" is neither a URL nor a full path: write one as in https://… or /etc/…"
                ));
            }
            (Some(_), None, None) if settings.interval() * 2 > settings.keep => {
                "keep must be at least twice the interval, or bans end before they are renewed: make it longer"
            }
            (None, Some(url), Some(_)) if !is_url(url) => {
                return Err(format!(
                    "crowdsec = \"{url}\" is not a URL: write one as in http://127.0.0.1:8080"
                ));
            }
            (None, Some(_), None) => {
                "crowdsec without key-file: write the output of `cscli bouncers add limiter -o raw` to a file, and name it"
            }
            (None, Some(_), Some(_)) if settings.format.is_some() || !settings.field.is_empty() => {
                "format and field are for lists, and this is crowdsec: remove them"
            }
            (Some(_), None, Some(_)) => "key-file is for crowdsec, and this is a list: remove it",
            (Some(_), None, None) | (None, Some(_), Some(_)) => return Ok(settings),
            _ => {
                "a feed has one source: write either list = \"https://…\" or crowdsec = \"http://127.0.0.1:8080\""
            }
        };
        Err(mistake.to_owned())
    }

    /// The path or URL of the source.
    pub fn source(&self) -> &str {
        let list = self.list.as_deref();
        list.or(self.crowdsec.as_deref()).unwrap_or_default()
    }

    /// The source as messages show it: without the user, password and query of its URL, which may be secret.
    pub fn shown(&self) -> String {
        let shown = self.source().parse::<Uri>().ok().and_then(|uri| {
            let host = uri.authority()?.as_str().rsplit('@').next()?;
            Some(format!("{}://{host}{}", uri.scheme_str()?, uri.path()))
        });
        shown.unwrap_or_else(|| self.source().split("://").take(1).collect())
    }

    /// Time between two rounds.
    pub fn interval(&self) -> Duration {
        let default = if self.list.is_some() { 3600 } else { 5 };
        self.interval.unwrap_or(Duration::from_secs(default))
    }
}

pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_for_their_source() {
        let list = Settings::parse("list = '/etc/bad'\ninterval = '10m'").unwrap();
        assert_eq!(list.interval(), Duration::from_secs(600));
        assert_eq!(list.keep, Duration::from_secs(86_400));
        assert_eq!((list.max_coverage, list.timeout.as_secs()), (1.0, 60));
        let wide = Settings::parse("list = '/etc/bad'\nmax-coverage = 14").unwrap();
        assert_eq!(wide.max_coverage, 14.0);
        let format = |text: &str| Settings::parse(&format!("list = '/a'\n{text}")).unwrap();
        assert_eq!(format("format = 'auto'").format, None);
        let table = format("format = 'table'\nfield = 'ip'");
        assert_eq!(
            (table.format, table.field),
            (Some(Format::Table), vec!["ip".to_owned()])
        );
        assert_eq!(format("field = ['a', 'b']").field, ["a", "b"]);
        let crowdsec = "crowdsec = 'http://127.0.0.1:8080'\nkey-file = '/k'";
        let crowdsec = Settings::parse(crowdsec).unwrap();
        assert_eq!(crowdsec.interval(), Duration::from_secs(5));
    }

    #[test]
    fn messages_lack_what_may_be_secret() {
        for (source, shown) in [
            ("/etc/a@b?c", "/etc/a@b?c"),
            ("https://me:sec^ret@a.example/list", "https"),
            ("https://a.example/list", "https://a.example/list"),
            (
                "https://me:secret@[2001:db8::1]:81/a@b?key=secret",
                "https://[2001:db8::1]:81/a@b",
            ),
        ] {
            let settings = Settings::parse(&format!("list = '{source}'")).unwrap();
            assert_eq!(settings.shown(), shown);
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("", "one source"),
            ("list = '/a'\ncrowdsec = 'http://a'", "one source"),
            ("list = 'a'", "neither a URL nor a full path"),
            ("list = '/a'\nkey-file = '/k'", "remove it"),
            ("crowdsec = 'http://a'", "cscli bouncers add"),
            ("crowdsec = 'a'\nkey-file = '/k'", "not a URL"),
            ("list = '/a'\nkeep = '1h'", "twice the interval"),
            ("list = '/a'\ninterval = 'soon'", "as in"),
            ("list = '/a'\nmax-coverage = 101", "from 0 to 100"),
            ("list = '/a'\nmax-coverage = nan", "from 0 to 100"),
            ("list = '/a'\nintervall = '1h'", "unknown field"),
            ("list = '/a'\nformat = 'xml'", "one of auto, plain, ranges"),
            ("list = '/a'\nfield = 7", "array of names"),
            (
                "crowdsec = 'http://a'\nkey-file = '/k'\nfield = 'ip'",
                "remove them",
            ),
        ] {
            let why = Settings::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
