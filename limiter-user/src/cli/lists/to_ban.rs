//! The prefixes that `limiter ban` is given: on the command line, in a file, on standard input.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    path::Path,
};

use ipnet::IpNet;
use limiter_config::{Invalid, Prefixes, files::TEXT_MOST, invalid, lists, lists::prefix_around};

/// The most messages about prefixes of a list.
const MESSAGES: usize = 5;

/// A prefix to ban, or a list of them, on the command line.
#[derive(Clone, Debug)]
pub enum Given {
    /// A prefix.
    Prefix(IpNet),
    /// A list on standard input.
    Input,
}

/// Reads an argument of `ban`.
pub fn given(text: &str) -> Result<Given, Invalid> {
    match text {
        "-" => Ok(Given::Input),
        text => bannable(prefix_around(text)?).map(Given::Prefix),
    }
}

/// Fails if the ban of a prefix is most likely a mistake.
fn bannable(net: IpNet) -> Result<IpNet, Invalid> {
    limiter_feed::bannable(&net).map_err(|why| invalid!("{why}"))?;
    Ok(net)
}

/// The prefixes of the command line, of the file and of standard input.
pub fn prefixes(arguments: &[Given], file: Option<&Path>) -> anyhow::Result<BTreeSet<IpNet>> {
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
                        "standard input has more than {TEXT_MOST} bytes, and none was banned: use `limiter feed` for lists of this size"
                    );
                }
                all.extend(listed("standard input", lists::read(&bytes))?);
            }
        }
    }
    if let Some(path) = file {
        all.extend(listed(&path.display().to_string(), lists::named(path))?);
    }
    Ok(all)
}

/// The prefixes of a list, if all of them may be banned.
fn listed(name: &str, read: Result<Prefixes, Vec<String>>) -> anyhow::Result<Prefixes> {
    let read = read.map_err(|mistakes| {
        let mistakes = mistakes.join("; ");
        anyhow::anyhow!("{name} is no list to ban, and none was banned: {mistakes}")
    })?;
    let refused = read.iter().filter_map(|net| bannable(*net).err());
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
