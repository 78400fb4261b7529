use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use clap::Args;
use ipnet::IpNet;
use limiter_common::abi;
use limiter_config::{
    invalid,
    lists::{BANS, show},
};
use limiter_fleet::question::Edit;
use limiter_kernel::{
    Attachment,
    ops::bans::{BY_FLEET, is_kept},
    program::bans::{self, BY_HAND},
    sys::clock,
};

use super::{
    ban_notes, by_fleet, cut_off,
    edit::first_of,
    given::{Given, Use, prefixes, to_ban},
};
use crate::{
    cli::shared::{
        Extent, ForPrograms, OnOne, SECOND, YEAR, each, note, outcome, record, usage, warn_of_ban,
    },
    kept,
};

/// The longest time of a ban that ends.
const LONGEST: Duration = Duration::from_millis(10 * YEAR);

/// Drop all packets of sources, for a time or until `unban`
#[derive(Debug, Args)]
pub struct Ban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes, as in 203.0.113.7 or 2001:db8::/48; 2001:db8::7/64 is the network of that address; - for a
    /// list on standard input
    #[arg(value_name = "CIDR", value_parser = to_ban, required_unless_present = "file")]
    prefixes: Vec<Given>,
    /// File with a list: one prefix per line, with # before comments, or another format that feeds read. All of them
    /// are banned, or none
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End the bans after this time, as in 90s, 10m or 2h; at most 10 years. Default: they have no end
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasts: Option<Duration>,
    /// The reason, which `bans` and `check` show. It is cut after 40 bytes
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// Name of the program that bans, instead of `hand`. Each origin has its own ban of a prefix; the latest end holds.
    /// Bans of programs are of this host alone. Names of more than 32 bytes are cut, and end with a checksum
    #[arg(long, value_name = "NAME", default_value = BY_HAND, hide_default_value = true)]
    origin: String,
    #[command(flatten)]
    programs: ForPrograms,
}

/// Reads the time of a ban. Programs may give one that is too long even for a number.
pub fn lasting(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(given) if given < Duration::from_millis(SECOND) => {
            Err("write 1s or more, as in 10m".to_owned())
        }
        Ok(given) => Ok(given),
        Err(humantime::DurationError::NumberOverflow) => Ok(Duration::MAX),
        Err(error) => Err(format!("{error}: write one as in 10m")),
    }
}

/// A ban of prefixes.
pub struct Wish {
    /// The prefixes.
    pub prefixes: BTreeSet<IpNet>,
    /// The time after which the ban ends.
    lasts: Option<Duration>,
    reason: String,
    /// The origin.
    pub origin: String,
}

pub async fn run(arguments: Ban) -> anyhow::Result<()> {
    arguments.programs.changes();
    let wish = Wish {
        prefixes: prefixes(Use::Ban, &arguments.prefixes, arguments.file.as_deref())?,
        lasts: arguments.lasts.map(|lasts| lasts.min(LONGEST)),
        reason: bans::reason(&arguments.reason),
        origin: bans::origin(&arguments.origin),
    };
    if wish.origin == BY_FLEET {
        return Err(usage(invalid!(
            "bans of the origin '{BY_FLEET}' are those of a fleet: use another name"
        )));
    }
    bans::ban(0, 0, &wish.origin, &wish.reason).map_err(usage)?;
    if arguments.lasts.is_some_and(|lasts| lasts > LONGEST) {
        let longest = humantime::format_duration(LONGEST);
        note(&format!(
            "a ban that ends lasts {longest} at most, and so does this one; without --for it has no end"
        ));
    }
    let ban = async |interface: &str| ban(interface, &wish).await;
    each(&arguments.on.interfaces, ban).await
}

