//! The sources: fetching what is wanted.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    io::{ErrorKind, Read},
    path::Path,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use limiter_config::files;
use limiter_lists::Options;
use ureq::{Agent, Body, http::Response};

use crate::{
    host::ReadAs,
    http::{self, Servers},
    left_out::LeftOut,
    list::list,
    parse::{self, Decisions},
    settings::{Settings, is_url},
    unconfirmed::CONFIRMED,
};

/// The longest reason of a ban, in bytes.
const REASON: usize = 40;

/// CrowdSec does not report decisions that it was still writing when another request came: all are read again after
/// this time, but for at most this part of the time. Two such answers confirm the end of a ban.
const ALL: Duration = CONFIRMED;
const PART: u32 = 50;

/// The wanted bans, with their ends, if they have one, and their reasons.
pub type Wanted = BTreeMap<IpNet, (Option<Instant>, String)>;

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
    settings: Settings,
    client: Agent,
    key: String,
    /// The tag of the list that was read last.
    tag: Option<String>,
    /// The list that a server sent last, as a hash, and when it sent it first.
    sent: Option<(u64, Instant)>,
    /// Time from which all of CrowdSec's decisions are read again.
    all_due: Instant,
}

impl Source {
    /// Opens a source. `key`: for CrowdSec. `servers` gets the addresses of the servers that are asked.
    pub fn new(settings: Settings, key: String, servers: Servers) -> Self {
        // A key must not follow a redirect to another host.
        let redirects = if settings.crowdsec.is_some() { 0 } else { 5 };
        let is_secure = settings.source().starts_with("https:");
        Self {
            client: http::agent_of(settings.timeout, redirects, is_secure, servers),
            settings,
            key,
            tag: None,
            sent: None,
            all_due: Instant::now(),
        }
    }

    /// Fetches what is wanted; all of it if `is_all`, otherwise changes may do. It blocks.
    /// Fails if the source cannot be read.
    pub fn fetch(&mut self, is_all: bool) -> Result<Fetched, String> {
        let name = self.settings.source().to_owned();
        let read = match &self.settings.crowdsec {
            Some(_) => self.crowdsec(&name, is_all),
            None => self.list(&name, is_all),
        };
        read.map_err(|error| format!("{}: {error}", self.settings.shown()))
    }

    fn list(&mut self, path: &str, is_all: bool) -> Result<Fetched, String> {
        let most = self.settings.max_size;
        let now = Instant::now();
        let ends = now + self.settings.keep;
        let (bytes, age) = if is_url(path) {
            let mut request = self.client.get(path);
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
            is_ok(&answer)?;
            let tag = answer.headers().get("ETag");
            self.tag = tag.and_then(|tag| Some(tag.to_str().ok()?.to_owned()));
            let bytes = read(answer.body_mut().as_reader(), most)?;
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
        let read = list(&bytes, &options, age)?;
        let mut all = All {
            left_out: read.left_out,
            read_as: Some(read.read_as),
            ..All::default()
        };
        for (prefix, ends_in) in read.prefixes {
            let own = ends_in.and_then(|time| now.checked_add(time));
            all.own_ends.extend(own.map(|own| (prefix, own)));
            let ends = own.map_or(ends, |own| own.min(ends));
            all.wanted.insert(prefix, (Some(ends), String::new()));
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

    fn crowdsec(&mut self, url: &str, is_all: bool) -> Result<Fetched, String> {
        let begun = Instant::now();
        let is_all = is_all || begun >= self.all_due;
        let url = format!(
            "{}/v1/decisions/stream?startup={is_all}&scopes=ip,range",
            url.trim_end_matches('/'),
        );
        let request = self.client.get(url).header("X-Api-Key", &self.key);
        let mut answer = request.call().map_err(|error| match error {
            ureq::Error::StatusCode(403) => {
                "it refuses the key: `cscli bouncers list` shows the valid ones".to_owned()
            }
            error => error.to_string(),
        })?;
        is_ok(&answer)?;
        let answer = read(answer.body_mut().as_reader(), self.settings.max_size)?;
        let changes = parse::decisions(&answer)?;
        if !is_all {
            return Ok(Fetched::Changes(changes));
        }
        let now = Instant::now();
        self.all_due = now + ALL.max((now - begun) * PART);
        let mut all = All {
            local: changes.local.clone(),
            left_out: changes.left_out.clone(),
            ended: changes.deleted.iter().copied().collect(),
            ..All::default()
        };
        changes.apply(&mut all.wanted);
        Ok(Fetched::All(all))
    }
}

impl Decisions {
    /// Returns true if there is no change.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.deleted.is_empty() && self.left_out.is_empty()
    }

    /// Applies the changes to the wanted bans.
    pub fn apply(self, wanted: &mut Wanted) {
        for prefix in self.deleted {
            wanted.remove(&prefix);
        }
        let now = Instant::now();
        for (prefix, time, mut reason) in self.new {
            reason.retain(|character| !character.is_control());
            let cut = (0..=REASON.min(reason.len())).rfind(|index| reason.is_char_boundary(*index));
            reason.truncate(cut.unwrap_or(0));
            let ends = Some(now + time);
            let (end, _) = wanted.entry(prefix).or_insert((ends, reason));
            *end = ends.max(*end);
        }
    }
}

/// Reads an answer of at most `most` bytes.
fn read(from: impl Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let length = from.take(most.saturating_add(1)).read_to_end(&mut bytes);
    if length.map_err(|error| error.to_string())? as u64 > most {
        return Err(format!(
            "longer than {most} bytes: set max-size if it should be"
        ));
    }
    Ok(bytes)
}

/// Fails if the answer has another status than 200.
fn is_ok(answer: &Response<Body>) -> Result<(), String> {
    match answer.status().as_u16() {
        200 => Ok(()),
        status => Err(format!("http status: {status}")),
    }
}
