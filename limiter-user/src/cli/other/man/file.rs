//! The page of the configuration file, with all its keys.

use clap_mangen::roff::{Inline, Roff, bold, roman};
use limiter_config::file::TABLES;

use super::{Page, SOURCE, literal};

pub const NAME: &str = "limiter.toml";
/// The section of the manual for files.
pub const SECTION: u8 = 5;

/// The page, without its keys and its example.
const PAGE: &str = include_str!("limiter.toml.5");
const EXAMPLE: &str = include_str!("limiter.toml");

pub fn page() -> Page {
    let mut keys = Roff::new();
    for table in TABLES {
        let heading = format!("Keys of {} ({})", table.table, table.place);
        keys.control("SS", [heading.as_str()]);
        for known in table.all() {
            let text = keys.control("TP", []).text([bold(known.key)]);
            text.text(with_code(&known.meaning()));
        }
    }
    let mut example = Roff::new();
    literal(&mut example, EXAMPLE.lines());
    let page = PAGE.replace("@SOURCE@", SOURCE);
    let page = page.replace("@KEYS@", &keys.to_roff());
    Page {
        name: NAME.to_owned(),
        section: SECTION,
        roff: page.replace("@EXAMPLE@", &example.to_roff()),
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

    use super::{EXAMPLE, SOURCE, TABLES, page};
    use limiter_config::file::parse;

    #[test]
    fn manual_page_has_every_key_of_the_file() {
        let page = page().roff;
        let title = format!(".TH limiter.toml 5 \"\" \"{SOURCE}\" limiter\n");
        assert!(page.starts_with(&title), "{page}");
        assert!(page.contains("\n[[limit]]\n"), "the example");
        for known in TABLES.iter().flat_map(|table| table.all()) {
            let (key, is) = (known.key, known.meaning());
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
