//! Each list in `lists` is read as the file beside it says, and the page about formats names it.

use std::{collections::BTreeSet, fs, path::Path};

use limiter_lists::{List, Options, Reason, read};

const MOST: u64 = 1 << 20;

fn options(line: &str) -> Options {
    let mut options = Options {
        format: None,
        fields: Vec::new(),
        max_size: MOST,
    };
    for word in line.strip_prefix("options: ").expect("options").split(' ') {
        match word.split_once('=') {
            Some(("format", name)) => options.format = Some(name.parse().expect("a format")),
            Some(("field", names)) => {
                options.fields = names.split(',').map(str::to_owned).collect()
            }
            _ => assert_eq!(word, "auto"),
        }
    }
    options
}

/// A list as the files with what is expected have it.
fn shown(list: &List) -> String {
    let mut text = format!("format: {} ({})\n", list.format, list.why);
    for entry in list.entries.iter() {
        let prefixes: Vec<_> = entry.range.prefixes().map(|net| net.to_string()).collect();
        text += &format!("{}: {}", entry.place, prefixes.join(" "));
        if entry.has_host_bits {
            text += ", with host bits";
        }
        if let Some(time) = entry.ends_in {
            text += &format!(", ends in {time:?}");
        }
        text += "\n";
    }
    for example in &list.left_out.examples {
        text += &format!("left out: {example}: {}\n", example.reason);
    }
    if let Some(advice) = &list.advice {
        text += &format!("advice: {advice}\n");
    }
    text
}

#[test]
fn lists_are_read_as_the_files_beside_them_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lists");
    let page = fs::read_to_string(folder.join("../../../docs/list-formats.md")).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let mut found = BTreeSet::new();
    let mut wrong = String::new();
    for file in fs::read_dir(&folder).expect("the folder") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|kind| kind != "txt") {
            continue;
        }
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let expected = path.with_extension("expected");
        let text = fs::read_to_string(&expected).expect("what is expected");
        let first = text.lines().next().expect("a line");
        let outcome = match read(&fs::read(&path).expect("the list"), &options(first)) {
            Ok(list) => shown(&list),
            Err(error) => format!("refused: {error}\n"),
        };
        let all = format!("{first}\n{outcome}");
        if std::env::var_os("LIMITER_WRITE_DOCS").is_some() {
            fs::write(&expected, &all).expect("written");
        } else if all != text {
            wrong += &format!("{name} is read as\n{all}and not as\n{text}\n");
        }
        found.insert(name);
    }
    assert_eq!(wrong, "");
    let found: BTreeSet<_> = found.iter().map(String::as_str).collect();
    assert_eq!(
        named, found,
        "the rows of docs/list-formats.md, and the lists"
    );
}

#[test]
fn page_names_every_reason() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/list-formats.md");
    let page = fs::read_to_string(page).expect("the page");
    for reason in Reason::ALL {
        assert!(page.contains(&reason.to_string()), "{reason}");
    }
}
