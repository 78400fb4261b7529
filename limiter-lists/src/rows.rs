//! The columns of a list that has no header, or one of unknown names.

use crate::{
    address::{self, is_netmask, is_number},
    cells::{Cutter, DELIMITERS, cut},
    header::{Columns, DSHIELD, row},
    lines::significant,
    table::Layout,
};

/// Rows that make it certain which column has the addresses.
const CERTAIN: usize = 3;

/// Rows of which the first one with an address shows the columns that may have them.
const SHOWN: usize = 5;

/// Finds the layout. All rows have as many columns, and only one of them has addresses, in all rows. No other column may
/// be the length of a prefix, or the end of a range. Or all rows are those of DShield's list.
pub fn layout(text: &str) -> Option<Layout> {
    DELIMITERS.into_iter().find_map(|delimiter| {
        let (number, first) = significant(text).next()?;
        let is_title = is_title(first);
        let mut cutter = Cutter::new(delimiter);
        let mut kinds: Vec<[bool; 3]> = Vec::new();
        let (mut rows, mut is_dshield) = (0_usize, true);
        let width = cut(delimiter, first).len();
        for (_, line) in significant(text).skip(usize::from(is_title)) {
            let cells = cutter.cut(line)?;
            if rows == 0 {
                kinds = vec![[true; 3]; width];
            }
            let is_same = cells.len() == kinds.len() && cells.len() > 1;
            is_dshield &= cells.len() > 2 && row(&DSHIELD, &cells)[0].is_ok();
            if !is_same && !is_dshield {
                return None;
            }
            rows += 1;
            if cells.iter().any(|cell| is_exception(cell)) {
                return None;
            }
            for (kind, cell) in kinds.iter_mut().zip(&cells) {
                let is_entry = address::read(cell).is_ok();
                let is_length = is_number(cell) && cell.parse::<u8>().is_ok();
                // A length or an end that belongs to the column before.
                let is_rest = cell.len() > 1 && cell.starts_with(['/', '-']);
                let is_other = !is_entry && !is_rest && !is_netmask(cell);
                *kind = [
                    kind[0] && is_entry,
                    kind[1] && is_length,
                    kind[2] && is_other,
                ];
            }
            // Two columns with addresses, or none: no later row mends that.
            let with_parts = kinds.iter().filter(|kind| !kind[2]).count();
            if !is_dshield && with_parts != 1 {
                return None;
            }
        }
        if is_dshield && rows > 0 {
            let why = "in all rows, the first address, the last one and the length agree";
            return Some(Layout::new(delimiter, DSHIELD, why));
        }
        let addresses: Vec<_> = (0..kinds.len()).filter(|place| kinds[*place][0]).collect();
        let mut others = kinds.iter().filter(|kind| !kind[0]);
        let are_others = others.all(|kind| kind[2] && !kind[1]);
        (addresses.len() == 1 && are_others && rows >= CERTAIN).then(|| {
            let title = match is_title {
                true => format!("line {number} is a header, and "),
                false => String::new(),
            };
            let column = addresses[0] + 1;
            let why = format!("{title}only column {column} has addresses, in all rows");
            let mut layout = Layout::new(delimiter, Columns::Addresses(addresses), &why);
            layout.header = if is_title { number } else { 0 };
            layout
        })
    })
}

/// Words of rules whose addresses are not to be banned.
const EXCEPTIONS: [&str; 7] = [
    "allow",
    "permit",
    "accept",
    "pass",
    "except",
    "whitelist",
    "ignore",
];

fn is_exception(cell: &str) -> bool {
    let word = cell.trim_end_matches([';', ':']);
    EXCEPTIONS
        .iter()
        .any(|exception| word.eq_ignore_ascii_case(exception))
}

/// Returns true for words that can only name columns: no address or name of a host is among them.
pub fn is_title(line: &str) -> bool {
    !line.contains(|mark: char| mark.is_ascii_digit() || ".:".contains(mark))
}

/// The numbers, from 1, of the columns that have addresses in one of the first rows, if it has several columns. None if
/// some rows may be exceptions.
pub fn with_addresses(text: &str) -> Vec<usize> {
    let mut lines = significant(text);
    if lines.any(|(_, line)| line.split([' ', '\t', ',', ';', '|']).any(is_exception)) {
        return Vec::new();
    }
    let rows = significant(text).take(SHOWN);
    let found = rows.map(|(_, line)| {
        let cells = DELIMITERS.map(|delimiter| cut(delimiter, line));
        // The rest of a range or a prefix belongs to the address before.
        let is_rest = |cell: &String| cell.starts_with(['-', '/']);
        let columns = cells.iter();
        let columns = columns.filter(|cells| cells.len() > 1 && !cells.iter().any(is_rest));
        let columns = columns.map(|cells| {
            let cells = (1..).zip(cells);
            let cells = cells.filter(|(_, cell)| address::read(cell).is_ok());
            cells.map(|(number, _)| number).collect::<Vec<_>>()
        });
        columns.max_by_key(Vec::len).unwrap_or_default()
    });
    let mut found = found.filter(|columns| !columns.is_empty());
    found.next().unwrap_or_default()
}
