//! `limiter man`: pages made from the definitions of the command line and of the configuration file.

mod file;

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::cli::shared::{Usage, write};

/// The EXAMPLES section of each page: under the verb's name, each task and its command lines.
const EXAMPLES: &str = include_str!("man/examples.txt");

/// The section of the manual for commands of the administrator.
const SECTION: u8 = 8;
const SOURCE: &str = concat!("limiter ", env!("CARGO_PKG_VERSION"));
const EXIT_STATUS: &str = "0: success, also if there was nothing to change. 1: failure, explained on standard error; \
                           with --strict, also if there was nothing to change, or a file has warnings. 2: wrong command line.";

/// Print a manual page (roff), or write all pages
#[derive(Debug, Args)]
pub struct Manual {
    /// The page: a verb, as in attach or deny-add, or limiter.toml. Default: the page of limiter
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

pub fn run(arguments: &Manual, command: Command) -> anyhow::Result<()> {
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

/// The examples of a verb, or of `limiter` as a whole: each task, then its command lines, which are indented.
pub fn examples(verb: &str) -> impl Iterator<Item = &'static str> {
    let lines = EXAMPLES.lines();
    let lines = lines.skip_while(move |line| *line != format!("[{verb}]"));
    lines.skip(1).take_while(|line| !line.is_empty())
}

/// All pages: of the command, of each verb, also within verbs, and of the configuration file.
fn pages(command: Command) -> anyhow::Result<Vec<Page>> {
    // Otherwise each group of verbs would refer to a page of its `help`.
    let mut whole = command.disable_help_subcommand(true);
    whole.build();
    let mut pages = vec![file::page()];
    add(&whole, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    let man = Man::new(command.clone()).section(SECTION.to_string());
    let mut out = Vec::new();
    man.manual("limiter").source(SOURCE).render(&mut out)?;
    let mut examples = examples(command.get_name()).peekable();
    let mut end = Roff::new();
    if examples.peek().is_some() {
        end.control("SH", ["EXAMPLES"]);
        literal(&mut end, examples);
    }
    end.control("SH", ["EXIT", "STATUS"])
        .text([roman(EXIT_STATUS)]);
    end.control("SH", ["SEE", "ALSO"]);
    let others = format!("limiter({SECTION}), {}({})", file::NAME, file::SECTION);
    end.text([roman(others)]);
    pages.push(Page {
        name: command.get_display_name().unwrap_or("limiter").to_owned(),
        section: SECTION,
        roff: String::from_utf8(out)? + &end.to_roff(),
    });
    command
        .get_subcommands()
        .try_for_each(|inner| add(inner, pages))
}

fn literal<'a>(page: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    page.control("PP", [])
        .control("RS", ["4"])
        .control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []).control("RE", []);
}
