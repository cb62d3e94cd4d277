//! A proxy in front of a database that can lose the answer to a COMMIT, or stop answering.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use berth_store::Location;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::databases::test_database::TestDatabase;

pub(crate) struct Proxy {
    port: u16,
    lossy: Arc<LossyProxy>,
}

/// What does not pass.
#[derive(Default)]
struct LossyProxy {
    /// The answers to so many COMMITs.
    commits: AtomicU32,
    all: AtomicBool,
}

impl Proxy {
    pub(crate) async fn start(place: &TestDatabase) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (lossy, behind) = (Arc::<LossyProxy>::default(), port_of(&place.url()));
        let reported = Arc::clone(&lossy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&reported)));
            }
        });
        Self { port, lossy }
    }

    /// The same database through the proxy, which must be able to read what passes.
    pub(crate) fn location(&self, place: &TestDatabase) -> Location {
        let url = place.url();
        let behind = port_of(&url);
        let url = url.replace(&format!(":{behind}/"), &format!(":{}/", self.port));
        let option = match place {
            TestDatabase::Postgres(_) => "sslmode=disable",
            _ => "ssl_mode=disabled",
        };
        format!("{url}?{option}").parse().unwrap()
    }

    pub(crate) fn cut_at_commit(&self) {
        self.lossy.commits.store(u32::MAX, Ordering::SeqCst);
    }

    /// From now on nothing that is asked passes, and no connection ends. What was asked before is answered.
    pub(crate) fn fall_silent(&self) {
        self.lossy.all.store(true, Ordering::SeqCst);
    }

    /// The next, and no other.
    pub(crate) fn cut_at_one_commit(&self) {
        self.lossy.commits.store(1, Ordering::SeqCst);
    }
}

fn port_of(url: &str) -> u16 {
    let (before, _) = url.rsplit_once('/').unwrap();
    before.rsplit_once(':').unwrap().1.parse().unwrap()
}

async fn pass(mut client: TcpStream, mut server: TcpStream, lossy: Arc<LossyProxy>) {
    let (mut asked, mut answered) = ([0; 65_536], [0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                if lossy.all.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
                let is_commit = asked[..length].windows(6).any(|window| window == b"COMMIT");
                let is_cut = is_commit && {
                    let one_less = |left: u32| left.checked_sub(1);
                    let cut = lossy.commits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                    cut.is_ok()
                };
                if is_cut {
                    // Until the server has answered: it has committed then.
                    let _ = server.read(&mut answered).await;
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
