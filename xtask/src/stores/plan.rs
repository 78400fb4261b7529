//! The stores and poolers of the plan, and the tests for each.

/// A store or a pooler of a release of Debian.
#[derive(Debug)]
pub struct Row {
    /// Its name on command lines and on the page.
    pub name: &'static str,
    pub release: &'static str,
    /// Its packages, separated by spaces. The page has the version of the first one.
    pub packages: &'static str,
    /// The folder of the programs in the packages.
    pub programs: &'static str,
    pub kind: Kind,
}

/// The tests that a row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The tests of Redis, with the programs of this name.
    Redis(&'static str),
    Postgres,
    /// The tests of PostgreSQL that run with a pooler, whose program has this name.
    Pooler(&'static str),
}

/// The oldest release first.
pub const ROWS: [Row; 12] = [
    redis(
        "redis-trixie",
        "trixie",
        "redis-server redis-tools",
        "redis",
    ),
    redis("redis-sid", "sid", "redis-server redis-tools", "redis"),
    redis(
        "valkey-trixie",
        "trixie",
        "valkey-server valkey-tools",
        "valkey",
    ),
    redis("valkey-sid", "sid", "valkey-server valkey-tools", "valkey"),
    redis("redict-sid", "sid", "redict-server redict-tools", "redict"),
    postgres(
        "postgresql-trixie",
        "trixie",
        "postgresql-17 postgresql-client-17",
        "usr/lib/postgresql/17/bin",
    ),
    postgres(
        "postgresql-sid",
        "sid",
        "postgresql-18 postgresql-client-18",
        "usr/lib/postgresql/18/bin",
    ),
    pooler(
        "pgbouncer-trixie",
        "trixie",
        "pgbouncer",
        "usr/sbin",
        "pgbouncer",
    ),
    pooler("pgbouncer-sid", "sid", "pgbouncer", "usr/sbin", "pgbouncer"),
    pooler("pgpool-sid", "sid", "pgpool2", "usr/sbin", "pgpool"),
    pooler("odyssey-sid", "sid", "odyssey", "usr/bin", "odyssey"),
    pooler("pgagroal-sid", "sid", "pgagroal", "usr/bin", "pgagroal"),
];

const fn redis(
    name: &'static str,
    release: &'static str,
    packages: &'static str,
    prefix: &'static str,
) -> Row {
    Row {
        name,
        release,
        packages,
        programs: "usr/bin",
        kind: Kind::Redis(prefix),
    }
}

const fn postgres(
    name: &'static str,
    release: &'static str,
    packages: &'static str,
    programs: &'static str,
) -> Row {
    Row {
        name,
        release,
        packages,
        programs,
        kind: Kind::Postgres,
    }
}

const fn pooler(
    name: &'static str,
    release: &'static str,
    packages: &'static str,
    programs: &'static str,
    program: &'static str,
) -> Row {
    Row {
        name,
        release,
        packages,
        programs,
        kind: Kind::Pooler(program),
    }
}

impl Kind {
    /// The test programs.
    pub fn suites(self) -> [&'static str; 2] {
        match self {
            Self::Redis(_) => ["fleet", "fleet_store"],
            Self::Postgres | Self::Pooler(_) => ["fleet_hosts_postgres", "fleet_postgres"],
        }
    }

    /// The environment variable of the tests, with its value.
    pub fn variable(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Redis(name) => Some((crate::suites::STORE, name)),
            Self::Postgres => None,
            Self::Pooler(name) => Some(("LIMITER_POOLER", name)),
        }
    }

    /// True for a test that the row runs. Behind a pooler, only these tests connect to it.
    pub fn runs(self, test: &str) -> bool {
        const BEHIND: [&str; 3] = ["::shared::", "::shared_lists::", "::pooler_"];
        !matches!(self, Self::Pooler(_)) || BEHIND.iter().any(|part| test.contains(part))
    }
}

/// The columns of the page, each with parts of the names of its tests. A test belongs to the first column that fits.
pub const COLUMNS: [(&str, &[&str]); 5] = [
    ("failover", &["replica", "primary"]),
    (
        "one limit",
        &[
            "::shared::",
            "::changes::",
            "::rounds::",
            "::members::",
            "::order::",
        ],
    ),
    (
        "lists, bans",
        &["::shared_lists::", "::bans::", "::stored_lists::"],
    ),
    (
        "stop, kill, empty",
        &[
            "fleet::faults::",
            "postgres::faults::hosts",
            "::restarts::",
            "::closed::",
        ],
    ),
    ("others", &[""]),
];

/// The place of the column of a test.
pub fn column(test: &str) -> usize {
    let fits = |(_, parts): &(&str, &[&str])| parts.iter().any(|part| test.contains(part));
    COLUMNS.iter().position(fits).unwrap_or(COLUMNS.len() - 1)
}
