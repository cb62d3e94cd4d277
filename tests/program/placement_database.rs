//! `berth placement db`: the revision of a database, its check and its upgrade; also with a file that contains the URL.

use std::fs;
use std::path::{Path, PathBuf};

use berth_tests::berth::{BerthHome, Outcome};
use berth_tests::peer::{PlacementSchema, PlacementSettings, Postgres, RealPlacement};
use http::Method;
use serde_json::{Value, json};

const HEAD: &str = "a082b8bb98d0";

fn home() -> BerthHome {
    let home = BerthHome::new().expect("a home");
    home.configure("state_path = \"@HOME@/state\"\n")
        .expect("a configuration");
    home
}

fn berth(home: &mut BerthHome, arguments: &[&str]) -> Outcome {
    let config = home.config_file().display().to_string();
    let arguments = [&["--config", &config, "placement"], arguments].concat();
    home.run(arguments).expect("it ends")
}

#[track_caller]
fn expect(outcome: &Outcome, code: i32, words: &[&str]) -> String {
    let Outcome { stdout, stderr, .. } = outcome;
    assert_eq!(outcome.code, code, "{stdout}\n{stderr}");
    for word in words {
        assert!(
            stdout.contains(word) || stderr.contains(word),
            "{word}: {stdout}\n{stderr}"
        );
    }
    assert!(!stderr.contains("test-only"), "a password: {stderr}");
    stdout.clone()
}

fn items(stdout: &str) -> Value {
    let document: Value = serde_json::from_str(stdout).expect("JSON");
    assert_eq!(document["api"], "berth/1");
    document["items"].clone()
}

fn bytes_of_all(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = files
        .map(|path| (path.clone(), fs::read(&path).expect("a file")))
        .collect();
    all.sort();
    all
}

#[test]
fn a_database_of_an_older_release_is_upgraded_and_looking_at_it_changes_no_byte() {
    let mut home = home();
    let folder = home.path("old");
    fs::create_dir(&folder).expect("a folder");
    let file = folder.join("placement.db");
    let theirs = format!("sqlite:///{}", file.display());
    let mut schema = PlacementSchema::lease().expect("the migrations");
    schema
        .upgrade(&theirs, "b5c396305c25")
        .expect("an older one");
    let expected = {
        let newest = format!("sqlite:///{}", home.path("newest.db").display());
        schema.upgrade(&newest, "head").expect("the newest");
        schema.reflect(&newest).expect("its schema")
    };
    let url = format!("sqlite:{}", file.display());
    let before = bytes_of_all(&folder);
    let version = ["db", "version", "--database", &url];
    let output = berth(&mut home, &version);
    let needs = format!("b5c396305c25; head is {HEAD}: berth placement db sync upgrades it\n");
    assert_eq!(expect(&output, 0, &[]), needs);
    let output = berth(&mut home, &[&version[..], &["-f", "json"]].concat());
    assert_eq!(
        items(&expect(&output, 0, &[])),
        json!([{"revision": "b5c396305c25", "head": HEAD, "is_head": false, "is_known": true}])
    );
    let refused = berth(&mut home, &["db", "check", "--database", &url]);
    expect(&refused, 78, &["b5c396305c25", "berth placement db sync"]);
    let sync = ["db", "sync", "--database", &url];
    let dry_run = [&sync[..], &["--dry-run"]].concat();
    let output = berth(&mut home, &dry_run);
    assert_eq!(
        expect(&output, 0, &[]),
        "would upgrade to revision 422ece571366: add consumer_types and consumers.consumer_type_id\n\
         would upgrade to revision a082b8bb98d0: drop five indexes that unique keys are already\n"
    );
    // OpenStack's service, while it answers.
    let open = fs::File::open(&file).expect("the database");
    for arguments in [&sync[..], &dry_run] {
        expect(
            &berth(&mut home, arguments),
            73,
            &["placement.db is open in "],
        );
    }
    drop(open);
    assert!(bytes_of_all(&folder) == before, "something was written");
    let refused = berth(&mut home, &["serve", "--database", &url]);
    expect(&refused, 78, &["b5c396305c25", "berth placement db sync"]);

    let output = berth(&mut home, &sync);
    assert!(expect(&output, 0, &[]).starts_with("done: upgrade to revision 422ece571366"));
    assert_eq!(
        expect(&berth(&mut home, &version), 0, &[]),
        format!("{HEAD} (head)\n")
    );
    expect(
        &berth(&mut home, &["db", "check", "--database", &url]),
        0,
        &[],
    );
    for arguments in [&sync[..], &dry_run] {
        assert_eq!(
            expect(&berth(&mut home, arguments), 0, &[]),
            "nothing to do\n"
        );
    }
    let mut found = schema.reflect(&theirs).expect("its schema");
    // The key came with its column, so its name is where SQLAlchemy looks for none.
    let name = |of: &Value| of["consumers"]["foreign_keys"]["consumer_type_id"][0].clone();
    assert_eq!(name(&found), Value::Null);
    found["consumers"]["foreign_keys"]["consumer_type_id"][0] = name(&expected);
    assert_eq!(found, expected);
}

