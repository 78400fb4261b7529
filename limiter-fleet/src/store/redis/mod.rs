//! Redis 7.0 or Valkey. The scripts in this folder define the stored data. All keys begin with `limiter:{FLEET}:`. A user
//! of the store needs access to these.

mod fault;
mod link;
pub(super) mod sentinel;

use std::{net::SocketAddr, sync::Arc};

use redis::{FromRedisValue, RedisConnectionInfo, ToRedisArgs};

use limiter_common::arithmetic::bucket::TICK_SHIFT;

use self::link::Link;
use super::{
    address::Place,
    engine::{
        Alive, Changed, Charges, Engine, Heartbeat, LIMITS, ListEdit, MEMBERS, PREFIXES, Part,
        READ_AT_ONCE, Restoration, StoredRecord, Terms, Written, list_full,
    },
    error::{Error, Fault},
    options::Target,
    servers::{Socket, first},
    socket::Stream,
};

const EXCHANGE: &str = include_str!("exchange.lua");
const HEARTBEAT: &str = concat!(include_str!("prelude.lua"), include_str!("heartbeat.lua"));
const EDIT: &str = concat!(include_str!("prelude.lua"), include_str!("edit.lua"));
const PART: &str = concat!(include_str!("prelude.lua"), include_str!("lists.lua"));
const RESTORE: &str = concat!(include_str!("prelude.lua"), include_str!("restore.lua"));

/// The oldest major version with the needed script functions.
const OLDEST: u32 = 7;

pub(super) struct Redis {
    target: Arc<Target>,
    link: Link,
    /// A policy by which the server may evict the lists.
    evicts: Option<String>,
}

impl Redis {
    /// Connects to the first primary among the servers, and checks it.
    pub async fn connect(
        target: &Arc<Target>,
        settings: &RedisConnectionInfo,
        servers: &[Place],
    ) -> Result<(Self, Option<SocketAddr>), Error> {
        let begin = async |socket: Socket, place: &Place| {
            let peer = socket.peer;
            let redis = Self::over(target, settings, socket.stream, place).await?;
            Ok((redis, peer))
        };
        first(target, servers, begin).await
    }

    async fn over(
        target: &Arc<Target>,
        settings: &RedisConnectionInfo,
        stream: Box<dyn Stream>,
        place: &Place,
    ) -> Result<Self, Error> {
        let link = Link::new(target, settings, stream, place).await?;
        let info: String = link.query(&redis::cmd("INFO")).await?;
        let info = Info(&info);
        let checked = info.check(target);
        checked.map_err(|fault| target.error(fault))?;
        let policy = info.field("maxmemory_policy").unwrap_or_default();
        let evicts = policy.starts_with("allkeys");
        Ok(Self {
            target: Arc::clone(target),
            link,
            evicts: evicts.then(|| target.quoted(policy)),
        })
    }

    /// Calls a script. Sends it first if the server does not have it yet.
    async fn call<T: FromRedisValue>(
        &self,
        script: &str,
        keys: &[String],
        arguments: impl ToRedisArgs,
    ) -> Result<T, Error> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys);
            command.arg(&arguments);
            command
        };
        let hash = redis::Script::new(script);
        match self.link.query(&command("EVALSHA", hash.get_hash())).await {
            Err(Error::At(_, Fault::Refused(why))) if why.starts_with("NOSCRIPT") => {
                self.link.query(&command("EVAL", script)).await
            }
            answer => answer,
        }
    }
}

