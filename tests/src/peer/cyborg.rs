//! The real OpenStack Cyborg: API, conductor and agent as separate processes, with the real Keystone and the real
//! Placement. Its devices are those of its fake driver (handles of the type TEST_PCI) and, by its PCI driver, those
//! that the test's `lspci` lists.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::keystone::PASSWORD;
use super::uwsgi::Uwsgi;
use super::{
    Credentials, Database, KeystoneSettings, MariaDb, PeerError, PlacementSettings, RabbitMq,
    RealKeystone, RealPlacement, Storage, installed, write,
};
use crate::exchange::{HttpAnswer, HttpCall};
use crate::port::free_port;
use crate::process::{Process, Program};
use crate::scratch::Scratch;

/// The first report takes ten seconds on two busy cores.
const REPORT_LIMIT: Duration = Duration::from_secs(60);

/// A PCI function of the host that Cyborg is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// As `lspci -D` writes it, `0000:21:00.0`.
    pub address: &'static str,
    /// Four hexadecimal digits each, with a colon between: vendor and product.
    pub ids: &'static str,
}

/// How a [`RealCyborg`] is to be.
#[derive(Clone, Debug)]
pub struct CyborgSettings {
    /// The host's name: what its providers' names begin with.
    pub host: &'static str,
    /// The name of its root provider.
    pub root: &'static str,
    /// What its PCI driver finds.
    pub functions: Vec<PciFunction>,
}

/// A running Cyborg with all that it needs.
#[derive(Debug)]
pub struct RealCyborg {
    settings: CyborgSettings,
    agent: Option<Process>,
    api: Uwsgi,
    conductor: Process,
    database: Database,
    keystone: RealKeystone,
    placement: RealPlacement,
    broker: RabbitMq,
    /// Last: the services end before their files go.
    scratch: Scratch,
}

impl RealCyborg {
    /// Starts everything but the agent, which needs the host's root provider: [`RealCyborg::discover`]. `compute` is
    /// the URL that gets the events about binds, with `/v2.1`.
    pub fn start(settings: CyborgSettings, compute: &str) -> Result<Self, PeerError> {
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for Cyborg"))?;
        // The broker takes longest.
        let broker = thread::spawn(RabbitMq::start);
        let keystone = RealKeystone::start(KeystoneSettings::default())?;
        let placement = RealPlacement::start(PlacementSettings {
            storage: Storage::MariaDb,
            ..PlacementSettings::behind(&keystone)
        })?;
        let database = MariaDb::shared()?.create()?;
        database.load(&installed()?.join("templates/cyborg.sql"))?;
        keystone.set_placement_endpoint(&placement.url())?;
        keystone.set_compute_endpoint(compute)?;
        let broker = broker.join().unwrap_or_else(|_| {
            Err(PeerError::NotInstalled {
                dir: scratch.path().to_path_buf(),
            })
        })?;
        lspci(scratch.path(), &settings.functions)?;
        let drivers = "fake_driver,pci_driver";
        let beneath = (&keystone, &broker, &database);
        configure(scratch.path(), &settings, drivers, beneath)?;
        let conductor = service("cyborg-conductor", scratch.path())?;
        let api = api(scratch.path(), 1, "api.log")?;
        // With the version, as catalogs have it.
        keystone.set_accelerator_endpoint(&format!("{}/v2", url_of(&api)))?;
        let mut cyborg = Self {
            settings,
            agent: None,
            api,
            conductor,
            database,
            keystone,
            placement,
            broker,
            scratch,
        };
        cyborg.api.start("/")?;
        Ok(cyborg)
    }

