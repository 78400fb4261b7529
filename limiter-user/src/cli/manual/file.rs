//! The page of the configuration file, with every key that it may have.

use super::{
    page::{SECTION as COMMANDS, SOURCE},
    text::{item, literal, plain, section, with_code},
};
use crate::config::file::TABLES;

/// The page.
pub const NAME: &str = "limiter.toml";
/// The section of the manual for files.
pub const SECTION: u8 = 5;

const DESCRIPTION: [&str; 3] = [
    "`limiter attach --config`, `limiter reload`, `limiter replay` and `limiter@IFACE.service` read this file. It is TOML. \
     `limiter config check` finds everything that is wrong with it, and changes nothing.",
    "A key that is not named here is a mistake, and a file with a mistake changes nothing.",
    "Lists come before limits. Of `allow` and `deny` the longest prefix that holds the source decides, and `deny` where both \
     have the same one. A packet of any other source must be admitted by all limits that match it, and is charged to all of \
     them or to none. A packet that no limit matches passes.",
];

const EXAMPLE: &str = r#"interfaces = ["eth0"]
exempt = ["established", "control"]
shadow = true

[lists]
deny = ["203.0.113.66"]
own = ["192.0.2.0/24", "2001:db8::/32"]

[[limit]]
name = "ssh"
match = { protocol = "tcp", destination_port = 22, tcp_flags = "syn" }
rate = "5/m"
burst = 5

[[limit]]
name = "others"
match = { unless = "own" }
key = "/24,/48"
rate = "20k/s"
"#;

/// The whole page.
pub fn page() -> String {
    let mut page = format!(".TH {NAME} {SECTION} \"\" \"{SOURCE}\" limiter\n");
    page += &section("NAME");
    page += &format!("{} \\- how limiter limits an interface\n", plain(NAME));
    page += &section("DESCRIPTION");
    for paragraph in DESCRIPTION {
        page += &format!(".PP\n{}\n", with_code(paragraph));
    }
    page += &section("KEYS");
    for table in TABLES {
        page += &format!(
            ".SS Keys of {} ({})\n",
            plain(table.table),
            plain(table.place)
        );
        page.extend(table.known.iter().map(|(key, is)| item(key, is)));
    }
    page += &section("EXAMPLES");
    page += &literal(EXAMPLE);
    page += &section("FILES");
    page += &item("/etc/limiter/IFACE.toml", "For one interface.");
    page += &item(
        "/etc/limiter/limiter.toml",
        "For interfaces without a file of their own.",
    );
    page += &section("EXIT STATUS");
    page += "Of \\fBlimiter config check\\fR: 0 if the file is sound, 1 if it is not.\n";
    page += &section("SEE ALSO");
    for other in ["limiter", "limiter-attach", "limiter-config"] {
        page += &format!(".BR {} ({COMMANDS}),\n", plain(other));
    }
    page += &format!(".BR limiter\\-reload ({COMMANDS})\n");
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{EXAMPLE, TABLES, page};
    use crate::config::file::parse;

    #[test]
    fn every_key_of_the_file_is_in_its_page() {
        let sources = [
            include_str!("../../config/file/keys.rs"),
            include_str!("../../config/file/packets.rs"),
        ];
        let tables: usize = sources
            .iter()
            .map(|source| source.matches(": Keys = Keys {").count())
            .sum();
        assert_eq!(
            tables,
            TABLES.len(),
            "a table of keys is not among all of them"
        );
        let page = page();
        for table in TABLES {
            for (key, is) in table.known {
                assert!(page.contains(&format!(".TP\n\\fB{key}\\fR\n")), "{key}");
                assert!(
                    is.ends_with('.') && is.matches('`').count() % 2 == 0,
                    "{is}"
                );
            }
        }
    }

    #[test]
    fn its_example_is_sound() {
        let file = parse(EXAMPLE, Path::new("/")).unwrap();
        assert_eq!(file.settings.limits.len(), 2);
    }
}
