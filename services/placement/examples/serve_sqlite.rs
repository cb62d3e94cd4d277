//! The shortest way to serve Placement: open a database, prepare it, serve the router.
//!
//! ```text
//! cargo run -p berth-placement --example serve_sqlite -- sqlite:placement.db 127.0.0.1:8778
//! ```

use std::error::Error;

use berth_placement::{PlacementApiOptions, prepare, router, serve_tcp};
use berth_store::{SqlOptions, SqlStore};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().unwrap_or("sqlite::memory:".to_owned());
    let address = arguments.next().unwrap_or("127.0.0.1:8778".to_owned());

    let store = SqlStore::open(&database.parse()?, &SqlOptions::default()).await?;
    prepare(&store).await?;
    let interrupted = async {
        tokio::signal::ctrl_c().await.ok();
    };
    let listener = TcpListener::bind(address).await?;
    serve_tcp(
        listener,
        router(store.clone(), PlacementApiOptions::default()),
        interrupted,
    )
    .await;
    store.close().await;
    Ok(())
}
