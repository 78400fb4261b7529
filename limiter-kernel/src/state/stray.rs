//! Limiter's program on an interface without pins here: it was attached where another bpffs is mounted, such as in a
//! container, or on the host that gave the interface to a container.

use aya::{maps::MapInfo, programs::ProgramInfo};
use limiter_config::{
    Direction,
    names::{OUT, direction_of},
};

use crate::{
    Error, Result,
    program::object::ENTRIES,
    state::{Found, Pinned, Survey, occupant, pins},
    sys::{
        Dir, Interface,
        bpf::{self, BPF_TCX_EGRESS, BPF_TCX_INGRESS},
        lock,
    },
};

/// The error for an interface called `name` without pins here that runs limiter's program; `None` if it runs none, or has
/// pins now.
pub(crate) async fn on(name: &str) -> Result<Option<Error>> {
    if program_without_pins(name).await?.is_none() {
        return Ok(None);
    }
    // A command that attaches or detaches here may be between program and pins: its lock is held until both are there.
    let folder = Dir::walk(&pins::directory(name)?)?;
    let _other_commands = folder.as_ref().map(lock::lock).transpose()?;
    let program = program_without_pins(name).await?;
    Ok(program.map(|program| Error::PinnedElsewhere(name.to_owned(), program)))
}

/// The errors of all interfaces that run limiter's program without pins here.
pub(crate) async fn all(interfaces: &[Interface], found: &[Found]) -> Result<Vec<Error>> {
    let has_pins = |name: &str| {
        found.iter().any(
            |(_, pinned)| matches!(pinned, Ok(Pinned::On(_, interface)) if interface.name == name),
        )
    };
    let mut errors = Vec::new();
    for interface in interfaces {
        for name in [interface.name.clone(), format!("{}{OUT}", interface.name)] {
            if !has_pins(&name) && program(interface, direction_of(&name).1).is_some() {
                errors.extend(on(&name).await?);
            }
        }
    }
    Ok(errors)
}

async fn program_without_pins(name: &str) -> Result<Option<u32>> {
    let mut survey = Survey::take().await?;
    if survey.take_named(name).is_some() {
        return Ok(None);
    }
    let (of_interface, direction) = direction_of(name);
    let mut interfaces = survey.interfaces.iter();
    let interface = interfaces.find(|interface| interface.name == of_interface);
    Ok(interface.and_then(|interface| program(interface, direction)))
}

/// The id of limiter's program on `interface`. Finding out whose a program is needs `CAP_SYS_ADMIN`.
pub(crate) fn program(interface: &Interface, direction: Direction) -> Option<u32> {
    let (hook, xdp) = match direction {
        Direction::In => (BPF_TCX_INGRESS, interface.xdp.map(|xdp| xdp.program_id)),
        Direction::Out => (BPF_TCX_EGRESS, None),
    };
    let in_stack = bpf::programs(interface.index, hook).unwrap_or_default();
    let mut ids = xdp.into_iter().chain(in_stack);
    ids.find(|id| occupant::program(*id).is_some_and(|program| is_own(&program)))
}

/// Returns true if this is a program of limiter, of any version: by its name, and a map of that name.
pub(crate) fn is_own(program: &ProgramInfo) -> bool {
    const TABLE: &str = "SETS";
    let name = program.name_as_str().unwrap_or_default();
    let maps = program.map_ids().ok().flatten().unwrap_or_default();
    let mut maps = maps.into_iter().filter_map(|id| MapInfo::from_id(id).ok());
    ENTRIES.contains(&name) && maps.any(|map| map.name_as_str() == Some(TABLE))
}
