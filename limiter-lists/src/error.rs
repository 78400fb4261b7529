//! The reasons why a list is refused as a whole.

use crate::{pair::Pair, unpack::Packed};

/// The reason why a list is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is longer than allowed.
    #[error("it is longer than {0} bytes{unpacked}", unpacked = if *.1 { " when it is unpacked" } else { "" })]
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
    #[error("its ranges are more than {0} prefixes (one per 8 bytes of the longest list)")]
    TooManyPrefixes(u64),
    /// The JSON is not valid.
    #[error("it is not valid JSON: {0}")]
    NotJson(String),
    /// The document has no addresses where they are looked for.
    #[error("a JSON document that begins with '{text}' has no addresses{of_field}", of_field = match (.field, &.found[..]) {
        (None, _) => String::new(),
        (Some(field), []) => format!(" at {field}, nor elsewhere"),
        (Some(field), found) => format!(" at {field}, but at {}: name those to read with field", found.join(", ")),
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
    /// The document has addresses at too many places for a field with `*`.
    #[error(
        "a JSON document with addresses at more than {0} places: name each of those to read with field, without * and []"
    )]
    ManyPlaces(usize),
    /// Two fields of a document may be one entry.
    #[error("the fields '{1}' and '{2}' of a JSON document may be {parts}, which are not read from JSON: join them first, as by jq -r '..|objects|select(.\"{1}\" and .\"{2}\")|\"\\(.\"{1}\"){mark}\\(.\"{2}\")\"'",
        parts = .0.words(), mark = match .0 { Pair::Ends => '-', Pair::Network => '/' })]
    InParts(Pair, String, String),
    /// It is the JSON output of nft.
    #[error("it is the JSON output of nft, which is not read: write it without -j")]
    NftJson,
    /// Several columns may be meant.
    #[error("its header has several columns of addresses: name those to read with field, of {}", .0.join(", "))]
    WhichColumn(Vec<String>),
    /// The columns of the addresses are not certain. Their numbers, if it has several columns.
    #[error("no header or form shows which columns have the addresses: {advice}", advice = match &.0[..] {
        [] => "set format = \"plain\" if each line has one entry".to_owned(),
        [column] => format!("set field = \"{column}\" for that column"),
        columns => format!("set field to some of the columns {}", columns.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    })]
    NoHeader(Vec<usize>),
    /// Two columns may belong together.
    #[error("{meaning}: set format = \"{format}\" with field = [\"{first}\", \"{second}\"] if they are, or format = \"table\" if each address of field counts by itself",
        meaning = format!("the columns '{}' and '{}' may be {}", .1, .2, .0.words()),
        format = .0.format().name(), first = .1, second = .2)]
    MayBePair(Pair, String, String),
    /// The format needs two columns.
    #[error("format = \"{name}\" needs two columns: set field = {example}, with the names or numbers of the columns", name = .0.format().name(), example = match .0 {
        Pair::Ends => "[\"start\", \"end\"]",
        Pair::Network => "[\"address\", \"length\"]",
    })]
    TwoFields(Pair),
    /// There is no such column.
    #[error("it has no column '{0}': the header has {header}", header = .1.join(", "))]
    NoColumn(String, Vec<String>),
    /// There is no such column in a list without a header, of this many columns.
    #[error("it has no column '{0}': it has no header, and its first line has {columns}, which field names by their numbers from 1", columns = match .1 {
        1 => "one column".to_owned(),
        count => format!("{count} columns"),
    })]
    NoNumber(String, usize),
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

impl Error {
    /// Returns true if the list is refused only because it is larger than the options allow.
    pub fn is_size(&self) -> bool {
        matches!(self, Self::TooLong(..) | Self::TooManyPrefixes(_))
    }
}
