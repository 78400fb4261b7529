//! The sources: fetching what is wanted.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    io::{ErrorKind, Read},
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use ipnet::IpNet;
use limiter_config::files;
use limiter_lists::Options;
use ureq::{Agent, Body, http::Response};

use crate::{
    host::ReadAs,
    http::{self, Access, Servers},
    left_out::LeftOut,
    list::list,
    parse::Decisions,
    retry,
    settings::{Settings, is_url},
};

/// The wanted bans, by prefix.
pub type Wanted = BTreeMap<IpNet, WantedBan>;

/// A wanted ban.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedBan {
    /// Its end, if it has one.
    pub ends: Option<Instant>,
    /// Its reason.
    pub reason: String,
}

/// News from a source.
#[derive(Debug)]
pub enum Fetched {
    /// All wanted bans.
    All(All),
    /// The wanted bans are the same, and end at this time.
    Same(Instant),
    /// Changes since the last time.
    Changes(Decisions),
}

/// All that a source has.
#[derive(Debug, Default)]
pub struct All {
    /// The wanted bans.
    pub wanted: Wanted,
    /// Those of CrowdSec's that are not of a list of others.
    pub local: BTreeSet<IpNet>,
    /// Those that only throttle.
    pub throttled: BTreeSet<IpNet>,
    /// Other entries of the source.
    pub left_out: Vec<LeftOut>,
    /// Bans whose end the source has reported.
    pub ended: BTreeSet<IpNet>,
    /// Ends that the list itself has: no round makes them later.
    pub own_ends: BTreeMap<IpNet, Instant>,
    /// The format in which the list was read.
    pub read_as: Option<ReadAs>,
}

/// A source.
#[derive(Debug)]
pub struct Source {
    pub(crate) settings: Settings,
    pub(crate) client: Agent,
    /// CrowdSec's key.
    pub(crate) key: String,
    /// The tag of the list that was read last.
    tag: Option<String>,
    /// The list that a server sent last, as a hash, and when it sent it first.
    sent: Option<(u64, Instant)>,
    /// Time from which all of CrowdSec's decisions are read again.
    pub(crate) all_due: Instant,
    /// Time from which that is allowed.
    pub(crate) all_allowed: Instant,
}

impl Source {
    /// Opens a source. `access`: for CrowdSec. `servers` gets the addresses of the servers that are asked.
    pub fn new(settings: Settings, access: Access, servers: Servers) -> Self {
        // A key must not follow a redirect to another host.
        let redirects = if settings.crowdsec.is_some() { 0 } else { 5 };
        let is_secure = settings.source().starts_with("https:");
        Self {
            client: http::agent_of(settings.timeout, redirects, is_secure, servers, &access),
            settings,
            key: access.key,
            tag: None,
            sent: None,
            all_due: Instant::now(),
            all_allowed: Instant::now(),
        }
    }

    /// Fetches what is wanted; all of it if `is_all`, otherwise changes may do. It blocks.
    /// Fails if the source cannot be read.
    pub fn fetch(&mut self, is_all: bool) -> Result<Fetched, Failed> {
        let name = self.settings.source().to_owned();
        let read = match &self.settings.crowdsec {
            Some(_) => self.crowdsec(is_all),
            None => self.list(&name, is_all),
        };
        read.map_err(|failed| Failed {
            why: format!("{}: {}", self.settings.shown(), failed.why),
            ..failed
        })
    }

