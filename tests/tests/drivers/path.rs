//! Ways of packets from a sender over interfaces to a receiver.

/// An end of a path: an interface of a host, or the guest behind `tap0`.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Client(&'static str),
    Server(&'static str),
    Guest,
}

/// VLAN tags of frames when they are sent.
#[derive(Clone, Copy, PartialEq)]
pub enum Tag {
    None,
    InFrame,
    /// The sender's VLAN interface leaves the tag to the next interface.
    Offloaded,
}

/// The way of a packet.
pub struct Path {
    pub label: &'static str,
    pub from: End,
    pub to: End,
    pub tag: Tag,
}

impl Path {
    pub const fn of(label: &'static str, from: End, destination: End) -> Self {
        let tag = Tag::None;
        Self {
            label,
            from,
            to: destination,
            tag,
        }
    }

    /// The path of frames that contain a VLAN tag.
    pub const fn tagged(self) -> Self {
        let tag = Tag::InFrame;
        Self { tag, ..self }
    }

    /// The path of frames whose tag is beside them.
    pub const fn offloaded(self) -> Self {
        let tag = Tag::Offloaded;
        Self { tag, ..self }
    }
}
