//! What a driver can do with XDP, as the kernel's generic netlink family `netdev` says (Linux 6.3,
//! commit d3d854fd6a1d). Numbers are those of include/uapi/linux/netdev.h and genetlink.h.

use std::io;

use rtnetlink::{
    packet_core::{
        DecodeError, DefaultNla, Emitable, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
        NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
    },
    sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC},
};

/// `GENL_ID_CTRL`: the family that knows the others.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_BASIC: u64 = 1;
const NETDEV_XDP_ACT_RX_SG: u64 = 1 << 5;

/// What a driver can do.
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

/// The features of the interface with this index; none where the kernel does not say.
pub fn features(index: u32) -> Option<Features> {
    let mut socket = Socket::new(NETLINK_GENERIC).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    let name = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, b"netdev\0".to_vec());
    let family = ask(&socket, CONTROL, CTRL_CMD_GETFAMILY, &name).ok()?;
    let family = u16::from_ne_bytes(family.attribute(CTRL_ATTR_FAMILY_ID)?);
    let index = DefaultNla::new(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes().to_vec());
    let device = ask(&socket, family, NETDEV_CMD_DEV_GET, &index).ok()?;
    let bits = u64::from_ne_bytes(device.attribute(NETDEV_A_DEV_XDP_FEATURES)?);
    Some(bits.into())
}

/// One question with one attribute. The kernel answers while it takes the question.
fn ask(socket: &Socket, family: u16, command: u8, attribute: &DefaultNla) -> io::Result<Generic> {
    let mut attributes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut attributes);
    let question = Generic {
        family,
        command,
        attributes,
    };
    let mut message = NetlinkMessage::new(
        NetlinkHeader::default(),
        NetlinkPayload::InnerMessage(question),
    );
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let invalid = |error: DecodeError| io::Error::new(io::ErrorKind::InvalidData, error);
    match NetlinkMessage::<Generic>::deserialize(&answer)
        .map_err(invalid)?
        .payload
    {
        NetlinkPayload::InnerMessage(answer) => Ok(answer),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// `struct genlmsghdr`: command, version, and two bytes of nothing.
const HEADER: usize = 4;

/// A message of generic netlink.
#[derive(Debug)]
struct Generic {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

impl Generic {
    /// The attribute of this kind, where it is as long as wanted.
    fn attribute<const N: usize>(&self, kind: u16) -> Option<[u8; N]> {
        let mut attributes = NlasIterator::new(self.attributes.as_slice()).flatten();
        let attribute = attributes.find(|attribute| attribute.kind() == kind)?;
        attribute.value().try_into().ok()
    }
}

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        const VERSION: u8 = 1;
        buffer[..HEADER].copy_from_slice(&[self.command, VERSION, 0, 0]);
        buffer[HEADER..].copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (Some(command), Some(attributes)) = (payload.first(), payload.get(HEADER..)) else {
            return Err("a generic netlink message without a header".into());
        };
        Ok(Self {
            family: header.message_type,
            command: *command,
            attributes: attributes.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_drivers() {
        let of = |native, frags| Features { native, frags };
        assert_eq!(Features::from(0), of(false, false));
        assert_eq!(Features::from(0b000_0011), of(true, false), "tap, ena");
        assert_eq!(Features::from(0b010_0011), of(true, true), "veth");
    }

    #[test]
    fn attributes_are_found_by_kind_and_length() {
        let mut attributes = Vec::new();
        for (kind, value) in [(1_u16, vec![7, 0, 0, 0]), (3, vec![0x23; 8])] {
            let attribute = DefaultNla::new(kind, value);
            let start = attributes.len();
            attributes.resize(start + attribute.buffer_len(), 0);
            attribute.emit(&mut attributes[start..]);
        }
        let message = Generic {
            family: CONTROL,
            command: 1,
            attributes,
        };
        assert_eq!(message.attribute(3), Some([0x23; 8]));
        assert_eq!(message.attribute::<4>(3), None, "another length");
        assert_eq!(message.attribute::<4>(2), None, "another kind");
    }

    #[test]
    fn a_short_message_is_an_error() {
        let header = NetlinkHeader::default();
        assert!(<Generic as NetlinkDeserializable>::deserialize(&header, &[1, 1]).is_err());
    }
}
