//! The connection to a server.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use tokio_postgres::{
    Client, Row,
    config::Config,
    error::SqlState,
    tls::{MakeTlsConnect, NoTls, TlsConnect},
    types::{FromSql, ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault;
use crate::store::{
    address::Place,
    error::{Error, Fault},
    options::Target,
    servers::{Socket, first},
    socket::{Bounded, Stream, Traffic},
};

/// The version of the schema that this code needs.
const VERSION: i32 = 2;

const CHECK: &str =
    "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool, limiter.version()";

pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub struct Postgres {
    pub(super) target: Arc<Target>,
    client: Client,
    traffic: Arc<Traffic>,
    /// The task that reads and writes the socket. Ends when it is dropped.
    _driver: JoinSet<()>,
    /// The error that ended the driver. The client gets no reason.
    error: Arc<OnceLock<tokio_postgres::Error>>,
}

impl Postgres {
    /// Connects to the first primary among the servers, and checks it.
    pub async fn connect(
        target: &Arc<Target>,
        config: &Config,
        servers: &[Place],
    ) -> Result<(Self, Option<SocketAddr>), Error> {
        let begin = async |socket: Socket, place: &Place| {
            let peer = socket.peer;
            let postgres = Self::over(target, config, socket.stream, place).await?;
            Ok((postgres, peer))
        };
        first(target, servers, begin).await
    }

    async fn over(
        target: &Arc<Target>,
        config: &Config,
        stream: Box<dyn Stream>,
        place: &Place,
    ) -> Result<Self, Error> {
        let traffic = Arc::new(Traffic::default());
        let bounded = Bounded {
            stream,
            traffic: Arc::clone(&traffic),
        };
        let connecting = async {
            match place {
                Place::Tcp(name, _) if target.address.is_tls => {
                    let tls = target.tls().map_err(Fault::Unreachable)?;
                    let mut tls = MakeRustlsConnect::new(tls);
                    let Ok(tls) = MakeTlsConnect::<Bounded>::make_tls_connect(&mut tls, name);
                    begin(target, config, bounded, tls).await
                }
                _ => begin(target, config, bounded, NoTls).await,
            }
        };
        let (client, driver, error) = target.within_timeout(connecting).await?;
        let postgres = Self {
            target: Arc::clone(target),
            client,
            traffic,
            _driver: driver,
            error,
        };
        postgres.check().await?;
        Ok(postgres)
    }

    /// Fails if the server is not a store.
    async fn check(&self) -> Result<(), Error> {
        let [row] = &self.ask(CHECK, &[]).await?[..] else {
            return Err(self.target.invalid("no version"));
        };
        if self.read(row, 0)? {
            return Err(self.target.error(Fault::Replica));
        }
        if self.read(row, 1)? {
            let why = "transaction_read_only is on".to_owned();
            return Err(self.target.error(Fault::ReadOnly(why)));
        }
        let version: i32 = self.read(row, 2)?;
        if version != VERSION {
            let program = format!("a database with version {version} of limiter's schema");
            return Err(self.target.error(Fault::NotAStore(program)));
        }
        Ok(())
    }

    /// Sends a statement, and waits for the rows. Repeats it if the server could not order it among others.
    pub(super) async fn ask(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let answer = async {
            let mut most = 1_000;
            loop {
                let _asked = self.traffic.ask();
                let error = match self.client.query_typed(statement, parameters).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => error,
                };
                if !is_about_order(&error) {
                    let reason = self.error.get().filter(|_| error.is_closed());
                    let reason = reason.unwrap_or(&error);
                    let is_closed = self.client.is_closed();
                    return Err(fault::of_request(&self.target, reason, is_closed));
                }
                // Apart from others that were refused at the same time.
                sleep(Duration::from_micros(fastrand::u64(0..most))).await;
                most = (2 * most).min(100_000);
            }
        };
        self.target.within_timeout(answer).await
    }

    /// Sends a statement that has one row as its answer.
    pub(super) async fn ask_one(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Row, Error> {
        let rows = self.ask(statement, parameters).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| self.target.invalid("no row"))
    }

    pub(super) fn read<'r, T: FromSql<'r>>(&self, row: &'r Row, column: usize) -> Result<T, Error> {
        let value = row.try_get(column);
        value.map_err(|_| self.target.invalid("a column of another type"))
    }

    /// Reads a number that is not negative.
    pub(super) fn number(&self, row: &Row, column: usize) -> Result<u64, Error> {
        let number = u64::try_from(self.read::<i64>(row, column)?);
        number.map_err(|_| self.target.invalid("a negative number"))
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

async fn begin<T>(
    target: &Target,
    config: &Config,
    stream: Bounded,
    tls: T,
) -> Result<(Client, JoinSet<()>, Arc<OnceLock<tokio_postgres::Error>>), Fault>
where
    T: TlsConnect<Bounded, Stream: Send + 'static>,
{
    let begun = config.connect_raw(stream, tls).await;
    let (client, connection) = begun.map_err(|error| fault::of(target, &error))?;
    let error = Arc::new(OnceLock::new());
    let ended = Arc::clone(&error);
    let mut task = JoinSet::new();
    task.spawn(async move {
        // The connection lives until the error is known, because its end tells the client that it is closed.
        let mut connection = pin!(connection);
        if let Err(error) = connection.as_mut().await {
            let _ = ended.set(error);
        }
    });
    Ok((client, task, error))
}
