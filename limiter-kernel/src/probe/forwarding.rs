//! Connections that the host forwards with translated addresses, such as those of containers: no socket of the host has
//! them. Numbers are from include/uapi/linux/netfilter/nf_tables.h and nfnetlink.h.

use std::fs;

use rtnetlink::{
    packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NlasIterator},
    sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER},
};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN`, and the type of each answer.
const GET_CHAIN: u16 = 10 << 8 | 4;
const NEW_CHAIN: u16 = 10 << 8 | 3;
const NFTA_CHAIN_TYPE: u16 = 7;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ENDS: [u16; 2] = [2, 3];

/// Bytes of `struct nlmsghdr` and `struct nfgenmsg`.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;

/// Returns true if the host forwards packets of the interface called `name`, and has rules that translate addresses (NAT), of
/// nftables or iptables, in this network namespace.
pub fn translates(name: &str) -> bool {
    forwards(name) && (has_nat_chain() == Some(true) || has_nat_table())
}

/// Returns true if the host forwards packets of the interface called `name`.
pub fn forwards(name: &str) -> bool {
    ["ipv4", "ipv6"].iter().any(|family| {
        let path = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
        fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
    })
}

/// The tables of iptables without nftables.
fn has_nat_table() -> bool {
    ["ip_tables_names", "ip6_tables_names"].iter().any(|file| {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        names.is_ok_and(|names| names.lines().any(|name| name == "nat"))
    })
}

/// Returns true if nftables has a chain of type `nat`. `None`: the kernel does not say.
fn has_nat_chain() -> Option<bool> {
    let mut question = Vec::with_capacity(HEADERS);
    question.extend(u32::try_from(HEADERS).ok()?.to_ne_bytes());
    question.extend(GET_CHAIN.to_ne_bytes());
    question.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence number and port; all families, version 0.
    question.extend([0; 8 + 4]);
    let mut socket = Socket::new(NETLINK_NETFILTER).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    socket.send(&question, 0).ok()?;
    loop {
        let (answer, _) = socket.recv_from_full().ok()?;
        let (found, is_last) = judge(&answer)?;
        if found || is_last {
            return Some(found);
        }
    }
}

/// Returns whether one of the messages is about a chain of type `nat`, and whether one is the last. `None` if a message is cut.
fn judge(mut messages: &[u8]) -> Option<(bool, bool)> {
    while let Some((header, _)) = messages.split_first_chunk::<HEADER>() {
        let [a, b, c, d, e, f, ..] = *header;
        let (length, kind) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length >= HEADER)?;
        if ENDS.contains(&kind) {
            return Some((false, true));
        }
        let message = messages.get(..length)?;
        if kind == NEW_CHAIN && is_nat(message) {
            return Some((true, false));
        }
        messages = messages
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Some((false, false))
}

fn is_nat(message: &[u8]) -> bool {
    let attributes = NlasIterator::new(message.get(HEADERS..).unwrap_or_default());
    attributes
        .flatten()
        .any(|attribute| attribute.kind() == NFTA_CHAIN_TYPE && attribute.value() == b"nat\0")
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_core::{DefaultNla, Emitable};

    use super::*;

    fn message(kind: u16, chain_type: &str) -> Vec<u8> {
        let mut attributes = vec![0; 0];
        for (kind, value) in [(3, "prerouting\0"), (NFTA_CHAIN_TYPE, chain_type)] {
            let attribute = DefaultNla::new(kind, value.as_bytes().to_vec());
            let start = attributes.len();
            attributes.resize(start + attribute.buffer_len(), 0);
            attribute.emit(&mut attributes[start..]);
        }
        let length = u32::try_from(HEADERS + attributes.len()).unwrap();
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.resize(HEADERS, 0);
        message.extend(attributes);
        message
    }

    #[test]
    fn chain_of_type_nat_is_found_among_others() {
        let [nat, filter] = ["nat\0", "filter\0"].map(|name| message(NEW_CHAIN, name));
        let done = message(3, "");
        assert_eq!(
            judge(&[filter.clone(), nat.clone()].concat()),
            Some((true, false))
        );
        assert_eq!(judge(&[filter.clone(), done].concat()), Some((false, true)));
        assert_eq!(judge(&filter), Some((false, false)));
        assert_eq!(judge(&nat[..nat.len() - 1]), None, "cut");
        assert_eq!(
            judge(&message(7, "nat\0")),
            Some((false, false)),
            "no chain"
        );
    }
}
