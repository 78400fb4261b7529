//! Interfaces whose driver cannot run a program in native mode, though some drivers accept it without an error, and those
//! where native mode costs more than it saves.

use std::fs;

use super::interface::Interface;

/// Numbers of features, include/uapi/linux/virtio_net.h: `VIRTIO_NET_F_CTRL_GUEST_OFFLOADS` (offloads can be switched)
/// and `VIRTIO_NET_F_MRG_RXBUF` (a frame may fill several buffers).
const SWITCHABLE: usize = 2;
const MERGEABLE: usize = 15;
/// `VIRTIO_NET_F_GUEST_CSUM`, and `VIRTIO_NET_F_GUEST_` TSO4, TSO6, ECN, UFO, USO4, USO6.
const UNCHECKED: usize = 1;
const MERGED: [usize; 6] = [7, 8, 9, 10, 54, 55];

/// The reason why native mode cannot work on this interface; none if nothing is known.
pub fn obstacle(interface: &Interface) -> Option<&'static str> {
    let name = interface.parent.as_deref()?;
    // These parts of /sys are the same in every network namespace, unlike /sys/class/net.
    let driver = fs::read_link(format!("/sys/bus/pci/devices/{name}/driver"));
    if driver.is_ok_and(|path| path.ends_with("vmxnet3")) {
        return Some(
            "the driver vmxnet3 runs no program after the link has been down or the MTU has changed",
        );
    }
    let path = format!("/sys/bus/virtio/devices/{name}/features");
    obstacle_of(&fs::read_to_string(path).ok()?)
}

/// The reason why mode tc costs the host less than native mode on this interface (docs/containers.md has the figures); none
/// if native mode is better, or nothing is known.
pub fn drawback(interface: &Interface) -> Option<&'static str> {
    if interface.veth {
        return Some("native mode would take segmentation offload from the other end of a veth");
    }
    (interface.tap && interface.ethernet)
        .then_some("packets of a tap are in the network stack's buffers already")
}

/// Reads `bits`, which has one digit for each feature, from the lowest.
fn obstacle_of(bits: &str) -> Option<&'static str> {
    let has = |bit: &usize| bits.as_bytes().get(*bit) == Some(&b'1');
    let merged = MERGED.iter().any(has);
    // virtnet_xdp_set in drivers/net/virtio_net.c refuses such a card.
    if (merged || has(&UNCHECKED)) && !has(&SWITCHABLE) {
        return Some(
            "the host may send merged or unchecked packets, and the card cannot switch that off (in QEMU, ctrl_guest_offloads=on)",
        );
    }
    // receive_big there runs no program: without an error, every packet would pass.
    let is_blind = merged && !has(&MERGEABLE);
    is_blind.then_some(
        "the driver would run no program, because the host may send merged packets and the card has no mergeable buffers (in QEMU, mrg_rxbuf=on)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_without_native_mode_are_found_by_their_features() {
        let bits = |set: &[usize]| -> String {
            let digit = |bit| if set.contains(&bit) { '1' } else { '0' };
            (0..64).map(digit).collect()
        };
        for (set, words) in [
            (&[1, 7, MERGEABLE][..], "switch that off"),
            (&[1], "switch that off"),
            (&[2, 1, 7], "run no program"),
            (&[2, 1, 7, MERGEABLE], ""),
            (&[2, 1], ""),
            (&[5], ""),
        ] {
            let found = obstacle_of(&bits(set)).unwrap_or_default();
            assert!(
                found.contains(words) && found.is_empty() == words.is_empty(),
                "{set:?}: {found}"
            );
        }
        assert_eq!(obstacle_of(""), None);
    }
}
