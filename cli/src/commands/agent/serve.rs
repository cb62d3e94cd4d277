//! `berth agent` without a subcommand: runs the agent in the foreground, as the systemd unit does.

use std::sync::Arc;

use berth_agent::metrics::Metrics;
use berth_compose::agent::{AgentHost, AgentRun, AgentRunArguments};
use berth_compose::{
    HostGuests, accelerators_over_network, hosts_over_network, placement_over_network, signals,
};
use berth_config::{LoadedConfig, Sources};
use berth_output::Failure;
use tokio_util::sync::CancellationToken;

/// Runs the agent with the services that the configuration names, until a signal stops it.
pub(super) async fn run_agent(
    loaded: &LoadedConfig,
    sources: &Sources,
    arguments: &AgentRunArguments,
) -> Result<(), Failure> {
    let end = signals::end();
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let placement = placement_over_network(&loaded.config, Some(Arc::new(metrics.clone())))?;
    let accelerators = accelerators_over_network(&loaded.config)?;
    let hosts = hosts_over_network(&loaded.config)?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let waiting = tokio::spawn(async move {
        end.await;
        stop.cancel();
    });
    let begin = async {
        let host = AgentHost::take(loaded, arguments)?;
        let config = &loaded.config;
        let guests =
            HostGuests::open(config, &host.driver, accelerators, placement.clone(), None).await?;
        let run = AgentRun {
            loaded,
            sources,
            arguments,
            metrics,
            embedded_metrics: None,
            shutdown,
        };
        let ended = host.serve(run, placement, &guests, hosts, None, drop).await;
        guests.close().await;
        ended
    };
    let ended = begin.await;
    waiting.abort();
    ended
}