    /// Starts the agent, and waits until what it finds is known to all.
    ///
    /// Errors: When it ends (there is no root provider of the host's name), or its report does not come.
    pub fn discover(&mut self) -> Result<(), PeerError> {
        let mut agent = service("cyborg-agent", self.scratch.path())?;
        let wanted = self.settings.functions.len() + 1;
        let mut found = 0;
        let waited = agent.wait_until(REPORT_LIMIT, || {
            let answer = self.ask(Method::GET, "/v2/deployables").send();
            let known = answer.map(|answer| answer.json()).unwrap_or_default();
            found = known["deployables"].as_array().map_or(0, Vec::len);
            found >= wanted && self.providers().is_ok_and(|all| all.len() > wanted)
        });
        waited?;
        self.agent = Some(agent);
        Ok(())
    }

    /// Cyborg's agent of another host, which has a root provider; it finds functions alone. Answers when what it
    /// finds is known to all.
    pub fn another_host(&self, settings: &CyborgSettings) -> Result<CyborgAgent, PeerError> {
        let dir = self.scratch.join(settings.host);
        fs::create_dir(&dir).map_err(PeerError::files("make a directory for Cyborg"))?;
        lspci(&dir, &settings.functions)?;
        let beneath = (&self.keystone, &self.broker, &self.database);
        configure(&dir, settings, "pci_driver", beneath)?;
        let mut agent = service("cyborg-agent", &dir)?;
        let is_there = |name: &str, all: &[Value]| all.iter().any(|it| it["name"] == name);
        let names: Vec<String> = settings
            .functions
            .iter()
            .map(|function| format!("{}_{}", settings.host, function.address))
            .collect();
        agent.wait_until(REPORT_LIMIT, || {
            let providers = self.providers().unwrap_or_default();
            let answer = self.ask(Method::GET, "/v2/deployables").send();
            let known = answer.map(|answer| answer.json()).unwrap_or_default();
            let known = known["deployables"].as_array().cloned().unwrap_or_default();
            names
                .iter()
                .all(|name| is_there(name, &known) && is_there(name, &providers))
        })?;
        Ok(CyborgAgent(agent))
    }

    /// The providers of Placement, as it tells them.
    pub fn providers(&self) -> Result<Vec<Value>, PeerError> {
        let answer = self
            .ask_placement(Method::GET, "/resource_providers")?
            .send()?;
        let providers = answer.json()["resource_providers"].take();
        Ok(match providers {
            Value::Array(providers) => providers,
            _ => Vec::new(),
        })
    }

    /// A request to Placement with an administrator's token.
    pub fn ask_placement(&self, method: Method, path: &str) -> Result<HttpCall, PeerError> {
        let token = self.keystone.kept_token(&self.keystone.berth())?;
        Ok(
            HttpCall::new(method, format!("{}{path}", self.placement.url()))
                .header("x-auth-token", &token)
                .header("openstack-api-version", "placement 1.39"),
        )
    }

    /// A request to the API with a token of `berth`'s as the user's and as the service's.
    ///
    /// # Panics
    /// Keystone gives no token.
    #[must_use]
    pub fn ask(&self, method: Method, path: &str) -> HttpCall {
        self.ask_as(&self.keystone.berth(), method, path)
    }

    /// The same with another account's token.
    ///
    /// # Panics
    /// Keystone gives no token.
    #[must_use]
    pub fn ask_as(&self, who: &Credentials, method: Method, path: &str) -> HttpCall {
        let token = self.keystone.kept_token(who).expect("a token");
        HttpCall::new(method, format!("{}{path}", self.url()))
            .header("x-auth-token", &token)
            .header("x-service-token", &token)
    }

    /// A device profile of this one group.
    pub fn profile(&self, name: &str, group: &Value) -> Result<(), PeerError> {
        let body = json!([{"name": name, "groups": [group]}]);
        let made = self.ask(Method::POST, "/v2/device_profiles").json(&body);
        accepted("POST /v2/device_profiles", made.send()?).map(drop)
    }