    fn list(&mut self, path: &str, is_all: bool) -> Result<Fetched, Failed> {
        let most = self.settings.max_size;
        let now = Instant::now();
        let ends = now + self.settings.keep;
        let (bytes, age) = if is_url(path) {
            let request = self.client.get(path).config();
            // The headers of a refusal say when to come again.
            let mut request = request.http_status_as_error(false).build();
            let tag = self.tag.take().filter(|_| !is_all);
            if let Some(tag) = &tag {
                request = request.header("If-None-Match", tag);
            }
            let mut answer = request.call().map_err(|error| match error {
                ureq::Error::RequireHttpsOnly(_) => "it redirects to a URL without TLS".to_owned(),
                error => error.to_string(),
            })?;
            if answer.status() == 304 && tag.is_some() {
                self.tag = tag;
                return Ok(Fetched::Same(ends));
            }
            self.is_ok(&answer)?;
            let tag = answer.headers().get("ETag");
            self.tag = tag.and_then(|tag| Some(tag.to_str().ok()?.to_owned()));
            let bytes = self.body(&mut answer)?;
            let age = self.age(&bytes, now);
            (bytes, age)
        } else {
            let bytes = files::read(Path::new(path), most).map_err(|error| match error.kind() {
                ErrorKind::FileTooLarge => format!("{error}: set max-size if it should be"),
                ErrorKind::PermissionDenied => format!(
                    "{error}: feeds run as user nobody, so everyone must be able to read the file"
                ),
                _ => format!("{error}: name a regular file that everyone can read"),
            })?;
            (bytes, files::age(Path::new(path)))
        };
        let options = Options {
            format: self.settings.format,
            fields: self.settings.field.clone(),
            max_size: most,
        };
        let read = list(&bytes, &options, age).map_err(|why| self.refused(why))?;
        let mut all = All {
            left_out: read.left_out,
            read_as: Some(read.read_as),
            ..All::default()
        };
        for (prefix, ends_in) in read.prefixes {
            let own = ends_in.and_then(|time| now.checked_add(time));
            all.own_ends.extend(own.map(|own| (prefix, own)));
            let ends = Some(own.map_or(ends, |own| own.min(ends)));
            let ban = WantedBan {
                ends,
                ..WantedBan::default()
            };
            all.wanted.insert(prefix, ban);
        }
        Ok(Fetched::All(all))
    }

    /// The time since the server first sent these bytes. The ends of a list's entries count from then.
    fn age(&mut self, bytes: &[u8], now: Instant) -> Duration {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let hash = hasher.finish();
        let first = match self.sent {
            Some((known, first)) if known == hash => first,
            _ => now,
        };
        self.sent = Some((hash, first));
        now - first
    }

    /// Reads the body of an answer, which must not be longer than `max-size`.
    pub(crate) fn body(&self, answer: &mut Response<Body>) -> Result<Vec<u8>, Failed> {
        let most = self.settings.max_size;
        let mut bytes = Vec::new();
        let from = answer.body_mut().as_reader();
        let length = from.take(most.saturating_add(1)).read_to_end(&mut bytes);
        if length.map_err(|error| error.to_string())? as u64 > most {
            let why = format!("longer than {most} bytes: set max-size if it should be");
            return Err(self.refused(why));
        }
        Ok(bytes)
    }

    /// Fails if the answer has another status than 200.
    pub(crate) fn is_ok(&self, answer: &Response<Body>) -> Result<(), Failed> {
        let status = answer.status().as_u16();
        if status == 200 {
            return Ok(());
        }
        let mut failed = self.refused(format!("http status: {status}"));
        if let Some(pause) = retry::asked_for(answer.headers(), SystemTime::now()) {
            let shown = humantime::format_duration(pause);
            failed.why += &format!(", and it asks for a pause of {shown}");
            failed.pause = failed.pause.max(pause);
        }
        Err(failed)
    }

    /// The failure of a source that was read, for this reason.
    pub(crate) fn refused(&self, why: String) -> Failed {
        Failed::refused(why, &self.settings)
    }
}

/// The reason why a source could not be read, or is not believed.
#[derive(Debug)]
pub struct Failed {
    /// The reason.
    pub why: String,
    /// The shortest pause until it is read again.
    pub pause: Duration,
}

impl Failed {
    /// The failure of a source that was read. A server that has answered is not asked again before the interval is over.
    pub fn refused(why: String, settings: &Settings) -> Self {
        let pause = match is_url(settings.source()) {
            true => settings.interval(),
            false => Duration::ZERO,
        };
        Self { why, pause }
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self {
            why,
            pause: Duration::ZERO,
        }
    }
}
