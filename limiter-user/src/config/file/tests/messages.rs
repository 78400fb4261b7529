//! What files are told that are wrong, and where.

use std::path::Path;

use super::{super::parse, LIMIT};

/// The mistakes of a text, each as `LINE: MESSAGE`.
fn mistakes(text: &str) -> Vec<String> {
    let mistakes = parse(text, Path::new("/nowhere")).expect_err(text);
    mistakes.iter().map(ToString::to_string).collect()
}

/// Each mistake begins as expected, and there are no others.
fn assert_told(text: &str, expected: &[&str]) {
    let told = mistakes(text);
    let as_expected = told.len() == expected.len()
        && told
            .iter()
            .zip(expected)
            .all(|(told, start)| told.starts_with(start));
    assert!(
        as_expected,
        "{text}\ntold:     {told:#?}\nexpected: {expected:#?}"
    );
}

#[test]
fn a_key_that_is_not_known_names_the_nearest() {
    for (above, expected) in [
        (
            "max-sources = 5",
            "line 1: 'max-sources' is not a key of the file: did you mean 'max_sources'?",
        ),
        (
            "Mode = \"auto\"",
            "line 1: 'Mode' is not a key of the file: did you mean 'mode'?",
        ),
        (
            "rate = \"5/s\"",
            "line 1: 'rate' is not a key of the file: write it under [[limit]]",
        ),
        (
            "zzz = 1",
            "line 1: 'zzz' is not a key of the file: write one of interfaces, mode,",
        ),
    ] {
        assert_told(&format!("{above}\n{LIMIT}"), &[expected]);
    }
    for (below, expected) in [
        (
            "brust = 5",
            "line 4: 'brust' is not a key of a limit: did you mean 'burst'?",
        ),
        (
            "exempt = []",
            "line 4: 'exempt' is not a key of a limit: write it at the top of the file",
        ),
        (
            "limit = 5",
            "line 4: 'limit' is not a key of a limit: write it as [[limit]], a header of its own",
        ),
        (
            "protocol = \"tcp\"",
            "line 4: 'protocol' is not a key of a limit: write it in match",
        ),
        (
            "match = { protcol = 6 }",
            "line 4: 'protcol' is not a key of match: did you mean 'protocol'?",
        ),
    ] {
        assert_told(&format!("{LIMIT}{below}"), &[expected]);
    }
    assert_told(
        "[[limit]]\nname = \"a\"\nrat = 5",
        &["line 3: 'rat' is not a key of a limit: did you mean 'rate'?"],
    );
    assert_told(
        "[[limits]]\nname = \"a\"",
        &["line 1: 'limits' is not a key of the file: did you mean 'limit'?"],
    );
}

