//! Predicts each command's effect from the model.

use super::{
    config::{Config, Holds, Limit, Prefixes, file, prefix},
    model::{Attached, Change, Model},
};

/// Exit status, and words of the message.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: i32,
    pub words: Vec<String>,
}

/// The effects of a command, and its refusal, if any. A refused command may have some effects.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    pub changes: Vec<Change>,
    pub refusal: Option<Refusal>,
}

type Result<T> = std::result::Result<T, Refusal>;

impl From<Result<Vec<Change>>> for Prediction {
    fn from(result: Result<Vec<Change>>) -> Self {
        let (changes, refusal) = match result {
            Ok(changes) => (changes, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        Self { changes, refusal }
    }
}

fn refused<T>(words: &[&str]) -> Result<T> {
    Err(Refusal {
        status: 1,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    })
}

fn wrong<T>(words: &[&str]) -> Result<T> {
    refused(words).map_err(|refusal| Refusal {
        status: 2,
        ..refusal
    })
}

fn value<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == flag)?;
    words.get(at + 1).copied()
}

/// All values of a flag that may be repeated.
fn prefixes(words: &[&str], flag: &str) -> Prefixes {
    let pairs = words.windows(2).filter(|pair| pair[0] == flag);
    pairs.map(|pair| prefix(pair[1])).collect()
}

fn is_bytes(burst: &str) -> bool {
    burst.ends_with("kb")
}

impl Model {
    /// Predicts the effect of `limiter` with these words.
    pub fn predict(&self, words: &[&str]) -> Prediction {
        let changes = match words[0] {
            "attach" => {
                return self
                    .attach(words)
                    .unwrap_or_else(|refusal| Err(refusal).into());
            }
            "set" => self.set(words),
            "reload" => self.reload(words),
            "allow" | "deny" if words[1] == "list" => self.attachment(words[2]).map(|_| vec![]),
            "allow" | "deny" => self.edit(words[0], words[1], words[2], &words[3..]),
            "tier" => self.edit(words[3], words[1], words[2], &words[4..]),
            "reset" => self.attachment(words[1]).map(|name| {
                let source = words[2].parse().ok();
                vec![Change::Reset(name.to_owned(), source)]
            }),
            "detach" => self.detach(words[1]),
            "status" if words[1] == "--json" => self.show_all(),
            "status" | "check" => self.attachment(words[1]).map(|_| vec![]),
            other => panic!("no command: {other}"),
        };
        changes.into()
    }

    /// The reason why the attachment of this name cannot be used, if its interface is gone or was renamed.
    fn stray<T>(&self, name: &str) -> Option<Result<T>> {
        let attached = self.attached.get(name)?;
        Some(match attached.device.map(|far| &self.devices[&far]) {
            None => refused(&["gone", &format!("limiter detach {name}")]),
            Some(device) if device != name => {
                refused(&[&format!("'{device}'"), &format!("'{name}'")])
            }
            Some(_) => return None,
        })
    }

    fn nothing<T>(&self, name: &str) -> Result<T> {
        match self.here(name) {
            Some(_) => refused(&["not attached", &format!("limiter attach {name}")]),
            None => refused(&[&format!("no interface '{name}'")]),
        }
    }

    /// The attachment that commands find under `name`.
    fn attachment(&self, name: &str) -> Result<&str> {
        match self.of_name(name) {
            Some(found) => Ok(found),
            None => self.stray(name).unwrap_or_else(|| self.nothing(name)),
        }
    }

    fn show_all(&self) -> Result<Vec<Change>> {
        let all = self.attached.values();
        match all.filter(|attached| attached.device.is_none()).count() {
            0 => Ok(vec![]),
            count => refused(&[&format!("{count} of the attachments")]),
        }
    }

    /// The configuration in flags or in a file, and the file.
    fn wanted(&self, words: &[&str]) -> Result<(Config, Option<String>)> {
        if let Some(name) = value(words, "--config") {
            return match file(name) {
                Ok(config) => Ok((config, Some(name.to_owned()))),
                Err(why) => refused(&[name, why]),
            };
        }
        let rate = value(words, "--rate").unwrap();
        let burst = value(words, "--burst");
        if burst.is_some_and(is_bytes) {
            return wrong(&["packets"]);
        }
        let burst = burst.map(|burst| burst.parse().unwrap());
        let limit = Limit::new("default", rate, burst, Holds::All);
        let mut config = Config::new(vec![limit]);
        config.shadow = words.contains(&"--shadow");
        for (list, flag) in [("allow", "--allow"), ("deny", "--deny")] {
            config.lists.insert(list.to_owned(), prefixes(words, flag));
        }
        Ok((config, None))
    }

