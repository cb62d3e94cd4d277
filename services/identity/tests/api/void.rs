//! Tests of tokens that become invalid without a revocation, and of what the database keeps of them.

use berth_store::{Location, SqlOptions, SqlStore};

use super::service::{Service, cloud, hash, project, write};

async fn holds(service: &Service, token: &str) -> bool {
    match service
        .get(token, "/v3/auth/projects")
        .await
        .status
        .as_u16()
    {
        200 => true,
        401 => false,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_its_row_is_swept() {
    let service = Service::start().await;
    let token = service.token("alice", None).await;
    service.passes(3_599);
    assert!(holds(&service, &token).await);
    service.passes(1);
    assert!(!holds(&service, &token).await);
    assert_eq!(service.count().await, 1);
    service.passes(61);
    service.token("alice", None).await;
    assert_eq!(service.count().await, 1, "the expired token is deleted");
}

#[tokio::test]
async fn a_change_of_the_file_voids_the_tokens_that_it_is_about_and_no_others() {
    let other_hash = berth_identity::PasswordHash::cheap("another").unwrap();
    let alice = "name = \"alice\"\npassword_hash = ";
    let grant = "user = \"alice\"\nproject = \"research\"\nroles = [\"member\"]";
    let cases = [
        ("a new comment", format!("# new\n{}", cloud()), true, true),
        (
            "another password",
            cloud().replace(
                &format!("{alice}\"{}\"", hash()),
                &format!("{alice}\"{}\"", other_hash.reveal()),
            ),
            false,
            false,
        ),
        (
            "disabled",
            cloud().replace("id = \"u-alice\"", "id = \"u-alice\"\nenabled = false"),
            false,
            false,
        ),
        (
            "another id",
            cloud().replace("id = \"u-alice\"", "id = \"u-alicia\""),
            false,
            false,
        ),
        (
            "one more role",
            cloud().replace(
                grant,
                &grant.replace("[\"member\"]", "[\"member\", \"admin\"]"),
            ),
            false,
            true,
        ),
        (
            "no role left",
            cloud().replace(grant, &grant.replace("research", "service")),
            false,
            true,
        ),
        (
            "the project is closed",
            cloud().replace(
                "id = \"p-research\"",
                "id = \"p-research\"\nenabled = false",
            ),
            false,
            true,
        ),
        (
            "the domain is closed",
            cloud().replace("id = \"default\"", "id = \"default\"\nenabled = false"),
            false,
            false,
        ),
    ];
    for (change, text, scoped_holds, unscoped_holds) in cases {
        assert_ne!(text, cloud(), "{change}");
        let service = Service::start().await;
        let scoped = service.token("alice", project("research")).await;
        let unscoped = service.token("alice", None).await;
        let bystander = service.token("nova", None).await;
        service.rewrite(&text);
        assert_eq!(holds(&service, &scoped).await, scoped_holds, "{change}");
        assert_eq!(holds(&service, &unscoped).await, unscoped_holds, "{change}");
        let stays = change != "the domain is closed";
        assert_eq!(holds(&service, &bystander).await, stays, "{change}");
        service.rewrite(&cloud());
        assert!(holds(&service, &scoped).await, "{change}: reverted");
    }
}

#[tokio::test]
async fn tokens_survive_a_restart_and_the_tables_know_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, users) = (
        folder.path().join("identity.sqlite"),
        folder.path().join("identity.toml"),
    );
    write(&users, &cloud());
    let open = || async {
        let location = Location::SqliteFile(file.clone());
        let store = SqlStore::open(&location, &SqlOptions::default())
            .await
            .unwrap();
        Service::over(store, &users, berth_identity::IdentityApiOptions::default()).await
    };
    let service = open().await;
    let token = service.token("alice", project("research")).await;
    service.store.close().await;
    drop(service);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        let found = content
            .windows(token.len())
            .any(|window| window == token.as_bytes());
        assert!(!found, "the token itself is nowhere on the disk");
    }
    let service = open().await;
    assert!(holds(&service, &token).await);
    service.store.close().await;
}
