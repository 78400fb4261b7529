//! An attachment that is there: its pins, opened.

use std::path::PathBuf;

use aya::programs::ProgramInfo;

use super::{
    error::{Error, Result},
    interface::{self, Interface, XdpMode},
    link::Link,
    maps::Tables,
    pins::{self, Folder},
    record::Record,
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

impl Attachment {
    /// The attachment of the interface called `name`.
    pub async fn open(name: &str) -> Result<Self> {
        super::requirements::privileges()?;
        let interfaces = interface::all().await?;
        let interface = interfaces.iter().find(|interface| interface.name == name);
        let mut gone = None;
        for folder in folders_here()? {
            match look(&folder)? {
                Pinned::To(link, index) => match interface::of_link(&interfaces, index) {
                    Some(on) if on.name == name => return Self::read(folder, link, &interfaces),
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
                _ => {}
            }
        }
        Err(gone.unwrap_or_else(|| match interface {
            Some(_) => Error::NotAttached(name.to_owned()),
            None => Error::NoInterface(name.to_owned()),
        }))
    }

    /// All attachments of this network namespace, and what is the matter with those that cannot be
    /// read.
    pub async fn all() -> Result<(Vec<Self>, Vec<Error>)> {
        super::requirements::privileges()?;
        let interfaces = interface::all().await?;
        let (mut attachments, mut errors) = (Vec::new(), Vec::new());
        for folder in folders_here()? {
            match look(&folder)? {
                Pinned::To(link, _) => match Self::read(folder, link, &interfaces) {
                    Ok(attachment) => attachments.push(attachment),
                    Err(error) => errors.push(error),
                },
                Pinned::Gone(_) => errors.push(Error::InterfaceGone(folder.interface)),
                Pinned::Leftover => {}
            }
        }
        Ok((attachments, errors))
    }

    /// Which generation is in force is what the link says: only that changes in one step.
    fn read(folder: Folder, link: Link, interfaces: &[Interface]) -> Result<Self> {
        let info = link.info()?;
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
            interface,
            generation,
            folder: folder.path,
            link,
        })
    }
}
