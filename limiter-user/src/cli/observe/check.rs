use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use clap::Args;
use limiter_config::{Direction, Parts, matches::TcpFlags, names};
use limiter_kernel::Attachment;

use crate::{
    ask,
    cli::shared::{ForPrograms, OnOne, address, by_exporter, document, each, note},
    observe::{
        self, OnList, Query,
        request::{AboutSource, Answer, Request},
        source,
    },
    plan::explain::{Packet, explain},
    show, viewer,
};

/// Explain one source, or one packet: lists, limits, tokens, verdict
///
/// With --protocol, it names the limits that such a packet meets, in order, and whether the packet would pass now. The
/// packet is without payload, and belongs to no connection of the host.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    on: OnOne,
    /// Address of the source, as in 192.0.2.7; with IFACE:out, of the destination
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: IpAddr,
    #[command(flatten)]
    query: Query,
    /// Flags of a TCP segment, as in syn,ack. Default: syn
    #[arg(long, value_name = "FLAGS", requires = "protocol")]
    flags: Option<TcpFlags>,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Check) -> anyhow::Result<()> {
    arguments.programs.answer();
    let query = arguments.query.from(arguments.address)?;
    if let Some(viewer) = viewer::needed() {
        let request = |interface: String| {
            Request::Check(AboutSource {
                interface,
                query,
                flags: arguments.flags,
            })
        };
        let names = &arguments.on.interfaces;
        return by_exporter(&viewer, names, arguments.programs.json, request).await;
    }
    let check = async |interface: &str| {
        let query = query.under(interface);
        let packet = packet(query, arguments.flags);
        check_on(interface, &query, packet, arguments.programs.json).await
    };
    each(&arguments.on.interfaces, check).await
}

async fn check_on(
    interface: &str,
    query: &Query,
    packet: Option<Packet>,
    json: bool,
) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let mut check = checked(&attachment, query, packet)?;
    if check.packet.is_none() {
        note_unused(query, &attachment);
    }
    add_hosts(&mut check).await;
    document(json, &check, || show::check::check(&check))
}

fn checked(
    attachment: &Attachment,
    query: &Query,
    packet: Option<Packet>,
) -> anyhow::Result<source::Check> {
    let mut check = observe::check::check(attachment, query)?;
    let explained = packet.map(|packet| explain(attachment, &packet));
    check.packet = explained.transpose()?;
    Ok(check)
}

/// The answer to a user without privileges. It does not wait for a fleet's agent.
pub async fn answer(about: &AboutSource) -> Result<Answer, String> {
    let text = |error: anyhow::Error| error.to_string();
    let AboutSource {
        interface, flags, ..
    } = about;
    let interface = names::interface(interface).map_err(|error| error.to_string())?;
    let query = about.query.under(&interface);
    let packet = packet(query, *flags);
    let attachment = Attachment::open(&interface).await;
    let attachment = attachment.map_err(|error| error.to_string())?;
    let check = checked(&attachment, &query, packet).map_err(text)?;
    Ok(Answer {
        document: serde_json::to_value(&check).map_err(|error| error.to_string())?,
        text: show::check::check(&check),
    })
}

/// The packet to explain, if the options describe one.
fn packet(query: Query, flags: Option<TcpFlags>) -> Option<Packet> {
    query.protocol.map(|protocol| Packet {
        query,
        protocol,
        flags,
    })
}

/// Says which options change nothing: without --protocol, ports and the destination only select buckets.
fn note_unused(query: &Query, attachment: &Attachment) {
    let keys = || {
        let limits = attachment.record.settings.limits.iter();
        limits.map(|limit| &limit.key)
    };
    let by_port = keys().any(|key| key.by_port || key.parts == Parts::Flow);
    let by_flow = keys().any(|key| key.parts == Parts::Flow);
    let by_destination = keys().any(|key| !key.is_by_source());
    let unused = [
        ("--port", query.port.is_some() && !by_port),
        ("--from-port", query.from_port.is_some() && !by_flow),
        (
            "--to",
            query.to.is_some()
                && !by_destination
                && attachment.record.settings.direction == Direction::In,
        ),
        (
            "--vlan",
            query.vlan.is_some() && !keys().any(|key| key.by_vlan),
        ),
    ];
    let unused = unused.into_iter().filter(|(_, is_unused)| *is_unused);
    let unused: Vec<_> = unused.map(|(option, _)| option).collect();
    if !unused.is_empty() {
        note(&format!(
            "{}: no limit's key has {}: add --protocol, as in --protocol tcp, to learn whether such a packet passes",
            attachment.interface.name,
            unused.join(", ")
        ));
    }
}

/// Adds the host of the fleet that has put a prefix on a list, and the time. Without the agent both are unknown.
async fn add_hosts(check: &mut source::Check) {
    let of_fleet = |on_list: &&mut OnList| on_list.by == Some("fleet");
    for on_list in check.lists.iter_mut().filter(of_fleet) {
        let listed = ask::listed(&check.interface, &on_list.list).await;
        let mut listed = listed.unwrap_or_default().into_iter();
        if let Some(listed) = listed.find(|listed| listed.prefix == on_list.prefix) {
            let age = Duration::try_from_secs_f64(listed.age_seconds).unwrap_or_default();
            let since = SystemTime::now().checked_sub(age);
            on_list.since = since.map(|since| humantime::format_rfc3339_seconds(since).to_string());
            on_list.host = Some(listed.by);
        }
    }
}
