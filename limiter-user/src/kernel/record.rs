//! What a generation of the program was made from, pinned beside it for the commands that come later.
//! JSON in the one entry of an array map, because bpffs holds nothing but BPF objects.

use std::{io, path::Path};

use aya::maps::{Array, Map, MapData};
use limiter_common::{
    bucket::{PAST_TERMS, Rescale},
    layout::{CLOCK_KERNEL, Config},
};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use crate::config::{Invalid, Malformed, Settings, terms};

/// Room for the JSON.
const SIZE: usize = 16_384;

/// Everything that a later command needs to know of an attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the limiter that wrote it.
    pub version: String,
    /// When it was attached, RFC 3339.
    pub attached_at: String,
    /// Cookie of the network namespace.
    pub namespace: u64,
    /// What is in force.
    pub settings: Settings,
    /// The longest frame that can arrive, in bytes.
    pub frame_max: u64,
    /// Whether frames in several buffers are taken.
    pub frags: bool,
    /// Why it is not native, where it was to be if possible.
    pub fallback: Option<String>,
    /// Whether the program that runs logs each packet.
    #[serde(default)]
    pub logging: bool,
    /// How often the terms were changed.
    pub epoch: u32,
    /// The last changes of terms, newest first; the words of [`Rescale`] in their order.
    pub past: Vec<[u64; 7]>,
}

impl Record {
    /// The constants of the program.
    pub fn config(&self) -> Result<Config, Invalid> {
        let settings = &self.settings;
        let mut past = [Rescale {
            chunk_from: 1,
            chunk_to: 1,
            ..Rescale::default()
        }; PAST_TERMS as usize];
        for (slot, words) in past.iter_mut().zip(&self.past) {
            *slot = from_words(*words);
        }
        Ok(Config {
            terms: settings.limit.terms(self.frame_max)?,
            mask: settings.limit.key.mask(),
            capacity: settings.max_sources,
            shadow: settings.shadow.into(),
            malformed_passes: (settings.malformed == Malformed::Pass).into(),
            clock: CLOCK_KERNEL,
            epoch: self.epoch,
            past_length: u32::try_from(self.past.len()).unwrap_or(0),
            past,
        })
    }

    /// The same attachment with other settings, from the moment `now` (in ticks) on.
    pub fn changed(&self, settings: Settings, now: u64) -> Result<Self, Invalid> {
        let (old, new) = (
            self.settings.limit.terms(self.frame_max)?,
            settings.limit.terms(self.frame_max)?,
        );
        let mut record = Self {
            settings,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..self.clone()
        };
        if old != new {
            record.epoch = self.epoch.wrapping_add(1);
            record
                .past
                .insert(0, words(&terms::rescale(&old, &new, now)));
            record.past.truncate(PAST_TERMS as usize);
        }
        Ok(record)
    }

    /// Pins it under `path`.
    pub fn pin(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_vec(self)
            .map_err(|error| Error::system("writing the record", io::Error::other(error)))?;
        // What cannot be read back would be an attachment that no command understands.
        let read = serde_json::from_slice::<Self>(&json)
            .ok()
            .and_then(|read| read.config().ok());
        if read != self.config().ok() {
            let broken = io::Error::other("it does not read back");
            return Err(Error::system("writing the record", broken));
        }
        let mut bytes = [0_u8; SIZE];
        bytes
            .get_mut(..json.len())
            .ok_or_else(|| Error::system("writing the record", io::ErrorKind::FileTooLarge.into()))?
            .copy_from_slice(&json);
        let failed =
            |error: aya::maps::MapError| Error::path("pinning", path, io::Error::other(error));
        let mut map = Array::<MapData, [u8; SIZE]>::create(1, 0).map_err(failed)?;
        map.set(0, bytes, 0).map_err(failed)?;
        map.pin(path)
            .map_err(|error| Error::path("pinning", path, io::Error::other(error)))
    }

    /// Reads the one that is pinned under `path`.
    pub fn open(path: &Path, interface: &str) -> Result<Self> {
        let unreadable = |why: String| Error::Unreadable {
            interface: interface.to_owned(),
            why,
        };
        let map = MapData::from_pin(path).map_err(|error| unreadable(error.to_string()))?;
        let map = Array::<MapData, [u8; SIZE]>::try_from(Map::Array(map))
            .map_err(|error| unreadable(error.to_string()))?;
        let bytes = map
            .get(&0, 0)
            .map_err(|error| unreadable(error.to_string()))?;
        let json = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        serde_json::from_slice(json).map_err(|error| unreadable(error.to_string()))
    }
}

fn words(rescale: &Rescale) -> [u64; 7] {
    let Rescale {
        since,
        tau_from,
        tau_to,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    } = *rescale;
    [
        since,
        tau_from,
        tau_to,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    ]
}

fn from_words(words: [u64; 7]) -> Rescale {
    let [
        since,
        tau_from,
        tau_to,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    ] = words;
    Rescale {
        since,
        tau_from,
        tau_to,
        chunk_from,
        chunk_to,
        chunk_shift,
        chunks_most,
    }
}
