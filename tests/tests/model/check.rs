//! Checks that kernel, pins and `status` agree with the model after a step.

use std::{collections::BTreeSet, fs, path::Path};

use aya::programs::ProgramInfo;
use limiter_common::policy::verdict::Reason;
use limiter_config::Lists;
use limiter_kernel::{
    program::ListTables,
    state::{pins, record::Record},
    sys::{bpffs::BPFFS, folder::Dir, interface},
};
use limiter_tests::objects::Object;
use serde_json::{Value, json};

use super::{
    config::Config,
    expected::{Attached, Model},
    world::World,
};

pub fn same<T: PartialEq + std::fmt::Debug>(
    name: &str,
    found: &T,
    wanted: &T,
) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{name}: found {found:?}, wanted {wanted:?}"))
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Checks the kernel, the pins and the counters, without a command. Returns the loaded objects.
pub fn state(world: &World, model: &Model) -> Result<BTreeSet<Object>, String> {
    let here = world.here.run(pins::namespace).unwrap().unwrap();
    let folders = pins::folders().unwrap().into_iter();
    let own: BTreeSet<_> = folders
        .filter(|folder| folder.namespace == here)
        .map(|folder| folder.interface)
        .collect();
    same(
        "folders of pins",
        &own,
        &model.attached.keys().cloned().collect(),
    )?;
    let mut loaded = BTreeSet::new();
    let mut programs = Vec::new();
    for (name, attached) in &model.attached {
        let program = pinned(world, name, attached, &mut loaded)?;
        programs.push((attached.device, program));
    }
    let found = world.here.block_on(interface::all).unwrap().unwrap();
    for (far, name) in &model.devices {
        let Some(interface) = found.iter().find(|interface| interface.name == *name) else {
            return Err(format!("no interface {name}"));
        };
        let runs = interface.xdp.map(|xdp| xdp.program_id);
        let wanted = programs.iter().find(|(device, _)| *device == Some(*far));
        let title = format!("program on {name}");
        same(&title, &runs, &wanted.map(|(_, program)| *program))?;
    }
    Ok(loaded)
}

/// Checks that no pin is left.
pub fn nothing_pinned() -> Result<(), String> {
    let mut found = entries(Path::new(BPFFS));
    // Leaves out the kernel's own files.
    found.retain(|name| !name.ends_with(".debug"));
    same("pins", &found, &Vec::new())
}

/// Checks the pins of an attachment. Returns the id of its program.
fn pinned(
    world: &World,
    name: &str,
    attached: &Attached,
    loaded: &mut BTreeSet<Object>,
) -> Result<u32, String> {
    let folder = world.pins(name);
    let opened = Dir::walk(&folder).map_err(|error| error.to_string())?;
    let opened = opened.ok_or_else(|| format!("{name}: no pins"))?;
    let generations = pins::generations(&opened).map_err(|error| error.to_string())?;
    let [generation] = generations[..] else {
        return Err(format!("{name}: generations {generations:?}"));
    };
    let mut wanted: Vec<_> = limiter_kernel::program::maps::MAPS
        .map(str::to_owned)
        .to_vec();
    wanted.extend(["link".to_owned(), format!("g{generation}")]);
    wanted.sort();
    same("pins", &entries(&folder), &wanted)?;
    let opened = opened.open(&pins::generation(generation)).unwrap().unwrap();
    let generation = folder.join(pins::generation(generation));
    let wanted = ["LISTED", "program", "record"].map(str::to_owned);
    same(
        "pins of the generation",
        &entries(&generation),
        &wanted.to_vec(),
    )?;

    let record = Record::open(&opened, name).map_err(|e| e.to_string())?;
    let lists = ListTables::open(&opened).and_then(|tables| tables.prefixes());
    let lists = Lists::from_compiled(&record.tiers, &lists.map_err(|e| e.to_string())?);
    settings(name, &record, &lists, &attached.config)?;
    let file = record.file.map(|path| path.to_str().unwrap().to_owned());
    let wanted = attached.file.as_ref().map(|file| world.path(file));
    same("file", &file, &wanted)?;

    let program = ProgramInfo::from_pin(generation.join("program")).unwrap();
    loaded.insert(Object::Program(program.id()));
    let maps = program.map_ids().unwrap().unwrap_or_default();
    loaded.extend(maps.into_iter().map(Object::Map));
    Ok(program.id())
}

fn settings(name: &str, record: &Record, lists: &Lists, config: &Config) -> Result<(), String> {
    let settings = &record.settings;
    let title = |title: &str| format!("{name}: {title}");
    same(&title("shadow"), &settings.shadow, &config.shadow)?;
    same(&title("size"), &settings.max_sources, &config.max_sources)?;
    let limits = settings.limits.iter();
    let limits = limits.map(|limit| {
        (
            &limit.name,
            limit.rate.to_string(),
            limit.burst.map(|b| b.tokens),
            limit.shadow,
        )
    });
    let wanted = config.limits.iter();
    let wanted = wanted.map(|limit| (&limit.name, limit.rate.clone(), limit.burst, limit.shadow));
    same(
        &title("limits"),
        &limits.collect::<Vec<_>>(),
        &wanted.collect(),
    )?;
    let found = lists
        .all()
        .map(|(name, prefixes)| (name.to_owned(), prefixes.iter().collect()));
    same(&title("lists"), &found.collect(), &config.lists)
}

/// Checks `status --json` of one interface.
pub fn status(
    world: &World,
    shown: &Value,
    device: &str,
    attached: &Attached,
) -> Result<(), String> {
    let config = &attached.config;
    let file = attached.file.as_ref().map(|file| world.path(file));
    for (key, wanted) in [
        ("name", json!(device)),
        ("shadow", json!(config.shadow)),
        ("file", json!(file)),
    ] {
        same(&format!("{key} of status"), &shown[key], &wanted)?;
    }
    let sum = |which: &dyn Fn(Reason) -> bool| attached.sum(which);
    let counted = |reason: Reason| attached.counts[reason as usize];
    for (place, wanted) in [
        ("/seen", attached.seen()),
        ("/passed", sum(&|reason| reason.passes())),
        ("/dropped", sum(&|reason| !reason.passes())),
        ("/would_drop", sum(&|reason| reason.would_drop())),
        ("/drops/limit", counted(Reason::Limit)),
        ("/drops/deny", counted(Reason::Deny)),
        ("/drops/new_source", 0),
        ("/drops/malformed", 0),
        ("/drops/contended", counted(Reason::Contended)),
        ("/passes/not_ip", 0),
        ("/passes/allowed", counted(Reason::Allowed)),
        ("/passes/unlimited", counted(Reason::Unlimited)),
    ] {
        let found = shown.pointer(place).map(|count| &count["packets"]);
        same(place, &found, &Some(&json!(wanted)))?;
    }
    let limits = config.limits.iter().map(|limit| {
        let listed = attached
            .limits
            .get(&limit.name)
            .copied()
            .unwrap_or_default();
        json!([limit.name, listed.passed, listed.dropped, listed.would_drop])
    });
    let found = shown["limits"].as_array().unwrap().iter().map(|limit| {
        let [passed, dropped, would_drop] =
            ["passed", "dropped", "would_drop"].map(|verdict| &limit[verdict]["packets"]);
        json!([limit["name"], passed, dropped, would_drop])
    });
    same(
        "limits of status",
        &found.collect::<Vec<_>>(),
        &limits.collect(),
    )
}
