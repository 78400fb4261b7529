//! An existing attachment: its pins, opened.

use limiter_common::abi;

use crate::{
    config::{Lists, Settings},
    kernel::{
        error::{Error, Result},
        program::{lists::ListTables, maps::Tables},
        state::{
            current,
            current::{Current, OnTrial, Standing},
            foreign,
            foreign::Foreign,
            generation, pins,
            pins::Folder,
            record::Record,
        },
        sys::{
            bpf::LinkInfo,
            bpffs,
            folder::Dir,
            interface,
            interface::{Interface, XdpMode},
            link::Link,
            lock,
            lock::Lock,
            requirements,
        },
    },
};

/// The attachment of one interface.
#[derive(Debug)]
pub struct Attachment {
    /// The interface as it is now.
    pub interface: Interface,
    /// The XDP mode that the program runs in.
    pub mode: XdpMode,
    /// Id of the program.
    pub program_id: u32,
    /// The record of the generation in force.
    pub record: Record,
    /// The maps.
    pub tables: Tables,
    /// The lists.
    pub lists: ListTables,
    /// The running trial, or one that is over and not cleared yet.
    pub trial: Option<OnTrial>,
    pub(in crate::kernel) dir: Dir,
    pub(in crate::kernel) generation: u64,
    /// The generation of the program that the link runs. After a trial it differs from the one in force.
    pub(in crate::kernel) linked: u64,
    pub(in crate::kernel) link: Link,
    pub(in crate::kernel) standing: Standing,
}

/// The content of a folder of pins.
pub(in crate::kernel) enum Pinned {
    /// A link to this interface.
    On(Link, Interface),
    /// A link to an interface of another network namespace.
    Elsewhere(Link, LinkInfo),
    /// A link to an interface that is gone.
    Gone(Link),
    /// No link: leftovers of a killed command.
    Leftover,
}

/// Folders of pins with their content.
pub(in crate::kernel) type Looked = Vec<(Folder, Result<Pinned>)>;

