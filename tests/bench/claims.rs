//! Benchmarks PUT /allocations: claims on one host by one writer and by sixteen, and the other frequent requests of an
//! agent and a scheduler. Both services use the same kind of database, alternately.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::peer::{Database, MariaDb, PlacementSettings, Postgres, PostgresDatabase};
use serde_json::{Map, Value, json};

use crate::meter::{Meter, ms};
use crate::placement::{Api, Placement};
use crate::statements::StatementLog;
use crate::table::{Figure, Goal, Row, Section};
use crate::{Outcome, log};

const HOST: &str = "00000000-0000-4000-8000-00000000c1a1";
/// Claims of one round: one writer's, and those of all sixteen.
const CLAIMS: [(u32, u32); 2] = [(1, 60), (16, 320)];
/// How often the two change over.
const ROUNDS: u32 = 3;
/// How often a claim that met another is made again; the peer's scheduler gives up sooner.
const TRIES: u32 = 100;

pub(crate) fn measure() -> Outcome<Vec<Section>> {
    let mut rows = Vec::new();
    for kind in [
        ClaimServiceKind::Sqlite,
        ClaimServiceKind::Postgres,
        ClaimServiceKind::MariaDb,
    ] {
        let mut of_one = None;
        for (writers, claims) in CLAIMS {
            log(&format!(
                "PUT /allocations on {}, {writers} writers",
                kind.name()
            ));
            let with_peer = kind != ClaimServiceKind::Sqlite || writers == 1;
            let [ours, peer] = compared(kind, writers, claims, with_peer)?;
            let peer = if with_peer { Some(peer) } else { of_one };
            rows.extend(rows_of(kind, writers, &ours, peer.as_ref()));
            of_one = peer;
        }
    }
    rows.extend(statements()?);
    let claims = Section {
        title: "PUT /allocations",
        note: "Per claim, on one host that has room for all, each by a consumer of its own; one that met another writer is made again \
               by its client until it is in, and counts once. The peer is OpenStack Placement 16 with two workers on the same kind of \
               database; on SQLite it answers 500 where two write at once, so there it is asked by one writer alone, and what that \
               costs stands beside ours with sixteen. Ours does claims that come at once in one transaction; one writer's are alone \
               in theirs. Of a server's database the CPU time stands apart.",
        rows,
    };
    Ok(vec![claims, others()?])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimServiceKind {
    Sqlite,
    Postgres,
    MariaDb,
}

impl ClaimServiceKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }

    fn peer(self) -> Outcome<Placement> {
        match self {
            Self::Sqlite => Placement::real(),
            Self::Postgres => Placement::real_on(PlacementSettings::on_postgres()),
            Self::MariaDb => Placement::real_on(PlacementSettings::on_mariadb()),
        }
    }
}

/// The database of ours, which goes with this.
enum ClaimDatabase {
    Sqlite,
    Postgres(PostgresDatabase),
    MariaDb(Database),
}

impl ClaimDatabase {
    fn new(kind: ClaimServiceKind) -> Outcome<Self> {
        Ok(match kind {
            ClaimServiceKind::Sqlite => Self::Sqlite,
            ClaimServiceKind::Postgres => Self::Postgres(Postgres::shared()?.create()?),
            ClaimServiceKind::MariaDb => Self::MariaDb(MariaDb::shared()?.create()?),
        })
    }

    fn serve(&self) -> Outcome<Placement> {
        match self {
            Self::Sqlite => Placement::built_in(),
            Self::Postgres(database) => Placement::built_in_on(&database.url()),
            Self::MariaDb(database) => Placement::built_in_on(&database.url()),
        }
    }

    /// The server's processes that are there now.
    fn server(&self) -> Meter {
        match self {
            Self::Sqlite => Meter::none(),
            Self::Postgres(database) => Meter::of_family(database.server().pid()),
            Self::MariaDb(database) => Meter::of_process(database.server().pid()),
        }
    }
}

/// What the rounds of one service came to.
#[derive(Default)]
struct ClaimCost {
    claims: u32,
    service: Duration,
    server: Duration,
    wall: Duration,
    resident_mib: f64,
    taken: Vec<Duration>,
}

impl ClaimCost {
    fn each(&self, of: Duration) -> Figure {
        Figure::Ms(ms(of / self.claims.max(1)))
    }

    /// So many of a hundred claims took no longer.
    fn percentile(&self, percent: usize) -> Figure {
        let mut taken = self.taken.clone();
        taken.sort_unstable();
        let at = (taken.len() * percent / 100).min(taken.len().saturating_sub(1));
        Figure::Ms(taken.get(at).copied().map_or(0.0, ms))
    }
}