#[async_trait::async_trait]
impl Engine for Redis {
    async fn exchange(&self, charges: &Charges<'_>) -> Result<Vec<StoredRecord>, Error> {
        let Charges { fleet, part, .. } = charges;
        let last_round = format!("m:{:016x}:{part}", charges.member);
        let mut keys = vec![key(fleet, &last_round)];
        let mut items = Vec::with_capacity(2 * charges.items.len());
        for item in &charges.items {
            let limit = charges.terms[item.terms].limit;
            keys.push(key(fleet, &format!("s:{limit}:{}", item.source)));
            items.extend([item.packets, item.terms as u64 + 1]);
        }
        let terms: Vec<_> = charges.terms.iter().flat_map(written).collect();
        let arguments = (charges.number, charges.terms.len(), terms, items);
        let answer: Vec<_> = self.call(EXCHANGE, &keys, arguments).await?;
        let record = |(born, total, level)| StoredRecord { born, total, level };
        Ok(answer.into_iter().map(record).collect())
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<Alive, Error> {
        let keys = ["members", "limits", "lists"].map(|name| key(heartbeat.fleet, name));
        let lists = heartbeat.lists.iter();
        let lists = lists.map(|list| list_key(heartbeat.fleet, list));
        let keys: Vec<_> = keys.into_iter().chain(lists).collect();
        let member = format!("{:016x} {}", heartbeat.member, heartbeat.label);
        let arguments = (heartbeat.alive, MEMBERS, LIMITS, member, &heartbeat.held);
        let answer = self.call(HEARTBEAT, &keys, arguments).await?;
        let (hosts, oldest, revision, is_short, held) = answer;
        Ok(Alive {
            hosts,
            oldest,
            revision,
            is_short,
            held,
        })
    }

    async fn edit(&self, edit: &ListEdit<'_>) -> Result<Changed, Error> {
        let keys = [list_key(edit.fleet, edit.list), key(edit.fleet, "lists")];
        let (author, lasts) = match edit.add {
            Some(add) => (serde_json::json!(add.author).to_string(), add.lasts),
            None => (String::new(), None),
        };
        let lasts = lasts.map_or_else(String::new, |lasts| lasts.to_string());
        let arguments = (PREFIXES, edit.born, author, lasts, &edit.prefixes);
        let (status, prefixes, revision) = self.call(EDIT, &keys, arguments).await?;
        match status {
            0 => Ok(Changed { prefixes, revision }),
            1 => Err(list_full(edit.list)),
            2 => Err(no_list(edit.list, &keys[0])),
            3 => Err(Error::Lost),
            _ => Err(self.target.invalid("an edit without a status")),
        }
    }

    async fn restore(&self, restoration: &Restoration<'_>) -> Result<bool, Error> {
        let Restoration {
            fleet,
            list,
            known,
            is_last,
            entries,
        } = restoration;
        let keys = [list_key(fleet, list), key(fleet, "lists")];
        let entries = entries.iter().flat_map(|lost| {
            [
                lost.prefix.clone(),
                serde_json::json!(lost.author).to_string(),
                lost.age.to_string(),
                lost.left.map_or_else(String::new, |left| left.to_string()),
            ]
        });
        let entries: Vec<_> = entries.collect();
        let arguments = (PREFIXES, *known, u8::from(*is_last), entries);
        match self.call::<u64>(RESTORE, &keys, arguments).await? {
            0 => Ok(true),
            1 => Err(list_full(list)),
            2 => Err(no_list(list, &keys[0])),
            3 => Ok(false),
            _ => Err(self.target.invalid("an edit without a status")),
        }
    }

    fn warning(&self) -> Option<String> {
        let policy = self.evicts.as_ref()?;
        Some(format!(
            "the store at {} may evict the fleet's lists when its memory is full (maxmemory-policy {policy}), and hosts that start then do not get them: set maxmemory-policy to volatile-ttl",
            self.target.at
        ))
    }

    async fn part(&self, fleet: &str, list: &str, place: Option<&str>) -> Result<Part, Error> {
        let keys = [key(fleet, "lists"), list_key(fleet, list)];
        type Answer = (u64, u64, u64, u64, i64, String, Vec<(Vec<u8>, Vec<u8>)>);
        let arguments = (PREFIXES, place.unwrap_or("0"), READ_AT_ONCE);
        let answer: Answer = self.call(PART, &keys, arguments).await?;
        let (now, revision, born, recorded, length, next, prefixes) = answer;
        let Ok(length) = u64::try_from(length) else {
            return Err(no_list(list, &keys[1]));
        };
        if length > PREFIXES as u64 {
            return Err(list_full(list));
        }
        Ok(Part {
            now,
            revision,
            born,
            is_short: length < recorded,
            next: Some(next).filter(|next| next != "0"),
            prefixes: prefixes
                .into_iter()
                .map(|(prefix, value)| Written { prefix, value })
                .collect(),
        })
    }
}

fn key(fleet: &str, rest: &str) -> String {
    format!("limiter:{{{fleet}}}:{rest}")
}

fn list_key(fleet: &str, list: &str) -> String {
    key(fleet, &format!("list:{list}"))
}

fn no_list(list: &str, key: &str) -> Error {
    Error::NotAList(list.to_owned(), key.to_owned())
}

/// Writes cost, cap and lifetime for the script.
fn written(terms: &Terms<'_>) -> [String; 3] {
    [
        exact(terms.cost),
        terms.cap.to_string(),
        terms.life.to_string(),
    ]
}

/// Writes ticks as nanoseconds with all decimals. The eight fractional bits need eight decimals.
fn exact(ticks: u64) -> String {
    const DECIMALS: u64 = 100_000_000;
    let below = (ticks % (1 << TICK_SHIFT)) * (DECIMALS >> TICK_SHIFT);
    format!("{}.{below:08}", ticks >> TICK_SHIFT)
}

/// The answer to `INFO`.
struct Info<'a>(&'a str);

impl Info<'_> {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.lines();
        let value = fields.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim)
    }

    /// Fails if the server cannot be a store.
    fn check(&self, target: &Target) -> Result<(), Fault> {
        let not = |program: String| Err(Fault::NotAStore(program));
        let Some(version) = self.field("redis_version") else {
            return not("not a Redis".to_owned());
        };
        let major = version.split('.').next();
        let major = major.and_then(|major| major.parse().ok());
        if major.is_none_or(|major: u32| major < OLDEST) {
            return not(format!("Redis {}", target.quoted(version)));
        }
        // Valkey and Redict have other names.
        let modes = ["redis_mode", "server_mode", "redict_mode"];
        match modes.iter().find_map(|name| self.field(name)) {
            Some(mode @ ("sentinel" | "cluster")) => not(format!("a {mode}")),
            _ if self.field("role") == Some("slave") => Err(Fault::Replica),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_written_exactly() {
        assert_eq!(exact(1), "0.00390625");
        assert_eq!(exact(255), "0.99609375");
        assert_eq!(exact(256 * 7), "7.00000000");
        assert_eq!(exact(u64::MAX), "72057594037927935.99609375");
    }
}
