//! `berth compute serve`: runs compute API, conductor and scheduler in one process.

use std::io::Write;
use std::sync::Arc;

use berth_compose::compute_service::{OpenCompute, conductor_options, unusable_journal};
use berth_compose::consoles::OpenConsoleProxies;
use berth_compose::hosts::OpenHosts;
use berth_compose::images::ServerImages;
use berth_compose::listener::COMPUTE;
use berth_compose::networks::network_service;
use berth_compose::{accelerators_over_network, agents_elsewhere, placement_over_network, signals};
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{Conductor, ConductorParts};
use berth_config::{Config, ConsoleDefault, Secret};
use berth_output::{ErrorCode, Failure};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(super) async fn serve(
    database: Option<&str>,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let end = signals::end();
    let placement = placement_over_network(config, None)?;
    let accelerators = accelerators_over_network(config)?.ok_or_else(|| {
        let what = "access to the accelerator service is not configured";
        Failure::new(ErrorCode::Missing, what)
            .hint("set auth_type and the other options of [cyborg]; berth accelerator serve runs such a service")
    })?;
    let agents = agents_elsewhere(config)?;
    let images = ServerImages::of(config).await?;
    let compute = OpenCompute::open(&with_database(config, database), &images).await?;
    let own = &config.compute_service;
    let strategy = own.auth_strategy.unwrap_or_default();
    let listener = COMPUTE
        .alone(config, own.listen.address(), strategy)
        .await?;
    let root = listener.url();
    let mut hosts = OpenHosts::open(config, Some(listener), placement.clone()).await?;
    let listener = hosts.take_listener();
    let boots = SqlBootJournal::open(&config.state_path)
        .await
        .map_err(|error| unusable_journal(&error))?;
    let known = hosts.hosts();
    let (scheduler, kept) = hosts.into_scheduler();
    let parts = ConductorParts {
        journal: Arc::new(boots.clone()),
        placement,
        accelerators,
        networks: network_service(config)?,
        agents: Arc::new(agents),
        scheduler,
    };
    let conductor = Conductor::open(parts, conductor_options(config));
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let both = (conductor.clone(), known);
    let consoles = OpenConsoleProxies::open(config, ConsoleDefault::None).await?;
    for line in consoles.addresses() {
        writeln!(out, "{line}")?;
    }
    let compute = compute.begin(config, both, (listener, consoles), &mut tasks, &stop)?;
    let stopped = stop.clone().cancelled_owned();
    tasks.spawn(async move { conductor.run(stopped).await });
    writeln!(out, "Compute at {root}/v2.1")?;
    out.flush()?;
    end.await;
    stop.cancel();
    // The tasks end with the token. A panic in one of them is already reported.
    while tasks.join_next().await.is_some() {}
    boots.close().await;
    compute.store.close().await;
    kept.close().await;
    Ok(())
}

/// The configuration with the database of the command line.
fn with_database(config: &Config, database: Option<&str>) -> Config {
    let mut config = config.clone();
    if let Some(url) = database {
        config.compute_service.set_connection(Secret::from(url));
    }
    config
}
