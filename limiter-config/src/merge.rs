//! Settings of several services as one.

use std::cmp::Ordering;

use super::{Exempt, Invalid, Limit, NewSources, Settings};

impl Settings {
    /// These settings with those of another service, `name`. The limits of both apply; a limit whose name is taken by
    /// another one gets the service in front of its name. Of two limits of one name on packets that no other limit matches, the
    /// faster one stays: it must hold neither service. What is exempt for one is exempt for both, and the table and
    /// its rate of new sources are the larger ones.
    pub fn with_service(mut self, name: &str, other: Self) -> Result<Self, Invalid> {
        for mut limit in other.limits {
            if self.limits.contains(&limit) {
                continue;
            }
            let is_same_rest = |before: &&mut Limit| {
                before.name == limit.name && before.matches.other && limit.matches.other
            };
            if let Some(before) = self.limits.iter_mut().find(is_same_rest) {
                if before.rate.compare(&limit.rate) == Some(Ordering::Less) {
                    *before = limit;
                }
                continue;
            }
            if self.limits.iter().any(|before| before.name == limit.name) {
                limit.name = format!("{name}-{}", limit.name);
            }
            self.limits.push(limit);
        }
        self.exempt = self.exempt.or(other.exempt);
        self.max_sources = self.max_sources.max(other.max_sources);
        self.max_bans = self.max_bans.max(other.max_bans);
        self.new_sources = larger(self.new_sources, other.new_sources);
        self.lists.allow.join(other.lists.allow);
        self.lists.deny.join(other.lists.deny);
        for (list, prefixes) in other.lists.tiers {
            self.lists.tiers.entry(list).or_default().join(prefixes);
        }
        self.check().map(|()| self)
    }
}

impl Exempt {
    /// The packets that are exempt in one of both.
    fn or(self, other: Self) -> Self {
        Self {
            established: self.established || other.established,
            control: self.control || other.control,
            vrrp: self.vrrp || other.vrrp,
            ospf: self.ospf || other.ospf,
            bfd: self.bfd || other.bfd,
        }
    }
}

/// The faster of two limits on new sources; `None` is no limit.
fn larger(own: Option<NewSources>, other: Option<NewSources>) -> Option<NewSources> {
    let (own, other) = (own?, other?);
    let is_less = own.rate.compare(&other.rate) == Some(Ordering::Less);
    Some(if is_less { other } else { own })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Settings, file};

    fn settings(text: &str) -> Settings {
        file::parse(text, Path::new("."))
            .expect("a valid file")
            .settings
    }

    #[test]
    fn services_are_merged_without_losing_a_limit() {
        let web = r#"
            max_sources = "256k"
            exempt = ["established"]
            [lists]
            own = ["192.0.2.0/24"]
            [[limit]]
            name = "tcp"
            match = { destination_port = 443, source = "own" }
            rate = "2k/s"
            [[limit]]
            name = "connections"
            match = { established = true }
            rate = "100k/s"
            [[limit]]
            name = "rest"
            match = "other"
            rate = "500/s"
        "#;
        let dns = r#"
            new_sources = "50k/s"
            exempt = ["control"]
            [lists]
            own = ["198.51.100.0/24"]
            [[limit]]
            name = "tcp"
            match = { destination_port = 53 }
            rate = "10/s"
            [[limit]]
            name = "rest"
            match = { established = false, other = true }
            rate = "2k/s"
            [[limit]]
            name = "connections"
            match = { established = true }
            rate = "100k/s"
        "#;
        let both = settings(web).with_service("dns", settings(dns));
        let both = both.expect("they fit");
        let names: Vec<_> = both.limits.iter().map(|limit| &*limit.name).collect();
        assert_eq!(names, ["tcp", "connections", "rest", "dns-tcp"]);
        assert_eq!(both.limits[2].rate.to_string(), "2k/s");
        assert_eq!(both.exempt.names(), ["established", "control"]);
        assert_eq!(both.lists.tiers["own"].len(), 2);
        assert_eq!(both.max_sources, 256_000);
        let rate = both.new_sources.expect("a limit").rate;
        assert_eq!(rate.to_string(), "50k/s");
    }

    #[test]
    fn limits_of_too_many_services_are_refused() {
        let limits = |service: usize| -> String {
            let limit = |number| format!("[[limit]]\nname = \"{service}-{number}\"\nrate = 5\n");
            (0..20).map(limit).collect()
        };
        let [first, second] = [1, 2].map(|service| settings(&limits(service)));
        let why = first.with_service("second", second).expect_err("40 limits");
        assert!(why.to_string().contains("at most 32"), "{why}");
    }
}
