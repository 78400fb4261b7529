//! `limiter man`: pages made from the definitions of the command line and of the configuration file.

mod file;
mod page;

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command};

use crate::cli::shared::output::{Usage, write};

/// The EXAMPLES section of each page: under the verb's name, each task and its command lines.
const EXAMPLES: &str = include_str!("man/examples.txt");

/// Print a manual page (roff), or write all pages
#[derive(Debug, Args)]
pub struct Man {
    /// The page: a verb, or limiter.toml. Default: the page of limiter
    #[arg(value_name = "PAGE")]
    page: Option<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    folder: Option<PathBuf>,
}

struct Page {
    name: String,
    /// 8: commands of the administrator; 5: files.
    section: u8,
    roff: String,
}

/// Prints a page, or writes all of them into a folder.
pub fn run(arguments: &Man, command: Command) -> anyhow::Result<()> {
    let pages = pages(command)?;
    if let Some(folder) = &arguments.folder {
        for page in pages {
            let path = folder.join(format!("{}.{}", page.name, page.section));
            fs::write(&path, page.roff)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(());
    }
    let verb = arguments.page.as_deref().unwrap_or("limiter");
    let wanted = match verb {
        "limiter" | file::NAME => verb.to_owned(),
        verb => format!("limiter-{verb}"),
    };
    let page = pages.into_iter().find(|page| page.name == wanted);
    let page = page.ok_or_else(|| {
        Usage(format!(
            "limiter has no verb '{verb}': `limiter --help` lists the verbs"
        ))
    })?;
    Ok(write(&page.roff)?)
}

/// The examples of a verb, or of `limiter` as a whole: each task with its command lines.
pub fn examples(verb: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut examples: Vec<(_, Vec<_>)> = Vec::new();
    let lines = EXAMPLES.lines();
    let lines = lines.skip_while(|line| *line != format!("[{verb}]"));
    for line in lines.skip(1).take_while(|line| !line.is_empty()) {
        match (line.strip_prefix("    "), examples.last_mut()) {
            (Some(command), Some((_, commands))) => commands.push(command),
            _ => examples.push((line, Vec::new())),
        }
    }
    examples
}

/// All pages: of the command, of each verb, and of the configuration file.
fn pages(command: Command) -> anyhow::Result<Vec<Page>> {
    // Otherwise each group of verbs would refer to a page of its `help`.
    let mut whole = command.disable_help_subcommand(true);
    whole.build();
    let verbs = whole.get_subcommands();
    let verbs = verbs.map(|verb| {
        verb.clone()
            .display_name(format!("limiter-{}", verb.get_name()))
    });
    let commands = std::iter::once(whole.clone()).chain(verbs);
    let mut pages = commands
        .map(|command| {
            Ok(Page {
                name: command.get_display_name().unwrap_or("limiter").to_owned(),
                section: page::SECTION,
                roff: page::of(&command)?,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    pages.push(Page {
        name: file::NAME.to_owned(),
        section: file::SECTION,
        roff: file::page(),
    });
    Ok(pages)
}
