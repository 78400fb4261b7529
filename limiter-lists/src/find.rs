//! Finding the format of a list, and reading it.

use crate::{
    Options, blocklists, documents, error::Error, fields, format::Format, ipset, json::Tree,
    lines::significant, list::List, nft, pair::Pair, pairs, plain, reason::Reason, refused, rows,
    table, unpack,
};

/// Bytes of the largest list for which there may be a prefix.
const BYTES_PER_PREFIX: u64 = 8;

/// Lines that may show that a list is a table.
const SHOWN: usize = 5;

/// Reads a list.
/// Fails if it is none, or cannot be read as a whole. Parts of it that cannot be read are left out.
pub fn read(bytes: &[u8], options: &Options) -> Result<List, Error> {
    let text = unpack::text(bytes, options.max_size)?;
    let list = match options.format {
        Some(format) => refused::check(&text)
            .and_then(|()| as_format(&text, format, "the format is set", &options.fields)),
        None => automatic(&text, &options.fields),
    }?;
    let most = options.max_size / BYTES_PER_PREFIX;
    let mut prefixes = 0;
    for entry in list.entries.iter() {
        prefixes += match entry.range.first() == entry.range.last() {
            true => 1,
            false => entry.range.prefixes().count() as u64,
        };
        if prefixes > most {
            return Err(Error::TooManyPrefixes(most));
        }
    }
    Ok(list)
}

fn automatic(text: &str, fields: &[String]) -> Result<List, Error> {
    let (format, why) = match signature(text)? {
        Some(found) => found,
        None => return columns_or_lines(text, fields),
    };
    as_format(text, format, why, fields)
}

/// The format that the beginning of a list shows.
fn signature(text: &str) -> Result<Option<(Format, &'static str)>, Error> {
    let Some((_, first)) = significant(text).next() else {
        return Ok(None);
    };
    if first.starts_with(['{', '[']) {
        let is_json = |document: &str| Tree::new().walk(document, &mut |_, _| {}).is_ok();
        if is_json(text) {
            return Ok(Some((Format::Json, "it is a JSON document")));
        }
        if is_json(first) {
            return Ok(Some((
                Format::JsonLines,
                "its first line is a JSON document",
            )));
        }
        if first.starts_with('{') {
            let error = Tree::new().walk(text, &mut |_, _| {}).err();
            return Err(Error::NotJson(
                error.map(|error| error.to_string()).unwrap_or_default(),
            ));
        }
    }
    refused::check(text)?;
    let word = first.split_whitespace().next().unwrap_or_default();
    Ok(if ipset::is_line(first) {
        Some((Format::Ipset, "its first line is one of `ipset save`"))
    } else if ipset::is_listed(text) {
        Some((Format::Ipset, "its first lines are those of `ipset list`"))
    } else if nft::is_line(first) {
        Some((Format::Nft, "its first line is one of `nft list`"))
    } else if word == "ExitAddress" || plain::TOR.contains(&word) {
        Some((Format::Tor, "its first line is one of Tor's exit list"))
    } else if blocklists::is_delegated(first) {
        Some((
            Format::Delegated,
            "its first line is one of a registry's list",
        ))
    } else if blocklists::p2p_line(first).is_ok() {
        Some((Format::P2p, "its first line is a name, ':' and a range"))
    } else if matches!(
        blocklists::ipfilter_line(first),
        Ok(_) | Err(Reason::NotBan)
    ) {
        Some((
            Format::Ipfilter,
            "its first line is a range, a level and a name",
        ))
    } else {
        None
    })
}

fn columns_or_lines(text: &str, fields: &[String]) -> Result<List, Error> {
    let as_table = |layout: table::Layout| {
        let mut list = List::new(Format::Table, layout.why.clone());
        table::read(text, &layout, &mut list);
        list
    };
    if !fields.is_empty() {
        return fields::layout(text, fields, None).map(as_table);
    }
    if let Some(layout) = table::by_header(text)? {
        return Ok(as_table(layout));
    }
    let header = table::single_header(text);
    let why = match header {
        Some(_) => "its header names one column",
        None => "no header or form shows another format",
    };
    // Most tables are told from lines by their first rows. Then they are not read as lines in vain.
    let begin: Vec<_> = significant(text)
        .take(SHOWN)
        .map(|(_, line)| line)
        .collect();
    let mut list = List::new(Format::Plain, why);
    plain::read(&begin.join("\n"), None, &mut list);
    let is_tried = header.is_none() && is_unclear(&list);
    if is_tried && let Some(layout) = rows::layout(text) {
        return Ok(as_table(layout));
    }
    let mut list = List::new(Format::Plain, why);
    plain::read(text, header, &mut list);
    if header.is_none() && is_unclear(&list) {
        if !is_tried && let Some(layout) = rows::layout(text) {
            return Ok(as_table(layout));
        }
        if list.left_out.mistakes() > list.entries.len() as u64 {
            list.advice = advice(text);
        }
    }
    Ok(list)
}

/// Returns true if some lines may be the rows of a table.
fn is_unclear(list: &List) -> bool {
    [Reason::Text, Reason::Ambiguous, Reason::NotAddress]
        .into_iter()
        .any(|reason| list.left_out.count(reason) > 0)
}

/// The columns that lines may have, for those that are left out.
fn advice(text: &str) -> Option<String> {
    let columns = rows::with_addresses(text);
    let shown: Vec<_> = columns.iter().map(ToString::to_string).collect();
    match &shown[..] {
        [] => None,
        [column] => Some(format!("for column {column}, set field = \"{column}\"")),
        shown => Some(format!(
            "columns {} have addresses: set field to choose",
            shown.join(", ")
        )),
    }
}

fn as_format(text: &str, format: Format, why: &str, fields: &[String]) -> Result<List, Error> {
    let mut list = List::new(format, why);
    let has_fields = !fields.is_empty();
    match format {
        Format::Json => documents::read(text, fields, &mut list)?,
        Format::JsonLines => documents::lines(text, fields, &mut list)?,
        Format::Ipset => ipset::read(text, fields, &mut list)?,
        Format::Nft => nft::read(text, fields, &mut list)?,
        Format::Table | Format::Ranges | Format::Networks if has_fields => {
            let layout = fields::layout(text, fields, Some(format))?;
            table::read(text, &layout, &mut list);
        }
        Format::Table => {
            let layout = table::by_header(text)?.or_else(|| rows::layout(text));
            let layout = layout.ok_or_else(|| Error::NoHeader(rows::with_addresses(text)))?;
            table::read(text, &layout, &mut list);
        }
        Format::Ranges => pairs::lines(text, Pair::Ends, &mut list),
        Format::Networks => pairs::lines(text, Pair::Network, &mut list),
        _ if has_fields => return Err(Error::NoFields(format.name())),
        Format::Dshield => {
            let layout = table::by_header(text)?.unwrap_or_else(table::Layout::dshield);
            table::read(text, &layout, &mut list);
        }
        Format::Plain => plain::read(text, None, &mut list),
        Format::Tor => plain::tor(text, &mut list),
        Format::P2p => blocklists::p2p(text, &mut list),
        Format::Ipfilter => blocklists::ipfilter(text, &mut list),
        Format::Delegated => blocklists::delegated(text, &mut list),
    }
    Ok(list)
}
