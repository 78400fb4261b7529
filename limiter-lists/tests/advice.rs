//! The advice of each message works if it is followed.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use limiter_lists::{Error, Format, Options, Reason, read};

/// A text, the options, what the message says, and the text and options after its advice, with what is read then.
struct Case {
    text: &'static str,
    options: &'static str,
    says: &'static [&'static str],
    then: &'static str,
    text_then: Option<&'static str>,
    read: &'static [&'static str],
}

const fn case(
    text: &'static str,
    options: &'static str,
    says: &'static [&'static str],
    then: &'static str,
    read: &'static [&'static str],
) -> Case {
    Case {
        text,
        options,
        says,
        then,
        text_then: None,
        read,
    }
}

const ROWS: &str = "7,192.0.2.0,192.0.2.3\n8,198.51.100.0,198.51.100.1\n";
const ENDS: &[&str] = &["192.0.2.0/30", "198.51.100.0/31"];
const EACH: &[&str] = &[
    "192.0.2.0/32",
    "192.0.2.3/32",
    "198.51.100.0/32",
    "198.51.100.1/32",
];
const NESTED: &str = r#"{"a":[{"from":"192.0.2.1"}],"b":[{"from":"192.0.2.2"}],"c":1}"#;

const CASES: &[Case] = &[
    // Lines.
    case(
        "192.0.2.0 192.0.2.3",
        "",
        &["format = \"ranges\""],
        "format=ranges",
        &["192.0.2.0/30"],
    ),
    case(
        "192.0.2.0,192.0.2.3,XX,net",
        "",
        &["format = \"ranges\""],
        "format=ranges",
        &["192.0.2.0/30"],
    ),
    case(
        "192.0.2.0 24",
        "",
        &["\"networks\" for lengths"],
        "format=networks",
        &["192.0.2.0/24"],
    ),
    case(
        "192.0.2.7 24",
        "",
        &["\"table\" with field"],
        "format=table field=1",
        &["192.0.2.7/32"],
    ),
    case(
        "192.0.2.0 192.0.2.3 192.0.2.9",
        "format=ranges",
        &["\"table\" with field"],
        "format=table field=1,2,3",
        &["192.0.2.0/32", "192.0.2.3/32", "192.0.2.9/32"],
    ),
    case(
        "192.0.2.0 255.255.255.0",
        "format=ranges",
        &["\"networks\" for lengths"],
        "format=networks",
        &["192.0.2.0/24"],
    ),
    case(
        "192.0.2.0 /24 x",
        "",
        &["\"networks\" for lengths"],
        "format=networks",
        &["192.0.2.0/24"],
    ),
    case(
        "192.0.2.0 /24 x",
        "field=1",
        &["format = \"networks\" with field = [\"1\", \"2\"]"],
        "format=networks field=1,2",
        &["192.0.2.0/24"],
    ),
    case(
        "192.0.2.0 - 192.0.2.3 x",
        "field=1",
        &["format = \"ranges\" with field = [\"1\", \"3\"]"],
        "format=ranges field=1,3",
        &["192.0.2.0/30"],
    ),
    case(
        "192.0.2.7 is bad\n192.0.2.8 is, too\n",
        "",
        &["for column 1, set field = \"1\""],
        "field=1",
        &["192.0.2.7/32", "192.0.2.8/32"],
    ),
    case(
        ROWS,
        "",
        &["columns 2, 3 have addresses: set field"],
        "format=ranges field=2,3",
        ENDS,
    ),
    case(
        "192.0.2.1",
        "format=plain field=ip",
        &["format plain has none", "remove it"],
        "format=plain",
        &["192.0.2.1/32"],
    ),
    // Columns.
    case(
        ROWS,
        "format=table",
        &["set field to some of the columns 2, 3"],
        "format=table field=2,3",
        EACH,
    ),
    case(
        "192.0.2.1,x",
        "format=table",
        &["set field = \"1\""],
        "format=table field=1",
        &["192.0.2.1/32"],
    ),
    case(
        "192.0.2.1\n192.0.2.2",
        "format=table",
        &["set format = \"plain\""],
        "format=plain",
        &["192.0.2.1/32", "192.0.2.2/32"],
    ),
    case(
        ROWS,
        "field=2,3",
        &[
            "'2' and '3' may be the ends",
            "format = \"ranges\" with field = [\"2\", \"3\"]",
        ],
        "format=ranges field=2,3",
        ENDS,
    ),
    case(
        ROWS,
        "field=2,3",
        &["format = \"table\""],
        "format=table field=2,3",
        EACH,
    ),
    case(
        ROWS,
        "field=3",
        &["'2' and '3' may be the ends"],
        "format=ranges field=2,3",
        ENDS,
    ),
    case(
        "start,end\n192.0.2.0,192.0.2.3",
        "field=end",
        &["field = [\"start\", \"end\"]"],
        "format=ranges field=start,end",
        &["192.0.2.0/30"],
    ),
    case(
        "from,to\n192.0.2.0,198.51.100.1\n192.0.2.1,198.51.100.1",
        "",
        &["format = \"table\""],
        "format=table field=from",
        &["192.0.2.0/32", "192.0.2.1/32"],
    ),
    case(
        "192.0.2.0,x,24",
        "field=1",
        &[
            "'1' and '3' may be addresses and the lengths",
            "format = \"networks\" with field = [\"1\", \"3\"]",
        ],
        "format=networks field=1,3",
        &["192.0.2.0/24"],
    ),
    case(
        "ip,mask\n192.0.2.7,255.255.255.0",
        "field=ip",
        &["format = \"table\""],
        "format=table field=ip",
        &["192.0.2.7/32"],
    ),
    case(
        ROWS,
        "format=ranges field=2",
        &["set field = [\"start\", \"end\"]", "names or numbers"],
        "format=ranges field=2,3",
        ENDS,
    ),
    case(
        "192.0.2.0,x,24",
        "format=networks field=1",
        &["set field = [\"address\", \"length\"]"],
        "format=networks field=1,3",
        &["192.0.2.0/24"],
    ),
    case(
        "src_ip,dst_ip\n192.0.2.1,198.51.100.1",
        "",
        &["name those to read with field, of src_ip, dst_ip"],
        "field=src_ip,dst_ip",
        &["192.0.2.1/32", "198.51.100.1/32"],
    ),
    case(
        "host,when\n192.0.2.1,x",
        "field=ip",
        &["the header has host, when"],
        "field=host",
        &["192.0.2.1/32"],
    ),
    case(
        "192.0.2.1,x",
        "field=ip",
        &["2 columns, which field names by their numbers"],
        "field=1",
        &["192.0.2.1/32"],
    ),
    case(
        "192.0.2.1",
        "field=ip",
        &["one column, which field names by their numbers"],
        "field=1",
        &["192.0.2.1/32"],
    ),
    // Documents.
    case(
        NESTED,
        "",
        &["at a[].from, b[].from: name those to read with field"],
        "field=a[].from,b[].from",
        &["192.0.2.1/32", "192.0.2.2/32"],
    ),
    case(
        NESTED,
        "field=a",
        &["no addresses at a, but at a[].from, b[].from: name those to read with field"],
        "field=b[].from",
        &["192.0.2.2/32"],
    ),
    case(
        r#"{"ip":"192.0.2.1","network":"192.0.2.0/24"}
{"ip":"198.51.100.1","network":"198.51.100.0/24"}"#,
        "",
        &["addresses at ip, network: name those to read with field"],
        "field=network",
        &["192.0.2.0/24", "198.51.100.0/24"],
    ),
    case(
        r#"{"items":[{"network":"192.0.2.0","mask_len":24,"cidr":"192.0.2.0/24"}]}"#,
        "",
        &["at items[].network, items[].cidr: name those to read with field"],
        "field=items[].cidr",
        &["192.0.2.0/24"],
    ),
    case(
        r#"{"192.0.2.1":{"seen":"192.0.2.2"}}"#,
        "",
        &["addresses at {}, [].seen"],
        "field={}",
        &["192.0.2.1/32"],
    ),
    case(
        r#"{"a.b":[{"c.d":"192.0.2.1"}],"e":["192.0.2.2"]}"#,
        "",
        &["a.b[].c.d"],
        "field=a.b[].c.d",
        &["192.0.2.1/32"],
    ),
    // Sets.
    case(
        "add a 192.0.2.1\nadd b 192.0.2.2",
        "",
        &["sets a, b: name those to read with field"],
        "field=a,b",
        &["192.0.2.1/32", "192.0.2.2/32"],
    ),
    case(
        "add a 192.0.2.1",
        "field=b",
        &["no set 'b', only a"],
        "field=a",
        &["192.0.2.1/32"],
    ),
];

