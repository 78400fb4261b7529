//! PostgreSQL. `schema.sql` defines the stored data and the functions, one for each request: one statement, and so one
//! message and one transaction.
//!
//! Statements are sent unprepared, because a pooler may answer the next one by another connection.

mod fault;

use std::{io, sync::Arc, time::Duration};

use limiter_common::arithmetic::bucket::TICK_SHIFT;
use tokio::{net::UnixStream, task::JoinSet, time::sleep};
use tokio_postgres::{
    Client, Row,
    config::{Config, Host, SslMode},
    error::SqlState,
    tls::{MakeTlsConnect, NoTls, TlsConnect},
    types::{FromSql, ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    address::servers,
    engine::{Alive, Answer, Charges, Engine, Heartbeat, ListEdit, Part},
    error::{Error, Fault},
    heartbeat::{LIMITS, MEMBERS},
    lists::{PREFIXES, READ_AT_ONCE, full},
    options::Target,
    socket::{Bounded, Stream, Traffic, tcp},
};

/// The statements that make a database a store.
pub const SCHEMA: &str = include_str!("schema.sql");
/// The version of the schema that this code needs.
const VERSION: i32 = 1;

const CHECK: &str = "SELECT pg_is_in_recovery(), limiter.version()";
const EXCHANGE: &str =
    "SELECT * FROM limiter.exchange($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const HEARTBEAT: &str = "SELECT * FROM limiter.heartbeat($1, $2, $3, $4, $5, $6, $7)";
const EDIT: &str = "SELECT * FROM limiter.edit($1, $2, $3, $4, $5, $6)";
const PART: &str = "SELECT * FROM limiter.part($1, $2, $3, $4, $5)";

/// The error code of a list that is too long.
const TOO_MANY: &str = "LF001";

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection to a server.
pub(super) struct Postgres {
    target: Arc<Target>,
    client: Client,
    traffic: Arc<Traffic>,
    _driver: JoinSet<()>,
}

impl Postgres {
    /// Connects to the first primary among the servers, and checks it.
    pub async fn connect(target: &Arc<Target>, config: &Config) -> Result<Self, Error> {
        let mut refusal = target.invalid("no server");
        for (host, port) in servers(config) {
            let connected = match Self::connect_to(target, config, host, port).await {
                Ok(postgres) => postgres.check().await.map(|()| postgres),
                Err(error) => Err(error),
            };
            match connected {
                Ok(postgres) => return Ok(postgres),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    async fn connect_to(
        target: &Arc<Target>,
        config: &Config,
        host: &Host,
        port: u16,
    ) -> Result<Self, Error> {
        let traffic = Arc::new(Traffic::default());
        let connecting = async {
            let bounded = Bounded {
                stream: open(host, port)
                    .await
                    .map_err(|error| fault::of_socket(target, &error))?,
                traffic: Arc::clone(&traffic),
            };
            if config.get_ssl_mode() == SslMode::Disable {
                return begin(target, config, bounded, NoTls).await;
            }
            let Host::Tcp(name) = host else {
                return Err(Fault::Unreachable("a socket has no TLS".to_owned()));
            };
            let tls = target.tls().map_err(Fault::Unreachable)?;
            let mut tls = MakeRustlsConnect::new(tls);
            let Ok(tls) = MakeTlsConnect::<Bounded>::make_tls_connect(&mut tls, name);
            begin(target, config, bounded, tls).await
        };
        let (client, driver) = target.within_timeout(connecting).await?;
        Ok(Self {
            target: Arc::clone(target),
            client,
            traffic,
            _driver: driver,
        })
    }

    /// Fails if the server is not a store.
    async fn check(&self) -> Result<(), Error> {
        let [row] = &self.ask(CHECK, &[]).await?[..] else {
            return Err(self.target.invalid("no version"));
        };
        if self.read(row, 0)? {
            return Err(self.target.error(Fault::Replica));
        }
        let version: i32 = self.read(row, 1)?;
        if version != VERSION {
            let what = format!("a database with version {version} of limiter's schema");
            return Err(self.target.error(Fault::NotAStore(what)));
        }
        Ok(())
    }

    /// Sends a statement, and waits for the rows. Repeats it if the server could not order it among others.
    async fn ask(&self, statement: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        let answer = async {
            let mut most = 1_000;
            loop {
                let _asked = self.traffic.ask();
                let error = match self.client.query_typed(statement, with).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => error,
                };
                if !is_about_order(&error) {
                    return Err(fault::of(&self.target, &self.traffic, &error));
                }
                // Apart from others that were refused at the same time.
                sleep(Duration::from_micros(fastrand::u64(0..most))).await;
                most = (2 * most).min(100_000);
            }
        };
        self.target.within_timeout(answer).await
    }

    /// Sends a statement that has one row as its answer.
    async fn ask_one(&self, statement: &str, with: &[Parameter<'_>]) -> Result<Row, Error> {
        let rows = self.ask(statement, with).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| self.target.invalid("no row"))
    }

    fn read<'r, T: FromSql<'r>>(&self, row: &'r Row, column: usize) -> Result<T, Error> {
        let value = row.try_get(column);
        value.map_err(|_| self.target.invalid("a column of another type"))
    }

    /// Reads a number that is not negative.
    fn number(&self, row: &Row, column: usize) -> Result<u64, Error> {
        let number = u64::try_from(self.read::<i64>(row, column)?);
        number.map_err(|_| self.target.invalid("a negative number"))
    }
}

impl Engine for Postgres {
    fn exchange<'a>(&'a self, charges: &'a Charges<'a>) -> Answer<'a, Vec<(u64, u64, u64)>> {
        let Charges { terms, items, .. } = charges;
        let limits: Vec<_> = terms.iter().map(|terms| terms.limit).collect();
        let costs = terms
            .iter()
            .map(|terms| terms.cost as f64 / f64::from(1 << TICK_SHIFT));
        let costs: Vec<_> = costs.collect();
        let caps: Vec<_> = terms.iter().map(|terms| signed(terms.cap)).collect();
        let lives: Vec<_> = terms.iter().map(|terms| signed(terms.life)).collect();
        let sources: Vec<_> = items.iter().map(|item| &*item.source).collect();
        let packets: Vec<_> = items.iter().map(|item| signed(item.packets)).collect();
        let numbers = items.iter().map(|item| signed(item.terms as u64 + 1));
        let numbers: Vec<_> = numbers.collect();
        Box::pin(async move {
            let with: [Parameter<'_>; 11] = [
                (&charges.fleet, Type::TEXT),
                (&charges.member.cast_signed(), Type::INT8),
                (&signed(charges.part.into()), Type::INT8),
                (&signed(charges.number), Type::INT8),
                (&limits, Type::TEXT_ARRAY),
                (&costs, Type::FLOAT8_ARRAY),
                (&caps, Type::INT8_ARRAY),
                (&lives, Type::INT8_ARRAY),
                (&sources, Type::TEXT_ARRAY),
                (&packets, Type::INT8_ARRAY),
                (&numbers, Type::INT8_ARRAY),
            ];
            let rows = self.ask(EXCHANGE, &with).await?;
            let number = |row, column| self.number(row, column);
            rows.iter()
                .map(|row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)))
                .collect()
        })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat<'a>) -> Answer<'a, Alive> {
        Box::pin(async move {
            let with: [Parameter<'_>; 7] = [
                (&heartbeat.fleet, Type::TEXT),
                (&heartbeat.member.cast_signed(), Type::INT8),
                (&heartbeat.label, Type::TEXT),
                (&heartbeat.held, Type::TEXT_ARRAY),
                (&signed(heartbeat.alive), Type::INT8),
                (&signed(MEMBERS as u64), Type::INT8),
                (&signed(LIMITS as u64), Type::INT8),
            ];
            let row = self.ask_one(HEARTBEAT, &with).await?;
            let held: Vec<&str> = self.read(&row, 3)?;
            Ok(Alive {
                hosts: self.number(&row, 0)?,
                oldest: self.number(&row, 1)?,
                revision: self.number(&row, 2)?,
                held: held.into_iter().map(Into::into).collect(),
            })
        })
    }

    fn edit<'a>(&'a self, edit: &'a ListEdit<'a>) -> Answer<'a, (u64, u64)> {
        let by = edit.add.map(|(by, _)| by);
        let lasts = edit.add.and_then(|(_, lasts)| lasts).map(signed);
        Box::pin(async move {
            let with: [Parameter<'_>; 6] = [
                (&edit.fleet, Type::TEXT),
                (&edit.list, Type::TEXT),
                (&edit.prefixes, Type::TEXT_ARRAY),
                (&by, Type::TEXT),
                (&lasts, Type::INT8),
                (&signed(PREFIXES as u64), Type::INT8),
            ];
            let row = self.ask_one(EDIT, &with).await;
            let row = row.map_err(|error| too_long(error, edit.list))?;
            Ok((self.number(&row, 0)?, self.number(&row, 1)?))
        })
    }

    fn part<'a>(&'a self, fleet: &'a str, list: &'a str, at: Option<&'a str>) -> Answer<'a, Part> {
        Box::pin(async move {
            let with: [Parameter<'_>; 5] = [
                (&fleet, Type::TEXT),
                (&list, Type::TEXT),
                (&at.unwrap_or_default(), Type::TEXT),
                (&signed(READ_AT_ONCE as u64), Type::INT8),
                (&signed(PREFIXES as u64), Type::INT8),
            ];
            let row = self.ask_one(PART, &with).await;
            let row = row.map_err(|error| too_long(error, list))?;
            let prefixes: Vec<&str> = self.read(&row, 2)?;
            let values: Vec<&str> = self.read(&row, 3)?;
            let last = prefixes.last().filter(|_| prefixes.len() >= READ_AT_ONCE);
            Ok(Part {
                now: self.number(&row, 0)?,
                revision: self.number(&row, 1)?,
                next: last.map(|last| (*last).to_owned()),
                entries: prefixes
                    .iter()
                    .zip(values)
                    .map(|(prefix, value)| ((*prefix).into(), value.into()))
                    .collect(),
            })
        })
    }
}

