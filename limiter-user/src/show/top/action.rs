//! What can be done to a source from the view.

use ipnet::IpNet;

use crate::{config::lists::show, observe::live::Row};

/// Something to do to a source, once it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Puts it on the list of this name, or takes it off.
    List {
        /// `allow` or `deny`.
        list: &'static str,
        /// Whether it is put there.
        add: bool,
        /// The addresses that share its bucket.
        network: IpNet,
    },
    /// Forgets it: its bucket is full again.
    Reset {
        /// The same.
        network: IpNet,
    },
}

impl Action {
    /// Puts a source on a list; takes it off where that list decides about it. None of a bucket that is everybody's.
    pub(super) fn list(list: &'static str, source: &Row) -> Option<Self> {
        Some(Self::List {
            list,
            add: source.listed != Some(list),
            network: source.network?,
        })
    }

    /// Fills the bucket of a source. None of a bucket that is everybody's, and of a denied prefix, which has none.
    pub(super) fn reset(source: &Row) -> Option<Self> {
        let network = source.network.filter(|_| source.reason.is_none())?;
        Some(Self::Reset { network })
    }

    /// The addresses.
    #[must_use]
    pub fn network(&self) -> IpNet {
        match self {
            Self::List { network, .. } | Self::Reset { network } => *network,
        }
    }

    /// What is asked before it is done.
    pub(super) fn question(&self) -> String {
        let source = show(&self.network());
        match self {
            Self::List {
                list, add: false, ..
            } => {
                format!("Take {source} off the {list} list?")
            }
            Self::List { list: "deny", .. } => {
                format!("Deny {source}? All that it sends is dropped. The same key undoes it.")
            }
            Self::List { list, .. } => {
                format!(
                    "Put {source} on the {list} list? No limit holds it then. The same key undoes it."
                )
            }
            Self::Reset { .. } => format!("Reset {source}? Its bucket is full again."),
        }
    }

    /// What is said while it is done.
    pub(super) fn doing(&self) -> String {
        let source = show(&self.network());
        match self {
            Self::List {
                list, add: true, ..
            } => format!("putting {source} on {list} ..."),
            Self::List { list, .. } => format!("taking {source} off {list} ..."),
            Self::Reset { .. } => format!("resetting {source} ..."),
        }
    }
}
