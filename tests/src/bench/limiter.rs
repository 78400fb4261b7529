//! Loads limiter with the settings of a subject.

use anyhow::Result;
use limiter_common::abi::Constants;
use limiter_config::{Mode, Settings, TierBits, shares::Share, slot::Slot};
use limiter_kernel::{
    program::{
        object,
        object::{ListMaps, Maps, Program},
    },
    sys::requirements,
};
use limiter_tests::{recipes, scenario, settings};

use super::case::{Case, Sources, Verdict};

/// Loads the program as `attach` would, with private maps. `file` is the configuration besides the keys about the
/// table.
pub fn load(case: Case, file: &str) -> Result<(Program, Mode)> {
    let (mut config, settings, bits) = compile(case, file)?;
    config.tc = (settings.mode == Mode::Tc).into();
    let frags = requirements::has_frags();
    let lists = settings.lists.compile(&bits);
    let lists = ListMaps::New(&lists);
    let program = object::load(&config, Maps::New, lists, frags)?;
    Ok((program, settings.mode))
}

/// The constants of one limit by source.
pub fn config(case: Case) -> Result<Box<Constants>> {
    Ok(compile(case, &scenario::one(case.verdict))?.0)
}

fn compile(case: Case, file: &str) -> Result<(Box<Constants>, Settings, TierBits)> {
    const FRAME_MAX: u64 = 1_522;
    // New sources meet the default new-source limit. Other sources must be known, and are admitted at once.
    let new_sources = match case.sources {
        Sources::New => "",
        _ => "new_sources = \"none\"",
    };
    let capacity = case.sources.capacity();
    let mut settings = settings(&format!("max_sources = {capacity}\n{new_sources}\n{file}"));
    // Sources without an entry would be measured as new ones.
    let is_short = |share: &Share| share.entries > 1 && share.most < capacity / 2;
    while settings
        .table_shares(FRAME_MAX)?
        .by_limit
        .iter()
        .any(is_short)
    {
        settings.max_sources *= 2;
    }
    let bits = TierBits::default().for_settings(&settings).0;
    let slot = |(number, limit)| Slot {
        phase: 0,
        ..Slot::new(&limit, number)
    };
    let slots: Vec<Slot> = (0..).zip(settings.all_limits()).map(slot).collect();
    Ok((settings.compile(&slots, &bits, FRAME_MAX)?, settings, bits))
}

/// The cookbook's file of this name, with the rates of the case. All sources are in the network that a resolver serves.
pub fn recipe(case: Case, name: &str) -> String {
    let line = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        let is_in_bytes = line.ends_with("b\"") || line.ends_with("bit\"");
        let value = match (key, case.verdict) {
            // A million sources are new at the beginning.
            ("new_sources" | "new_sources_burst", _) => return String::new(),
            ("rate", Verdict::Dropped) => "1/h",
            ("burst", Verdict::Dropped) => "1",
            ("rate", Verdict::Passed) if is_in_bytes => "100gbit",
            ("burst", Verdict::Passed) if is_in_bytes => "1gb",
            ("rate", Verdict::Passed) => "1G/s",
            ("burst", Verdict::Passed) => "1G",
            _ => return line.replace("[\"192.0.2.0/24\"", "[\"128.0.0.0/2\"") + "\n",
        };
        format!("{key} = \"{value}\"\n")
    };
    // The rules that limiter is compared with let everything else pass.
    let is_compared = |limit: &&str| !limit.contains("name = \"rest\"");
    let limits = recipes::recipe(name).split("[[limit]]\n");
    let compared: Vec<_> = limits.filter(is_compared).collect();
    compared.join("[[limit]]\n").lines().map(line).collect()
}
