//! An attachment that is there: its pins, opened.

use std::path::PathBuf;

use aya::programs::ProgramInfo;

use super::{
    bpffs,
    error::{Error, Result},
    foreign::{self, Foreign},
    interface::{self, Interface, XdpMode},
    link::Link,
    lists::ListTables,
    maps::Tables,
    pins::{self, Folder},
    record::Record,
    sys::LinkInfo,
};
use crate::config::{Lists, Settings};

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
    pub(super) folder: PathBuf,
    pub(super) generation: u64,
    pub(super) link: Link,
}

/// What a folder of pins holds.
pub(super) enum Pinned {
    /// A link to the interface with this index.
    To(Link, u32),
    /// A link whose interface is gone.
    Gone(Link),
    /// No link: what a command left that was killed before it was done.
    Leftover,
}

pub(super) fn look(folder: &Folder) -> Result<Pinned> {
    let Some(link) = Link::open(&folder.path)? else {
        return Ok(Pinned::Leftover);
    };
    Ok(match link.info()?.interface {
        0 => Pinned::Gone(link),
        index => Pinned::To(link, index),
    })
}

/// The folders of this network namespace.
pub(super) fn folders_here() -> Result<Vec<Folder>> {
    let here = pins::namespace()?;
    Ok(pins::folders()?
        .into_iter()
        .filter(|folder| folder.namespace == here)
        .collect())
}

/// What other versions of limiter have attached to interfaces of this network namespace, each with the
/// interface's name. They pin the link under the same name.
pub(super) fn of_other_versions(interfaces: &[Interface]) -> Result<Vec<(String, Error)>> {
    let here = pins::namespace()?;
    let folders = pins::folders_of_other_layouts()?.into_iter();
    let attached = folders
        .filter(|folder| folder.namespace == here)
        .filter_map(|folder| {
            let Ok(Pinned::To(_, index)) = look(&folder) else {
                return None;
            };
            let interface = interface::of_link(interfaces, index)?.name.clone();
            let error = Error::OtherVersion {
                interface: interface.clone(),
                path: folder.path,
            };
            Some((interface, error))
        });
    Ok(attached.collect())
}

/// The same of the interface called `name`, as an error.
pub(super) fn no_other_version(interfaces: &[Interface], name: &str) -> Result<()> {
    let mut attached = of_other_versions(interfaces)?.into_iter();
    match attached.find(|(interface, _)| interface == name) {
        Some((_, error)) => Err(error),
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
        super::requirements::privileges()?;
        let interfaces = interface::all().await?;
        let interface = interfaces.iter().find(|interface| interface.name == name);
        let mut gone = None;
        if !bpffs::look()? {
            return Err(not_attached(interface, name));
        }
        for folder in folders_here()? {
            let pinned = match look(&folder) {
                Err(error) if folder.interface == name => return Err(error),
                // Another interface's trouble.
                Err(_) => continue,
                Ok(pinned) => pinned,
            };
            match pinned {
                Pinned::To(_, index) => match interface::of_link(&interfaces, index) {
                    Some(on) if on.name == name => return Self::read(&folder, &interfaces),
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
                    gone = Some(Error::InterfaceGone(name.to_owned()));
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
        super::requirements::privileges()?;
        if !bpffs::look()? {
            return Ok((Vec::new(), Vec::new()));
        }
        let interfaces = interface::all().await?;
        let (mut attachments, mut errors) = (Vec::new(), Vec::new());
        for folder in folders_here()? {
            match look(&folder) {
                Ok(Pinned::To(..)) => match Self::read(&folder, &interfaces) {
                    Ok(attachment) => attachments.push(attachment),
                    Err(error) => errors.push(error),
                },
                Ok(Pinned::Gone(_)) => errors.push(Error::InterfaceGone(folder.interface)),
                Ok(Pinned::Leftover) => {
                    errors.extend(foreign::waiting(&folder, &interfaces));
                }
                Err(error) => errors.push(error),
            }
        }
        let of_others = of_other_versions(&interfaces)?;
        errors.extend(of_others.into_iter().map(|(_, error)| error));
        Ok((attachments, errors))
    }

    /// What is in force, with the lists, which are read back from their maps.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            lists: Lists::from_compiled(&self.record.tiers, &self.lists.entries()?),
            ..self.record.settings.clone()
        })
    }

    /// Kernel memory of all maps, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.tables.memory + self.lists.memory
    }

    pub(super) fn generation_folder(&self) -> PathBuf {
        pins::generation(&self.folder, self.generation)
    }

    /// The program that limiter runs in front of.
    pub fn next(&self) -> Result<Option<Foreign>> {
        Foreign::open(&self.folder)
    }

    /// When it is undone by itself unless it is kept before, RFC 3339; none if it is not on trial.
    #[must_use]
    pub fn try_until(&self) -> Option<String> {
        let until = self.link.try_until()?;
        Some(humantime::format_rfc3339_seconds(until).to_string())
    }

    /// Readers take no lock: where a `set` has swapped the program meanwhile they read again.
    fn read(folder: &Folder, interfaces: &[Interface]) -> Result<Self> {
        const TRIES: usize = 10;
        let mut result = Err(Error::InterfaceGone(folder.interface.clone()));
        for _ in 0..TRIES {
            let Some(link) = Link::open(&folder.path)? else {
                break;
            };
            let info = link.info()?;
            result = Self::read_generation(folder, link, info, interfaces);
            let now = Link::open(&folder.path)?
                .map(|link| link.info())
                .transpose()?;
            if result.is_ok() || now == Some(info) {
                break;
            }
        }
        result
    }

    /// Which generation is in force is what the link says: only that changes in one step.
    fn read_generation(
        folder: &Folder,
        link: Link,
        info: LinkInfo,
        interfaces: &[Interface],
    ) -> Result<Self> {
        let name = folder.interface.as_str();
        let unreadable = |why: &str| Error::Unreadable {
            interface: name.to_owned(),
            why: why.to_owned(),
        };
        let runs = |number: &u64| {
            let path = pins::generation(&folder.path, *number).join("program");
            ProgramInfo::from_pin(path).is_ok_and(|program| program.id() == info.program_id)
        };
        let generation = pins::generations(&folder.path)
            .into_iter()
            .find(runs)
            .ok_or_else(|| unreadable("the program that runs is not pinned"))?;
        let record_path = pins::generation(&folder.path, generation).join("record");
        let record = Record::open(&record_path, name)?;
        // A container with a process 1 of its own may share the host's bpffs.
        if record.namespace != pins::cookie()? {
            return Err(unreadable(
                "it belongs to another network namespace with a process 1 of its own",
            ));
        }
        let interface = interface::of_link(interfaces, info.interface)
            .ok_or_else(|| Error::Moved(name.to_owned()))?
            .clone();
        Ok(Self {
            mode: interface.xdp.map_or(XdpMode::Native, |xdp| xdp.mode),
            program_id: info.program_id,
            record,
            tables: Tables::open(&folder.path, name)?,
            lists: ListTables::open(&pins::generation(&folder.path, generation))?,
            interface,
            generation,
            folder: folder.path.clone(),
            link,
        })
    }
}
