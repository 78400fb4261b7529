//! An existing attachment: its pins, opened.

use std::collections::BTreeSet;

use limiter_config::{Lists, Settings};

use crate::{
    Error, Result,
    program::{Bans, ListTables, OpenTable, Tables},
    state::{
        Current, Folder, Foreign, OnTrial, Pinned, Record, Survey, pins, stray, survey::trouble,
    },
    sys::{Dir, Interface, Link, LinkInfo, Lock, Routes, XdpMode, interface::runs_on, lock},
};

/// The attachment of one interface.
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
    /// The open connections; `None` if no limit bounds them.
    pub open: Option<OpenTable>,
    /// The bans.
    pub bans: Bans,
    /// The running trial, or one that has ended and is not cleared yet.
    pub trial: Option<OnTrial>,
    pub(crate) dir: Dir,
    pub(crate) link: Link,
    pub(crate) current: Current,
}

impl Attachment {
    /// Packets that get no answer although a limit has a proof and the host might answer, as the routes are now: each
    /// with the reason and what to do.
    pub fn unanswered(&self) -> Vec<String> {
        if !self.record.settings.has_proof() {
            return Vec::new();
        }
        let routes = match Routes::read(&self.interface) {
            Ok(routes) => routes,
            Err(error) => return vec![error.to_string()],
        };
        let mut unanswered = routes.unanswered;
        let name = &self.interface.name;
        // Without a file, a change to the present value loads the program with the present addresses.
        let advice = match (&self.record.file, self.record.settings.shadow) {
            (Some(_), _) => format!("`limiter reload {name}`"),
            (None, true) => format!("`limiter set {name} --shadow on`"),
            (None, false) => format!("`limiter set {name} --shadow off`"),
        };
        if routes.addresses.is_empty() {
            unanswered.push(format!(
                "packets get no answer, because the host has no address yet: {advice} as soon as it has"
            ));
        } else if routes.addresses != self.record.addresses {
            unanswered.push(format!(
                "packets to new addresses get no answer, because the host's addresses have changed since the last command: {advice}"
            ));
        }
        unanswered
    }

    /// Opens the attachment of the interface called `name`.
    pub async fn open(name: &str) -> Result<Self> {
        match Self::open_pinned(name).await {
            // Another command may have attached meanwhile.
            Err(Error::NotAttached(_)) => match stray::on(name).await? {
                Some(error) => Err(error),
                None => Self::open_pinned(name).await,
            },
            opened => opened,
        }
    }

    async fn open_pinned(name: &str) -> Result<Self> {
        let mut survey = Survey::take().await?;
        let wrong = match survey.take_named(name) {
            Some((folder, Ok(Pinned::On(_, interface))))
                if interface.name == name && folder.is_of_this_layout() =>
            {
                let read = Self::read(&folder, &interface)?;
                return read.ok_or_else(|| Error::NotAttached(name.to_owned()));
            }
            Some((folder, pinned)) => trouble(&folder, pinned, &survey.interfaces),
            None => None,
        };
        Err(wrong.unwrap_or_else(|| survey.not_attached(name)))
    }

    /// All attachments of this network namespace, and the errors of those that cannot be read.
    pub async fn all() -> Result<(Vec<Self>, Vec<Error>)> {
        let mut attachments = Vec::new();
        let errors = Self::visit_all(async |attachment| attachments.push(attachment)).await?;
        Ok((attachments, errors))
    }

    /// The names of the interfaces of this network namespace with an attachment, of any layout.
    pub async fn names() -> Result<Vec<String>> {
        let found = Survey::take().await?.found.into_iter();
        let names = found.filter_map(|(_, pinned)| match pinned {
            Ok(Pinned::On(_, interface)) => Some(interface.name),
            _ => None,
        });
        // An interface whose attachment is being replaced has two.
        let names: BTreeSet<_> = names.collect();
        Ok(names.into_iter().collect())
    }

    /// Calls `visit` with each attachment of this network namespace. An attachment has some twenty descriptors: only one
    /// is open at a time. Returns the errors of those that cannot be read.
    pub async fn visit_all(mut visit: impl AsyncFnMut(Self)) -> Result<Vec<Error>> {
        let Survey {
            interfaces, found, ..
        } = Survey::take().await?;
        let mut errors = stray::all(&interfaces, &found).await?;
        for (folder, pinned) in found {
            match pinned {
                Ok(Pinned::On(_, interface)) if folder.is_of_this_layout() => {
                    match Self::read(&folder, &interface) {
                        Ok(Some(attachment)) => visit(attachment).await,
                        Ok(None) => {}
                        Err(error) => errors.push(error),
                    }
                }
                pinned => errors.extend(trouble(&folder, pinned, &interfaces)),
            }
        }
        Ok(errors)
    }

