//! How each host holds the limits that it shares: what people must keep the same on all of them.

use std::{sync::LazyLock, time::Duration};

use redis::Script;

use super::{Store, connection::Call, error::Error, heartbeat::label, names};
use crate::conflicts::Held;

const SOURCE: &str = include_str!("limits.lua");
static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));

/// Limits that are kept, of one fleet; those that were told of last.
pub const LIMITS: usize = 256;

impl Store {
    /// Says how a member holds its limits, and that it does not hold those of `gone` any more. Returns how all do that
    /// have said so within `alive`; what is not of the form is left out.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub async fn compare(
        &mut self,
        fleet: &str,
        held: &[Held],
        gone: &[Held],
        alive: Duration,
    ) -> Result<Vec<Held>, Error> {
        let mut arguments = vec![
            alive.as_micros().to_string(),
            LIMITS.to_string(),
            gone.len().to_string(),
        ];
        for held in gone.iter().chain(held) {
            arguments.push(entry(held)?);
        }
        let call = Call {
            script: &SCRIPT,
            source: SOURCE,
            keys: &[names::limits(names::name(fleet)?)],
            arguments: &arguments,
        };
        let all: Vec<Vec<u8>> = self.call(&call).await?;
        let held = all.iter().filter_map(|entry| parsed(entry));
        Ok(held.take(LIMITS).collect())
    }

    /// Takes back that a member holds these limits. Others that do say so again.
    pub(super) async fn unhold(&mut self, fleet: &str, held: &[Held]) -> Result<(), Error> {
        if held.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("ZREM");
        command.arg(names::limits(fleet));
        for held in held {
            command.arg(entry(held)?);
        }
        self.ask::<i64>(&command).await.map(|_| ())
    }
}

/// `NAME KEY COST TAU WORDS`, both numbers in ticks.
fn entry(held: &Held) -> Result<String, Error> {
    let Held {
        name,
        key,
        cost,
        tau,
        words,
    } = held;
    let (name, key, words) = (names::name(name)?, label(key)?, label(words)?);
    Ok(format!("{name} {key} {cost} {tau} {words}"))
}

fn parsed(entry: &[u8]) -> Option<Held> {
    let mut parts = std::str::from_utf8(entry).ok()?.splitn(5, ' ');
    let mut next = || parts.next();
    let held = Held {
        name: names::name(next()?).ok()?.to_owned(),
        key: label(next()?).ok()?.to_owned(),
        cost: next()?.parse().ok()?,
        tau: next()?.parse().ok()?,
        words: label(next()?).ok()?.to_owned(),
    };
    // As it is written here, and not otherwise: no sign, no leading zero.
    let written = self::entry(&held).ok()?;
    (written.as_bytes() == entry).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_limit_is_none() {
        let held = Held {
            name: "all".to_owned(),
            key: "/32,/64".to_owned(),
            cost: 7,
            tau: u64::MAX,
            words: "100/s, burst 200, per /32,/64".to_owned(),
        };
        let written = entry(&held).expect("an entry");
        assert_eq!(parsed(written.as_bytes()), Some(held));
        for bad in [
            "",
            "all",
            "all /32,/64 7 8",
            "all /32,/64 7 8 ",
            "all /32,/64 +7 8 words",
            "all /32,/64 07 8 words",
            "all /32,/64 7 18446744073709551616 words",
            "a:l /32,/64 7 8 words",
            "all  7 8 words",
            "all /32,/64 7 8 \u{1b}[31m",
            &format!("all /32,/64 7 8 {}", "x".repeat(129)),
        ] {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parsed(b"all /32,/64 7 8 \xff"), None);
    }
}
