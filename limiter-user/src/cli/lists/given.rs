//! The prefixes that `limiter ban` and `limiter unban` are given: on the command line, in a file, on standard input.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    path::Path,
};

use ipnet::IpNet;
use limiter_config::{Invalid, Prefixes, files::TEXT_MOST, invalid, lists, lists::prefix_around};

/// The most messages about prefixes of a list.
const MESSAGES: usize = 5;

/// A prefix, or a list of them, on the command line.
#[derive(Clone, Debug)]
pub enum Given {
    /// A prefix.
    Prefix(IpNet),
    /// A list on standard input.
    Input,
}

/// Reads an argument of `ban`.
pub fn to_ban(text: &str) -> Result<Given, Invalid> {
    match to_unban(text)? {
        Given::Prefix(prefix) => bannable(prefix).map(Given::Prefix),
        Given::Input => Ok(Given::Input),
    }
}

/// Reads an argument of `unban`.
pub fn to_unban(text: &str) -> Result<Given, Invalid> {
    match text {
        "-" => Ok(Given::Input),
        text => prefix_around(text).map(Given::Prefix),
    }
}

/// Fails if the ban of a prefix is most likely a mistake.
fn bannable(net: IpNet) -> Result<IpNet, Invalid> {
    limiter_feed::bannable(&net).map_err(|why| invalid!("{why}"))?;
    Ok(net)
}

/// The use of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Ban,
    Unban,
}

impl Use {
    fn verb(self) -> &'static str {
        match self {
            Self::Ban => "ban",
            Self::Unban => "unban",
        }
    }
}

/// The prefixes of the command line, of the file and of standard input.
pub fn prefixes(
    wanted: Use,
    arguments: &[Given],
    file: Option<&Path>,
) -> anyhow::Result<BTreeSet<IpNet>> {
    let verb = wanted.verb();
    let mut all = BTreeSet::new();
    let mut is_read = false;
    for given in arguments {
        match given {
            Given::Prefix(prefix) => _ = all.insert(*prefix),
            Given::Input if is_read => {}
            Given::Input => {
                is_read = true;
                let mut bytes = Vec::new();
                let mut input = io::stdin().lock().take(TEXT_MOST + 1);
                input.read_to_end(&mut bytes)?;
                if bytes.len() as u64 > TEXT_MOST {
                    anyhow::bail!(
                        "standard input has more than {TEXT_MOST} bytes, and none was {verb}ned: use `limiter feed` for lists of this size"
                    );
                }
                all.extend(&listed(wanted, "standard input", lists::read(&bytes))?);
            }
        }
    }
    if let Some(path) = file {
        all.extend(&listed(
            wanted,
            &path.display().to_string(),
            lists::named(path),
        )?);
    }
    Ok(all)
}

/// The prefixes of a list. To ban, all of them must be bannable.
fn listed(
    wanted: Use,
    name: &str,
    read: Result<Prefixes, Vec<String>>,
) -> anyhow::Result<Prefixes> {
    let verb = wanted.verb();
    let read = read.map_err(|mistakes| {
        let mistakes = mistakes.join("; ");
        anyhow::anyhow!("{name} is no list to {verb}, and none was {verb}ned: {mistakes}")
    })?;
    let checked = read.iter().filter(|_| wanted == Use::Ban);
    let refused = checked.filter_map(|net| bannable(net).err());
    let refused: Vec<_> = refused.map(|why| why.to_string()).collect();
    if refused.is_empty() {
        return Ok(read);
    }
    let first = refused.iter().take(MESSAGES).cloned();
    let more = refused.len().saturating_sub(MESSAGES);
    let more = (more > 0).then(|| format!("and {more} more"));
    let all: Vec<_> = first.chain(more).collect();
    anyhow::bail!("{name}, none was banned: {}", all.join("; "))
}
