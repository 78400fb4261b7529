//! The page of the command, or of a verb.

use std::io;

use clap::Command;
use clap_mangen::Man;

use super::{
    examples, file,
    text::{item, literal, section, with_code},
};

/// The section of the manual for commands of the administrator.
pub const SECTION: u8 = 8;

/// What the pages are of.
pub const SOURCE: &str = concat!("limiter ", env!("CARGO_PKG_VERSION"));

const FILES: [(&str, &str); 5] = [
    (
        "/etc/limiter/IFACE.toml",
        "The configuration that `limiter@IFACE.service` puts in force.",
    ),
    (
        "/etc/limiter/limiter.toml",
        "The configuration of interfaces without a file of their own.",
    ),
    ("/etc/default/limiter", "Settings of the units of systemd."),
    (
        "/sys/fs/bpf/limiter",
        "What is attached: programs and maps, pinned in bpffs.",
    ),
    (
        "/usr/share/doc/limiter",
        "The documents: a cookbook, operating, security, metrics, fleets.",
    ),
];

const EXIT_STATUS: [(&str, &str); 3] = [
    ("0", "Done, or unchanged because it was so already."),
    (
        "1",
        "It failed, which standard error explains; with `--strict` also if nothing was to be changed.",
    ),
    ("2", "The command line is wrong."),
];

/// The page of a command that is built.
pub fn of(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone()).section(SECTION.to_string());
    let man = man.manual("limiter").source(SOURCE);
    let mut page = roff(|out| man.render_title(out))?;
    page += &without_preamble(&roff(|out| {
        man.render_name_section(out)?;
        man.render_synopsis_section(out)?;
        man.render_description_section(out)?;
        man.render_options_section(out)
    })?);
    let is_whole = command.get_name() == "limiter";
    if is_whole {
        page += &without_preamble(&roff(|out| man.render_subcommands_section(out))?);
    } else if command.has_subcommands() {
        page += &section("SUBCOMMANDS");
        for inner in command.get_subcommands() {
            page += &nested(inner)?;
        }
    }
    page += &section("EXAMPLES");
    for (what, line) in examples::of(command.get_name()) {
        page += &format!(".PP\n{}\n{}", with_code(what), literal(line));
    }
    page += &items("FILES", &FILES);
    page += &items("EXIT STATUS", &EXIT_STATUS);
    page += &section("SEE ALSO");
    if !is_whole {
        page += &format!(".BR limiter ({SECTION}),\n");
    }
    page += &format!(".BR {} ({})\n", file::NAME, file::SECTION);
    Ok(page)
}

/// A verb within a verb, which has no page of its own.
fn nested(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone());
    let mut parts = format!(".SS {}\n", command.get_bin_name().unwrap_or_default());
    for part in [
        roff(|out| man.render_synopsis_section(out))?,
        roff(|out| man.render_description_section(out))?,
        roff(|out| man.render_options_section(out))?,
    ] {
        let lines = without_preamble(&part);
        let lines = lines.lines().filter(|line| !line.starts_with(".SH"));
        parts += ".PP\n";
        parts.extend(lines.flat_map(|line| [line, "\n"]));
    }
    Ok(parts)
}

fn roff(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<String> {
    let mut out = Vec::new();
    render(&mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Each part begins with a definition that a page needs once.
fn without_preamble(part: &str) -> String {
    let lines = part.lines();
    let lines = lines.filter(|line| !line.starts_with(".ie ") && !line.starts_with(".el "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// A section of terms.
pub fn items(name: &str, of: &[(&str, &str)]) -> String {
    let of = of.iter().map(|(term, is)| item(term, is));
    section(name) + &of.collect::<String>()
}
