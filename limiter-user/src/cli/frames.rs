//! The longest frame that a configuration file has to do with.

use crate::{
    config::{Mode, file::File, vain::USUAL_FRAME},
    kernel::sys::interface::{self, Interface, XdpMode},
};

/// Interfaces and their frames.
#[derive(Debug, Default)]
pub struct Frames {
    known: Vec<Interface>,
    on: Vec<String>,
}

impl Frames {
    /// Those of the interfaces `on`, or of those that the file names if there are none.
    pub async fn of(on: &[String]) -> Self {
        Self {
            // A user who may not ask the kernel gets warnings for the usual frame.
            known: interface::all().await.unwrap_or_default(),
            on: on.to_vec(),
        }
    }

    /// The longest frame, in bytes, that the file's limits meet on interfaces that exist, as `attach` takes it; the usual
    /// one if there are none.
    pub fn longest(&self, file: &File) -> u64 {
        let names = match &self.on[..] {
            [] => &file.interfaces,
            on => on,
        };
        let mode = match file.settings.mode {
            Mode::Generic => XdpMode::Generic,
            Mode::Auto | Mode::Native => XdpMode::Native,
        };
        let named = self.known.iter();
        let named = named.filter(|interface| names.contains(&interface.name));
        let frames = named.map(|interface| interface.frame_max(mode));
        frames.max().unwrap_or(USUAL_FRAME)
    }
}
