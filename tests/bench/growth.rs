//! Benchmarks GET /allocation_candidates by the size of the cloud: in the snapshot on SQLite, in the tables on
//! PostgreSQL.

mod cloud;

use berth_tests::peer::{Postgres, PostgresDatabase};
use tempfile::TempDir;

use crate::meter::{Meter, MeterSpan, ms};
use crate::placement::Placement;
use crate::statements::StatementLog;
use crate::table::{Figure, Row, Section};
use crate::{Outcome, log};

/// How many providers there are.
const SIZES: [u32; 4] = [100, 1_000, 10_000, 100_000];

const QUESTIONS: [(&str, &str); 4] = [
    (
        "plain, limit 1000",
        "resources=VCPU:4,MEMORY_MB:4096,DISK_GB:20&limit=1000",
    ),
    (
        "few hosts have room, limit 1000",
        "resources=VCPU:4,MEMORY_MB:200000,DISK_GB:20&limit=1000",
    ),
    (
        "few hosts have the trait, limit 1000",
        "resources=VCPU:4,MEMORY_MB:4096,DISK_GB:20&required=CUSTOM_RARE&limit=1000",
    ),
    (
        "6 groups: a host and 5 of its 8 GPUs, limit 1000",
        "resources=VCPU:4,MEMORY_MB:4096&resources1=PGPU:1&resources2=PGPU:1&resources3=PGPU:1&resources4=PGPU:1&resources5=PGPU:1\
         &group_policy=none&limit=1000",
    ),
];

/// How often each is asked.
const TIMES: u32 = 10;

/// Where the cloud is.
enum GrowthDatabase {
    Sqlite(TempDir),
    Postgres(PostgresDatabase),
}

impl GrowthDatabase {
    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => {
                format!("sqlite:{}", folder.path().join("placement.db").display())
            }
            Self::Postgres(database) => database.url(),
        }
    }

    fn server(&self) -> Meter {
        match self {
            Self::Sqlite(_) => Meter::none(),
            Self::Postgres(database) => Meter::of_family(database.server().pid()),
        }
    }
}

/// What one question cost, once.
struct QueryCost {
    service: MeterSpan,
    server: MeterSpan,
    candidates: usize,
}

pub(crate) fn measure() -> Outcome<Section> {
    let server = Postgres::shared()?;
    let mut rows = Vec::new();
    for size in chosen_sizes()? {
        log(&format!("GET /allocation_candidates, {size} providers"));
        let kept = GrowthDatabase::Sqlite(tempfile::tempdir()?);
        cloud::fill(&kept.url(), size)?;
        rows.extend(growth_rows(size, "SQLite", &costs(&kept)?));
        let kept = GrowthDatabase::Postgres(server.create()?);
        cloud::fill(&kept.url(), size)?;
        rows.extend(growth_rows(size, "PostgreSQL", &costs(&kept)?));
        rows.extend(statement_rows(size, &kept)?);
    }
    Ok(Section {
        title: "GET /allocation_candidates by the size of the cloud",
        note: "Per request, of ten alike; there is no peer. Five of nine providers are hosts, one in ten of these has eight GPUs below \
               it. SQLite is searched in the snapshot, which is there by then; PostgreSQL in its tables: its own CPU time stands \
               beside the service's. Statements are as the server's log counts them, BEGIN and COMMIT included.",
        rows,
    })
}

/// `BENCH_PROVIDERS=100,1000` makes a shorter run.
fn chosen_sizes() -> Outcome<Vec<u32>> {
    match std::env::var("BENCH_PROVIDERS") {
        Ok(list) => Ok(list
            .split(',')
            .map(|n| n.trim().parse())
            .collect::<Result<_, _>>()?),
        Err(_) => Ok(SIZES.to_vec()),
    }
}

fn growth_rows(size: u32, database: &str, costs: &[QueryCost]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((question, _), cost) in QUESTIONS.iter().zip(costs) {
        let mut add = |what: &str, ours| {
            rows.push(Row {
                what: format!(
                    "{size} providers, {database}, {question} ({} found): {what}",
                    cost.candidates
                ),
                peer: None,
                ours,
                goal: None,
            });
        };
        add("CPU", Figure::Ms(ms(cost.service.cpu)));
        if database != "SQLite" {
            add("CPU of the server", Figure::Ms(ms(cost.server.cpu)));
        }
        add("wall", Figure::Ms(ms(cost.service.wall)));
    }
    rows
}

fn costs(kept: &GrowthDatabase) -> Outcome<Vec<QueryCost>> {
    let placement = Placement::built_in_on(&kept.url())?;
    let api = placement.api();
    let mut all = Vec::new();
    for (_, question) in QUESTIONS {
        let path = format!("/allocation_candidates?{question}");
        // The first request opens what others find open.
        let first = api.get_at("1.36", &path)?;
        let candidates = first["allocation_requests"].as_array().map_or(0, Vec::len);
        let (service, server) = (placement.meter(), kept.server());
        let before = (service.mark(), server.mark());
        for _ in 0..TIMES {
            api.ask_at("1.36", &path)?;
        }
        let spent = (service.since(&before.0), server.since(&before.1));
        all.push(QueryCost {
            service: spent.0.each_of(TIMES),
            server: spent.1.each_of(TIMES),
            candidates,
        });
    }
    Ok(all)
}

/// By the log of the server, which costs it something: apart from the rest.
fn statement_rows(size: u32, kept: &GrowthDatabase) -> Outcome<Vec<Row>> {
    let GrowthDatabase::Postgres(database) = kept else {
        return Ok(Vec::new());
    };
    let server = database.server();
    let logged = StatementLog::begin(server)?;
    let placement = Placement::built_in_on(&kept.url())?;
    let api = placement.api();
    let mut rows = Vec::new();
    for (question, query) in QUESTIONS {
        let path = format!("/allocation_candidates?{query}");
        api.ask_at("1.36", &path)?;
        let statements = logged.count(|| api.ask_at("1.36", &path))?;
        rows.push(Row {
            what: format!("{size} providers, PostgreSQL, {question}: statements"),
            peer: None,
            ours: Figure::Count(statements),
            goal: None,
        });
    }
    drop(placement);
    logged.end()?;
    Ok(rows)
}
