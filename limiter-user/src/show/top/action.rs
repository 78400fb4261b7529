//! Actions on a source that `top` offers.

use ipnet::IpNet;

use crate::{config::lists::show, observe::live::Row};

/// An action on a source, carried out after confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds the source to a list, or removes it.
    List {
        /// Name of the list: `allow` or `deny`.
        list: &'static str,
        /// True if the source is added.
        add: bool,
        /// The addresses that share the source's bucket.
        network: IpNet,
    },
    /// Removes the source's entries from the table: its bucket is full again.
    Reset {
        /// The addresses that share the source's bucket.
        network: IpNet,
    },
}

impl Action {
    /// Adds a source to a list, or removes it if that list decides about it. `None` for a bucket that all sources
    /// share.
    pub(super) fn list(list: &'static str, source: &Row) -> Option<Self> {
        Some(Self::List {
            list,
            add: source.listed != Some(list),
            network: source.network?,
        })
    }

    /// Fills the bucket of a source. `None` for a bucket that all sources share, and for a denied prefix, which has no
    /// bucket.
    pub(super) fn reset(source: &Row) -> Option<Self> {
        let network = source.network.filter(|_| source.reason.is_none())?;
        Some(Self::Reset { network })
    }

    /// The addresses that the action affects.
    pub fn network(&self) -> IpNet {
        match self {
            Self::List { network, .. } | Self::Reset { network } => *network,
        }
    }

    /// The question before the action.
    pub(super) fn question(&self) -> String {
        let source = show(&self.network());
        match self {
            Self::List {
                list, add: false, ..
            } => {
                format!("Remove {source} from the {list} list?")
            }
            Self::List { list: "deny", .. } => {
                format!("Deny {source}? All its packets are dropped. The same key undoes it.")
            }
            Self::List { list, .. } => {
                format!(
                    "Put {source} on the {list} list? Its packets pass before any limit. The same key undoes it."
                )
            }
            Self::Reset { .. } => format!("Reset {source}? Its bucket becomes full."),
        }
    }
}
