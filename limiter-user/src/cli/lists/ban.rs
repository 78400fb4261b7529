use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::Args;
use ipnet::IpNet;

use super::edit::first_of;
use crate::{
    cli::shared::{OnOne, SECOND, YEAR, duration, each, note, outcome, prefix, usage, warn_of_ban},
    config::{Invalid, Prefixes, invalid, lists},
    kernel::{Attachment, program::bans, sys::clock},
};

/// The origin of bans that are made by this command.
pub const BY_HAND: &str = "hand";

/// Drop all packets of sources, for a time or until `unban`
#[derive(Debug, Args)]
pub struct Ban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes, as in 203.0.113.7 or 2001:db8::/48
    #[arg(value_name = "CIDR", value_parser = prefix, required_unless_present = "file")]
    prefixes: Vec<IpNet>,
    /// Text file with one prefix per line; # begins a comment
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End the ban after this time, as in 90s, 10m or 2h. Default: it has no end
    #[arg(long = "for", value_name = "DURATION", value_parser = duration(SECOND..=10 * YEAR, "10m"))]
    lasts: Option<Duration>,
    /// The reason, which `bans` and `check` show; at most 40 bytes
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
}

pub async fn run(arguments: Ban) -> anyhow::Result<()> {
    let Ban {
        on,
        prefixes,
        file,
        lasts,
        reason,
    } = arguments;
    let mut prefixes: Prefixes = prefixes.into_iter().collect();
    if let Some(path) = &file {
        let in_file = lists::from_file(path);
        prefixes.extend(in_file.map_err(|mistakes| anyhow::anyhow!(mistakes.join("; ")))?);
    }
    for prefix in &prefixes {
        bannable(prefix).map_err(usage)?;
        bans::ban(prefix, 0, BY_HAND, &reason).map_err(usage)?;
    }
    let ban = async |interface: &str| ban(interface, &prefixes, lasts, &reason).await;
    each(&on.interfaces, ban).await
}

/// Fails if a ban of this prefix is most likely a mistake.
fn bannable(prefix: &IpNet) -> Result<(), Invalid> {
    let (family, shortest) = match prefix {
        IpNet::V4(_) => ("IPv4", 8),
        IpNet::V6(_) => ("IPv6", 16),
    };
    if prefix.prefix_len() < shortest {
        return Err(invalid!(
            "{prefix} is too much of {family} to ban: ban /{shortest} or longer, or use `limiter deny add`"
        ));
    }
    // Bans have IPv4 addresses in this form, where an IPv6 packet never comes from.
    let mapped = IpNet::V6(ipnet::Ipv6Net::new_assert(
        [0, 0, 0, 0, 0, 0xffff, 0, 0].into(),
        96,
    ));
    if mapped.contains(prefix) || prefix.contains(&mapped) {
        return Err(invalid!(
            "{prefix} has IPv4 addresses in IPv6 form: write them as in 192.0.2.7"
        ));
    }
    Ok(())
}

async fn ban(
    interface: &str,
    prefixes: &Prefixes,
    lasts: Option<Duration>,
    reason: &str,
) -> anyhow::Result<()> {
    let mut attachment = Attachment::open(interface).await?;
    let allow = attachment.settings()?.lists.allow;
    warn_of_ban(interface, prefixes, &allow);
    let _lock = attachment.lock()?;
    let now = clock::now()?;
    let until = lasts.map_or(0, |lasts| {
        now.saturating_add(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX))
    });
    let bans: Result<BTreeMap<_, _>, Invalid> = prefixes
        .iter()
        .map(|prefix| Ok((*prefix, bans::ban(prefix, until, BY_HAND, reason)?)))
        .collect();
    let most = attachment.record.settings.max_bans;
    let before = attachment.bans.add(&bans?, most, now)?;
    let time = lasts.map_or_else(
        || "without end".to_owned(),
        |lasts| format!("for {}", humantime::format_duration(lasts)),
    );
    let renewed = match before.len() {
        0 => String::new(),
        all if all == prefixes.len() => ", renewed".to_owned(),
        some => format!(", {some} of them renewed"),
    };
    let what = first_of(prefixes.iter()).unwrap_or_else(|| "nothing".to_owned());
    outcome(
        prefixes.is_empty(),
        &format!("{interface}: {what} banned {time}{renewed}\n"),
    );
    let passing = allow
        .iter()
        .filter(|allowed| prefixes.iter().any(|ban| ban.contains(*allowed)));
    if let Some(passing) = first_of(passing) {
        note(&format!(
            "{passing} still passes {interface}: on allow, the same or a longer prefix takes precedence over a ban"
        ));
    }
    Ok(())
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
            let net: IpNet = prefix.parse().unwrap();
            assert_eq!(bannable(&net).is_ok(), is_fine, "{prefix}");
        }
    }
}