    /// The API's URL, without `/v2`.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(&self.api)
    }

    /// A second process of the API over the same conductor and rows, not yet started, for a test that kills it.
    pub fn another_api(&self) -> Result<CyborgApi, PeerError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let log = format!("api-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(CyborgApi(api(self.scratch.path(), 1, &log)?))
    }

    /// Another process of the API, not yet started, behind which something of Cyborg is away.
    pub fn crippled_api(&self, away: Away) -> Result<CyborgApi, PeerError> {
        let name = away.folder();
        let dir = self.scratch.join(name);
        fs::create_dir(&dir).map_err(PeerError::files("make a directory for Cyborg"))?;
        let beneath = (&self.keystone, &self.broker, &self.database);
        configure(&dir, &self.settings, "fake_driver", beneath)?;
        let file = dir.join(".cyborg/cyborg.conf");
        let text = fs::read_to_string(&file).map_err(PeerError::files("read a configuration"))?;
        let port = free_port().map_err(PeerError::files("find a free port"))?;
        // Of an option that stands twice the last counts.
        let more = match away {
            Away::Conductor => {
                format!("[DEFAULT]\ncontrol_exchange = {name}\nrpc_response_timeout = 2\n")
            }
            Away::Database => format!(
                "[database]\nconnection = mysql+pymysql://cyborg:cyborg@127.0.0.1:{port}/cyborg\nmax_retries = 0\n"
            ),
        };
        write(&file, &format!("{text}{more}"))?;
        Ok(CyborgApi(api(&dir, 2, "api.log")?))
    }

    /// The process groups of the API and the conductor, by their leaders' process ids, where they run.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let conductor = Some(self.conductor.pid());
        self.api.pid().into_iter().chain(conductor).collect()
    }

    #[must_use]
    pub fn keystone(&self) -> &RealKeystone {
        &self.keystone
    }

    #[must_use]
    pub fn placement(&self) -> &RealPlacement {
        &self.placement
    }

    /// Runs SQL in its database.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        self.database.query(sql)
    }

    /// What its processes wrote.
    #[must_use]
    pub fn log(&self) -> String {
        let logs = ["api.log", "cyborg-conductor.log", "cyborg-agent.log"];
        let read = |name: &&str| fs::read(self.scratch.join(name)).unwrap_or_default();
        let logs = logs.iter().map(read);
        logs.map(|log| String::from_utf8_lossy(&log).into_owned())
            .collect()
    }
}

/// What of Cyborg is away while its API answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// The conductor is down, so the API's calls to it (create and bind requests) stay in the queue.
    Conductor,
    /// Nothing listens where the database is.
    Database,
}

impl Away {
    const fn folder(self) -> &'static str {
        match self {
            Away::Conductor => "without-conductor",
            Away::Database => "without-database",
        }
    }
}

/// Cyborg's agent of a host.
#[derive(Debug)]
pub struct CyborgAgent(#[expect(dead_code, reason = "it ends with the value")] Process);

/// A process of Cyborg's API.
#[derive(Debug)]
pub struct CyborgApi(Uwsgi);

impl CyborgApi {
    /// Its URL, without `/v2`; the same over a restart.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(&self.0)
    }

    /// SIGKILL. Connections are refused afterwards.
    pub fn kill(&mut self) {
        self.0.kill();
    }

    /// Starts it where it does not run.
    pub fn start(&mut self) -> Result<(), PeerError> {
        self.0.start("/")
    }
}

fn accepted(asked: &str, answer: HttpAnswer) -> Result<HttpAnswer, PeerError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    Err(PeerError::Answer {
        asked: asked.to_owned(),
        status: answer.status.as_u16(),
        body: answer.text(),
    })
}

fn url_of(api: &Uwsgi) -> String {
    format!("http://127.0.0.1:{}", api.port())
}

/// Its configuration is found by the home directory: uWSGI leaves no room for arguments.
fn api(dir: &Path, workers: u8, log: &str) -> Result<Uwsgi, PeerError> {
    Uwsgi::new(
        "cyborg.wsgi.api:application",
        ("HOME", dir.to_path_buf()),
        workers,
        dir.join(log),
    )
}

