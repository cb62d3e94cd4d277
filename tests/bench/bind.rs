//! Benchmarks binds of accelerator requests: Berth's next to Cyborg's, with other requests in the table, and many
//! concurrently.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{Credentials, CyborgSettings, PciFunction, RealCyborg};
use berth_tests::port::free_port;
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::meter::{Meter, MeterSpan, ms};
use crate::placement::PATIENCE;
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, log};

const HOST: &str = "bench";
/// How many handles the device has: as many as Cyborg's fake one.
const HANDLES: usize = 16;
/// With how many other requests both are asked: Cyborg takes a quarter of an hour to make some thousands.
const OTHERS: [u32; 2] = [0, 300];
/// With how many ours is asked alone.
const MANY: [u32; 3] = [10, 1000, 100_000];
/// How many bind at once, each its own request.
const CROWDS: [usize; 2] = [16, 64];
/// What a bind with the most requests may cost more than one with the fewest, the clock's own coarseness included.
const FLAT: f64 = 2.0;
/// A service is warm when a round of binds takes no less than this part of the round before.
const WARM: f64 = 0.9;
/// The most rounds until then.
const ROUNDS: usize = 6;

/// Measures it on both.
pub(crate) fn measure() -> Outcome<Section> {
    log("binds of accelerator requests");
    let receiver = receiver()?;
    let settings = CyborgSettings {
        host: HOST,
        root: HOST,
        functions: vec![PciFunction {
            address: "0000:21:00.0",
            ids: "10de:1eb8",
        }],
    };
    let mut cyborg = RealCyborg::start(settings, &receiver)?;
    let root = json!({"name": HOST, "uuid": Uuid::new_v4().to_string()});
    let made = cyborg.ask_placement(Method::POST, "/resource_providers")?;
    made.json(&root).send()?;
    cyborg.discover()?;
    let token = cyborg.keystone().token(&cyborg.keystone().berth())?;
    let peer = Service {
        url: format!("{}/v2", cyborg.url()),
        token: token.clone(),
        provider: named(&format!("{HOST}_FakeDevice")),
        meter: Meter::of_groups(&cyborg.pids()),
    };
    let (ours, _serving, _home) = built_in(&cyborg, &receiver, token)?;

    peer.warm()?;
    ours.warm()?;
    let mut rows = Vec::new();
    for crowd in CROWDS {
        let (peer, ours) = (peer.crowd(crowd)?, ours.crowd(crowd)?);
        let bound = crowd.min(HANDLES);
        if ours.handles != bound {
            return Err(format!("{crowd} at once got {} handles", ours.handles).into());
        }
        let what = format!("{crowd} at once for {HANDLES} handles");
        let all = row(
            &format!("{what}: wall of all"),
            Some(peer.all),
            ours.all,
            |it| it.wall,
        );
        let each = row(
            &format!("{what}: CPU each"),
            Some(peer.each),
            ours.each,
            |it| it.cpu,
        );
        rows.extend([each, all]);
    }
    for others in OTHERS {
        let (peer, ours) = (peer.alone(others)?, ours.alone(others)?);
        rows.extend(rows_with_others(others, &peer, &ours));
    }
    let (ours, _serving, _home) = built_in(&cyborg, &receiver, ours.token)?;
    ours.warm()?;
    let mut fewest = None;
    for others in MANY {
        let spent = ours.alone(others)?.bind;
        let fewest = *fewest.get_or_insert(spent);
        let what = format!("bind, {others} other requests");
        let [cpu, wall]: [fn(MeterSpan) -> Duration; 2] = [|it| it.cpu, |it| it.wall];
        for (kind, of) in [("CPU", cpu), ("wall", wall)] {
            let most = Figure::Ms(ms(of(fewest)) * FLAT);
            rows.push(Row {
                goal: (others != MANY[0]).then_some(Goal::AtMost(most)),
                ..row(&format!("{what}: {kind}"), None, spent, of)
            });
        }
    }
    Ok(Section {
        title: "Binding accelerator requests",
        note: "Per request, one after the other, and many at once. The peer is OpenStack Cyborg 17 with its fake driver, two API \
               processes and its conductor, their CPU time alone: that of MariaDB and RabbitMQ, which it needs, is left out. Ours \
               is `berth accelerator serve` on SQLite, which is all in its process. Both ask the same Keystone whose the tokens \
               are, and tell the same address of each bind. Both are warm: rounds of binds are made until one takes as long as \
               that before it.",
        rows,
    })
}

fn rows_with_others(others: u32, peer: &SingleRequestCost, ours: &SingleRequestCost) -> Vec<Row> {
    // The goal for many requests is the important one: only Cyborg's time grows with the table.
    let goal = Goal::PartOfPeer(if others == 0 { 20.0 } else { 100.0 });
    let with = format!("{others} other requests");
    let mut rows = both(&format!("bind, {with}"), peer.bind, ours.bind, Some(goal));
    rows.extend(both(
        &format!("list of a guest's, {with}"),
        peer.list,
        ours.list,
        None,
    ));
    rows.extend(both(
        &format!("delete of a guest's, {with}"),
        peer.delete,
        ours.delete,
        None,
    ));
    rows
}