#[test]
fn a_value_of_another_type_says_what_to_write() {
    for (below, expected) in [
        (
            "burst = -5",
            "line 4: burst: the negative number -5 cannot stand here: write packets as in 10",
        ),
        (
            "burst = 1.5",
            "line 4: burst: the float 1.5 cannot stand here: write packets as in 10",
        ),
        (
            "burst = 0",
            "line 4: burst: a burst of 0 would let nothing through",
        ),
        (
            "burst = 99999999999999999999",
            "line 4: burst: '99999999999999999999' is not a whole number below 2^63",
        ),
        (
            "burst = \"64kb\"",
            "line 4: burst: burst 64kb is in bytes, rate 5/s in packets",
        ),
        (
            "cost = \"bytes\"",
            "line 4: cost: a cost in bytes does not go with 5/s, which is in packets: write \"packets\"",
        ),
        (
            "cost = 6",
            "line 4: cost: a cost of 6 could never be paid from a burst of 5",
        ),
        (
            "algorithm = \"leaky\"",
            "line 4: algorithm: 'leaky' is not known here: write \"token-bucket\" or",
        ),
        (
            "shadow = \"yes\"",
            "line 4: shadow: the text 'yes' cannot stand here: write true or false",
        ),
        (
            "key = [32, 64]",
            "line 4: key: an array cannot stand here: write a key as in \"/32,/64\"",
        ),
        (
            "match = \"tcp\"",
            "line 4: match: the text 'tcp' cannot stand here: write a table as in {",
        ),
        (
            "match = { source = \"gold\" }",
            "line 4: source: there is no list 'gold': write it under [lists]",
        ),
        (
            "match = { unless = [] }",
            "line 4: unless: an empty array says nothing",
        ),
        (
            "match = { ip_version = 5 }",
            "line 4: ip_version: 5 is not a version of IP: write 4 or 6",
        ),
        (
            "match = { tcp_flags = [\"syn/ack\"] }",
            "line 4: tcp_flags: 'syn/ack' is more than one flag",
        ),
        (
            "match = { destination_port = [\n  53,\n  70000,\n] }",
            "line 6: destination_port: '70000' is not a port",
        ),
        (
            "[limit.match]\nprotocol = \"icmp\"\nsource_port = 5",
            "line 5: protocol: protocol icmp has no ports",
        ),
    ] {
        assert_told(&format!("{LIMIT}{below}"), &[expected]);
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_order() {
    let text = "mode = \"atuo\"\n[lists]\nallow = [\n  \"192.0.2.7/24\",\n  5,\n]\nfew = { file = \"few.txt\" }\n\
                [[limit]]\nname = \"a\"\n[[limit]]\nrate = 5 / s\nname = \"b c\"\n[[limit]]\nname = \"a\"\nrate = 1\nname = \"c\"\n";
    assert_told(
        text,
        &[
            "line 1: mode: 'atuo' is not known here: did you mean \"auto\"?",
            "line 4: allow: '192.0.2.7/24' has bits set behind its prefix",
            "line 5: allow: the number 5 cannot stand here: write a prefix as in \"192.0.2.0/24\"",
            "line 7: few: cannot read /nowhere/few.txt: No such file",
            "line 8: a limit needs 'rate', which is missing: write it as in rate = \"5/s\"",
            "line 11: the value 5 / s is a text without quotes: write \"5 / s\"",
            "line 12: name: 'b c' is not a name",
            "line 14: name: two limits are called 'a'",
            "line 16: 'name' is written twice: leave one",
        ],
    );
}

#[test]
fn what_is_no_toml_is_told_once() {
    for (text, expected) in [
        ("", "line 1: nothing to limit: write [[limit]]"),
        (
            "[[limit]\nname = \"a\"\nrate = 5",
            "line 1: '[[limit]' is not a header",
        ),
        (
            "[limit]\nname = \"a\"\nrate = 5",
            "line 1: [limit] makes one limit only: write [[limit]]",
        ),
        (
            "[limit]\nname = \"a\"\nrate = 5\n[limit]\nname = \"b\"\nrate = 5",
            "line 4: [limit] makes one limit only",
        ),
        (
            "mode = \n[[limit]]\nname = \"a\"\nrate = 5",
            "line 1: a value is missing behind '='",
        ),
        (
            "mode\n[[limit]]\nname = \"a\"\nrate = 5",
            "line 1: a key without a value",
        ),
        (
            "interfaces = [\n\"a\",\n[[limit]]\nname = \"a\"\nrate = 5",
            "line 1: '[' opens here and is never closed",
        ),
        (
            "[[limit]]\nname = \"a\"\nmatch = { protocol = 6\nrate = 5",
            "line 3: '{' opens here and is never closed",
        ),
        (
            "[[limit]]\nname = \"a\nrate = 5",
            "line 2: a string begins and does not end",
        ),
        (
            "[[limit]]\nname = \"\"\"a\nrate = 5",
            "line 2: a string begins with \"\"\" and does not end",
        ),
        (
            "lists = 5\n[[limit]]\nname = \"a\"\nrate = 5\nmatch = { source = \"p\" }",
            "line 1: lists: the number 5",
        ),
    ] {
        assert_told(text, &[expected]);
    }
}

#[test]
fn strings_end_where_toml_ends_them() {
    for value in [
        r#""""'"""""#,
        r##""#[""##,
        r#"'[\'"#,
        r#""\"[""#,
        "'''\n[a\n'''",
        "\"\"\"\\\"\"\"[\n\"\"\"",
    ] {
        let text = format!("interfaces = {value}\nmode = 5 5\n{LIMIT}");
        let told = mistakes(&text);
        let broken = text
            .lines()
            .position(|line| line.starts_with("mode"))
            .unwrap()
            + 1;
        let broken = format!("line {broken}: ");
        assert!(
            told.iter().any(|told| told.starts_with(&broken)),
            "{text}: {told:?}"
        );
        assert!(
            !told
                .iter()
                .any(|told| told.contains("opens") || told.contains("begins")),
            "{text}: {told:?}"
        );
    }
}

#[test]
fn what_is_told_fits_on_a_screen() {
    for text in [
        "[".repeat(9_000),
        format!("mode = \"a\\nb\\u001b{}\"", "é".repeat(9_000)),
    ] {
        for told in mistakes(&text) {
            assert!(told.chars().count() < 700, "{told}");
            assert!(!told.contains(['\n', '\u{1b}']), "{told}");
        }
    }
}
