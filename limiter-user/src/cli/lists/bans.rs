use clap::Args;
use limiter_kernel::{Attachment, program::bans::origin};

use crate::{
    cli::shared::{ForPrograms, document, each, interface, is_all, print},
    observe::{self, BanOrder},
    show,
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
    // As `status` answers: no attachment is a state, and no failure.
    if is_all(&arguments.interfaces) && is_none_attached().await? {
        if !arguments.programs.json {
            print(show::status::NONE)?;
        }
        return Ok(());
    }
    let list = async |interface: &str| {
        let mut bans = observe::Bans::new(&Attachment::open(interface).await?)?;
        match &arguments.origin {
            Some(name) => bans.keep_origin(&origin(name)),
            None => bans.leave_marks_out(),
        }
        bans.sort(arguments.sort);
        bans.keep_first(arguments.count.unwrap_or(usize::MAX));
        document(arguments.programs.json, &bans, || show::bans::bans(&bans))
    };
    each(&arguments.interfaces, list).await
}

/// Returns true if there is no attachment, not even one in trouble.
async fn is_none_attached() -> limiter_kernel::Result<bool> {
    let mut is_there = false;
    let errors = Attachment::visit_all(async |_| is_there = true).await?;
    Ok(!is_there && errors.is_empty())
}
