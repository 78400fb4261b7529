use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clap::Args;
use ipnet::IpNet;
use limiter_common::abi;

use limiter_config::{Invalid, Prefixes, invalid, lists::prefix_around};
use limiter_fleet::{host::BANS, store::Edit};
use limiter_kernel::{
    Attachment,
    ops::bans::BY_FLEET,
    program::bans::{self, BY_HAND},
    sys::clock,
};

use super::{by_fleet, cut_off, edit::first_of};
use crate::cli::shared::{OnOne, SECOND, YEAR, duration, each, note, outcome, usage, warn_of_ban};

/// Drop all packets of sources, for a time or until `unban`
#[derive(Debug, Args)]
pub struct Ban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes, as in 203.0.113.7 or 2001:db8::/48; 2001:db8::7/64 is the network of that address
    #[arg(value_name = "CIDR", value_parser = bannable, required = true)]
    prefixes: Vec<IpNet>,
    /// End the bans after this time, as in 90s, 10m or 2h. Default: they have no end
    #[arg(long = "for", value_name = "DURATION", value_parser = duration(SECOND..=10 * YEAR, "10m"))]
    lasts: Option<Duration>,
    /// The reason, which `bans` and `check` show. It is cut after 40 bytes
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// Name of the program that bans, instead of `hand`. Its bans are of this host alone, and bans of another origin
    /// stay if they last as long or longer. Names of more than 32 bytes are cut, and end with a checksum
    #[arg(long, value_name = "NAME", default_value = BY_HAND, hide_default_value = true)]
    origin: String,
}

/// Reads a prefix. Fails if its ban is most likely a mistake.
fn bannable(text: &str) -> Result<IpNet, Invalid> {
    let net = prefix_around(text)?;
    limiter_feed::bannable(&net).map_err(|why| invalid!("{why}"))?;
    Ok(net)
}

pub async fn run(mut arguments: Ban) -> anyhow::Result<()> {
    arguments.origin = bans::origin(&arguments.origin);
    arguments.reason = bans::reason(&arguments.reason);
    let (origin, reason) = (&arguments.origin, &arguments.reason);
    if origin == BY_FLEET {
        return Err(usage(invalid!(
            "bans of the origin '{BY_FLEET}' are those of a fleet: use another name"
        )));
    }
    bans::ban(&arguments.prefixes[0], 0, origin, reason).map_err(usage)?;
    let ban = async |interface: &str| ban(interface, &arguments).await;
    each(&arguments.on.interfaces, ban).await
}

async fn ban(interface: &str, arguments: &Ban) -> anyhow::Result<()> {
    let (prefixes, lasts) = (&arguments.prefixes, arguments.lasts);
    let mut attachment = Attachment::open(interface).await?;
    let allow = attachment.settings()?.lists.allow;
    warn_of_ban(interface, prefixes, &allow);
    let is_in_shadow = attachment.record.settings.shadow;
    let settings = &attachment.record.settings;
    let is_shared = settings.shares(BANS) && arguments.origin == BY_HAND;
    let banned = match settings.fleet.clone().filter(|_| is_shared) {
        None => ban_here(&mut attachment, arguments)?,
        Some(fleet) => {
            // The agent needs the lock of the attachment.
            drop(attachment);
            let edit = Edit::Add {
                prefixes: prefixes.clone(),
                lasts,
                reason: arguments.reason.clone(),
            };
            by_fleet::change_bans(interface, edit).await?;
            let all = format!(", on all hosts of fleet '{fleet}'");
            let each: BTreeSet<_> = prefixes.iter().collect();
            first_of(each.into_iter()).map(|first| (first, all))
        }
    };
    let Some((shown, how)) = banned else {
        return Ok(());
    };
    let time = lasts.map_or_else(
        || "without end".to_owned(),
        |lasts| format!("for {}", humantime::format_duration(lasts)),
    );
    outcome(false, &format!("{interface}: {shown} banned {time}{how}\n"));
    if is_in_shadow {
        note(&format!("{interface} is in shadow: bans drop nothing"));
    }
    if arguments.origin == BY_HAND && !is_in_shadow {
        cut_off::warn(interface, prefixes, &allow, is_shared).await;
    }
    note_allowed(interface, arguments, &allow);
    Ok(())
}

/// Says which of the two takes precedence where a ban and an allowed prefix overlap.
fn note_allowed(interface: &str, arguments: &Ban, allow: &Prefixes) {
    let bans = || arguments.prefixes.iter();
    let is_in_ban = |allowed: &&IpNet| bans().any(|ban| ban.contains(*allowed));
    let is_around =
        |allowed: &&IpNet| !is_in_ban(allowed) && bans().any(|ban| allowed.contains(ban));
    let by_hand = arguments.origin == BY_HAND;
    if let Some(passing) = first_of(allow.iter().filter(is_in_ban)) {
        note(&format!(
            "{passing} still passes {interface}: on allow, the same or a longer prefix takes precedence over a ban"
        ));
    }
    let Some(around) = first_of(allow.iter().filter(is_around)) else {
        return;
    };
    note(&if by_hand {
        format!(
            "{around} on allow does not pass this ban of {interface}, because it is made by hand"
        )
    } else {
        format!(
            "{around} still passes {interface}: allow takes precedence over the bans of programs"
        )
    });
}

/// Bans on this host alone. Returns the banned prefixes as text, and how many were renewed.
fn ban_here(
    attachment: &mut Attachment,
    arguments: &Ban,
) -> limiter_kernel::Result<Option<(String, String)>> {
    let origin = &arguments.origin;
    let _lock = attachment.lock()?;
    let now = clock::now()?;
    let until = arguments.lasts.map_or(0, |lasts| {
        now.saturating_add(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX))
    });
    let mut bans = BTreeMap::new();
    for prefix in &arguments.prefixes {
        let ban = bans::ban(prefix, until, origin, &arguments.reason)?;
        bans.insert(*prefix, ban);
    }
    let end = |until: u64| if until == 0 { u64::MAX } else { until };
    if origin != BY_HAND {
        // Its owner ends the ban: it must not become another's.
        let mut longer = Vec::new();
        for prefix in bans.keys() {
            let earlier = attachment.bans.get(prefix)?;
            let is_other = |ban: &abi::Ban| bans::text(&ban.origin) != *origin;
            let stays = earlier
                .filter(is_other)
                .filter(|ban| end(ban.until) >= end(until));
            longer.extend(stays.map(|_| *prefix));
        }
        bans.retain(|prefix, _| !longer.contains(prefix));
        if let Some(longer) = first_of(longer.iter()) {
            note(&format!(
                "{longer} is banned by another origin for as long or longer, which stays"
            ));
        }
    }
    let most = attachment.record.settings.max_bans;
    let before = attachment.bans.add(&bans, most, now)?;
    let renewed = match before.len() {
        0 => String::new(),
        all if all == bans.len() => ", renewed".to_owned(),
        some => format!(", {some} of them renewed"),
    };
    let was_longer = |earlier: &abi::Ban| end(earlier.until) > end(until);
    if before.values().any(was_longer) {
        note("a ban ends earlier now than it would have");
    }
    Ok(first_of(bans.keys()).map(|shown| (shown, renewed)))
}
