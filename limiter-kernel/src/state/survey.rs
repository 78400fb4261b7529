//! One survey of the pins: each folder of this network namespace, and the interface that its link is on. Folders of other
//! namespaces are in it if their interface has come here, with its program.

use limiter_config::names::direction_of;

use crate::{
    Error, Result,
    state::{Current, Folder, foreign, pins, pins::Namespace},
    sys::{Interface, Link, LinkInfo, bpffs, interface, requirements},
};

/// The content of a folder of pins.
#[derive(Debug)]
pub enum Pinned {
    /// A link to this interface.
    On(Link, Interface),
    /// A link to an interface of another network namespace.
    Elsewhere(Link, LinkInfo),
    /// A link to an interface that is gone.
    Gone(Link),
    /// No link: leftovers of a killed command.
    Leftover,
}

/// A folder of pins with its content.
pub type Found = (Folder, Result<Pinned>);

/// The interfaces and the pins of this network namespace, of the same moment.
#[derive(Debug, Default)]
pub struct Survey {
    /// All interfaces.
    pub interfaces: Vec<Interface>,
    /// The folders of all layouts, by the interface's name at attach.
    pub found: Vec<Found>,
    here: Namespace,
}

/// Returns true if a link is certainly on an interface of this network namespace, whatever the namespace of its folder.
pub fn is_here(pinned: &Result<Pinned>) -> bool {
    let Ok(Pinned::On(link, interface)) = pinned else {
        return false;
    };
    let runs = link.info().map(|info| interface::runs_on(interface, &info));
    matches!(runs, Ok(Ok(true)))
}

/// The content of a folder, given these interfaces.
pub fn look(folder: &Folder, interfaces: &[Interface]) -> Result<Pinned> {
    let mut seen = None;
    while let Some((_, link, info)) = folder.linked()? {
        if info.interface != 0 {
            return Ok(match interface::of_link(interfaces, &info) {
                Some(interface) => Pinned::On(link, interface),
                None => Pinned::Elsewhere(link, info),
            });
        }
        // A link that was detached after it was opened looks the same. Then it is not there any more, or is another
        // one.
        if seen == Some(info) {
            return Ok(Pinned::Gone(link));
        }
        seen = Some(info);
    }
    Ok(Pinned::Leftover)
}

impl Survey {
    /// Reads all interfaces and all pins.
    pub async fn take() -> Result<Self> {
        // Readers take no lock. A swap takes longer than a read, so a few attempts are enough.
        const TRIES: usize = 3;
        requirements::may_read()?;
        bpffs::look()?;
        let mut survey = Self::default();
        for _ in 0..TRIES {
            let interfaces = interface::all().await?;
            let here = pins::namespace()?;
            let look = |folder: Folder| {
                let pinned = look(&folder, &interfaces);
                (folder.namespace == here || is_here(&pinned)).then_some((folder, pinned))
            };
            let found = pins::folders()?.into_iter().filter_map(look).collect();
            survey = Self {
                interfaces,
                found,
                here,
            };
            let outdated = |(_, pinned): &Found| matches!(pinned, Ok(Pinned::Elsewhere(_, info)) if interface::may_be_outdated(&survey.interfaces, info));
            if !survey.found.iter().any(outdated) {
                break;
            }
        }
        Ok(survey)
    }

    /// Takes out the pins that the name of an interface stands for: those of the attachment to this interface, of
    /// this layout or of another one, or those that were made when an interface had this name.
    pub fn take_named(&mut self, name: &str) -> Option<Found> {
        let is_on = |(_, pinned): &Found| match pinned {
            Ok(Pinned::On(_, interface)) => interface.name == name,
            _ => false,
        };
        let is_ours = |(folder, _): &Found| folder.is_of_this_layout();
        let is_of = |(folder, _): &Found| folder.interface == name && folder.namespace == self.here;
        let mut found = self.found.iter();
        let of_this = found.clone().position(|pins| is_on(pins) && is_ours(pins));
        let place = of_this
            .or_else(|| found.clone().position(is_on))
            .or_else(|| found.position(|pins| is_ours(pins) && is_of(pins)));
        place.map(|place| self.found.swap_remove(place))
    }

    /// The error for an interface without pins.
    pub fn not_attached(&self, name: &str) -> Error {
        let unknown = interface::named(&self.interfaces, name).err();
        unknown.unwrap_or_else(|| Error::NotAttached(name.to_owned()))
    }
}

/// The error for the attachment to an interface that is gone. Its record may not be readable any more.
fn gone(folder: &Folder) -> Error {
    let name = folder.interface.clone();
    let linked = folder.linked().ok().flatten();
    let current =
        linked.and_then(|(dir, _, info)| Current::find(&dir, info.program_id, &name).ok());
    let record = current.map(|(_, record, _)| record).unwrap_or_default();
    let mut kept = format!("its history (`limiter history {name}`)");
    if record.settings.keep_bans {
        kept += ", its bans by hand";
    }
    let words = match &record.file {
        Some(file) => {
            kept += &format!(", its configuration file {}", file.display());
            format!("--config {}", file.display())
        }
        None => "--rate RATE".to_owned(),
    };
    let again = format!("limiter attach {name} --or-reload {words}");
    Error::Gone(name, kept, again)
}

/// The error for a folder with this content, for a user who names the folder's interface; `None` if all is well.
pub fn trouble(folder: &Folder, pinned: Result<Pinned>, interfaces: &[Interface]) -> Option<Error> {
    let name = folder.interface.clone();
    match pinned {
        Ok(Pinned::On(_, interface)) if !folder.is_of_this_layout() => {
            Some(Error::OtherVersion(interface.name, folder.layout))
        }
        // Only pins of this layout can be read further.
        _ if !folder.is_of_this_layout() => None,
        Ok(Pinned::On(_, interface)) => Some(Error::Renamed(name, interface.name)),
        Ok(Pinned::Elsewhere(..)) => Some(Error::Moved(name)),
        Ok(Pinned::Gone(_)) => {
            let (own, _) = direction_of(&name);
            let is_there = interfaces.iter().any(|interface| interface.name == own);
            Some(match is_there {
                true => Error::TakenOff(name),
                false => gone(folder),
            })
        }
        Ok(Pinned::Leftover) => foreign::waiting(folder, interfaces),
        Err(error) => Some(error),
    }
}