/// The error of a request about a list.
fn too_long(error: Error, list: &str) -> Error {
    match error {
        Error::At(_, Fault::Refused(why)) if why.starts_with(TOO_MANY) => full(list),
        error => error,
    }
}

/// True if the server has undone a statement because of others at the same time.
fn is_about_order(error: &tokio_postgres::Error) -> bool {
    let orders = [
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| orders.contains(&code))
}

/// A number of the database, which has no numbers without a sign.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

async fn open(host: &Host, port: u16) -> io::Result<Box<dyn Stream>> {
    Ok(match host {
        Host::Tcp(name) => Box::new(tcp(name, port).await?),
        Host::Unix(folder) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            Box::new(UnixStream::connect(path).await?)
        }
    })
}

/// Begins a session. The task ends with the returned set.
async fn begin<T>(
    target: &Target,
    config: &Config,
    stream: Bounded,
    tls: T,
) -> Result<(Client, JoinSet<()>), Fault>
where
    T: TlsConnect<Bounded, Stream: Send + 'static>,
{
    let traffic = Arc::clone(&stream.traffic);
    let begun = config.connect_raw(stream, tls).await;
    let (client, connection) = begun.map_err(|error| fault::of(target, &traffic, &error))?;
    let mut task = JoinSet::new();
    task.spawn(async {
        // The client gets the error.
        let _ = connection.await;
    });
    Ok((client, task))
}