    /// The settings in force, with the lists, which are read back from their maps.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            lists: Lists::from_compiled(&self.record.tiers, &self.lists.prefixes()?),
            ..self.record.settings.clone()
        })
    }

    /// The settings of this host's configuration: without prefixes that only the fleet has added.
    pub fn own_settings(&self) -> Result<Settings> {
        Ok(self.record.overlay.without(self.settings()?))
    }

    /// The longest frame, in bytes, that can arrive now. The record has that of the last change.
    pub fn frame_max(&self) -> u64 {
        self.interface.frame_max(self.mode)
    }

    /// Kernel memory of all maps, in bytes.
    pub fn memory(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, OpenTable::memory);
        self.tables.memory + self.lists.memory + self.bans.memory() + open
    }

    /// Takes the attachment's lock; an error if it was detached meanwhile.
    pub fn lock(&self) -> Result<Lock> {
        lock::lock(&self.dir)?.ok_or_else(|| Error::NotAttached(self.interface.name.clone()))
    }

    /// Opens the attachment of the interface called `name` and locks it. Only the caller changes it until the lock
    /// is dropped.
    pub async fn open_locked(name: &str) -> Result<(Self, Lock)> {
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            let dir = Self::open(name).await?.dir;
            let lock = lock::lock(&dir)?;
            let attachment = Self::open(name).await?;
            if let Some(lock) = lock
                && attachment.dir.path() == dir.path()
            {
                return Ok((attachment, lock));
            }
        }
        Err(Error::Busy(lock::PATIENCE.as_secs()))
    }

    /// The program that limiter runs in front of.
    pub fn next(&self) -> Result<Option<Foreign>> {
        Foreign::open(&self.dir)
    }

    /// The end of the running trial; `None` if no trial runs.
    pub fn try_until(&self) -> Option<&str> {
        self.until().filter(|_| self.record.log == 0)
    }

    /// The end of the running log, which is a trial of the same settings; `None` if no log runs.
    pub fn log_until(&self) -> Option<&str> {
        self.until().filter(|_| self.record.log != 0)
    }

    fn until(&self) -> Option<&str> {
        match &self.trial {
            Some(OnTrial::Until(end)) => Some(end),
            _ => None,
        }
    }

    /// Reads an attachment. Readers take no lock, so they read again if a `set` has swapped the program meanwhile.
    /// `None` if it was detached meanwhile, even if an error occurred on the way.
    fn read(folder: &Folder, interface: &Interface) -> Result<Option<Self>> {
        const TRIES: usize = 10;
        let mut result = Ok(None);
        let mut linked = folder.linked()?;
        for _ in 0..TRIES {
            let Some((dir, link, info)) = linked else {
                return Ok(None);
            };
            result = Self::read_generation(folder, dir, link, info, interface).map(Some);
            if result.is_ok() {
                break;
            }
            linked = folder.linked()?;
            if linked.as_ref().is_some_and(|(_, _, now)| *now == info) {
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
        let (current, record, trial) = Current::find(&dir, info.program_id, name)?;
        // A container with its own process 1 may share the host's bpffs. The survey has folders of other namespaces only
        // if their interface is here.
        let is_here =
            folder.namespace != pins::namespace()? || runs_on(interface, &info).unwrap_or_default();
        if record.namespace != pins::cookie()? && !is_here {
            return Err(Error::unreadable(
                name,
                "they belong to another network namespace, which has its own process 1",
            ));
        }
        if info.interface != interface.index {
            return Err(Error::Moved(name.to_owned()));
        }
        let tables = Tables::open(&dir, name)?;
        let generation = &current.in_force.dir;
        let open = if record.settings.bounds_connections() {
            let mut config = record.config()?;
            config.seed = tables.sets.seed;
            Some(OpenTable::open(generation, config)?)
        } else {
            None
        };
        Ok(Self {
            mode: interface.xdp.map_or(XdpMode::Native, |xdp| xdp.mode),
            program_id: current.in_force.program_id,
            open,
            record,
            tables,
            lists: ListTables::open(generation)?,
            bans: Bans::open(&dir)?,
            interface: interface.clone(),
            trial,
            current,
            dir,
            link,
        })
    }
}
