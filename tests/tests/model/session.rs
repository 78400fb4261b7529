//! Runs one sequence of steps, with its own network and its own model.

use std::{collections::BTreeSet, net::IpAddr, thread, time::Duration};

use limiter_tests::{
    command::Outcome,
    objects::{Object, not_released},
};
use serde_json::Value;

use super::{check, commands::Refusal, expected::Model, world::World};

/// Number of steps with an effect, and of refused ones.
pub type Done = [u32; 2];

pub struct Session {
    world: World,
    pub model: Model,
    loaded: BTreeSet<Object>,
    /// Former objects, which the kernel must release.
    condemned: BTreeSet<Object>,
    pub done: Done,
}

impl Session {
    pub fn new() -> Self {
        Self {
            world: World::new(),
            model: Model::default(),
            loaded: BTreeSet::new(),
            condemned: BTreeSet::new(),
            done: Done::default(),
        }
    }

    /// Runs a step, and checks the whole state.
    pub fn step(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let worked = match words[0] {
            "limiter" => self.command(&words[1..])?,
            "send" => self.send(&words)?,
            "sleep" => {
                thread::sleep(Duration::from_millis(words[1].parse().unwrap()));
                true
            }
            _ => self.move_device(&words)?,
        };
        self.done[usize::from(!worked)] += 1;
        Ok(())
    }

    /// Detaches everything by steps that are added to `steps`. Nothing may be left.
    pub fn finish(&mut self, steps: &mut Vec<String>) -> Result<(), String> {
        while let Some((name, attached)) = self.model.attached.iter().next() {
            let device = attached.device.map(|far| &self.model.devices[&far]);
            let name = device.unwrap_or(name).clone();
            steps.push(format!("limiter detach {name}"));
            self.command(&["detach", &name])?;
        }
        check::nothing_pinned()?;
        let left = not_released(&self.condemned);
        if left.is_empty() {
            return Ok(());
        }
        Err(format!("still loaded, held by processes: {left:?}"))
    }

    fn look(&mut self) -> Result<(), String> {
        let loaded = check::state(&self.world, &self.model)?;
        self.condemned.extend(self.loaded.difference(&loaded));
        self.loaded = loaded;
        Ok(())
    }

    fn move_device(&mut self, words: &[&str]) -> Result<bool, String> {
        let device = self.model.devices.get(&words[1].parse().unwrap()).cloned();
        let can = self.model.move_device(words);
        let could = self.world.move_device(words, device.as_deref());
        if can != could {
            return Err(format!("the model says {can}, the kernel {could}"));
        }
        self.look()?;
        Ok(can)
    }

    fn send(&mut self, words: &[&str]) -> Result<bool, String> {
        let far: u8 = words[1].parse().unwrap();
        let source: IpAddr = words[2].parse().unwrap();
        let count: u64 = words[3].parse().unwrap();
        let Some(name) = self.model.of_device(far).map(str::to_owned) else {
            return Ok(false);
        };
        let device = &self.model.devices[&far];
        let attached = self.model.attached.get_mut(&name).unwrap();
        let seen = attached.seen() + count;
        let (counts, moments) = self
            .world
            .send(device, far, (source, count), (&name, seen))?;
        attached.take(source, count, counts, &moments)?;
        Ok(true)
    }

    fn command(&mut self, words: &[&str]) -> Result<bool, String> {
        let (outcome, moments) = self.world.limiter(words);
        let predicted = self.model.run(words, &moments);
        match &predicted {
            Err(refusal) => refused(&outcome, refusal)?,
            Ok(()) if outcome.status != 0 => {
                return Err(format!("it was to succeed: {outcome:#?}"));
            }
            Ok(()) => {}
        }
        self.look()?;
        let worked = predicted.is_ok();
        if worked && words[0] == "status" {
            self.status(&outcome)?;
        }
        Ok(worked)
    }

    /// Checks `status --json` of all attachments.
    fn status(&self, outcome: &Outcome) -> Result<(), String> {
        let shown: Value = serde_json::from_str(&outcome.stdout)
            .map_err(|error| format!("{error}: {outcome:#?}"))?;
        let shown = shown["interfaces"].as_array().unwrap();
        let mut wanted = 0;
        for (far, device) in &self.model.devices {
            let Some(attached) = self.model.of_device(*far) else {
                continue;
            };
            wanted += 1;
            let found = shown.iter().find(|shown| shown["name"] == *device);
            let found = found.ok_or(format!("status does not show {device}"))?;
            check::status(&self.world, found, device, &self.model.attached[attached])?;
        }
        check::same("interfaces of status", &shown.len(), &wanted)
    }
}

/// Checks that a refusal has the right status and one clear message.
fn refused(outcome: &Outcome, refusal: &Refusal) -> Result<(), String> {
    let has = |word: &String| outcome.stderr.contains(word);
    if outcome.status == refusal.status && refusal.words.iter().all(has) {
        return Ok(());
    }
    Err(format!("it was to be refused, {refusal:?}: {outcome:#?}"))
}