fn both(what: &str, peer: MeterSpan, ours: MeterSpan, goal: Option<Goal>) -> Vec<Row> {
    let cpu = row(&format!("{what}: CPU"), Some(peer), ours, |it| it.cpu);
    let wall = row(&format!("{what}: wall"), Some(peer), ours, |it| it.wall);
    vec![Row { goal, ..cpu }, Row { goal, ..wall }]
}

fn row(what: &str, peer: Option<MeterSpan>, ours: MeterSpan, of: fn(MeterSpan) -> Duration) -> Row {
    Row {
        what: what.to_owned(),
        peer: peer.map(|peer| Figure::Ms(ms(of(peer)))),
        ours: Figure::Ms(ms(of(ours))),
        goal: None,
    }
}

/// An accelerator service with one device.
struct Service {
    /// With `/v2`.
    url: String,
    token: String,
    provider: String,
    meter: Meter,
}

/// What one request of each kind takes.
struct SingleRequestCost {
    bind: MeterSpan,
    list: MeterSpan,
    delete: MeterSpan,
}

/// What a crowd takes.
struct CrowdCost {
    each: MeterSpan,
    all: MeterSpan,
    /// How many different handles were given out.
    handles: usize,
}

impl Service {
    fn ask(&self, method: Method, path: &str) -> HttpCall {
        HttpCall::new(method, format!("{}{path}", self.url))
            .header("x-auth-token", &self.token)
            .header("x-service-token", &self.token)
    }

