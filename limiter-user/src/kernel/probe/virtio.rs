//! The offloads that a virtio network card has agreed on with its host. The driver refuses native XDP if the host may
//! send merged or unchecked packets and that cannot be switched off (`virtnet_xdp_set` in drivers/net/virtio_net.c).

use std::fs;

/// `VIRTIO_NET_F_CTRL_GUEST_OFFLOADS`, include/uapi/linux/virtio_net.h: offloads can be switched.
const SWITCHABLE: usize = 2;
/// `VIRTIO_NET_F_GUEST_` CSUM, TSO4, TSO6, ECN, UFO, USO4, USO6.
const GUEST: [usize; 7] = [1, 7, 8, 9, 10, 54, 55];

/// The host's rights over received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// The host may leave packets merged or unchecked, and cannot be told not to.
    pub fixed: bool,
}

/// The offloads of the virtio device called `name`; `None` if there is no such device.
pub fn offloads(name: &str) -> Option<Offloads> {
    // This part of /sys is the same in every network namespace, unlike /sys/class/net.
    let bits = fs::read_to_string(format!("/sys/bus/virtio/devices/{name}/features")).ok()?;
    Some(parse(&bits))
}

/// Reads `bits`, which has one digit for each feature, from the lowest.
fn parse(bits: &str) -> Offloads {
    let has = |bit: usize| bits.as_bytes().get(bit) == Some(&b'1');
    Offloads {
        fixed: !has(SWITCHABLE) && GUEST.into_iter().any(has),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn offloads_are_fixed_without_the_switch_feature_bit() {
        for (bits, fixed) in [
            ("11000001101110110\n", true),
            ("11100001101110110\n", false),
            ("10000100000000000\n", false),
            ("01", true),
            ("", false),
        ] {
            assert_eq!(super::parse(bits).fixed, fixed, "{bits}");
        }
    }
}
