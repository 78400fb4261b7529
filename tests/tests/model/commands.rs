//! Runs each command in the model.

use super::{
    bucket::Moments,
    config::{Config, Holds, Limit, Prefixes, file, prefix},
    expected::{Attached, Model},
};

/// Exit status, and words of the message.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: i32,
    pub words: Vec<String>,
}

type Result<T = ()> = std::result::Result<T, Refusal>;

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
    let position = words.iter().position(|word| *word == flag)?;
    words.get(position + 1).copied()
}

/// All values of a flag that may be repeated.
fn prefixes(words: &[&str], flag: &str) -> Prefixes {
    let pairs = words.windows(2).filter(|pair| pair[0] == flag);
    pairs.map(|pair| prefix(pair[1])).collect()
}

fn is_bytes(burst: &str) -> bool {
    burst.ends_with("kb")
}

/// The configuration in flags or in a file, and the file.
fn wanted(words: &[&str]) -> Result<(Config, Option<String>)> {
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

/// The configuration after `set` with these words.
fn set(mut config: Config, words: &[&str]) -> Result<Config> {
    let flag = |flag| value(words, flag);
    let (rate, burst, named) = (flag("--rate"), flag("--burst"), flag("--limit"));
    let shadow = flag("--shadow").map(|shadow| shadow == "on");
    let limits = &mut config.limits;
    let limit = match named {
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
        if named.is_some() {
            limit.shadow = shadow.unwrap_or(limit.shadow);
        }
    }
    if named.is_none() {
        config.shadow = shadow.unwrap_or(config.shadow);
    }
    Ok(config)
}

impl Model {
    /// Runs `limiter` with these words at `at`. A refused command may have some effects.
    pub fn run(&mut self, words: &[&str], moments: &Moments) -> Result {
        match words[0] {
            "attach" => self.attach(words, moments),
            "set" => {
                let burst = value(words, "--burst");
                if value(words, "--rate").is_some() && burst.is_some_and(is_bytes) {
                    return wrong(&["packets"]);
                }
                let attached = self.attachment(words[1])?;
                let config = set(attached.config.clone(), words)?;
                attached.changed(config, moments);
                Ok(())
            }
            "reload" => self.reload(words, moments),
            "allow" | "deny" => self.edit(words[0], words[1], words[2], &words[3..], moments),
            "tier" => self.edit(words[3], words[1], words[2], &words[4..], moments),
            "reset" => {
                let attached = self.attachment(words[1])?;
                attached.forget(words[2].parse().ok());
                Ok(())
            }
            "detach" => self.detach(words[1]),
            "status" => self.show_all(),
            other => panic!("no command: {other}"),
        }
    }

    /// The reason why the attachment of this name cannot be used, if its interface is gone or was renamed.
    fn stray(&self, name: &str) -> Result {
        let attached = self.attached.get(name);
        match attached.map(|attached| attached.device.map(|far| &self.devices[&far])) {
            Some(None) => refused(&["gone", &format!("limiter detach {name}")]),
            Some(Some(device)) if device != name => {
                refused(&[&format!("'{device}'"), &format!("'{name}'")])
            }
            _ => Ok(()),
        }
    }

    fn nothing<T>(&self, name: &str) -> Result<T> {
        match self.here(name) {
            Some(_) => refused(&["not attached", &format!("limiter attach {name}")]),
            None => refused(&[&format!("no interface '{name}'")]),
        }
    }

    /// The attachment that commands find under `name`.
    fn attachment(&mut self, name: &str) -> Result<&mut Attached> {
        let Some(found) = self.of_name(name).map(str::to_owned) else {
            self.stray(name)?;
            return self.nothing(name);
        };
        Ok(self.attached.get_mut(&found).unwrap())
    }

    fn show_all(&self) -> Result {
        let all = self.attached.values();
        match all.filter(|attached| attached.device.is_none()).count() {
            0 => Ok(()),
            count => refused(&[&format!("{count} of the attachments")]),
        }
    }

    /// Attaches to all interfaces or to none.
    fn attach(&mut self, words: &[&str], moments: &Moments) -> Result {
        let (config, file) = wanted(words)?;
        let or_reload = words.contains(&"--or-reload");
        let mut next = self.clone();
        for name in words[1..].iter().take_while(|word| !word.starts_with('-')) {
            let found = next.of_name(name).map(str::to_owned);
            if or_reload && found.is_some() {
                return self.attachment(name)?.swap(config, file, moments);
            }
            if found.is_some_and(|found| next.attached[&found].config == config) {
                continue;
            }
            let gone = |attached: &Attached| attached.device.is_none();
            if or_reload && next.attached.get(*name).is_some_and(gone) {
                next.attached.remove(*name);
                self.attached.remove(*name);
            }
            next.attachable(name)?;
            let device = next.here(name).unwrap();
            let attached = Attached::new(device, config.clone(), file.clone());
            next.attached.insert((*name).to_owned(), attached);
        }
        *self = next;
        Ok(())
    }

    fn attachable(&self, name: &str) -> Result {
        if self.here(name).is_none() {
            return self.nothing(name);
        }
        if self.of_name(name).is_some() {
            return refused(&[name, "limiter detach"]);
        }
        self.stray(name)
    }

    fn reload(&mut self, words: &[&str], moments: &Moments) -> Result {
        if value(words, "--config").is_some() {
            let (config, file) = wanted(words)?;
            return self.attachment(words[1])?.swap(config, file, moments);
        }
        let attached = self.attachment(words[1])?;
        let Some(name) = attached.file.clone() else {
            return refused(&["not attached from a file", "limiter reload"]);
        };
        attached.swap(file(&name).unwrap(), Some(name), moments)
    }

    fn edit(
        &mut self,
        list: &str,
        edit: &str,
        name: &str,
        given: &[&str],
        moments: &Moments,
    ) -> Result {
        if let Some(bad) = given.iter().find(|text| **text == "10.0.0.1/24") {
            return wrong(&[bad]);
        }
        let attached = self.attachment(name)?;
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
        attached.changed(config, moments);
        Ok(())
    }

    fn detach(&mut self, name: &str) -> Result {
        if name == "--all" {
            self.attached.clear();
            return Ok(());
        }
        // Ends the attachment of the interface with this name, or else removes the pins with this name.
        let gone = |attached: &Attached| attached.device.is_none();
        let left = self.attached.get(name).is_some_and(gone);
        let found = self.of_name(name).or(left.then_some(name));
        if let Some(found) = found.map(str::to_owned) {
            self.attached.remove(&found);
            return Ok(());
        }
        // For a renamed interface, the message has the new name.
        self.stray(name)?;
        match self.here(name) {
            Some(_) => Ok(()),
            None => self.nothing(name),
        }
    }
}

impl Attached {
    /// Sets another configuration and file.
    fn swap(&mut self, new: Config, file: Option<String>, moments: &Moments) -> Result {
        if self.config.max_sources != new.max_sources {
            return refused(&["max_sources is fixed at attach", "limiter detach"]);
        }
        self.changed(new, moments);
        self.file = file;
        Ok(())
    }
}
