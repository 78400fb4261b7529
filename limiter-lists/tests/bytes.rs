//! Lists that are packed or encoded, and their bounds.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use limiter_lists::{Error, List, Options, Packed, read};

fn with_size(bytes: &[u8], max_size: u64) -> Result<List, Error> {
    read(
        bytes,
        &Options {
            format: None,
            fields: Vec::new(),
            max_size,
        },
    )
}

fn prefixes(bytes: &[u8]) -> Vec<String> {
    let list = with_size(bytes, 1 << 20).expect("a list");
    assert_eq!(list.left_out.examples, []);
    let all = list.entries.iter().flat_map(|entry| entry.range.prefixes());
    all.map(|net| net.to_string()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("finished")
}

const TEXT: &str = "# ä\r\n192.0.2.0/24\r\n2001:db8::1\r\n";
const MEANT: [&str; 2] = ["192.0.2.0/24", "2001:db8::1/128"];

#[test]
fn encodings_are_read() {
    assert_eq!(prefixes(TEXT.as_bytes()), MEANT);
    assert_eq!(prefixes(format!("\u{feff}{TEXT}").as_bytes()), MEANT);
    let units: Vec<u16> = "\u{feff}"
        .encode_utf16()
        .chain(TEXT.encode_utf16())
        .collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    assert_eq!(
        (prefixes(&little), prefixes(&big)),
        (prefixes(TEXT.as_bytes()), prefixes(TEXT.as_bytes()))
    );
    // Latin-1 in a comment.
    assert_eq!(
        prefixes(b"# \xe4\n192.0.2.0/24\n2001:db8::1 # \xfc\n"),
        MEANT
    );
    // A line that is cut off at the end of the file is a line.
    assert_eq!(prefixes(b"192.0.2.0/24\n2001:db8::1"), MEANT);
}

#[test]
fn gzip_is_unpacked_up_to_the_bound() {
    assert_eq!(prefixes(&gzip(TEXT.as_bytes())), MEANT);
    // Several streams behind each other.
    let mut two = gzip(b"192.0.2.0/24\n");
    two.extend(gzip(b"2001:db8::1\n"));
    assert_eq!(prefixes(&two), MEANT);
    let bomb = gzip(&vec![b'\n'; 50 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert_eq!(
        with_size(&bomb, 1 << 20),
        Err(Error::TooLong(1 << 20, true))
    );
    assert_eq!(
        with_size(TEXT.as_bytes(), 10),
        Err(Error::TooLong(10, false))
    );
    let packed = gzip(TEXT.as_bytes());
    let cut_off = with_size(&packed[..packed.len() - 9], 1 << 20);
    assert!(matches!(cut_off, Err(Error::Damaged(_))), "{cut_off:?}");
}

#[test]
fn other_files_are_refused() {
    for (bytes, packed) in [
        (&b"PK\x03\x04xx"[..], Packed::Zip),
        (b"BZh9xx", Packed::Bzip2),
        (b"\xfd7zXZ\0x", Packed::Xz),
        (b"\x28\xb5\x2f\xfdx", Packed::Zstd),
        (b"7z\xbc\xaf\x27\x1cx", Packed::SevenZip),
    ] {
        assert_eq!(with_size(bytes, 99), Err(Error::Packed(packed)));
    }
    // A tar archive, and UTF-16 without a byte order mark.
    assert_eq!(
        with_size(b"list.txt\0\0\0\n192.0.2.1\n", 99),
        Err(Error::NotText(8))
    );
    assert_eq!(with_size(b"1\09\0", 99), Err(Error::NotText(1)));
}

#[test]
fn ranges_become_no_more_prefixes_than_the_bound_allows() {
    let many = "::1-8000::\n".repeat(100);
    assert_eq!(
        with_size(many.as_bytes(), 4_000),
        Err(Error::TooManyPrefixes(500))
    );
    assert_eq!(
        with_size(many.as_bytes(), 1 << 20).map(|list| list.entries.len()),
        Ok(100)
    );
}
