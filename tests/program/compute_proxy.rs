//! openstacksdk's compute proxy, unchanged, with the `clouds.yaml` that `berth up` wrote.

use std::process::Command;

use berth_tests::peer::{checkout, installed, output};

use crate::program::cloud::Cloud;
use crate::program::compute::IMAGE;

#[test]
fn openstacksdks_compute_proxy_does_all_that_its_functional_tests_do() {
    let network = ("BERTH__COMPUTE_SERVICE__AUTO_NETWORK", "network:default");
    let cloud = Cloud::start("proxy", &[network]);
    let python = installed().expect("the peers").join("venv/bin/python");
    let mut command = Command::new(python);
    command
        .arg(checkout().join("tests/program/compute_proxy.py"))
        .args(["berth", IMAGE])
        .env("OS_CLIENT_CONFIG_FILE", cloud.state().join("clouds.yaml"))
        .env_remove("PYTHONPATH");
    let printed =
        output(&mut command).unwrap_or_else(|error| panic!("{error}\n{}", cloud.host.up.stderr()));
    assert!(printed.ends_with("done\n"), "{printed}");
}