fn service(name: &str, dir: &Path) -> Result<Process, PeerError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", dir.join("bin").display());
    Ok(Program::new(installed()?.join("venv/bin").join(name))
        .env("HOME", dir)
        .env("PATH", path)
        .env_remove("PYTHONPATH")
        .env_remove("PYTHONHOME")
        .start(&dir.join(format!("{name}.log")))?)
}

/// What Cyborg's PCI driver asks for the host's functions.
fn lspci(dir: &Path, functions: &[PciFunction]) -> Result<(), PeerError> {
    let mut script = String::from("#!/bin/sh\ncat <<'END'\n");
    for PciFunction { address, ids } in functions {
        // Writing to a String cannot fail.
        let _ = writeln!(
            script,
            "{address} 3D controller [0302]: A device of the tests [{ids}] (rev a1)"
        );
    }
    script.push_str("END\n");
    let bin = dir.join("bin");
    let made = fs::create_dir(&bin);
    made.map_err(PeerError::files("make a directory for Cyborg"))?;
    write(&bin.join("lspci"), &script)?;
    fs::set_permissions(bin.join("lspci"), fs::Permissions::from_mode(0o755))
        .map_err(PeerError::files("make a script of Cyborg's"))
}

fn configure(
    dir: &Path,
    settings: &CyborgSettings,
    drivers: &str,
    (keystone, broker, database): (&RealKeystone, &RabbitMq, &Database),
) -> Result<(), PeerError> {
    let venv = installed()?.join("venv");
    let venv = venv.display();
    let (host, root) = (settings.host, settings.root);
    let (rabbit, rows) = (broker.url(), database.sqlalchemy_url());
    let (folder, port) = (
        dir.display(),
        free_port().map_err(PeerError::files("find a free port"))?,
    );
    let mut text = format!(
        "[DEFAULT]\nhost = {host}\ntransport_url = {rabbit}\nstate_path = {folder}\n\
         [oslo_concurrency]\nlock_path = {folder}/lock\n\
         [database]\nconnection = {rows}\n\
         [api]\nhost_ip = 127.0.0.1\nport = {port}\napi_paste_config = {venv}/etc/cyborg/api-paste.ini\n\
         [oslo_policy]\npolicy_file = {venv}/etc/cyborg/policy.yaml\n\
         [agent]\nenabled_drivers = {drivers}\nresource_provider_name = {root}\n\
         [cyborg_sys_admin]\nhelper_command = {venv}/bin/privsep-helper --config-file {folder}/.cyborg/cyborg.conf\n\
         [pci]\n"
    );
    let mut seen: Vec<&str> = Vec::new();
    for PciFunction { ids, .. } in &settings.functions {
        if let (false, Some((vendor, product))) = (seen.contains(ids), ids.split_once(':')) {
            seen.push(ids);
            let spec = json!({"vendor_id": vendor, "product_id": product});
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "passthrough_whitelist = {spec}");
        }
    }
    let url = keystone.url();
    for section in ["keystone_authtoken", "placement", "nova"] {
        let _ = write!(
            text,
            "[{section}]\nauth_type = password\nauth_url = {url}\nusername = cyborg\npassword = {PASSWORD}\n\
             project_name = service\nuser_domain_id = default\nproject_domain_id = default\n"
        );
        let _ = match section {
            "keystone_authtoken" => writeln!(
                text,
                "www_authenticate_uri = {url}\nservice_token_roles = service\nservice_token_roles_required = true"
            ),
            _ => writeln!(text, "region_name = {}", keystone.region()),
        };
    }
    let folder = dir.join(".cyborg");
    fs::create_dir(&folder).map_err(PeerError::files("make a directory for Cyborg"))?;
    write(&folder.join("cyborg.conf"), &text)
}