fn options(line: &str) -> Options {
    let mut options = Options {
        format: None,
        fields: Vec::new(),
        max_size: 1 << 20,
    };
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("format", name)) => options.format = Some(name.parse().expect("a format")),
            Some(("field", names)) => {
                options.fields = names.split(',').map(str::to_owned).collect()
            }
            _ => panic!("{word}"),
        }
    }
    options
}

/// The message about a list, as feeds and configurations show it.
fn message(text: &str, line: &str) -> Result<String, Error> {
    let list = read(text.as_bytes(), &options(line))?;
    assert!(list.left_out.mistakes() > 0, "{text} is read with {line}");
    let examples = list.left_out.examples.iter();
    let examples = examples.map(|example| example.reason.to_string());
    let advice = list.advice.unwrap_or_default();
    Ok(examples.fold(advice, |text, reason| format!("{text}; {reason}")))
}

/// A list after advice about its text, not its options.
fn with_text(text: &'static str, says: &'static [&'static str], then: &'static str) -> Case {
    Case {
        text_then: Some(then),
        ..case(text, "", says, "", &["192.0.2.1/32"])
    }
}

#[test]
fn advice_works_if_it_is_followed() {
    let texts = [with_text(
        "PK\x03\x04",
        &["unpack it, or use gzip"],
        "192.0.2.1",
    )];
    let mut names = Vec::new();
    for case in CASES.iter().chain(&texts) {
        let (text, line) = (case.text, case.options);
        let shown = match message(text, line) {
            Ok(message) => message,
            Err(error) => {
                names.extend(advice(&error));
                error.to_string()
            }
        };
        for says in case.says {
            assert!(shown.contains(says), "{text} with '{line}': {shown}");
        }
        let then = case.text_then.unwrap_or(text);
        let list = read(then.as_bytes(), &options(case.then));
        let list = list.unwrap_or_else(|error| panic!("{then} with '{}': {error}", case.then));
        assert_eq!(list.left_out.examples, [], "{then} with '{}'", case.then);
        let nets = list.entries.iter().flat_map(|entry| entry.range.prefixes());
        let nets: Vec<_> = nets.map(|net| net.to_string()).collect();
        assert_eq!(nets, case.read, "{then} with '{}'", case.then);
    }
    for name in ADVICE {
        assert!(names.contains(&name), "no case has the advice of {name}");
    }
}

/// Errors that say what to do, of which this file has a case.
const ADVICE: [&str; 11] = [
    "Packed",
    "WhichField",
    "NoAddresses",
    "WhichColumn",
    "NoHeader",
    "MayBePair",
    "TwoFields",
    "NoColumn",
    "NoNumber",
    "WhichSet",
    "NoSet",
];

/// The name of an error that says what to do.
fn advice(error: &Error) -> Option<&'static str> {
    match error {
        Error::Packed(_) => Some("Packed"),
        Error::WhichField(_) => Some("WhichField"),
        Error::NoAddresses { found, .. } => (!found.is_empty()).then_some("NoAddresses"),
        Error::WhichColumn(_) => Some("WhichColumn"),
        Error::NoHeader(_) => Some("NoHeader"),
        Error::MayBePair(..) => Some("MayBePair"),
        Error::TwoFields(_) => Some("TwoFields"),
        Error::NoColumn(..) => Some("NoColumn"),
        Error::NoNumber(..) => Some("NoNumber"),
        Error::WhichSet(_) => Some("WhichSet"),
        Error::NoSet(..) => Some("NoSet"),
        // A case of its own, or no advice.
        Error::NoFields(_)
        | Error::InParts(..)
        | Error::NftJson
        | Error::ManyPlaces(_)
        | Error::TooLong(..)
        | Error::Damaged(_)
        | Error::NotText(_)
        | Error::Page(..)
        | Error::Hosts(..)
        | Error::Rules(..)
        | Error::TooManyPrefixes(_)
        | Error::NotJson(_) => None,
    }
}

