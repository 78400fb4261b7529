//! The output of `watch --by`: a table of senders.

use super::{
    table,
    units::{bits, counted, whole_packets},
};
use crate::observe::senders::{Group, Senders, Traffic};

/// Formats the table.
pub fn table(senders: &Senders) -> String {
    let Senders { total, others, .. } = senders;
    let in_shadow = total.would_drop > 0.0;
    let mut columns: Vec<String> = senders.by.iter().map(|name| name.to_uppercase()).collect();
    let text = columns.len();
    columns.extend(["PACKETS/s", "BIT/s", "DROPPED"].map(str::to_owned));
    if in_shadow {
        columns.push("WOULD DROP".to_owned());
    }
    let row = |mut cells: Vec<String>, traffic: &Traffic| {
        cells.push(packets(traffic.packets_per_second));
        cells.push(bits(8.0 * traffic.bytes_per_second));
        cells.push(percent(traffic.dropped));
        if in_shadow {
            cells.push(percent(traffic.would_drop));
        }
        cells
    };
    let mut rows: Vec<_> = senders
        .senders
        .iter()
        .map(|sender| {
            let cells = senders.by.iter().map(|name| cell(name, &sender.group));
            row(cells.collect(), &sender.traffic)
        })
        .collect();
    if others.packets_per_second > 0.0 {
        let mut cells = vec![String::new(); text];
        cells[0] = "others".to_owned();
        rows.push(row(cells, others));
    }
    let mut answer = format!(
        "{}: {} packets/s, {}, {} dropped; estimated over {:.1} s from {}\n",
        senders.interface,
        packets(total.packets_per_second),
        bits(8.0 * total.bytes_per_second),
        percent(total.dropped),
        senders.seconds,
        counted(senders.events, "event"),
    );
    if !rows.is_empty() {
        answer += &table::rows(columns.iter().map(String::as_str), text, rows);
        answer.push('\n');
    }
    answer
}

/// Packets per second: with a digit behind the point if there are few.
fn packets(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 {
        return format!("{rate:.1}");
    }
    whole_packets(rate)
}

/// A share in per cent. Only all and none are rounded to those.
pub fn percent(share: f64) -> String {
    let number = (share * 100.0).round().clamp(0.0, 100.0);
    match number {
        0.0 if share > 0.0 => "<1 %".to_owned(),
        100.0 if share < 1.0 => ">99 %".to_owned(),
        _ => format!("{number} %"),
    }
}

/// A field of a group; `-` if its packets do not have it.
fn cell(name: &str, group: &Group) -> String {
    let value = match name {
        "source" => group.source.map(|address| address.to_string()),
        "network" => group.network.clone(),
        "port" => group.port.map(|port| port.to_string()),
        "protocol" => group.protocol.clone(),
        "reason" => group.reason.map(str::to_owned),
        "limit" => group.limit.clone(),
        _ => group.verdict.map(str::to_owned),
    };
    value.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::senders::Sender;

    #[test]
    fn table_has_the_chosen_fields_and_the_rest() {
        let traffic = |packets_per_second, dropped| Traffic {
            packets_per_second,
            bytes_per_second: 60.0 * packets_per_second,
            dropped,
            would_drop: 0.0,
        };
        let sender = |source: &str, port, packets, dropped| Sender {
            group: Group {
                source: source.parse().ok(),
                port,
                ..Group::default()
            },
            traffic: traffic(packets, dropped),
        };
        let senders = Senders {
            interface: "eth0".to_owned(),
            seconds: 10.0,
            by: vec!["source", "port"],
            events: 1_234,
            total: traffic(2_003.0, 0.998),
            senders: vec![
                sender("192.0.2.7", Some(53), 2_000.0, 1.0),
                sender("192.0.2.9", None, 2.0, 0.0),
            ],
            others: traffic(1.0, 0.001),
        };
        let wanted = "\
eth0: 2,003 packets/s, 961.4 kbit/s, >99 % dropped; estimated over 10.0 s from 1,234 events
 SOURCE     PORT  PACKETS/s         BIT/s  DROPPED
 192.0.2.7  53        2,000  960.0 kbit/s    100 %
 192.0.2.9  -           2.0     960 bit/s      0 %
 others                 1.0     480 bit/s     <1 %
";
        assert_eq!(table(&senders), wanted);
    }
}
