//! `[agent]`

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[agent]\nmetrics_listen = \"0.0.0.0:9177\"" => ["berth.toml:2:18: agent.metrics_listen: 0.0.0.0:9177 is not on the loopback interface; write a loopback address and port such as \"127.0.0.1:9177\", or \"none\" [BERTH-E0105]"];
};
