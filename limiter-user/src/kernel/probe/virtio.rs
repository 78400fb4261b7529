//! The offloads that a virtio network card has agreed on with its host. The driver refuses native XDP if the host may
//! send merged or unchecked packets and that cannot be switched off (`virtnet_xdp_set` in drivers/net/virtio_net.c).

use std::fs;

/// `VIRTIO_NET_F_CTRL_GUEST_OFFLOADS`, include/uapi/linux/virtio_net.h: offloads can be switched.
const SWITCHABLE: usize = 2;
/// `VIRTIO_NET_F_GUEST_` CSUM, TSO4, TSO6, ECN, UFO, USO4, USO6.
const GUEST: [usize; 7] = [1, 7, 8, 9, 10, 54, 55];

/// Returns true if the host of the virtio device called `name` may leave packets merged or unchecked, and cannot be
/// told not to.
pub fn fixed(name: &str) -> bool {
    // This part of /sys is the same in every network namespace, unlike /sys/class/net.
    fs::read_to_string(format!("/sys/bus/virtio/devices/{name}/features"))
        .is_ok_and(|bits| are_fixed(&bits))
}

/// Reads `bits`, which has one digit for each feature, from the lowest.
fn are_fixed(bits: &str) -> bool {
    let has = |bit: usize| bits.as_bytes().get(bit) == Some(&b'1');
    !has(SWITCHABLE) && GUEST.into_iter().any(has)
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
            assert_eq!(super::are_fixed(bits), fixed, "{bits}");
        }
    }
}
