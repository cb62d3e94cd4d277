//! The offline upgrade of four hosts with many consumers (200, in `make soak` a thousand), on a database that
//! OpenStack's Placement filled and uses afterwards.

use std::{fs, thread};

use berth_fake::Machine;
use berth_model::ProviderUuid;
use berth_tests::berth::{BerthHome, Outcome};
use berth_tests::claims::{join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::peer::{PlacementSettings, RealPlacement, Storage};
use berth_tests::sample::up_to;

use crate::real_placement::agent::Agent;
use crate::real_placement::holdings::{assert_held, check_consumers, claims, expected, post};
use crate::real_placement::upgrade::{Upgrade, Version};

const GUESTS: u32 = up_to(250, 50);

/// A host with `berth` installed and a new model of its machine.
struct OfflineHost {
    home: BerthHome,
    upgrade: Upgrade,
    database: String,
}

impl OfflineHost {
    fn new(upgrade: Upgrade, machine: &Machine, root: ProviderUuid, database: &str) -> Self {
        let home = BerthHome::new().expect("a home");
        home.write("machine.toml", &machine.to_toml())
            .expect("a file");
        home.configure(
            "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\n\
             cpu_allocation_ratio = 1.0\nreserved_host_memory_mb = 0\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [fake]\nmachine = \"@HOME@/machine.toml\"\n",
        )
        .expect("a configuration");
        fs::create_dir_all(home.state_dir()).expect("a folder");
        fs::write(home.state_dir().join("compute_id"), root.to_string()).expect("a file");
        Self {
            home,
            upgrade,
            database: database.to_owned(),
        }
    }

    fn run(&mut self, more: &[&str]) -> Outcome {
        let config = self.home.config_file().display().to_string();
        let database = self.database.clone();
        let words = [
            "--config",
            &config,
            "placement",
            "migrate-compute-inventory",
            "--database",
            &database,
        ];
        let outcome = self.home.run([&words[..], more].concat());
        outcome.expect("berth ends")
    }

    #[track_caller]
    fn done(&mut self, more: &[&str], wanted: &str) {
        let outcome = self.run(more);
        let Outcome { stdout, stderr, .. } = &outcome;
        assert_eq!(outcome.code, 0, "{stdout}{stderr}");
        let expected = format!("node {}: {wanted}", self.upgrade.node());
        assert!(stdout.contains(&expected), "{expected}: {stdout}");
    }
}

/// Every row of every table that an upgrade might change.
fn rows(placement: &RealPlacement) -> Vec<Vec<String>> {
    const TABLES: [&str; 8] = [
        "resource_providers",
        "inventories",
        "allocations",
        "consumers",
        "resource_provider_traits",
        "resource_provider_aggregates",
        "traits",
        "resource_classes",
    ];
    let mut all = Vec::new();
    for table in TABLES {
        let found = placement.query(&format!("select * from {table}"));
        let mut found = found.expect("rows");
        found.sort();
        all.extend(found);
    }
    all
}

async fn four_hosts_are_upgraded(settings: PlacementSettings) {
    let on_a_server = settings.storage != Storage::Sqlite;
    let mut placement = RealPlacement::lease(settings).expect("Placement starts");
    let cloud = Cloud::at(&placement.url());
    let neighbours = neighbours(&cloud.placement()).await;
    let (mut before, mut after, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for upgrade in Upgrade::ALL {
        let [old, new] = [Version::Old, Version::New].map(|it| upgrade.machine(GUESTS, it));
        let agent = Agent::new(&old, upgrade.node());
        agent.start(&cloud).await;
        let root = agent.root().await;
        join(&cloud.placement(), root, neighbours.aggregate).await;
        before.extend(claims(upgrade, Version::Old, &old, root, &neighbours));
        after.extend(claims(upgrade, Version::New, &new, root, &neighbours));
        hosts.push(OfflineHost::new(
            upgrade,
            &new,
            root,
            &placement.database_url(),
        ));
    }
    post(&placement, &before);
    assert_held(&placement, &expected(&before));
    tokio::task::block_in_place(|| {
        if on_a_server {
            let refused = hosts[0].run(&["--dry-run"]);
            assert_eq!(refused.code, 73, "{}", refused.stdout);
            assert!(
                refused.stderr.contains("is in use by"),
                "{}",
                refused.stderr
            );
        }
        placement.stop();
        let kept = rows(&placement);
        for host in &mut hosts {
            host.done(&["--dry-run"], "would be reshaped");
        }
        assert!(rows(&placement) == kept, "a dry run changes no row");
        if on_a_server {
            // All at once: each is no service to the others.
            thread::scope(|scope| {
                for host in &mut hosts {
                    scope.spawn(|| host.done(&[], "reshaped: "));
                }
            });
        } else {
            for host in &mut hosts {
                host.done(&[], "reshaped: ");
            }
        }
        for host in &mut hosts {
            host.done(&[], "nothing to do");
        }
        placement.restart().expect("Placement opens it");
    });
    assert_held(&placement, &expected(&after));
    check_consumers(&placement, after.iter().step_by(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hosts_are_upgraded_offline_on_sqlite() {
    four_hosts_are_upgraded(PlacementSettings::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hosts_are_upgraded_offline_at_once_on_postgresql() {
    four_hosts_are_upgraded(PlacementSettings::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hosts_are_upgraded_offline_at_once_on_mariadb() {
    four_hosts_are_upgraded(PlacementSettings::on_mariadb()).await;
}