/// The content of a folder, given these interfaces.
pub(in crate::kernel) fn look(folder: &Folder, interfaces: &[Interface]) -> Result<Pinned> {
    let mut seen = None;
    loop {
        let Some(dir) = folder.open()? else {
            return Ok(Pinned::Leftover);
        };
        let Some(link) = Link::open(&dir)? else {
            if dir.is_current()? {
                return Ok(Pinned::Leftover);
            }
            continue;
        };
        let info = link.info()?;
        if info.interface != 0 {
            return Ok(match interface::of_link(interfaces, &info) {
                Some(on) => Pinned::On(link, on.clone()),
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
}

/// The contents of this network namespace's folders.
pub(in crate::kernel) fn look_here(interfaces: &[Interface]) -> Result<Looked> {
    let here = pins::namespace()?;
    let folders = pins::folders()?.into_iter();
    let looked = folders
        .filter(|folder| folder.namespace == here)
        .map(|folder| {
            let pinned = look(&folder, interfaces);
            (folder, pinned)
        });
    Ok(looked.collect())
}

/// The interfaces, and the contents of this network namespace's folders, of the same moment.
async fn look_at_all() -> Result<(Vec<Interface>, Looked)> {
    // Readers take no lock. A swap takes longer than a read, so a few attempts are enough.
    const TRIES: usize = 3;
    let mut found = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let interfaces = interface::all().await?;
        let looked = look_here(&interfaces)?;
        found = (interfaces, looked);
        let outdated = |(_, pinned): &(Folder, Result<Pinned>)| matches!(pinned, Ok(Pinned::Elsewhere(_, info)) if interface::may_be_outdated(&found.0, info));
        if !found.1.iter().any(outdated) {
            break;
        }
    }
    Ok(found)
}

/// The error for a folder with this content, for a user who names the folder's interface; `None` if all is well.
pub(in crate::kernel) fn trouble(
    folder: &Folder,
    pinned: Result<Pinned>,
    interfaces: &[Interface],
) -> Option<Error> {
    let name = folder.interface.clone();
    match pinned {
        Ok(Pinned::On(_, on)) => Some(Error::Renamed {
            old: name,
            new: on.name,
        }),
        Ok(Pinned::Elsewhere(..)) => Some(Error::Moved(name)),
        Ok(Pinned::Gone(_)) => Some(interface::link_without_interface(name, interfaces)),
        Ok(Pinned::Leftover) => foreign::waiting(folder, interfaces),
        Err(error) => Some(error),
    }
}

/// An attachment of another version of limiter, with another layout of its pins.
pub(in crate::kernel) struct OtherVersion {
    /// The interface that the link is on.
    pub interface: Interface,
    /// The folder of its pins.
    pub folder: Folder,
    /// Every layout pins the link under the same name.
    pub link: Link,
}

impl From<OtherVersion> for Error {
    fn from(other: OtherVersion) -> Self {
        Self::OtherVersion {
            interface: other.interface.name,
            layout: other.folder.layout,
        }
    }
}

/// The attachments of other versions of limiter in this network namespace.
pub(in crate::kernel) fn of_other_versions(interfaces: &[Interface]) -> Result<Vec<OtherVersion>> {
    let here = pins::namespace()?;
    let folders = pins::folders_of(|layout| layout != abi::VERSION)?.into_iter();
    let attached = folders
        .filter(|folder| folder.namespace == here)
        .filter_map(|folder| match look(&folder, interfaces) {
            Ok(Pinned::On(link, interface)) => Some(OtherVersion {
                interface,
                folder,
                link,
            }),
            _ => None,
        });
    Ok(attached.collect())
}

/// Another version's attachment to the interface called `name`.
pub(in crate::kernel) fn other_version_on(
    interfaces: &[Interface],
    name: &str,
) -> Result<Option<OtherVersion>> {
    let mut others = of_other_versions(interfaces)?.into_iter();
    Ok(others.find(|other| other.interface.name == name))
}

fn not_attached(interface: Option<&Interface>, name: &str) -> Error {
    match interface {
        Some(_) => Error::NotAttached(name.to_owned()),
        None => Error::NoInterface(name.to_owned()),
    }
}

impl Attachment {
    /// Opens the attachment of the interface called `name`.
    pub async fn open(name: &str) -> Result<Self> {
        requirements::privileges()?;
        if !bpffs::look()? {
            let interface = interface::by_name(name).await.ok();
            return Err(not_attached(interface.as_ref(), name));
        }
        let (interfaces, looked) = look_at_all().await?;
        let mut wrong = None;
        for (folder, pinned) in looked {
            match pinned {
                Ok(Pinned::On(_, on)) if on.name == name => {
                    let read = Self::read(&folder, &on)?;
                    return read.ok_or_else(|| Error::NotAttached(name.to_owned()));
                }
                Err(error) if folder.interface == name => return Err(error),
                pinned if folder.interface == name => wrong = trouble(&folder, pinned, &interfaces),
                // Trouble of another interface.
                _ => {}
            }
        }
        if let Some(other) = other_version_on(&interfaces, name)? {
            return Err(other.into());
        }
        let interface = interfaces.iter().find(|interface| interface.name == name);
        Err(wrong.unwrap_or_else(|| not_attached(interface, name)))
    }

    /// All attachments of this network namespace, and the errors of those that cannot be read.
    pub async fn all() -> Result<(Vec<Self>, Vec<Error>)> {
        requirements::privileges()?;
        if !bpffs::look()? {
            return Ok((Vec::new(), Vec::new()));
        }
        let (interfaces, looked) = look_at_all().await?;
        let (mut attachments, mut errors) = (Vec::new(), Vec::new());
        for (folder, pinned) in looked {
            match pinned {
                Ok(Pinned::On(_, on)) => match Self::read(&folder, &on) {
                    Ok(attachment) => attachments.extend(attachment),
                    Err(error) => errors.push(error),
                },
                pinned => errors.extend(trouble(&folder, pinned, &interfaces)),
            }
        }
        let of_others = of_other_versions(&interfaces)?;
        errors.extend(of_others.into_iter().map(Error::from));
        Ok((attachments, errors))
    }

    /// The settings in force, with the lists, which are read back from their maps.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            lists: Lists::from_compiled(&self.record.tiers, &self.lists.entries()?),
            ..self.record.settings.clone()
        })
    }

    /// The settings of this host's configuration: without prefixes that only the fleet has added.
    pub fn own_settings(&self) -> Result<Settings> {
        let settings = self.settings()?;
        Ok(Settings {
            lists: self.record.overlay.without(settings.lists),
            ..settings
        })
    }

    /// Kernel memory of all maps, in bytes.
    pub fn memory(&self) -> u64 {
        self.tables.memory + self.lists.memory
    }

    /// Takes the attachment's lock; an error if it was detached meanwhile.
    pub fn lock(&self) -> Result<Lock> {
        let lock = lock::lock(&self.dir)?;
        match self.dir.is_current()? {
            true => Ok(lock),
            false => Err(Error::NotAttached(self.interface.name.clone())),
        }
    }

    /// Opens the attachment of the interface called `name` and locks it. Only the caller changes it until the lock
    /// is dropped.
    pub async fn open_locked(name: &str) -> Result<(Self, Lock)> {
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let dir = Self::open(name).await?.dir;
            let lock = lock::lock(&dir)?;
            let attachment = Self::open(name).await?;
            if attachment.dir.identity() == dir.identity() {
                return Ok((attachment, lock));
            }
        }
        Err(Error::Busy(lock::PATIENCE.as_secs()))
    }

    /// Whether the generation in force at opening is still in force.
    pub(in crate::kernel) fn is_current(&self) -> Result<bool> {
        self.standing.holds(&self.link.info()?)
    }

    /// Notes that the link runs the program in force, so that no trial is left.
    pub(in crate::kernel) fn settle(&mut self) {
        self.linked = self.generation;
        self.trial = None;
        self.standing = Standing::of(self.program_id);
    }

    /// Whether a trial ran at opening.
    pub(in crate::kernel) fn is_on_trial(&self) -> bool {
        self.trial.is_some_and(|trial| !trial.is_over)
    }

    /// The fallback of the running trial. `None` if no trial runs, or nothing will be limited after it.
    pub(in crate::kernel) fn fallback(&self) -> Result<Option<u64>> {
        if !self.is_on_trial() {
            return Ok(None);
        }
        let fallback = current::fallback(&self.dir, self.record.frags)?;
        Ok(fallback.map(|(number, _)| number))
    }

    /// The program that limiter runs in front of.
    pub fn next(&self) -> Result<Option<Foreign>> {
        Foreign::open(&self.dir)
    }

    /// The end of the running trial, RFC 3339; `None` if no trial runs. At this time it is undone, unless it is kept
    /// before.
    pub fn try_until(&self) -> Option<String> {
        self.trial.filter(|trial| !trial.is_over).map(OnTrial::end)
    }

    /// The end of a trial that was not kept, RFC 3339. `None` after a later command has changed something.
    pub fn trial_ended(&self) -> Option<String> {
        self.trial.filter(|trial| trial.is_over).map(OnTrial::end)
    }

    /// Reads an attachment. Readers take no lock, so they read again if a `set` has swapped the program meanwhile.
    /// `None` if it was detached meanwhile, even if an error occurred on the way.
    fn read(folder: &Folder, interface: &Interface) -> Result<Option<Self>> {
        const TRIES: usize = 10;
        let mut result = Ok(None);
        for _ in 0..TRIES {
            let Some(dir) = folder.open()? else {
                return Ok(None);
            };
            let Some(link) = Link::open(&dir)? else {
                if dir.is_current()? {
                    return Ok(None);
                }
                continue;
            };
            let info = link.info()?;
            result = Self::read_generation(folder, dir, link, info, interface).map(Some);
            let now = folder.open()?.map(|dir| Link::open(&dir)).transpose()?;
            let now = now.flatten().map(|link| link.info()).transpose()?;
            if result.is_ok() || now == Some(info) {
                break;
            }
        }
        result
    }

    /// Reads the generation in force. The link decides which one that is, because only the link changes in one step.
    fn read_generation(
        folder: &Folder,
        dir: Dir,
        link: Link,
        info: LinkInfo,
        interface: &Interface,
    ) -> Result<Self> {
        let name = folder.interface.as_str();
        let Current {
            generation,
            linked,
            program_id,
            record,
            trial,
            standing,
        } = current::find(&dir, info.program_id, name)?;
        // A container with its own process 1 may share the host's bpffs.
        if record.namespace != pins::cookie()? {
            return Err(Error::unreadable(
                name,
                "they belong to another network namespace, which has its own process 1",
            ));
        }
        if info.interface != interface.index {
            return Err(Error::Moved(name.to_owned()));
        }
        Ok(Self {
            mode: interface.xdp.map_or(XdpMode::Native, |xdp| xdp.mode),
            program_id,
            record,
            tables: Tables::open(&dir, name)?,
            lists: ListTables::open(&generation::open(&dir, generation)?)?,
            interface: interface.clone(),
            trial,
            generation,
            linked,
            standing,
            dir,
            link,
        })
    }
}
