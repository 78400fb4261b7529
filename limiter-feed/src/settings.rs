//! The configuration of a feed, a TOML file.

mod crowdsec;

use std::{path::PathBuf, time::Duration};

use limiter_config::{
    Invalid, Text, invalid,
    lists::ListFormat,
    names::Interfaces,
    reader::{self, DeValue, Keyed, Keys, Mistake, Read, Scalar, Section, Wrong},
};
use limiter_lists::Format;
use ureq::http::Uri;

limiter_config::keys! {
    /// The configuration of a feed. Either `list` or `crowdsec` is set.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Settings("a feed", "in the file of a feed") {
        /// URL or full path of a list. A feed has either `list` or `crowdsec`.
        list: Option<String>, r#"a URL or a full path as in "https://example.com/list.txt""#;
        /// URL of a local API of CrowdSec, as in `"http://127.0.0.1:8080"`, or the full path of its Unix socket.
        crowdsec: Option<String>, r#"a URL as in "http://127.0.0.1:8080""#;
        /// Path of a file with CrowdSec's key for this bouncer. `crowdsec` requires it, or a certificate.
        key_file ("key-file"): Option<PathBuf>, r#"a path as in "/etc/limiter/crowdsec.key""#;
        /// Path of a PEM file with this bouncer's certificate for CrowdSec, instead of `key-file`.
        certificate_file ("certificate-file"): Option<PathBuf>,
            r#"a path as in "/etc/limiter/bouncer.pem""#;
        /// Path of a PEM file with the private key of the certificate.
        certificate_key_file ("certificate-key-file"): Option<PathBuf>,
            r#"a path as in "/etc/limiter/bouncer.key""#;
        /// Path of a PEM file with the only authorities that CrowdSec's certificate may be of. Default: the system's.
        authority_file ("authority-file"): Option<PathBuf>,
            r#"a path as in "/etc/limiter/authority.pem""#;
        /// Origins of CrowdSec's decisions: `"crowdsec"`, or an array. Default: all.
        origins: Vec<String>, r#"an origin as in "crowdsec", or an array of them"#;
        /// Scopes of CrowdSec's decisions: some of `"ip"`, `"range"`, `"country"`, `"as"`. Default: all four.
        scopes: Vec<String>, r#"a scope as in "ip", or an array of them"#;
        /// Texts of which the scenario of CrowdSec's decisions must have one. Default: any scenario.
        scenarios_containing ("scenarios-containing"): Vec<String>,
            r#"a text as in "ssh", or an array of them"#;
        /// Texts of which the scenario of CrowdSec's decisions must have none.
        scenarios_not_containing ("scenarios-not-containing"): Vec<String>,
            r#"a text as in "http", or an array of them"#;
        /// Format of the list: `"auto"` (default: it is found by the list itself), `"plain"`, `"json"` and others.
        format: Option<Format> as ListFormat, r#"a format as in "json""#;
        /// Columns, JSON paths or sets of the list that have the addresses: a name as in `"ip"`, or an array of names.
        /// Default: they are found by the list itself.
        field: Vec<String>, r#"a name as in "ip", or an array of names"#;
        /// Names of interfaces: `"eth0"`, or an array. Default: all that limiter is attached to.
        interfaces: Vec<String> as Interfaces,
            r#"the name of an interface as in "eth0", or an array of them"#;
        /// Time between two rounds. Default: `"1h"` for a list, `"5s"` for CrowdSec.
        interval: Option<Lifetime>, r#"a time as in "10m""#;
        /// Lifetime of a list's bans that no round renews: `"1day"` (default), at least twice the `interval`.
        keep: Duration as Lifetime = Duration::from_secs(24 * 3600), r#"a time as in "1day""#;
        /// Most bytes of a list, also unpacked, or of an answer. Default: 32 MiB.
        max_size ("max-size"): u64 = 32 << 20, "a number of bytes as in 33554432";
        /// Maximum part of a list's bans, in per cent, by which a round may shorten or lengthen it. Default: 50.
        max_change ("max-change"): usize = 50, "a number as in 50";
        /// Maximum part of IPv4, and of the IPv6 networks (/48) of 2000::/3, that the bans may cover, in per cent. Default: 1.
        max_coverage ("max-coverage"): f64 as PerCent = 1.0, "a number as in 1 or 0.5";
        /// Longest time in which a round reads its source. Default: `"1min"`.
        timeout: Duration as Lifetime = Duration::from_secs(60), r#"a time as in "30s""#;
    }
}

/// All tables of a feed's file.
const TABLES: &[&Keys] = &[Settings::KEYS];

/// The longest time, in seconds: ten years.
pub(crate) const LONGEST: u64 = 10 * 366 * 24 * 3600;

/// A time from a second to ten years.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime(Duration);

impl Text for Lifetime {
    fn read(text: &str) -> Result<Self, Invalid> {
        let time = humantime::parse_duration(text).ok();
        let time = time.filter(|time| (1..=LONGEST).contains(&time.as_secs()));
        time.map(Self).ok_or_else(|| {
            invalid!("'{text}' is not a time from a second to ten years: write one as in \"30s\", \"10m\" or \"1day\"")
        })
    }

    fn shown(&self) -> String {
        humantime::format_duration(self.0).to_string()
    }
}

/// A part in per cent.
#[derive(Clone, Copy, Debug)]
pub struct PerCent(f64);