    fn done(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<HttpAnswer> {
        let asked = format!("{method} {path}");
        let mut ask = self.ask(method, path);
        if let Some(body) = body {
            ask = ask.json(body);
        }
        let answer = ask.send()?;
        match answer.status.is_success() {
            true => Ok(answer),
            false => Err(format!("{asked}: {} {}", answer.status, answer.text()).into()),
        }
    }

    /// New requests: so many at a time, by a profile of their own.
    fn requests(&self, amount: u32) -> Outcome<Vec<String>> {
        let name = format!("of-{amount}");
        let known = self.done(Method::GET, &format!("/device_profiles?name={name}"), None)?;
        let is_known = known.json()["device_profiles"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        if !is_known {
            let groups = json!([{"resources:FPGA": amount.to_string()}]);
            let profile = json!([{"name": name, "groups": groups}]);
            self.done(Method::POST, "/device_profiles", Some(&profile))?;
        }
        let body = json!({"device_profile_name": name});
        let made = self
            .done(Method::POST, "/accelerator_requests", Some(&body))?
            .json();
        let uuids = made["arqs"].as_array().into_iter().flatten();
        Ok(uuids
            .filter_map(|arq| Some(arq["uuid"].as_str()?.to_owned()))
            .collect())
    }

    /// Creates this number of unbound requests.
    fn fill(&self, wanted: u32) -> Outcome<()> {
        let all = self
            .done(Method::GET, "/accelerator_requests", None)?
            .json();
        let there = all["arqs"].as_array().map_or(0, Vec::len);
        let mut missing = wanted.saturating_sub(u32::try_from(there)?);
        while missing > 0 {
            let some = missing.min(1000);
            self.requests(some)?;
            missing -= some;
        }
        Ok(())
    }

    fn bind(&self, arq: &str, guest: &str) -> HttpCall {
        let add = |path: &str, value: &str| json!({"path": path, "op": "add", "value": value});
        let steps = json!([
            add("/hostname", HOST),
            add("/device_rp_uuid", &self.provider),
            add("/instance_uuid", guest),
        ]);
        self.ask(Method::PATCH, "/accelerator_requests")
            .json(&json!({ arq: steps }))
    }

    /// Binds until a round takes as long as the one before: each of the service's processes has read what it reads once, and
    /// has its connections.
    fn warm(&self) -> Outcome<()> {
        let mut before = None;
        for _ in 0..ROUNDS {
            let wall = ms(self.alone(0)?.bind.wall);
            if before.is_some_and(|before| wall >= before * WARM) {
                break;
            }
            before = Some(wall);
        }
        Ok(())
    }

    /// Sends one request after the other, with this number of other requests in the table.
    fn alone(&self, others: u32) -> Outcome<SingleRequestCost> {
        self.fill(others)?;
        let mut guests = Vec::new();
        for _ in 0..HANDLES {
            guests.push((self.requests(1)?.remove(0), Uuid::new_v4().to_string()));
        }
        let bind = self.each(&guests, |(arq, guest)| {
            let answer = self.bind(arq, guest).send()?;
            match answer.status.as_u16() {
                202 => Ok(()),
                status => Err(format!("a bind: {status} {}", answer.text()).into()),
            }
        })?;
        let of_guest = |guest: &str| format!("/accelerator_requests?instance={guest}");
        let list = self.each(&guests, |(_, guest)| {
            let path = format!("{}&bind_state=resolved", of_guest(guest));
            self.done(Method::GET, &path, None).map(drop)
        })?;
        let delete = self.each(&guests, |(_, guest)| {
            self.done(Method::DELETE, &of_guest(guest), None).map(drop)
        })?;
        Ok(SingleRequestCost { bind, list, delete })
    }

    /// What one takes, of all of them one after the other.
    fn each<T>(&self, all: &[T], act: impl Fn(&T) -> Outcome<()>) -> Outcome<MeterSpan> {
        let before = self.meter.mark();
        for one in all {
            act(one)?;
        }
        Ok(part(self.meter.since(&before), all.len()))
    }

    /// So many at once, each with a request and a guest of its own.
    fn crowd(&self, many: usize) -> Outcome<CrowdCost> {
        let mut binds = Vec::new();
        let mut guests = Vec::new();
        for _ in 0..many {
            let guest = Uuid::new_v4().to_string();
            binds.push(self.bind(&self.requests(1)?.remove(0), &guest));
            guests.push(guest);
        }
        let before = self.meter.mark();
        let binds: Vec<_> = binds
            .into_iter()
            .map(|bind| thread::spawn(move || bind.send()))
            .collect();
        for bind in binds {
            // A bind without a free handle is refused.
            bind.join().map_err(|_| "a thread of a crowd panicked")??;
        }
        let all = self.meter.since(&before);
        let mut handles = BTreeSet::new();
        for guest in &guests {
            let path = format!("/accelerator_requests?instance={guest}");
            let reported = self.done(Method::GET, &path, None)?.json();
            for arq in reported["arqs"].as_array().into_iter().flatten() {
                if arq["state"] == "Bound" && !handles.insert(arq["attach_handle_uuid"].to_string())
                {
                    return Err(format!("two requests have one handle: {arq}").into());
                }
            }
            self.done(Method::DELETE, &path, None)?;
        }
        Ok(CrowdCost {
            each: part(all, many),
            all,
            handles: handles.len(),
        })
    }
}

fn part(spent: MeterSpan, of: usize) -> MeterSpan {
    let of = u32::try_from(of).unwrap_or(u32::MAX);
    MeterSpan {
        wall: spent.wall / of,
        cpu: spent.cpu / of,
    }
}

fn named(name: &str) -> String {
    Uuid::new_v3(&Uuid::NAMESPACE_DNS, name.as_bytes()).to_string()
}

/// `berth accelerator serve` behind the peer's Keystone, with a device like the peer's.
fn built_in(
    cyborg: &RealCyborg,
    receiver: &str,
    token: String,
) -> Outcome<(Service, RunningBerth, BerthHome)> {
    let Credentials::Password { username, password } = cyborg.keystone().berth() else {
        return Err("berth has a password".into());
    };
    let listen = format!("127.0.0.1:{}", free_port()?);
    let mut home = BerthHome::new()?;
    // Keystone's account of these tests reports for every host.
    let policy = home.write("policy.yaml", "berth:host_devices:update: role:service\n")?;
    let policy = policy.display();
    home.configure(&format!(
        "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"{listen}\"\nauth_strategy = \"keystone\"\n\
         policy_file = \"{policy}\"\nexternal_events_endpoint = \"{receiver}\"\n[keystone_authtoken]\nauth_url = \"{}\"\nusername = \"{username}\"\n\
         password = \"{password}\"\nproject_name = \"service\"\nuser_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n",
        cyborg.keystone().url()
    ))?;
    let config = home.config_file();
    let arguments = [
        "--config".as_ref(),
        config.as_os_str(),
        "accelerator".as_ref(),
        "serve".as_ref(),
    ];
    let mut serving = home.start(arguments)?;
    let url = format!("http://{listen}");
    serving.wait_until(PATIENCE, || HttpCall::get(&url).send().is_ok())?;
    let handle = |n: usize| {
        let (device, function) = (format!("{:02x}", n / 8), (n % 8).to_string());
        let info = json!({"domain": "0000", "bus": "0c", "device": device, "function": function});
        json!({"attach_type": "PCI", "attach_info": info})
    };
    let provider = named(&format!("{HOST}_FakeDevice"));
    let deployable = json!({
        "name": format!("{HOST}_FakeDevice"),
        "rp_uuid": provider,
        "resource_class": "FPGA",
        "attach_handles": (0..HANDLES).map(handle).collect::<Vec<_>>(),
    });
    let device = json!({"name": "0000:0c:00.0", "type": "FPGA", "vendor": "abcd", "deployables": [deployable]});
    let service = Service {
        url: format!("{url}/v2"),
        token,
        provider,
        meter: Meter::of_process(serving.pid()),
    };
    let report = HttpCall::put(format!("{url}/internal/v1/hosts/{HOST}/devices"))
        .header("x-auth-token", &service.token)
        .header("x-service-token", &service.token)
        .json(&json!({"devices": [device]}))
        .send()?;
    if !report.status.is_success() {
        return Err(format!("a report: {} {}", report.status, report.text()).into());
    }
    Ok((service, serving, home))
}

/// A receiver of the events about binds; returns its URL with `/v2.1`.
fn receiver() -> Outcome<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let url = format!("http://{}/v2.1", listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let router = axum::Router::new()
        .fallback(|events: String| async move { ([("content-type", "application/json")], events) });
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await
        })
    });
    Ok(url)
}