/// What ours cost, and the peer's where it is asked.
fn compared(
    kind: ClaimServiceKind,
    writers: u32,
    claims: u32,
    with_peer: bool,
) -> Outcome<[ClaimCost; 2]> {
    let kept = ClaimDatabase::new(kind)?;
    let ours = kept.serve()?;
    let peer = match with_peer {
        true => Some(kind.peer()?),
        false => None,
    };
    let services = [Some(&ours), peer.as_ref()];
    for service in services.into_iter().flatten() {
        host(&service.api())?;
        // Connections are opened, caches filled.
        round(&service.api(), writers, writers * 2)?;
    }
    let mut costs = [ClaimCost::default(), ClaimCost::default()];
    for _ in 0..ROUNDS {
        for (service, cost) in services.iter().zip(&mut costs) {
            let Some(service) = service else { continue };
            let (meter, server) = (service.meter(), kept.server());
            let before = (meter.mark(), server.mark());
            let taken = round(&service.api(), writers, claims)?;
            let spent = (meter.since(&before.0), server.since(&before.1));
            cost.claims += claims;
            cost.service += spent.0.cpu;
            cost.wall += spent.0.wall;
            cost.server += spent.1.cpu;
            cost.resident_mib = meter.resident_mib();
            cost.taken.extend(taken);
        }
    }
    Ok(costs)
}

fn rows_of(
    kind: ClaimServiceKind,
    writers: u32,
    ours: &ClaimCost,
    of_peer: Option<&ClaimCost>,
) -> Vec<Row> {
    let part = match kind {
        ClaimServiceKind::Sqlite => 100.0,
        ClaimServiceKind::Postgres | ClaimServiceKind::MariaDb => 50.0,
    };
    let row = |what: &str, of: &dyn Fn(&ClaimCost) -> Figure, goal| Row {
        what: format!("{}, {writers} writers: {what}", kind.name()),
        peer: of_peer.map(of),
        ours: of(ours),
        goal,
    };
    let mut rows = vec![row(
        "CPU",
        &|cost| cost.each(cost.service),
        (writers > 1).then_some(Goal::PartOfPeer(part)),
    )];
    if kind != ClaimServiceKind::Sqlite {
        rows.push(row(
            "CPU of the database",
            &|cost| cost.each(cost.server),
            None,
        ));
    }
    rows.push(row(
        "wall of all by their number",
        &|cost| cost.each(cost.wall),
        None,
    ));
    rows.push(row("half took at most", &|cost| cost.percentile(50), None));
    rows.push(row(
        "99 of 100 took at most",
        &|cost| cost.percentile(99),
        None,
    ));
    rows.push(row(
        "resident memory",
        &|cost| Figure::Mib(cost.resident_mib),
        None,
    ));
    rows
}

/// A host with room for every claim of a run.
fn host(api: &Api) -> Outcome<()> {
    let inventory = json!({"total": 1_000_000, "max_unit": 1_000_000});
    provider(
        api,
        HOST,
        None,
        &json!({"VCPU": inventory, "MEMORY_MB": inventory}),
    )
}

fn provider(api: &Api, uuid: &str, parent: Option<&str>, inventories: &Value) -> Outcome<()> {
    let body = json!({"name": uuid, "uuid": uuid, "parent_provider_uuid": parent});
    api.post("/resource_providers", &body)?;
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    api.put(&format!("/resource_providers/{uuid}/inventories"), &body)
}

/// So many claims by so many writers at once, and how long each took.
fn round(api: &Api, writers: u32, claims: u32) -> Outcome<Vec<Duration>> {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..writers)
            .map(|_| scope.spawn(|| (0..claims / writers).map(|_| claim(api)).collect()))
            .collect();
        let mut all = Vec::new();
        for writer in writers {
            let taken: Result<Vec<Duration>, String> =
                writer.join().map_err(|_| "a writer panicked")?;
            all.extend(taken?);
        }
        Ok(all)
    })
}

fn claim(api: &Api) -> Result<Duration, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    let path = format!("/allocations/{}", consumer(number));
    let body = allocations(
        json!({HOST: {"resources": {"VCPU": 1, "MEMORY_MB": 1}}}),
        Value::Null,
    );
    for _ in 0..TRIES {
        let answer = api.try_put("1.36", &path, &body);
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status.as_u16() {
            204 => return Ok(begun.elapsed()),
            409 | 500 | 503 => {}
            status => return Err(format!("{path}: {status} {}", answer.text())),
        }
    }
    Err(format!("{path}: still not claimed after {TRIES} tries"))
}

fn consumer(number: u32) -> String {
    format!("c1a10000-0000-4000-8000-{number:012}")
}

fn allocations(resources: Value, generation: Value) -> Value {
    json!({"allocations": resources, "project_id": "p", "user_id": "u", "consumer_generation": generation})
}