impl Scalar for PerCent {
    fn read_scalar(value: &DeValue) -> Read<Self> {
        let number = match value {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return Err(Wrong::Type),
        };
        let part = number.parse().ok();
        let part = part.filter(|part| (0.0..=100.0).contains(part));
        part.map(Self).ok_or_else(|| {
            Wrong::Value(format!(
                "{number} is no part in per cent: write a number from 0 to 100"
            ))
        })
    }

    fn scalar(&self) -> String {
        self.0.to_string()
    }
}

limiter_config::read_as!(Lifetime: Duration, PerCent: f64);

impl Settings {
    /// Reads a configuration.
    /// Fails with all mistakes of a kind, in the order of their lines.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        reader::parse(
            text,
            TABLES,
            |root, mistakes| {
                let mut settings = Self::default();
                settings.read_keys(&mut Section::new(root, Self::KEYS, 1, mistakes));
                settings
            },
            |settings, root, mistakes| {
                settings.check(&mut Section::new(root, Self::KEYS, 1, mistakes));
            },
        )
    }

    /// Reports contradictions.
    fn check(&self, section: &mut Section) {
        match (&self.list, &self.crowdsec) {
            (Some(list), None) => self.check_list(list, section),
            (None, Some(server)) => self.check_crowdsec(server, section),
            _ => section.refuse(
                "crowdsec",
                "a feed has one source: write either list = \"https://…\" or crowdsec = \"http://127.0.0.1:8080\"",
            ),
        }
    }

    fn check_list(&self, list: &str, section: &mut Section) {
        if !is_url(list) && !list.starts_with('/') {
            let why = format!(
                "'{list}' is neither a URL nor a full path: write one as in https://… or /etc/…"
            );
            section.refuse("list", &why);
        }
        if self.interval() * 2 > self.keep {
            section.refuse(
                "keep",
                "it must be at least twice the interval, or bans end before they are renewed: make it longer",
            );
        }
        for key in self.of_crowdsec() {
            section.refuse(
                key,
                "this is for crowdsec, and the source is a list: remove it",
            );
        }
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
        self.interval
            .map_or(Duration::from_secs(default), Duration::from)
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
            (
                "list = '/a'\nkey-file = '/k'",
                "key-file: this is for crowdsec",
            ),
            (
                "list = '/a'\norigins = 'CAPI'",
                "origins: this is for crowdsec",
            ),
            ("list = '/a'\nkeep = '1h'", "twice the interval"),
            ("list = '/a'\ninterval = 'soon'", "as in"),
            ("list = '/a'\nmax-coverage = 101", "from 0 to 100"),
            ("list = '/a'\nmax-coverage = nan", "from 0 to 100"),
            (
                "list = '/a'\nintervall = '1h'",
                "line 2: 'intervall' is not a key of a feed: did you mean 'interval'?",
            ),
            ("list = '/a'\nformat = 'xml'", "one of auto, plain, ranges"),
            ("list = '/a'\nfield = true", "array of names"),
            ("list = '/a'\nfield = []", "empty array"),
        ] {
            let mistakes = Settings::parse(text).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{text}: {mistakes:?}");
            let why = mistakes[0].to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn all_mistakes_of_a_kind_are_reported_at_once() {
        let mistakes = |text: &str| {
            let mistakes = Settings::parse(text).unwrap_err().into_iter();
            let lines = mistakes.map(|mistake| mistake.to_string());
            lines.collect::<Vec<_>>()
        };
        let values =
            "lst = '/a'\ninterval = 5\nmax-size = -1\nformat = 'xml'\ninterfaces = ['a/b']\n";
        let expected = [
            "line 1: 'lst' is not a key of a feed: did you mean 'list'?",
            "line 2: interval: the number 5 is not allowed here: write a time as in \"10m\"",
            "line 3: max-size: the negative number -1 is not allowed here",
            "line 4: format: 'xml' is not a format: write one of auto, plain",
            "line 5: interfaces: 'a/b' is not the name of an interface",
        ];
        let found = mistakes(values);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
        let sources = "list = 'a'\nkeep = '1min'\nkey-file = '/k'\n";
        let found = mistakes(sources);
        let lines = found.iter().map(|mistake| &mistake[..6]);
        assert!(lines.eq(["line 1", "line 2", "line 3"]), "{found:#?}");
        let found = mistakes("crowdsec = 'http://a'\nformat = 'json'\nfield = 'ip'\n");
        assert_eq!(found.len(), 3, "{found:#?}");
    }

    #[test]
    fn examples_of_all_keys_are_accepted() {
        for known in Settings::KNOWN {
            let (key, example) = (known.key, known.example());
            // A source, and its own keys, contradict others.
            let text = match key {
                "crowdsec" => format!("crowdsec = {example}\nkey-file = '/k'"),
                "key-file" => format!("crowdsec = 'http://a'\nkey-file = {example}"),
                "certificate-file" => {
                    format!(
                        "crowdsec = 'https://a'\n{key} = {example}\ncertificate-key-file = '/k'"
                    )
                }
                "certificate-key-file" => {
                    format!("crowdsec = 'https://a'\n{key} = {example}\ncertificate-file = '/c'")
                }
                "authority-file"
                | "origins"
                | "scopes"
                | "scenarios-containing"
                | "scenarios-not-containing" => {
                    format!("crowdsec = 'https://a'\nkey-file = '/k'\n{key} = {example}")
                }
                "list" => format!("list = {example}"),
                _ => format!("list = '/a'\n{key} = {example}"),
            };
            let read = Settings::parse(&text);
            assert!(read.is_ok(), "{text}: {read:?}");
        }
    }
}
