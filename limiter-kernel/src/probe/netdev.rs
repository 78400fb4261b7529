//! XDP features of a driver, from the kernel's generic netlink family `netdev` (Linux 6.3, commit d3d854fd6a1d).
//! Numbers are from include/uapi/linux/netdev.h and genetlink.h.

use rtnetlink::{
    packet_core::{DefaultNla, Emitable, NLM_F_REQUEST, NlasIterator},
    sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC},
};

/// `GENL_ID_CTRL`: the family that resolves names of families.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_BASIC: u64 = 1;
const NETDEV_XDP_ACT_RX_SG: u64 = 1 << 5;

/// Bytes of `struct nlmsghdr` and `struct genlmsghdr`.
const HEADERS: usize = 16 + 4;

/// XDP features of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Native mode: pass and drop.
    pub native: bool,
    /// Packets in several buffers, so jumbo frames.
    pub frags: bool,
}

impl From<u64> for Features {
    fn from(bits: u64) -> Self {
        Self {
            native: bits & NETDEV_XDP_ACT_BASIC != 0,
            frags: bits & NETDEV_XDP_ACT_RX_SG != 0,
        }
    }
}

/// The features of the interface with this index; `None` if the kernel does not say.
pub fn features(index: u32) -> Option<Features> {
    let name = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, b"netdev\0".to_vec());
    let family = ask(CONTROL, CTRL_CMD_GETFAMILY, &name)?;
    let family = u16::from_ne_bytes(attribute(&family, CTRL_ATTR_FAMILY_ID)?);
    let index = DefaultNla::new(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes().to_vec());
    let device = ask(family, NETDEV_CMD_DEV_GET, &index)?;
    let bits = u64::from_ne_bytes(attribute(&device, NETDEV_A_DEV_XDP_FEATURES)?);
    Some(bits.into())
}

/// Sends one question with one attribute. An error is an answer of another type.
fn ask(family: u16, command: u8, attribute: &DefaultNla) -> Option<Vec<u8>> {
    const VERSION: u8 = 1;
    let length = HEADERS + attribute.buffer_len();
    let mut question = Vec::with_capacity(length);
    question.extend(u32::try_from(length).ok()?.to_ne_bytes());
    question.extend(family.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port.
    question.extend([0; 8]);
    question.extend([command, VERSION, 0, 0]);
    question.resize(length, 0);
    attribute.emit(&mut question[HEADERS..]);
    let mut socket = Socket::new(NETLINK_GENERIC).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    // The kernel answers during the send.
    socket.send(&question, 0).ok()?;
    let (answer, _) = socket.recv_from_full().ok()?;
    (answer.get(4..6)? == family.to_ne_bytes()).then_some(answer)
}

/// The attribute of this kind in an answer; `None` if it is missing or has another length.
fn attribute<const N: usize>(answer: &[u8], kind: u16) -> Option<[u8; N]> {
    let mut attributes = NlasIterator::new(answer.get(HEADERS..)?).flatten();
    let attribute = attributes.find(|attribute| attribute.kind() == kind)?;
    attribute.value().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_feature_bits_are_decoded() {
        let features = |native, frags| Features { native, frags };
        assert_eq!(Features::from(0), features(false, false));
        assert_eq!(
            Features::from(0b000_0011),
            features(true, false),
            "tap, ena"
        );
        assert_eq!(Features::from(0b010_0011), features(true, true), "veth");
    }

    #[test]
    fn attributes_are_found_by_kind_and_length() {
        let mut answer = vec![0; HEADERS];
        for (kind, value) in [(1_u16, vec![7, 0, 0, 0]), (3, vec![0x23; 8])] {
            let attribute = DefaultNla::new(kind, value);
            let start = answer.len();
            answer.resize(start + attribute.buffer_len(), 0);
            attribute.emit(&mut answer[start..]);
        }
        assert_eq!(attribute(&answer, 3), Some([0x23; 8]));
        assert_eq!(attribute::<4>(&answer, 3), None, "another length");
        assert_eq!(attribute::<4>(&answer, 2), None, "another kind");
        assert_eq!(attribute::<4>(&answer[..3], 1), None, "no header");
    }
}
