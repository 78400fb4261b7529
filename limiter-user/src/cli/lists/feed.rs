use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use limiter_common::abi::ORIGIN_MAX;
use limiter_config::invalid;
use limiter_feed::{Settings, http::Access};
use limiter_kernel::{ops::bans::NO_FEEDS, sys::requirements};

use crate::{
    cli::shared::{Extent, ForPrograms, Usage, file::refused, interruption, note, outcome, usage},
    feed::Here,
    helper,
    observe::feeds,
    sandbox,
    show::units::counted,
};

const FOLDER: &str = "/etc/limiter/feeds";

/// Keep bans in step with a list or with CrowdSec
///
/// It runs until it is interrupted. Then its bans stay until they end.
#[derive(Debug, Args)]
pub struct Feed {
    /// The feed: NAME for /etc/limiter/feeds/NAME.toml, or a path. NAME is the origin of its bans
    #[arg(value_name = "NAME")]
    feed: PathBuf,
    /// Read the source once, and end
    #[arg(long)]
    once: bool,
    /// Change nothing: say what would be read, left out and changed
    #[arg(long, requires = "once")]
    dry_run: bool,
    /// Remove all bans of this feed, and end
    #[arg(long, conflicts_with = "once")]
    remove: bool,
    /// With --once or --remove: print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Feed) -> anyhow::Result<()> {
    check_json(&arguments)?;
    requirements::privileges()?;
    let path = match arguments.feed.components().count() {
        1 => Path::new(FOLDER).join(format!("{}.toml", arguments.feed.display())),
        _ => arguments.feed.clone(),
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.len() > ORIGIN_MAX || NO_FEEDS.contains(&&*name) || !name.bytes().all(is_plain) {
        return Err(usage(invalid!(
            "'{name}' cannot be the name of a feed: use at most {ORIGIN_MAX} letters, digits, - and _, and not {}",
            NO_FEEDS.join(", ")
        )));
    }
    let read = |file: &Path, hint| {
        let shown = file.display();
        let text = limiter_config::files::read_text(file);
        text.map_err(|error| anyhow!("{shown} cannot be read ({error}): {hint}"))
    };
    let text = read(
        &path,
        "`man limiter-feed` has an example, and `limiter status` shows the feeds that run",
    )?;
    let settings = Settings::parse(&text).map_err(|mistakes| refused(&path, &mistakes))?;
    let shown = path.display();
    let mut access = access(&settings, read).map_err(|error| anyhow!("{shown}: {error}"))?;
    let state = feeds::File::open(&name)
        .map_err(|error| anyhow!("the state of feed {name} cannot be written: {error}"))?;
    let state = state.ok_or_else(|| {
        anyhow!("feed {name} runs already: end it first (`systemctl stop limiter-feed@{name}`)")
    })?;
    let stop = interruption()?;
    let helper = match settings.socket() {
        Some(path) => {
            let (helper, dial) = helper::start_at(&name, path)?;
            access.socket = Some(dial);
            helper
        }
        None => helper::start(Some(&name))?,
    };
    let here = Here {
        helper,
        is_gone: false,
        state,
    };
    let mut feed = limiter_feed::Feed::new(settings, access, here);
    sandbox::fetch()?;
    let work = async {
        if arguments.remove {
            let removed = feed.remove().await?;
            let bans = counted(removed as u64, "ban");
            let text = format!("{bans} removed");
            outcome(&name, Extent::of(removed == 0), &text);
            return Ok(());
        }
        if arguments.once {
            let begun = feed.state().clone();
            if arguments.dry_run {
                feed.dry_run();
            }
            let done = feed.round().await;
            let mut notes = feed.notes(&begun);
            notes.extend(feed.changes());
            notes
                .iter()
                .for_each(|text| note(&format!("{name}: {text}")));
            done?;
            let (extent, end) = match arguments.dry_run {
                true => (Extent::DryRun, "nothing was changed (--dry-run)"),
                false => (Extent::All, "in step with its source"),
            };
            outcome(&name, extent, end);
            return Ok(());
        }
        Err(feed.run(|text| note(&format!("{name}: {text}"))).await)
    };
    let done = tokio::select! {
        done = work => done,
        () = stop => Ok(()),
    };
    feed.host.forget().await;
    done.map_err(|error| anyhow!(error))
}

/// Gathers the results of a feed that ends by itself. The lines of the others are no document.
fn check_json(arguments: &Feed) -> Result<(), Usage> {
    let json = arguments.json;
    if json && !arguments.once && !arguments.remove {
        let why = "a feed that runs on prints notes, and no JSON: `limiter status --json` has its state; add --once, or leave --json out";
        return Err(Usage(why.to_owned()));
    }
    ForPrograms { json }.changes();
    Ok(())
}

/// Reads the key and the certificates for CrowdSec, which this process may not read later.
fn access(
    settings: &Settings,
    read: impl Fn(&Path, &'static str) -> anyhow::Result<String>,
) -> anyhow::Result<Access> {
    let mut access = Access::default();
    if let Some(file) = &settings.key_file {
        let key = read(file, "name the file of the key")?;
        key.trim().clone_into(&mut access.key);
    }
    let wrong = |file: &Path, why: String| anyhow!("{}: {why}", file.display());
    if let (Some(file), Some(key)) = (&settings.certificate_file, &settings.certificate_key_file) {
        let pem = read(file, "name the file of the certificate")?;
        let key = read(key, "name the file of the certificate's private key")?;
        let shown = access.identity.show(&pem, &key);
        shown.map_err(|why| wrong(file, why))?;
    }
    if let Some(file) = &settings.authority_file {
        let pem = read(file, "name the file of the authority's certificate")?;
        let trusted = access.identity.trust(&pem);
        trusted.map_err(|why| wrong(file, why))?;
    }
    Ok(access)
}
