use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use ipnet::IpNet;
use limiter_common::abi;

use limiter_config::{
    Invalid, Prefixes,
    files::TEXT_MOST,
    invalid, lists,
    lists::{prefix_around, show},
};
use limiter_fleet::{host::BANS, store::Edit};
use limiter_kernel::{
    Attachment,
    ops::bans::{BY_FLEET, is_kept},
    program::bans::{self, BY_HAND},
    sys::clock,
};

use super::{by_fleet, cut_off, edit::first_of};
use crate::{
    cli::shared::{OnOne, SECOND, YEAR, each, note, outcome, usage, warn_of_ban},
    kept, observe,
    show::bans::since,
};

/// The longest time of a ban that ends.
const LONGEST: Duration = Duration::from_millis(10 * YEAR);

/// The most messages about prefixes of a file.
const MESSAGES: usize = 5;

/// Drop all packets of sources, for a time or until `unban`
#[derive(Debug, Args)]
pub struct Ban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes, as in 203.0.113.7 or 2001:db8::/48; 2001:db8::7/64 is the network of that address; - for a
    /// list on standard input
    #[arg(value_name = "CIDR", value_parser = given, required_unless_present = "file")]
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
}

/// What is to be banned, as given on the command line.
#[derive(Clone, Debug)]
enum Given {
    Prefix(IpNet),
    /// A list on standard input.
    Input,
}

fn given(text: &str) -> Result<Given, Invalid> {
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

/// Reads the time of a ban. Programs may give one that is too long even for a number.
fn lasting(text: &str) -> Result<Duration, String> {
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
struct Wish {
    prefixes: BTreeSet<IpNet>,
    lasts: Option<Duration>,
    reason: String,
    origin: String,
}

pub async fn run(arguments: Ban) -> anyhow::Result<()> {
    let wish = Wish {
        prefixes: prefixes(&arguments)?,
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

/// The prefixes of the command line, of the file and of standard input.
fn prefixes(arguments: &Ban) -> anyhow::Result<BTreeSet<IpNet>> {
    let mut all = BTreeSet::new();
    let mut is_read = false;
    for given in &arguments.prefixes {
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
    if let Some(path) = &arguments.file {
        match path == Path::new("-") {
            true => anyhow::bail!(usage(invalid!("write - without --file"))),
            false => all.extend(listed(&path.display().to_string(), lists::from_file(path))?),
        }
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

async fn ban(interface: &str, wish: &Wish) -> anyhow::Result<()> {
    let mut attachment = Attachment::open(interface).await?;
    let allow = attachment.settings()?.lists.allow;
    let prefixes: Vec<_> = wish.prefixes.iter().copied().collect();
    if prefixes.is_empty() {
        outcome(
            true,
            &format!("{interface}: unchanged: the list is empty\n"),
        );
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
    outcome(false, &format!("{interface}: {shown} banned {time}{how}\n"));
    notes.iter().for_each(|text| note(text));
    if is_in_shadow {
        note(&format!("{interface} is in shadow: bans drop nothing"));
    }
    if wish.origin == BY_HAND && !is_in_shadow {
        cut_off::warn(interface, &prefixes, &allow, is_shared).await;
    }
    note_allowed(interface, wish, &allow);
    kept?.iter().for_each(|text| note(text));
    Ok(())
}

/// Says which of the two takes precedence where a ban and an allowed prefix overlap.
fn note_allowed(interface: &str, wish: &Wish, allow: &Prefixes) {
    let bans = || wish.prefixes.iter();
    let is_in_ban = |allowed: &&IpNet| bans().any(|ban| ban.contains(*allowed));
    let is_around =
        |allowed: &&IpNet| !is_in_ban(allowed) && bans().any(|ban| allowed.contains(ban));
    if let Some(passing) = first_of(allow.iter().filter(is_in_ban)) {
        note(&format!(
            "{passing} still passes {interface}: on allow, the same or a longer prefix takes precedence over a ban"
        ));
    }
    let Some(around) = first_of(allow.iter().filter(is_around)) else {
        return;
    };
    note(&if wish.origin == BY_HAND {
        format!(
            "{around} on allow does not pass this ban of {interface}, because it is made by hand"
        )
    } else {
        format!(
            "{around} still passes {interface}: allow takes precedence over the bans of programs"
        )
    });
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
    notes.extend(banned_by_others(attachment, wish, &ban, now)?);
    notes.extend(banned_around(attachment, wish, now)?);
    let all: Vec<_> = wish.prefixes.iter().map(|prefix| (*prefix, ban)).collect();
    let most = attachment.record.settings.max_bans;
    let before = attachment.bans.add(&all, most, now)?;
    let renewed = match before.len() {
        0 => String::new(),
        count if count == all.len() => ", renewed".to_owned(),
        some => format!(", {some} of them renewed"),
    };
    let was_longer = |earlier: &abi::Ban| end(earlier.ends.until) > end(until);
    if before.iter().any(|(_, earlier)| was_longer(earlier)) {
        notes.push("a ban ends earlier now than it would have".to_owned());
    }
    let kept = match is_kept(&wish.origin) {
        true => kept::write_change(attachment),
        false => Ok(None),
    };
    Ok((renewed, notes, kept))
}

/// The end of a ban as a number that is larger for a later end.
fn end(until: u64) -> u64 {
    if until == 0 { u64::MAX } else { until }
}

/// The note about a prefix that another origin bans for longer.
fn banned_by_others(
    attachment: &Attachment,
    wish: &Wish,
    ban: &abi::Ban,
    now: u64,
) -> limiter_kernel::Result<Option<String>> {
    let mut found = Vec::new();
    for prefix in &wish.prefixes {
        let others = attachment.bans.get(prefix, now)?.into_iter();
        let others = others.filter(|other| other.origin != ban.origin);
        let longest = others.max_by_key(|other| end(other.ends.until));
        let longer = longest.filter(|other| end(other.ends.until) > end(ban.ends.until));
        found.extend(longer.map(|other| observe::Ban::new(prefix, &other, 0, now)));
    }
    Ok(first_with_more(&found).map(|(first, more)| {
        let (prefix, since) = (&first.prefix, since(first));
        format!("{prefix}{more} stays banned {since}: the latest end holds")
    }))
}

/// The note about a prefix within a shorter one that is banned.
fn banned_around(
    attachment: &Attachment,
    wish: &Wish,
    now: u64,
) -> limiter_kernel::Result<Option<String>> {
    let mut found = Vec::new();
    for prefix in &wish.prefixes {
        let around = attachment.bans.around(prefix, now)?;
        found.extend(around.map(|around| {
            let ban = observe::Ban::new(&around.prefix, &around.ban, around.dropped, now);
            (show(prefix), ban)
        }));
    }
    Ok(first_with_more(&found).map(|((prefix, ban), more)| {
        let (around, since) = (&ban.prefix, since(ban));
        format!("{prefix}{more} is within {around}, which is banned {since}")
    }))
}

fn first_with_more<T>(found: &[T]) -> Option<(&T, String)> {
    let first = found.first()?;
    let more = match found.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some((first, more))
}
