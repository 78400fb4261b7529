//! The output of `connections`.

use crate::{
    observe::connections::OpenConnections,
    show::{
        table,
        units::{counted, grouped},
    },
};

/// The open connections under each limit that bounds them.
pub fn connections(open: &OpenConnections) -> String {
    let interface = &open.interface;
    if open.limits.is_empty() {
        return format!(
            "{interface}: no limit bounds connections: `limiter limit {interface} open --connections 50 --flags syn --rate 1k/s` adds one\n"
        );
    }
    let mut text = String::new();
    for limit in &open.limits {
        let sum = limit.keys.iter().map(|key| key.open).sum();
        let (sum, keys) = (
            counted(sum, "open connection"),
            counted(limit.keys.len() as u64, "source"),
        );
        let most = grouped(limit.most);
        text += &format!(
            "{interface}, limit {}: {sum} of {keys}, at most {most} each\n",
            limit.limit
        );
        let rows = limit.keys.iter().map(|key| {
            let bound = if key.open >= limit.most {
                "at the bound"
            } else {
                ""
            };
            [key.key.clone(), bound.to_owned(), grouped(key.open)]
        });
        if !limit.keys.is_empty() {
            text += &table::table("SOURCE||OPEN", 2, rows);
            text.push('\n');
        }
    }
    text
}
