//! The page of the command, or of a verb.

use std::io;

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};

use super::{examples, file};

/// The section of the manual for commands of the administrator.
pub const SECTION: u8 = 8;

/// The program and its version, as the pages show them.
pub const SOURCE: &str = concat!("limiter ", env!("CARGO_PKG_VERSION"));

const FILES: [(&str, &str); 5] = [
    (
        "/etc/limiter/IFACE.toml",
        "The configuration that `limiter@IFACE.service` applies.",
    ),
    (
        "/etc/limiter/limiter.toml",
        "The configuration of interfaces without a file of their own.",
    ),
    ("/etc/default/limiter", "Settings of the systemd units."),
    (
        "/sys/fs/bpf/limiter",
        "Pinned programs and maps of all attachments (bpffs).",
    ),
    (
        "/usr/share/doc/limiter",
        "The documents: a cookbook, operating, security, metrics, fleets.",
    ),
];

const EXIT_STATUS: [(&str, &str); 3] = [
    ("0", "Success. Also if there was nothing to change."),
    (
        "1",
        "Failure, explained on standard error. With `--strict`, also if there was nothing to change, or a file has warnings.",
    ),
    ("2", "Wrong command line."),
];

/// The page of a command, which must be built.
pub fn of(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone()).section(SECTION.to_string());
    let man = man.manual("limiter").source(SOURCE);
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    let is_whole = command.get_name() == "limiter";
    if is_whole {
        man.render_subcommands_section(&mut out)?;
    } else if command.has_subcommands() {
        out.extend(b".SH SUBCOMMANDS\n");
        for inner in command.get_subcommands() {
            out.extend(nested(inner)?.into_bytes());
        }
    }
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]);
    for (what, lines) in examples(command.get_name()) {
        page.control("PP", []).text(with_code(what));
        literal(&mut page, lines.into_iter());
    }
    page.control("SH", ["FILES"]);
    items(&mut page, FILES);
    page.control("SH", ["EXIT", "STATUS"]);
    items(&mut page, EXIT_STATUS);
    page.control("SH", ["SEE", "ALSO"]);
    if !is_whole {
        page.text([bold("limiter"), roman(format!(" ({SECTION}),"))]);
    }
    page.text([bold(file::NAME), roman(format!(" ({})", file::SECTION))]);
    Ok(without_preamble(out)? + &page.to_roff())
}

/// The text about a verb within a verb, which has no page of its own.
fn nested(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    let parts = without_preamble(out)?;
    let lines = parts.lines().map(|line| match line.starts_with(".SH") {
        true => ".PP\n".to_owned(),
        false => format!("{line}\n"),
    });
    let name = command.get_bin_name().unwrap_or_default();
    Ok(format!(".SS {name}\n") + &lines.collect::<String>())
}

/// Removes the definitions of apostrophes that begin each of clap's parts. A page needs them once.
fn without_preamble(parts: Vec<u8>) -> io::Result<String> {
    let parts = String::from_utf8(parts).map_err(io::Error::other)?;
    let is_definition = |line: &&str| line.starts_with(".ie ") || line.starts_with(".el ");
    let mut first = parts.lines().take_while(is_definition).collect::<Vec<_>>();
    first.extend(parts.lines().filter(|line| !is_definition(line)));
    Ok(first.join("\n") + "\n")
}

/// Makes the text between backquotes bold.
pub fn with_code(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => roman(part),
        _ => bold(part),
    });
    parts.collect()
}

/// Adds terms with their explanations.
pub fn items<'a>(page: &mut Roff, of: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (term, is) in of {
        page.control("TP", [])
            .text([bold(term)])
            .text(with_code(is));
    }
}

/// Adds lines without any formatting.
pub fn literal<'a>(page: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    page.control("PP", [])
        .control("RS", ["4"])
        .control("nf", []);
    for line in lines {
        page.text([roman(line)]);
    }
    page.control("fi", []).control("RE", []);
}