/// The line that the message about a document in parts has for jq.
#[test]
fn advice_about_documents_in_parts_works_if_it_is_followed() {
    for (text, line, joined, read_as) in [
        (
            r#"{"items":[{"network":"192.0.2.0","mask_len":24},{"x":1}]}"#,
            "",
            "192.0.2.0/24\n",
            "192.0.2.0/24",
        ),
        (
            r#"{"a":[{"end":"192.0.2.3","start":"192.0.2.0"}]}"#,
            "field=a[].end",
            "192.0.2.0-192.0.2.3\n",
            "192.0.2.0/30",
        ),
        (
            r#"{"a":[{"ip-start":"192.0.2.0","ip-end":"192.0.2.3"}]}"#,
            "",
            "192.0.2.0-192.0.2.3\n",
            "192.0.2.0/30",
        ),
        (
            r#"{"ip":"192.0.2.0","netmask":"255.255.255.0"}
{"ip":"192.0.2.0","netmask":"255.255.255.0"}"#,
            "",
            "192.0.2.0/255.255.255.0\n192.0.2.0/255.255.255.0\n",
            "192.0.2.0/24",
        ),
    ] {
        let error = message(text, line).expect_err("it is in parts");
        assert!(matches!(error, Error::InParts(..)), "{error}");
        let error = error.to_string();
        let filter = error.split('\'').rev().nth(1).expect("a filter");
        let mut jq = Command::new("jq");
        jq.args(["-r", filter]).stdin(Stdio::piped());
        let mut jq = jq.stdout(Stdio::piped()).spawn().expect("jq runs");
        let mut input = jq.stdin.take().expect("standard input");
        input.write_all(text.as_bytes()).expect("written");
        drop(input);
        let output = jq.wait_with_output().expect("jq").stdout;
        assert_eq!(String::from_utf8_lossy(&output), joined, "{filter}");
        let list = read(&output, &options("")).expect("a list");
        let nets = list.entries.iter().flat_map(|entry| entry.range.prefixes());
        assert!(nets.into_iter().all(|net| net.to_string() == read_as));
    }
}

#[test]
fn document_with_too_many_places_is_not_read_in_part() {
    let keys = |count: u32| {
        let keys: Vec<_> = (0..count)
            .map(|number| format!("\"k{number}\":[\"192.0.2.1\"]"))
            .collect();
        format!("{{{}}}", keys.join(","))
    };
    let entries = |count: u32, line| {
        let read = read(keys(count).as_bytes(), &options(line));
        read.map(|list| list.entries.len())
    };
    // A key, and the elements below, are two places.
    assert_eq!(entries(4_000, "field=*[]"), Ok(4_000));
    assert_eq!(entries(6_000, "field=*[]"), Err(Error::ManyPlaces(10_000)));
    assert_eq!(entries(6_000, "field=k7[]"), Ok(1));
}

#[test]
fn errors_about_sizes_are_told_from_others() {
    let long = read(
        b"192.0.2.1",
        &Options {
            max_size: 4,
            ..options("")
        },
    );
    assert!(long.is_err_and(|error| error.is_size()));
    let page = read(b"<html>", &options(""));
    assert!(page.is_err_and(|error| !error.is_size()));
    assert_eq!(Reason::ALL.len(), 11);
    assert_eq!("networks".parse(), Ok(Format::Networks));
}
