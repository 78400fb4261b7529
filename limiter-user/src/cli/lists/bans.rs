use clap::Args;
use limiter_config::names;
use limiter_kernel::{Attachment, program::bans::origin};

use crate::{
    cli::shared::{ForPrograms, by_exporter, document, each, interface, is_all, print},
    observe::{
        self, BanOrder,
        request::{AboutBans, Answer, BANS_MAX, Request},
    },
    show, viewer,
};

/// List the bans, and the sources that limits hold
///
/// A prefix has a line for each origin that bans it.
#[derive(Debug, Args)]
pub struct Bans {
    /// The interfaces, separated by spaces or commas. Default: all that limiter is attached to
    #[arg(value_name = "IFACE", default_value = "all", hide_default_value = true, value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Only bans of this origin, and no sources that limits hold
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
    /// Order: by prefix, most dropped packets first, or first end first
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    sort: BanOrder,
    /// Print at most this many bans. Default: all
    #[arg(short = 'n', value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Bans) -> anyhow::Result<()> {
    arguments.programs.answer();
    if let Some(viewer) = viewer::needed() {
        let request = |interface: String| {
            Request::Bans(AboutBans {
                interface,
                origin: arguments.origin.clone(),
                order: arguments.sort,
                most: arguments.count.unwrap_or(BANS_MAX),
            })
        };
        let names = &arguments.interfaces;
        return by_exporter(&viewer, names, arguments.programs.json, request).await;
    }
    // As `status` answers: no attachment is a state, and no failure.
    if is_all(&arguments.interfaces) && is_none_attached().await? {
        if !arguments.programs.json {
            print(show::status::NONE)?;
        }
        return Ok(());
    }
    let list = async |interface: &str| {
        let most = arguments.count.unwrap_or(usize::MAX);
        let origin = arguments.origin.as_deref();
        let bans = read(interface, origin, arguments.sort, most).await?;
        document(arguments.programs.json, &bans, || show::bans::bans(&bans))
    };
    each(&arguments.interfaces, list).await
}

async fn read(
    interface: &str,
    name: Option<&str>,
    order: BanOrder,
    most: usize,
) -> limiter_kernel::Result<observe::Bans> {
    let mut bans = observe::Bans::new(&Attachment::open(interface).await?)?;
    match name {
        Some(name) => bans.keep_origin(&origin(name)),
        None => bans.leave_marks_out(),
    }
    bans.sort(order);
    bans.keep_first(most);
    Ok(bans)
}

/// The answer to a user without privileges.
pub async fn answer(about: &AboutBans) -> Result<Answer, String> {
    let interface = names::interface(&about.interface).map_err(|error| error.to_string())?;
    let most = about.most.min(BANS_MAX);
    let bans = read(&interface, about.origin.as_deref(), about.order, most).await;
    let mut bans = bans.map_err(|error| error.to_string())?;
    bans.held.truncate(BANS_MAX);
    Ok(Answer {
        document: serde_json::to_value(&bans).map_err(|error| error.to_string())?,
        text: show::bans::bans(&bans),
    })
}

/// Returns true if there is no attachment, not even one in trouble.
async fn is_none_attached() -> limiter_kernel::Result<bool> {
    let mut is_there = false;
    let errors = Attachment::visit_all(async |_| is_there = true).await?;
    Ok(!is_there && errors.is_empty())
}
