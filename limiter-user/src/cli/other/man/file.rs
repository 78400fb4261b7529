//! The page of the configuration file, with all its keys.

use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::{Page, SECTION as COMMANDS, SOURCE, literal};
use crate::config::file::tables;

pub const NAME: &str = "limiter.toml";
/// The section of the manual for files.
pub const SECTION: u8 = 5;

const DESCRIPTION: [&str; 3] = [
    "`limiter attach --config`, `limiter reload`, `limiter replay` and `limiter@IFACE.service` read this file. It is TOML. \
     `limiter config check` reports mistakes in it, and changes nothing.",
    "An unknown key is a mistake. A file with a mistake changes nothing.",
    "Lists come before limits. Of `allow` and `deny`, the longest prefix that contains the source decides; if both have \
     that prefix, `deny`. A packet of any other source must be admitted by all limits that match it, and is charged to all \
     of them or to none. A packet that no limit matches passes.",
];

const EXAMPLE: &str = include_str!("limiter.toml");

const FILES: [(&str, &str); 2] = [
    ("/etc/limiter/IFACE.toml", "Configuration of one interface."),
    (
        "/etc/limiter/limiter.toml",
        "Configuration of interfaces without a file of their own.",
    ),
];

pub fn page() -> Page {
    let mut page = Roff::new();
    let section = SECTION.to_string();
    page.control("TH", [NAME, &section, "", SOURCE, "limiter"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!(
        "{NAME} - configuration of a limiter attachment"
    ))]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION {
        page.control("PP", []).text(with_code(paragraph));
    }
    let keys = tables().map(|table| {
        let heading = format!("Keys of {} ({})", table.table, table.place);
        (heading, table.meanings().collect())
    });
    let files = ("Files".to_owned(), FILES.to_vec());
    page.control("SH", ["KEYS", "AND", "FILES"]);
    for (heading, items) in keys.chain([files]) {
        let items: Vec<(&str, &str)> = items;
        page.control("SS", [heading.as_str()]);
        for (term, is) in items {
            let text = page.control("TP", []).text([bold(term)]);
            text.text(with_code(is));
        }
    }
    page.control("SH", ["EXAMPLES"]);
    literal(&mut page, EXAMPLE.lines());
    page.control("SH", ["SEE", "ALSO"]);
    page.text([roman(format!(
        "limiter({COMMANDS}), limiter-config({COMMANDS})"
    ))]);
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        roff: page.to_roff(),
    }
}

/// Makes the text between backquotes bold.
fn with_code(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => roman(part),
        _ => bold(part),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{EXAMPLE, page, tables};
    use crate::config::file::parse;

    #[test]
    fn manual_page_has_every_key_of_the_file() {
        let page = page().roff;
        for (key, is) in tables().flat_map(|table| table.meanings()) {
            assert!(page.contains(&format!(".TP\n\\fB{key}\\fR\n")), "{key}");
            assert!(is.ends_with('.'), "{is}");
            assert!(is.matches('`').count() % 2 == 0, "{is}");
        }
    }

    #[test]
    fn example_in_the_manual_page_is_valid() {
        let file = parse(EXAMPLE, Path::new("/")).unwrap();
        assert_eq!(file.settings.limits.len(), 2);
    }
}
