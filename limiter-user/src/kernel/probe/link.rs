//! What route netlink says of an interface, beyond [`crate::kernel::interface`].

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use crate::kernel::{
    error::{Error, Result},
    sys::interface,
};

/// Flags, kind of frames, and the device behind an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it leads back to this machine.
    pub loopback: bool,
    /// Whether its frames begin with an Ethernet header.
    pub ethernet: bool,
    /// Name of the device on a bus, as `virtio2` (Linux 5.14); none for an interface made by software.
    pub parent: Option<String>,
}

/// Asks about the interface called `name`.
pub async fn look(name: &str) -> Result<Link> {
    let (connection, handle, _) =
        rtnetlink::new_connection().map_err(|error| Error::system("opening netlink", error))?;
    let connection = tokio::spawn(connection);
    let mut links = handle.link().get().match_name(name.to_owned()).execute();
    let link = links.try_next().await;
    connection.abort();
    let link = link?.ok_or_else(|| Error::NoInterface(name.to_owned()))?;
    Ok(describe(&link))
}

fn describe(link: &LinkMessage) -> Link {
    let parent = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::ParentDevName(name) => Some(name.clone()),
        _ => None,
    };
    Link {
        up: link.header.flags.contains(LinkFlags::Up),
        loopback: link.header.flags.contains(LinkFlags::Loopback),
        ethernet: interface::has_ethernet(link),
        parent: link.attributes.iter().find_map(parent),
    }
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::link::LinkLayerType;

    use super::*;

    #[test]
    fn flags_frames_and_parent() {
        let mut link = LinkMessage::default();
        link.header.flags = LinkFlags::Up | LinkFlags::Loopback;
        link.header.link_layer_type = LinkLayerType::Loopback;
        let wanted = Link {
            up: true,
            loopback: true,
            ethernet: true,
            parent: None,
        };
        assert_eq!(describe(&link), wanted);
        link.header.flags = LinkFlags::empty();
        link.header.link_layer_type = LinkLayerType::None;
        link.attributes
            .push(LinkAttribute::ParentDevName("virtio2".to_owned()));
        let wanted = Link {
            parent: Some("virtio2".to_owned()),
            ..Link::default()
        };
        assert_eq!(describe(&link), wanted);
    }
}