/// On PostgreSQL, of both.
fn statements() -> Outcome<Vec<Row>> {
    log("statements of a claim and of a reshaped consumer");
    let server: Arc<Postgres> = Postgres::shared()?;
    let logged = StatementLog::begin(&server)?;
    let kept = ClaimDatabase::new(ClaimServiceKind::Postgres)?;
    let ours = counted(&kept.serve()?.api(), &logged)?;
    let peer = counted(&ClaimServiceKind::Postgres.peer()?.api(), &logged)?;
    logged.end()?;
    let row = |what: &str, ours: f64, peer: f64| Row {
        what: format!("PostgreSQL, {what}"),
        peer: Some(Figure::Count(peer)),
        ours: Figure::Count(ours),
        goal: None,
    };
    Ok(vec![
        row("a claim: statements", ours.0, peer.0),
        row("POST /reshaper, each consumer: statements", ours.1, peer.1),
    ])
}

/// The statements of one claim, and those per consumer of a reshape.
fn counted(api: &Api, logged: &StatementLog<'_>) -> Outcome<(f64, f64)> {
    host(api)?;
    claim(api)?;
    let claimed = logged.count(|| claim(api).map(drop).map_err(Into::into))?;
    let (few, many) = (reshape(api, logged, 1, 10)?, reshape(api, logged, 2, 110)?);
    Ok((claimed, (many - few) / 100.0))
}

/// Statements of a reshape that moves a class of so many consumers from a root to its child.
fn reshape(api: &Api, logged: &StatementLog<'_>, number: u32, consumers: u32) -> Outcome<f64> {
    let root = format!("00000000-0000-4000-8000-0000000{number:04}0");
    let child = format!("00000000-0000-4000-8000-0000000{number:04}1");
    let vgpu = json!({"total": consumers, "max_unit": consumers});
    let vcpu = json!({"total": consumers, "max_unit": consumers});
    provider(api, &root, None, &json!({"VCPU": vcpu, "VGPU": vgpu}))?;
    let body = json!({"name": child, "uuid": child, "parent_provider_uuid": root});
    api.post("/resource_providers", &body)?;
    let mut moved = Map::new();
    for one in 0..consumers {
        let consumer = format!("5e5a9e00-0000-4000-8000-{number:04}{one:08}");
        let held = allocations(
            json!({root.clone(): {"resources": {"VCPU": 1, "VGPU": 1}}}),
            Value::Null,
        );
        api.put(&format!("/allocations/{consumer}"), &held)?;
        let now = json!({root.clone(): {"resources": {"VCPU": 1}}, child.clone(): {"resources": {"VGPU": 1}}});
        moved.insert(consumer, allocations(now, json!(1)));
    }
    let generation = api.get(&format!("/resource_providers/{root}"))?["generation"].clone();
    let body = json!({"allocations": moved, "inventories": {
        root: {"resource_provider_generation": generation, "inventories": {"VCPU": vcpu}},
        child: {"resource_provider_generation": 0, "inventories": {"VGPU": vgpu}},
    }});
    logged.count(|| api.post("/reshaper", &body))
}

/// How often each of the others is asked.
const TIMES: u32 = 100;

/// The other requests of an agent, on SQLite.
fn others() -> Outcome<Section> {
    log("PUT inventories, GET in_tree");
    let (ours, peer) = (Placement::built_in()?, Placement::real()?);
    let mut all = Vec::new();
    for service in [&ours, &peer] {
        let api = service.api();
        host(&api)?;
        for gpu in 0..8 {
            let uuid = format!("00000000-0000-4000-8000-0000000000f{gpu}");
            provider(&api, &uuid, Some(HOST), &json!({"PGPU": {"total": 1}}))?;
        }
        let meter = service.meter();
        let mut costs = Vec::new();
        let mut measured = |work: &dyn Fn(u32) -> Outcome<()>| -> Outcome<()> {
            work(0)?;
            let before = meter.mark();
            for time in 1..=TIMES {
                work(time)?;
            }
            costs.push(meter.since(&before).each_of(TIMES));
            Ok(())
        };
        let inventories = format!("/resource_providers/{HOST}/inventories");
        measured(&|time| {
            let inventory = json!({"total": 1_000_000 + time, "max_unit": 1_000_000});
            let body = json!({"resource_provider_generation": 1 + time,
                "inventories": {"VCPU": inventory, "MEMORY_MB": inventory}});
            api.put(&inventories, &body)
        })?;
        let in_tree = format!("/resource_providers?in_tree={HOST}");
        measured(&|_| api.ask_at("1.36", &in_tree))?;
        all.push(costs);
    }
    let mut rows = Vec::new();
    for (at, what) in ["PUT inventories, 2 classes", "GET in_tree, 9 providers"]
        .iter()
        .enumerate()
    {
        let [ours, peer] = [all[0][at], all[1][at]];
        let mut add = |kind: &str, peer, ours| {
            rows.push(Row {
                what: format!("{what}: {kind}"),
                peer: Some(Figure::Ms(ms(peer))),
                ours: Figure::Ms(ms(ours)),
                goal: None,
            });
        };
        add("CPU", peer.cpu, ours.cpu);
        add("wall", peer.wall, ours.wall);
    }
    Ok(Section {
        title: "What an agent asks and writes",
        note: "Per request, of a hundred alike, one after the other; both on SQLite.",
        rows,
    })
}