#[test]
fn a_missing_database_is_created_and_a_foreign_one_refused() {
    let mut home = home();
    let missing = berth(&mut home, &["db", "version"]);
    expect(&missing, 74, &["placement.sqlite does not exist"]);
    expect(&berth(&mut home, &["db", "check"]), 1, &["does not exist"]);
    let output = berth(&mut home, &["db", "sync", "--dry-run"]);
    let make = "make the tables, at revision a082b8bb98d0\n";
    assert_eq!(expect(&output, 0, &[]), format!("would {make}"));
    let file = home.state_dir().join("placement.sqlite");
    assert!(!file.exists(), "a dry run made it");
    let output = berth(&mut home, &["db", "sync"]);
    assert_eq!(expect(&output, 0, &[]), format!("done: {make}"));
    expect(
        &berth(&mut home, &["db", "check"]),
        0,
        &["matches schema revision"],
    );
    let nothing = berth(&mut home, &["db", "check", "-f", "json"]);
    assert_eq!(items(&expect(&nothing, 0, &[])), json!([]));

    let mut placement =
        RealPlacement::start(PlacementSettings::default()).expect("Placement starts");
    let url = placement.database_url();
    placement.stop();
    let run = |sql: &str| placement.query(sql).expect("it is done");
    run("drop index allocations_consumer_id_idx; create table notes (id integer)");
    let check = ["db", "check", "--database", &url];
    let output = berth(&mut home, &check);
    let reported = expect(&output, 1, &["2 differences"]);
    assert_eq!(
        reported,
        "index allocations_consumer_id_idx of allocations is missing\ntable notes is not Placement's\n"
    );
    let output = berth(&mut home, &[&check[..], &["-f", "json"]].concat());
    let missing = json!({"object": "index allocations_consumer_id_idx of allocations", "problem": "missing",
        "found": null, "expected": null});
    assert_eq!(items(&expect(&output, 1, &[]))[0], missing);
    let sync = ["db", "sync", "--database", &url];
    expect(
        &berth(&mut home, &sync),
        74,
        &["index allocations_consumer_id_idx of allocations is missing"],
    );
    run(
        "create index allocations_consumer_id_idx on allocations (consumer_id); \
         insert into allocations (resource_provider_id, consumer_id, resource_class_id, used) values (1, 'c', 0, 1)",
    );
    expect(
        &berth(&mut home, &check),
        1,
        &["consumers of allocations without a row are 1"],
    );
    let output = berth(&mut home, &sync);
    assert_eq!(
        expect(&output, 0, &[]),
        "table notes is not Placement's, and is kept\ndone: insert rows for 1 consumers that only have allocations\n"
    );
    let owner =
        run("select p.external_id, c.uuid from consumers c join projects p on p.id = c.project_id");
    assert_eq!(owner, [["00000000-0000-0000-0000-000000000000", "c"]]);
    run("update alembic_version set version_num = 'fedcba987654'");
    for arguments in [&check[..], &sync, &["serve", "--database", &url]] {
        expect(&berth(&mut home, arguments), 78, &["fedcba987654"]);
    }
    run("drop table alembic_version");
    for arguments in [&check[..], &sync] {
        expect(&berth(&mut home, arguments), 74, &["no alembic_version"]);
    }
}

/// On a server, while the real Placement runs and after it; the database's URL is in a file.
fn on_a_server(settings: PlacementSettings) {
    let mut placement = RealPlacement::lease(settings).expect("Placement starts");
    let asked = placement.ask(Method::GET, "/resource_providers", "1.39");
    assert_eq!(asked.send().expect("an answer").status.as_u16(), 200);
    let mut home = home();
    let file = home
        .write("url", &format!("{}\n", placement.database_url()))
        .expect("a file");
    home.set_env("BERTH_DATABASE_URL", format!("file:{}", file.display()));
    assert_eq!(
        expect(&berth(&mut home, &["db", "version"]), 0, &[]),
        format!("{HEAD} (head)\n")
    );
    expect(
        &berth(&mut home, &["db", "check"]),
        0,
        &["127.0.0.1", "matches schema revision"],
    );
    for arguments in [&["db", "sync"][..], &["db", "sync", "--dry-run"]] {
        expect(
            &berth(&mut home, arguments),
            73,
            &["is in use by user placement"],
        );
    }
    placement.stop();
    let output = berth(&mut home, &["db", "sync"]);
    assert_eq!(expect(&output, 0, &[]), "nothing to do\n");
}

#[test]
fn a_database_on_mariadb_is_checked_while_its_service_runs_and_upgraded_without_it() {
    on_a_server(PlacementSettings::on_mariadb());
}

#[test]
fn a_database_on_postgresql_is_checked_while_its_service_runs_and_upgraded_without_it() {
    on_a_server(PlacementSettings::on_postgres());
}

