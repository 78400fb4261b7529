//! An attachment that is there: its pins, opened.

use crate::{
    config::{Lists, Settings},
    kernel::{
        error::{Error, Result},
        program::{lists::ListTables, maps::Tables},
        state::{
            foreign,
            foreign::Foreign,
            generation, in_force,
            in_force::{InForce, OnTrial, Standing},
            pins,
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

/// What is attached to one interface.
#[derive(Debug)]
pub struct Attachment {
    /// The interface as it is now.
    pub interface: Interface,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Id of the program.
    pub program_id: u32,
    /// What is in force.
    pub record: Record,
    /// The maps.
    pub tables: Tables,
    /// The lists.
    pub lists: ListTables,
    /// The trial that runs, or one that is over and that no command has cleared since.
    pub trial: Option<OnTrial>,
    pub(in crate::kernel) dir: Dir,
    pub(in crate::kernel) generation: u64,
    /// The generation whose program the link runs: another one than that in force after a trial.
    pub(in crate::kernel) linked: u64,
    pub(in crate::kernel) link: Link,
    pub(in crate::kernel) standing: Standing,
}

/// What a folder of pins holds.
pub(in crate::kernel) enum Pinned {
    /// A link to an interface.
    To(Link, LinkInfo),
    /// A link whose interface is gone.
    Gone(Link),
    /// No link: what a command left that was killed before it was done.
    Leftover,
}

pub(in crate::kernel) fn look(folder: &Folder) -> Result<Pinned> {
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
            return Ok(Pinned::To(link, info));
        }
        // So looks a link, too, that was detached since it was opened: then it is not there any more, or is another one.
        if seen == Some(info) {
            return Ok(Pinned::Gone(link));
        }
        seen = Some(info);
    }
}

/// The folders of this network namespace.
pub(in crate::kernel) fn folders_here() -> Result<Vec<Folder>> {
    let here = pins::namespace()?;
    Ok(pins::folders()?
        .into_iter()
        .filter(|folder| folder.namespace == here)
        .collect())
}

/// The interfaces, and what the folders of this network namespace hold, both of the same moment.
async fn look_at_all() -> Result<(Vec<Interface>, Vec<(Folder, Result<Pinned>)>)> {
    // Readers take no lock; that a program is swapped each time takes longer than a reading.
    const TRIES: usize = 3;
    let mut found = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let interfaces = interface::all().await?;
        let folders = folders_here()?.into_iter();
        let looked = folders.map(|folder| {
            let pinned = look(&folder);
            (folder, pinned)
        });
        found = (interfaces, looked.collect());
        let outdated = |(_, pinned): &(Folder, Result<Pinned>)| matches!(pinned, Ok(Pinned::To(_, info)) if interface::may_be_outdated(&found.0, info));
        if !found.1.iter().any(outdated) {
            break;
        }
    }
    Ok(found)
}

/// An attachment of another version of limiter, whose pins have another layout.
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
    let folders = pins::folders_of_other_layouts()?.into_iter();
    let attached = folders
        .filter(|folder| folder.namespace == here)
        .filter_map(|folder| {
            let Ok(Pinned::To(link, info)) = look(&folder) else {
                return None;
            };
            let interface = interface::of_link(interfaces, &info)?.clone();
            Some(OtherVersion {
                interface,
                folder,
                link,
            })
        });
    Ok(attached.collect())
}

/// An error where another version of limiter is attached to the interface called `name`.
pub(in crate::kernel) fn no_other_version(interfaces: &[Interface], name: &str) -> Result<()> {
    let mut attached = of_other_versions(interfaces)?.into_iter();
    match attached.find(|other| other.interface.name == name) {
        Some(other) => Err(other.into()),
        None => Ok(()),
    }
}

fn not_attached(interface: Option<&Interface>, name: &str) -> Error {
    match interface {
        Some(_) => Error::NotAttached(name.to_owned()),
        None => Error::NoInterface(name.to_owned()),
    }
}

impl Attachment {
    /// The attachment of the interface called `name`.
    pub async fn open(name: &str) -> Result<Self> {
        requirements::privileges()?;
        if !bpffs::look()? {
            let interface = interface::by_name(name).await.ok();
            return Err(not_attached(interface.as_ref(), name));
        }
        let (interfaces, folders) = look_at_all().await?;
        let interface = interfaces.iter().find(|interface| interface.name == name);
        let mut gone = None;
        for (folder, looked) in folders {
            let pinned = match looked {
                Err(error) if folder.interface == name => return Err(error),
                // Another interface's trouble.
                Err(_) => continue,
                Ok(pinned) => pinned,
            };
            match pinned {
                Pinned::To(_, info) => match interface::of_link(&interfaces, &info) {
                    Some(on) if on.name == name => {
                        let read = Self::read(&folder, on)?;
                        return read.ok_or_else(|| Error::NotAttached(name.to_owned()));
                    }
                    Some(on) if folder.interface == name => {
                        gone = Some(Error::Renamed {
                            old: name.to_owned(),
                            new: on.name.clone(),
                        });
                    }
                    None if folder.interface == name => {
                        gone = Some(Error::Moved(name.to_owned()));
                    }
                    _ => {}
                },
                Pinned::Gone(_) if folder.interface == name => {
                    gone = Some(interface::link_without_interface(
                        name.to_owned(),
                        &interfaces,
                    ));
                }
                Pinned::Leftover if folder.interface == name => {
                    gone = foreign::waiting(&folder, &interfaces);
                }
                _ => {}
            }
        }
        no_other_version(&interfaces, name)?;
        Err(gone.unwrap_or_else(|| not_attached(interface, name)))
    }