async fn ban(interface: &str, wish: &Wish) -> anyhow::Result<()> {
    let mut attachment = Attachment::open(interface).await?;
    let allow = attachment.settings()?.lists.allow;
    let prefixes: Vec<_> = wish.prefixes.iter().copied().collect();
    if prefixes.is_empty() {
        outcome(interface, Extent::Nothing, "unchanged: the list is empty");
        return Ok(());
    }
    warn_of_ban(interface, &prefixes, &allow);
    let is_in_shadow = attachment.record.settings.shadow;
    let settings = &attachment.record.settings;
    let is_shared = settings.shares(BANS) && wish.origin == BY_HAND;
    let (how, notes, kept) = match settings.fleet.clone().filter(|_| is_shared) {
        None => ban_here(&mut attachment, wish)?,
        Some(fleet) => {
            // The agent needs the lock of the attachment.
            drop(attachment);
            let edit = Edit::Add {
                prefixes: prefixes.clone(),
                lasts: wish.lasts,
                reason: wish.reason.clone(),
            };
            by_fleet::change_bans(interface, edit).await?;
            let how = format!(", on all hosts of fleet '{fleet}'");
            (how, Vec::new(), Ok(None))
        }
    };
    let time = wish.lasts.map_or_else(
        || "without end".to_owned(),
        |lasts| format!("for {}", humantime::format_duration(lasts)),
    );
    let shown = first_of(prefixes.iter()).unwrap_or_default();
    if wish.origin == BY_HAND {
        let mut details: Vec<_> = prefixes.iter().map(show).collect();
        let reason = Some(&wish.reason).filter(|reason| !reason.is_empty());
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        details.insert(0, format!("{time}{how}{reason}"));
        record(interface, "ban", &details);
    }
    let text = format!("{shown} banned {time}{how}");
    outcome(interface, Extent::All, &text);
    notes.iter().for_each(|text| note(text));
    if let Some(text) = ban_notes::alone(interface, wish) {
        note(&text);
    }
    if is_in_shadow {
        note(&format!("{interface} is in shadow: bans drop nothing"));
    }
    if wish.origin == BY_HAND && !is_in_shadow {
        cut_off::warn(interface, &prefixes, &allow, is_shared).await;
    }
    ban_notes::allowed(interface, wish, &allow);
    kept?.iter().for_each(|text| note(text));
    Ok(())
}

/// The result of a ban: how many were renewed, notes about bans that were there, and about the file of bans.
type Done = (String, Vec<String>, anyhow::Result<Option<String>>);

/// Bans on this host alone.
fn ban_here(attachment: &mut Attachment, wish: &Wish) -> limiter_kernel::Result<Done> {
    let _lock = attachment.lock()?;
    let now = clock::now()?;
    let until = wish.lasts.map_or(0, |lasts| {
        now.saturating_add(u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX))
    });
    let ban = abi::Ban {
        is_kept: is_kept(&wish.origin).into(),
        ..bans::ban(until, now, &wish.origin, &wish.reason)?
    };
    let mut notes = Vec::new();
    notes.extend(ban_notes::by_others(attachment, wish, &ban, now)?);
    notes.extend(ban_notes::around(attachment, wish, now)?);
    let with_reason = |prefix: &IpNet| {
        // A renewal without a reason keeps the one that is there.
        let earlier = match wish.reason.is_empty() {
            true => attachment.bans.get(prefix, now)?,
            false => Vec::new(),
        };
        let is_own = |earlier: &abi::Ban| earlier.is_throttle == 0 && earlier.origin == ban.origin;
        let own = earlier.into_iter().find(is_own);
        let reason = own.map_or(ban.reason, |own| own.reason);
        limiter_kernel::Result::Ok((*prefix, abi::Ban { reason, ..ban }))
    };
    let all: Vec<_> =
        (wish.prefixes.iter().map(with_reason)).collect::<limiter_kernel::Result<_>>()?;
    let most = attachment.record.settings.max_bans;
    let before = attachment.bans.add(&all, most, now)?;
    let renewed = match before.len() {
        0 => String::new(),
        count if count == all.len() => ", renewed".to_owned(),
        some => format!(", {some} of them renewed"),
    };
    let was_longer =
        |earlier: &abi::Ban| ban_notes::end(earlier.ends.until) > ban_notes::end(until);
    if before.iter().any(|(_, earlier)| was_longer(earlier)) {
        notes.push("a ban ends earlier now than it would have".to_owned());
    }
    let kept = match is_kept(&wish.origin) {
        true => kept::write_change(attachment),
        false => Ok(None),
    };
    Ok((renewed, notes, kept))
}
