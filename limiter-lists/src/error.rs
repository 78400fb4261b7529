//! The reasons why a list is refused as a whole.

use crate::unpack::Packed;

/// The reason why a list is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is longer than allowed.
    #[error("longer than {0} bytes{unpacked}: set max-size if it should be", unpacked = if *.1 { " when it is unpacked" } else { "" })]
    TooLong(u64, bool),
    /// The gzip data are damaged.
    #[error("its gzip data are damaged or cut off: {0}")]
    Damaged(String),
    /// It is packed in a way that is not read.
    #[error("it is {0}, which is not read: unpack it, or use gzip")]
    Packed(Packed),
    /// It is not text.
    #[error("it is not text: the byte at {0} is 0")]
    NotText(usize),
    /// It is a page.
    #[error("it is a web page or another XML document, not a list: line {0}, '{1}'")]
    Page(u32, String),
    /// It is a hosts file.
    #[error("it is a hosts file, which has names to block and not addresses: line {0}, '{1}'")]
    Hosts(u32, String),
    /// It has rules of a firewall.
    #[error("it has rules of a firewall, which are not a list: line {0}, '{1}'")]
    Rules(u32, String),
    /// Its ranges are too many prefixes.
    #[error(
        "its ranges are more than {0} prefixes (one per 8 bytes of max-size): set max-size if it should be"
    )]
    TooManyPrefixes(u64),
    /// The JSON is not valid.
    #[error("it is not valid JSON: {0}")]
    NotJson(String),
    /// The document has no addresses where they are looked for.
    #[error("a JSON document that begins with '{text}' has no addresses{of_field}", of_field = match .field {
        Some(field) => format!(" at {field}: it has some at {}", if .found.is_empty() { "no place".to_owned() } else { .found.join(", ") }),
        None => String::new(),
    })]
    NoAddresses {
        /// The beginning of the document.
        text: String,
        /// The field that was asked for.
        field: Option<String>,
        /// The places where it has addresses.
        found: Vec<String>,
    },
    /// The document has addresses at several places, or none that is known.
    #[error("a JSON document of an unknown layout has addresses at {}: name those to read with field", .0.join(", "))]
    WhichField(Vec<String>),
    /// Several columns may be meant.
    #[error("its header has no single column of addresses: name one with field, of {}", .0.join(", "))]
    WhichColumn(Vec<String>),
    /// There is no such column.
    #[error("it has no column '{0}'{header}", header = match .1.is_empty() {
        true => ": without a header, field is a number from 1".to_owned(),
        false => format!(": the header has {}", .1.join(", ")),
    })]
    NoColumn(String, Vec<String>),
    /// It has several sets.
    #[error("it has the sets {}: name those to read with field", .0.join(", "))]
    WhichSet(Vec<String>),
    /// There is no such set.
    #[error("it has no set '{0}', only {sets}", sets = .1.join(", "))]
    NoSet(String, Vec<String>),
    /// The format has no fields.
    #[error(
        "field names a column, a JSON path or a set, and the format {0} has none of them: remove it"
    )]
    NoFields(&'static str),
}