    /// All attachments of this network namespace, and what is the matter with those that cannot be
    /// read.
    pub async fn all() -> Result<(Vec<Self>, Vec<Error>)> {
        requirements::privileges()?;
        if !bpffs::look()? {
            return Ok((Vec::new(), Vec::new()));
        }
        let (interfaces, folders) = look_at_all().await?;
        let (mut attachments, mut errors) = (Vec::new(), Vec::new());
        for (folder, looked) in folders {
            match looked {
                Ok(Pinned::To(_, info)) => match interface::of_link(&interfaces, &info) {
                    Some(on) => match Self::read(&folder, on) {
                        Ok(attachment) => attachments.extend(attachment),
                        Err(error) => errors.push(error),
                    },
                    None => errors.push(Error::Moved(folder.interface)),
                },
                Ok(Pinned::Gone(_)) => errors.push(interface::link_without_interface(
                    folder.interface,
                    &interfaces,
                )),
                Ok(Pinned::Leftover) => {
                    errors.extend(foreign::waiting(&folder, &interfaces));
                }
                Err(error) => errors.push(error),
            }
        }
        let of_others = of_other_versions(&interfaces)?;
        errors.extend(of_others.into_iter().map(Error::from));
        Ok((attachments, errors))
    }

    /// What is in force, with the lists, which are read back from their maps.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            lists: Lists::from_compiled(&self.record.tiers, &self.lists.entries()?),
            ..self.record.settings.clone()
        })
    }

    /// The same without what the fleet alone has put on the lists: what this host's configuration says.
    pub fn own_settings(&self) -> Result<Settings> {
        let settings = self.settings()?;
        Ok(Settings {
            lists: self.record.overlay.without(settings.lists),
            ..settings
        })
    }

    /// Kernel memory of all maps, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.tables.memory + self.lists.memory
    }

    pub(in crate::kernel) fn generation_folder(&self) -> Result<Dir> {
        generation::open(&self.dir, self.generation)
    }

    /// Its lock; an error where it was detached meanwhile.
    pub fn lock(&self) -> Result<Lock> {
        let lock = lock::lock(&self.dir)?;
        match self.dir.is_current()? {
            true => Ok(lock),
            false => Err(Error::NotAttached(self.interface.name.clone())),
        }
    }

    /// The attachment of the interface called `name`, and its lock: nobody else changes it as long as that lives.
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

    /// Whether the generation that was in force when this was opened is in force now.
    pub(in crate::kernel) fn is_in_force(&self) -> Result<bool> {
        self.standing.holds(&self.link.info()?)
    }

    /// The same after the link was given the program in force, so that nothing of a trial is left.
    pub(in crate::kernel) fn settle(&mut self) {
        self.linked = self.generation;
        self.trial = None;
        self.standing = Standing::of(self.program_id);
    }

    /// Whether a trial ran when this was opened.
    pub(in crate::kernel) fn is_on_trial(&self) -> bool {
        self.trial.is_some_and(|trial| !trial.is_over)
    }

    /// What will be in force after the trial that runs: another view of the same attachment. None where no trial runs, or
    /// nothing will be limited then.
    pub(in crate::kernel) fn after_trial(&self) -> Result<Option<Self>> {
        if !self.is_on_trial() {
            return Ok(None);
        }
        let Some((generation, program_id)) = in_force::fallback(&self.dir, self.record.frags)?
        else {
            return Ok(None);
        };
        let (folder, name) = (
            generation::open(&self.dir, generation)?,
            &self.interface.name,
        );
        let gone = || Error::NotAttached(name.clone());
        Ok(Some(Self {
            interface: self.interface.clone(),
            record: Record::open(&folder, name)?,
            tables: Tables::open(&self.dir, name)?,
            lists: ListTables::open(&folder)?,
            dir: self.dir.clone(),
            link: Link::open(&self.dir)?.ok_or_else(gone)?,
            generation,
            program_id,
            ..*self
        }))
    }

    /// The program that limiter runs in front of.
    pub fn next(&self) -> Result<Option<Foreign>> {
        Foreign::open(&self.dir)
    }

    /// When it is undone by itself unless it is kept before, RFC 3339; none if it is not on trial.
    #[must_use]
    pub fn try_until(&self) -> Option<String> {
        self.trial.filter(|trial| !trial.is_over).map(OnTrial::end)
    }

    /// When a trial has ended that was not kept, RFC 3339, until a command changes something.
    #[must_use]
    pub fn trial_ended(&self) -> Option<String> {
        self.trial.filter(|trial| trial.is_over).map(OnTrial::end)
    }

    /// Readers take no lock: where a `set` has swapped the program meanwhile they read again. None where it was detached
    /// meanwhile, whatever the reading has stumbled over.
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

    /// Which generation is in force is what the link says: only that changes in one step.
    fn read_generation(
        folder: &Folder,
        dir: Dir,
        link: Link,
        info: LinkInfo,
        interface: &Interface,
    ) -> Result<Self> {
        let name = folder.interface.as_str();
        let unreadable = |why: &str| Error::Unreadable {
            interface: name.to_owned(),
            why: why.to_owned(),
        };
        let InForce {
            generation,
            linked,
            program_id,
            record,
            trial,
            standing,
        } = in_force::find(&dir, info.program_id, name)?;
        // A container with a process 1 of its own may share the host's bpffs.
        if record.namespace != pins::cookie()? {
            return Err(unreadable(
                "it belongs to another network namespace with a process 1 of its own",
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
