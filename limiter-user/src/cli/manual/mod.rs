//! `limiter man`: made from the definition of the command line, and of the configuration file.

mod examples;
mod file;
mod page;
mod text;

use std::fs;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{
    args::{self, Cli},
    output::{Usage, write},
};

/// A manual page.
struct Page {
    name: String,
    /// 8: commands of the administrator; 5: files.
    section: u8,
    roff: String,
}

/// Prints a page, or writes all of them into a folder.
pub fn run(arguments: &args::Man) -> anyhow::Result<()> {
    let pages = pages()?;
    if let Some(folder) = &arguments.folder {
        for page in pages {
            let path = folder.join(format!("{}.{}", page.name, page.section));
            fs::write(&path, page.roff)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(());
    }
    let wanted = match arguments.page.as_deref() {
        None => "limiter".to_owned(),
        Some(file::NAME) => file::NAME.to_owned(),
        Some(verb) => page_of(verb),
    };
    let page = pages.into_iter().find(|page| page.name == wanted);
    let page = page.ok_or_else(|| {
        let verb = arguments.page.as_deref().unwrap_or_default();
        Usage(format!(
            "'{verb}' is no verb of limiter: `limiter --help` lists them"
        ))
    })?;
    Ok(write(&page.roff)?)
}

fn page_of(verb: &str) -> String {
    format!("limiter-{verb}")
}

/// All pages: of the command, of each verb, and of the configuration file.
fn pages() -> anyhow::Result<Vec<Page>> {
    // Without it each group of verbs would refer to a page of its `help`.
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = vec![Page {
        name: "limiter".to_owned(),
        section: page::SECTION,
        roff: page::of(&whole)?,
    }];
    for verb in whole.get_subcommands() {
        let name = page_of(verb.get_name());
        pages.push(Page {
            roff: page::of(&verb.clone().display_name(&name))?,
            section: page::SECTION,
            name,
        });
    }
    pages.push(Page {
        name: file::NAME.to_owned(),
        section: file::SECTION,
        roff: file::page(),
    });
    Ok(pages)
}