    /// Attaches to all interfaces or to none.
    fn attach(&self, words: &[&str]) -> Result<Prediction> {
        let (config, file) = self.wanted(words)?;
        let or_reload = words.contains(&"--or-reload");
        let mut cleared = Vec::new();
        let mut attached = Vec::new();
        let mut next = self.clone();
        for name in words[1..].iter().take_while(|word| !word.starts_with('-')) {
            let found = next.of_name(name);
            if or_reload && let Some(found) = found {
                return next
                    .swap(found, config, file)
                    .map(|changes| Ok(changes).into());
            }
            if found.is_some_and(|found| next.attached[found].config == config) {
                continue;
            }
            let gone = |attached: &Attached| attached.device.is_none();
            if or_reload && next.attached.get(*name).is_some_and(gone) {
                next.attached.remove(*name);
                cleared.push(Change::Detach((*name).to_owned()));
            }
            if let Err(refusal) = next.attachable(name) {
                // Detaches the earlier interfaces again.
                return Ok(Prediction {
                    changes: cleared,
                    refusal: Some(refusal),
                });
            }
            let (config, file) = (config.clone(), file.clone());
            attached.push(Change::Attach((*name).to_owned(), config, file));
        }
        cleared.extend(attached);
        Ok(Ok(cleared).into())
    }

    fn attachable(&self, name: &str) -> Result<()> {
        if self.here(name).is_none() {
            return self.nothing(name);
        }
        if self.of_name(name).is_some() {
            return refused(&[name, "limiter detach"]);
        }
        self.stray(name).unwrap_or(Ok(()))
    }

    fn swap(&self, found: &str, new: Config, file: Option<String>) -> Result<Vec<Change>> {
        if self.attached[found].config.max_sources != new.max_sources {
            return refused(&["max_sources is fixed at attach", "limiter detach"]);
        }
        Ok(vec![Change::Config(found.to_owned(), new, file)])
    }

    fn reload(&self, words: &[&str]) -> Result<Vec<Change>> {
        if value(words, "--config").is_some() {
            let (config, file) = self.wanted(words)?;
            return self.swap(self.attachment(words[1])?, config, file);
        }
        let found = self.attachment(words[1])?;
        let Some(name) = &self.attached[found].file else {
            return refused(&["not attached from a file", "limiter reload"]);
        };
        self.swap(found, file(name).unwrap(), Some(name.clone()))
    }

    fn set(&self, words: &[&str]) -> Result<Vec<Change>> {
        let flag = |flag| value(words, flag);
        let (rate, burst) = (flag("--rate"), flag("--burst"));
        if rate.is_some() && burst.is_some_and(is_bytes) {
            return wrong(&["packets"]);
        }
        let found = self.attachment(words[1])?;
        let attached = &self.attached[found];
        let mut config = attached.config.clone();
        let shadow = flag("--shadow").map(|shadow| shadow == "on");
        let limits = &mut config.limits;
        let limit = match flag("--limit") {
            Some(name) => match limits.iter_mut().find(|limit| limit.name == name) {
                Some(limit) => Some(limit),
                None => return refused(&[&format!("no limit '{name}'")]),
            },
            None if rate.is_none() && burst.is_none() => None,
            None if limits.len() > 1 => return refused(&["several limits", "--limit"]),
            None => limits.first_mut(),
        };
        if let Some(limit) = limit {
            if burst.is_some_and(is_bytes) {
                return refused(&["packets"]);
            }
            if let Some(rate) = rate {
                limit.rate = rate.to_owned();
            }
            limit.burst = burst.map(|burst| burst.parse().unwrap()).or(limit.burst);
            if flag("--limit").is_some() {
                limit.shadow = shadow.unwrap_or(limit.shadow);
            }
        }
        if flag("--limit").is_none() {
            config.shadow = shadow.unwrap_or(config.shadow);
        }
        Ok(vec![Change::Config(
            found.to_owned(),
            config,
            attached.file.clone(),
        )])
    }

    fn edit(&self, list: &str, edit: &str, name: &str, given: &[&str]) -> Result<Vec<Change>> {
        if let Some(bad) = given.iter().find(|text| **text == "10.0.0.1/24") {
            return wrong(&[bad]);
        }
        let found = self.attachment(name)?;
        let attached = &self.attached[found];
        let mut config = attached.config.clone();
        let Some(prefixes) = config.lists.get_mut(list) else {
            return refused(&[&format!("no list '{list}'")]);
        };
        let given: Prefixes = given.iter().map(|text| prefix(text)).collect();
        match edit {
            "add" => prefixes.extend(given),
            "replace" => *prefixes = given,
            _ => prefixes.retain(|prefix| !given.contains(prefix)),
        }
        Ok(vec![Change::Config(
            found.to_owned(),
            config,
            attached.file.clone(),
        )])
    }

    fn detach(&self, name: &str) -> Result<Vec<Change>> {
        if name == "--all" {
            let all = self.attached.keys().cloned();
            return Ok(all.map(Change::Detach).collect());
        }
        // Ends the attachment of the interface with this name, or else removes the pins with this name.
        if let Some(found) = self.of_name(name) {
            return Ok(vec![Change::Detach(found.to_owned())]);
        }
        let gone = |attached: &Attached| attached.device.is_none();
        if self.attached.get(name).is_some_and(gone) {
            return Ok(vec![Change::Detach(name.to_owned())]);
        }
        // For a renamed interface, the message has the new name.
        match self.stray(name) {
            Some(stray) => stray,
            None if self.here(name).is_some() => Ok(vec![]),
            None => self.nothing(name),
        }
    }
}