/// The real Placement's rows, on other servers, and back below it.
#[test]
fn a_placement_copied_to_another_database_and_back_shows_the_same() {
    let mut placement =
        RealPlacement::start(PlacementSettings::default()).expect("Placement starts");
    let host = "8a4ee1de-5f0c-4b14-9e4b-d7b3cbbf3ad1";
    let provider = json!({"name": "node-1", "uuid": host});
    let made = placement.ask(Method::POST, "/resource_providers", "1.39");
    let made = made.json(&provider).send().expect("an answer");
    assert_eq!(made.status.as_u16(), 200, "{}", made.text());
    let show = |placement: &RealPlacement| {
        let asked = placement.ask(Method::GET, "/resource_providers", "1.39");
        asked.send().expect("an answer").json()
    };
    let shown = show(&placement);
    let url = placement.database_url();
    placement.stop();
    let file = placement.sqlite_path().expect("a file").to_owned();
    let before = fs::read(&file).expect("a file");

    let mut home = home();
    let server = Postgres::shared().expect("PostgreSQL");
    let middle = server.create().expect("a database");
    let middle_file = home.write("url", &middle.url()).expect("a file");
    let middle_url = format!("file:{}", middle_file.display());
    let there = ["db", "copy", "--from", &url, "--to", &middle_url];
    let output = expect(&berth(&mut home, &there), 0, &[]);
    assert!(
        output.contains("resource_providers: 1 rows on both sides, sha256 "),
        "{output}"
    );
    assert!(
        fs::read(&file).expect("a file") == before,
        "the old one was written to"
    );
    // Not a second time: there is something in it.
    expect(
        &berth(&mut home, &there),
        1,
        &["is not empty", "a082b8bb98d0"],
    );
    let open = fs::File::open(&file).expect("the database");
    expect(&berth(&mut home, &there), 73, &["is open in "]);
    drop(open);

    let copy = home.path("back.sqlite");
    let copy_url = format!("sqlite:{}", copy.display());
    let back = ["db", "copy", "--from", &middle_url, "--to", &copy_url];
    expect(
        &berth(&mut home, &back),
        0,
        &["allocations: 0 rows on both sides"],
    );
    expect(
        &berth(&mut home, &["db", "check", "--database", &copy_url]),
        0,
        &[],
    );
    fs::copy(&copy, &file).expect("it takes the place of the first");
    placement.restart().expect("Placement opens it");
    assert_eq!(show(&placement), shown);

    let missing = [
        "db",
        "copy",
        "--from",
        "sqlite:/no/such/file",
        "--to",
        &middle_url,
    ];
    expect(
        &berth(&mut home, &missing),
        1,
        &["/no/such/file does not exist"],
    );
    // An incomplete copy.
    middle
        .query("update alembic_version set version_num = 'incomplete-copy'")
        .expect("it is done");
    let third = format!("sqlite:{}", home.path("third.sqlite").display());
    for command in [
        &["db", "check", "--database", &middle_url][..],
        &["db", "sync", "--database", &middle_url],
        &["serve", "--database", &middle_url],
        &["db", "copy", "--from", &middle_url, "--to", &third],
    ] {
        expect(&berth(&mut home, command), 74, &["was not completed"]);
    }
    expect(
        &berth(
            &mut home,
            &["db", "copy", "--from", &copy_url, "--to", &middle_url],
        ),
        0,
        &[],
    );
}

#[test]
fn a_url_in_a_file_works_for_every_url_option_and_is_never_printed() {
    let mut home = home();
    let here = home.path("here.sqlite").display().to_string();
    let file = home
        .write("url", &format!("sqlite:{here}\n"))
        .expect("a file");
    let by_file = format!("file:{}", file.display());
    let configured =
        format!("state_path = \"@HOME@/state\"\n[placement_service]\nconnection = \"{by_file}\"\n");
    expect(
        &berth(&mut home, &["db", "sync", "--database", &by_file]),
        0,
        &["done: make the tables"],
    );
    assert!(Path::new(&here).is_file());
    home.configure(&configured).expect("a configuration");
    expect(&berth(&mut home, &["db", "check"]), 0, &["here.sqlite"]);
    let explained = berth(
        &mut home,
        &["explain", "resources=VCPU:1", "--database", &by_file],
    );
    expect(&explained, 0, &["No candidate"]);
    home.write(
        "url",
        "mysql://placement:test-only@127.0.0.1:1/placement?nothing=1",
    )
    .expect("a file");
    for command in [
        &["db", "version"][..],
        &["db", "check"],
        &["db", "sync"],
        &["serve"],
        &["migrate-compute-inventory"],
    ] {
        let refused = berth(&mut home, command);
        expect(&refused, 78, &["cannot use the database URL in "]);
    }
    fs::remove_file(&file).expect("it is gone");
    let refused = berth(&mut home, &["db", "version"]);
    expect(&refused, 78, &["cannot read the database URL in "]);
}
