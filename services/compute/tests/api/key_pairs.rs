//! Tests of key pairs: stored, listed, shown, deleted, separate for each user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use super::service::{Reply, Service};

/// Created with `ssh-keygen -t ed25519`. The fingerprint below is that of `ssh-keygen -l -E md5`.
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINkujHrt2qfK9M3UlXu7CR4A+TAVjzIf8+1bcHGl/frw alice@laptop";
const FINGERPRINT: &str = "55:29:a4:1b:bb:a6:b2:82:c3:05:8e:20:9f:6c:59:bd";

async fn bring(service: &Service, token: &str, version: &str, more: Value) -> Reply {
    let mut key = json!({"name": "k", "public_key": KEY});
    let Value::Object(more) = more else {
        panic!("fields are an object");
    };
    key.as_object_mut().unwrap().extend(more);
    let body = Some(json!({ "keypair": key }));
    service
        .ask(token, version, "POST", "/os-keypairs", body)
        .await
}

#[tokio::test]
async fn a_key_pair_is_shown_in_the_format_of_each_version() {
    let service = Service::start().await;
    let with_end = json!({"public_key": format!("{KEY}\r\n")});
    let early = bring(&service, "alice", "2.1", with_end).await;
    let reported =
        json!({"name": "k", "public_key": KEY, "fingerprint": FINGERPRINT, "user_id": "alice"});
    assert_eq!(
        (early.status.as_u16(), &early.body),
        (200, &json!({ "keypair": reported }))
    );
    let late = bring(
        &service,
        "alice",
        "2.2",
        json!({"name": "l", "type": "ssh"}),
    )
    .await;
    assert_eq!(
        (late.status.as_u16(), &late.body["keypair"]["type"]),
        (201, &json!("ssh"))
    );
    let shown = service.get("alice", "2.2", "/os-keypairs/k").await;
    assert_eq!(
        shown.body["keypair"]["public_key"], KEY,
        "without the end of the file's line"
    );
    let key = &shown.body["keypair"];
    assert_eq!(
        (&key["deleted"], &key["fingerprint"]),
        (&json!(false), &json!(FINGERPRINT))
    );
    assert!(key["created_at"].as_str().unwrap().contains('T'));
    let gone = service
        .ask("alice", "2.1", "DELETE", "/os-keypairs/k", None)
        .await;
    assert_eq!(gone.status, 202);
    let gone = service
        .ask("alice", "2.2", "DELETE", "/os-keypairs/l", None)
        .await;
    assert_eq!(gone.status, 204);
    let none = service.get("alice", "2.2", "/os-keypairs/k").await;
    assert_eq!(
        none.message("itemNotFound"),
        "Keypair k not found for user alice"
    );
}

#[tokio::test]
async fn what_is_no_key_is_refused_with_what_is_wrong() {
    let service = Service::start().await;
    let key = KEY.split(' ').nth(1).unwrap();
    for (more, named) in [
        (json!({"name": "a/b"}), "may contain only letters"),
        (json!({"name": " a"}), "may contain only letters"),
        (json!({"name": ""}), "attribute name"),
        (json!({"public_key": ""}), "must begin with its type"),
        (json!({"public_key": key}), "must begin with its type"),
        (
            json!({"public_key": format!("ssh-ed25519 {key}!")}),
            "base64",
        ),
        (
            json!({"public_key": format!("ssh-rsa {key}")}),
            "differs from the type",
        ),
        (
            json!({"public_key": format!("{KEY}\n{KEY}")}),
            "single line",
        ),
        (json!({"public_key": null}), "public_key"),
        (json!({"type": "gpg"}), "expected ssh or x509"),
        (json!({"type": "x509"}), "one certificate in PEM"),
        (
            json!({"type": "x509", "public_key": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}),
            "not an X.509 certificate",
        ),
        (json!({"colour": "red"}), "'colour' was unexpected"),
    ] {
        let refused = bring(&service, "alice", "2.82", more.clone()).await;
        let message = refused.message("badRequest");
        assert!(message.contains(named), "{more}: {message}");
    }
    bring(&service, "alice", "2.82", json!({})).await;
    let again = bring(&service, "alice", "2.82", json!({})).await;
    assert_eq!(
        again.message("conflictingRequest"),
        "Key pair 'k' already exists."
    );
}

#[tokio::test]
async fn a_key_is_its_users_own_and_an_operator_may_name_the_user() {
    let service = Service::start().await;
    bring(&service, "alice", "2.82", json!({})).await;
    assert_eq!(
        service.get("bob", "2.82", "/os-keypairs/k").await.status,
        404
    );
    assert_eq!(bring(&service, "bob", "2.82", json!({})).await.status, 201);
    let path = "/os-keypairs/k?user_id=alice";
    assert_eq!(service.get("bob", "2.82", path).await.status, 403);
    assert_eq!(service.get("admin", "2.82", path).await.status, 200);
    // Older versions do not know the parameter.
    assert_eq!(service.get("admin", "2.9", path).await.status, 404);
    let others = bring(
        &service,
        "bob",
        "2.82",
        json!({"user_id": "alice", "name": "x"}),
    )
    .await;
    assert_eq!(others.status, 403);
    let others = bring(
        &service,
        "admin",
        "2.82",
        json!({"user_id": "alice", "name": "x"}),
    )
    .await;
    assert_eq!(others.body["keypair"]["user_id"], "alice");
}

#[tokio::test]
async fn keys_come_in_pages() {
    let service = Service::start().await;
    for name in ["c", "a", "b"] {
        bring(&service, "alice", "2.82", json!({ "name": name })).await;
    }
    let names = |reply: &Reply| -> Vec<String> {
        let keys = reply.body["keypairs"].as_array().unwrap().iter();
        keys.map(|key| key["keypair"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = service.get("alice", "2.34", "/os-keypairs?limit=1").await;
    assert_eq!(names(&all), ["a", "b", "c"]);
    let first = service.get("alice", "2.35", "/os-keypairs?limit=2").await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(
        first.body["keypairs_links"][0]["href"],
        "http://cloud.example/compute/v2.1/os-keypairs?limit=2&marker=b"
    );
    let last = service
        .get("alice", "2.35", "/os-keypairs?limit=2&marker=b")
        .await;
    assert_eq!(names(&last), ["c"]);
}

#[tokio::test]
async fn a_key_that_is_cut_off_or_has_more_behind_it_is_none() {
    let service = Service::start().await;
    for key in [
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC1 x",
        // Truncated after the exponent, after the type, and within a length.
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAA=",
        // Trailing bytes, an extra field, a field that is too short, and an empty field.
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINkujHrt2qfK9M3UlXu7CR4A+TAVjzIf8+1bcHGl/frwAA==",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINkujHrt2qfK9M3UlXu7CR4A+TAVjzIf8+1bcHGl/frwAAAAAWE=",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAABGFiY2Q=",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAA==",
    ] {
        let refused = bring(&service, "alice", "2.82", json!({"public_key": key})).await;
        let message = refused.message("badRequest");
        assert!(message.contains("truncated"), "{key}: {message}");
    }
    for (name, key) in [
        (
            "rsa",
            "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDgu4gMu0TJNvOxn1n9zjJRlt50kVW7m8pX8DnqLY0y/Ge+Hu0thC8gDA0dJV7N6jDO28+prrE1CwLCsfoNta1fhQny5y4xs3/L1j5oKHNjM6RHr88oqtXhaK3Ctxh/x4f7bdGAauquNTt0ulenwQoiNO81vOnMWzywGX5lBwCgKQ==",
        ),
        (
            "ecdsa",
            "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBPzaCFQX5oGYAx+8OWZVQQ0HTv2YL+K6utH/TgkmFhEOszeXab6ciubeErLIJ5+SBCYKALrF6e2x8wdHwdUErmk=",
        ),
    ] {
        let key = json!({"name": name, "public_key": key});
        let brought = bring(&service, "alice", "2.82", key).await;
        assert_eq!(brought.status, 201, "{brought:?}");
    }
}

#[tokio::test]
async fn a_token_without_a_scope_passes_no_rule_of_the_compute_api() {
    let service = Service::start().await;
    let refused = bring(&service, "unscoped", "2.1", json!({})).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.message("forbidden"),
        "Policy does not allow os_compute_api:os-keypairs:create to be performed. The token is not scoped to a project."
    );
    for path in [
        "/os-keypairs",
        "/os-keypairs/k",
        "/os-availability-zone",
        "/limits",
        "/servers",
    ] {
        let refused = service.get("unscoped", "2.1", path).await;
        assert_eq!(refused.status, 403, "{path}");
        let scoped = service.get("alice", "2.1", path).await;
        assert_ne!(scoped.status, 403, "{path}");
    }
    let deleted = service
        .ask("unscoped", "2.1", "DELETE", "/os-keypairs/k", None)
        .await;
    assert_eq!(deleted.status, 403);
}

/// Creates a key pair of this type without a public key.
async fn generate(service: &Service, version: &str, key: Value) -> Value {
    let body = Some(json!({ "keypair": key }));
    let made = service
        .ask("alice", version, "POST", "/os-keypairs", body)
        .await;
    assert!(made.status.is_success(), "{}", made.body);
    made.body["keypair"].clone()
}

/// The output of a program that reads this file.
fn output(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output();
    let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}"));
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program}: {error}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[tokio::test]
async fn a_key_pair_without_a_public_key_is_generated_and_its_private_key_is_shown_once() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().unwrap();
    let made = generate(&service, "2.1", json!({"name": "k"})).await;
    let file = folder.path().join("key");
    fs::write(&file, made["private_key"].as_str().unwrap()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let file = file.display().to_string();
    let public_key = output("ssh-keygen", &["-y", "-f", &file]);
    assert_eq!(made["public_key"], public_key.trim_end());
    let listed = output("ssh-keygen", &["-l", "-E", "md5", "-f", &file]);
    let fingerprint = made["fingerprint"].as_str().unwrap();
    assert!(listed.contains(&format!(" MD5:{fingerprint} ")), "{listed}");
    let shown = service.get("alice", "2.82", "/os-keypairs/k").await;
    let shown = &shown.body["keypair"];
    assert_eq!(shown["public_key"], made["public_key"]);
    assert_eq!(shown.get("private_key"), None);
    // Version 2.1 has no types.
    let body = Some(json!({"keypair": {"name": "x", "type": "x509"}}));
    let refused = service.ask("alice", "2.1", "POST", "/os-keypairs", body);
    assert!(
        refused
            .await
            .message("badRequest")
            .contains("'type' was unexpected")
    );
    let another = generate(&service, "2.1", json!({"name": "l"})).await;
    assert_ne!(another["private_key"], made["private_key"]);
}

#[tokio::test]
async fn a_certificate_is_generated_or_stored_as_a_key_pair_of_type_x509() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().unwrap();
    let made = generate(&service, "2.2", json!({"name": "k", "type": "x509"})).await;
    assert_eq!(made["type"], "x509");
    let [key, certificate] = ["private_key", "public_key"].map(|field| {
        let file = folder.path().join(field);
        fs::write(&file, made[field].as_str().unwrap()).unwrap();
        file.display().to_string()
    });
    let of_certificate = output(
        "openssl",
        &["x509", "-noout", "-pubkey", "-in", &certificate],
    );
    assert_eq!(
        output("openssl", &["pkey", "-pubout", "-in", &key]),
        of_certificate
    );
    let text = output(
        "openssl",
        &[
            "x509",
            "-noout",
            "-text",
            "-fingerprint",
            "-nameopt",
            "RFC2253",
            "-sha1",
            "-in",
            &certificate,
        ],
    );
    let fingerprint = made["fingerprint"].as_str().unwrap().to_uppercase();
    for words in [
        "CN=alice",
        "TLS Web Client Authentication",
        "UPN::alice@localhost",
        &fingerprint,
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The same certificate, as `openssl x509 -text` shows it.
    let text = format!(
        "Certificate:\r\n\tData\r\n{}\tend",
        made["public_key"].as_str().unwrap()
    );
    let more = json!({"name": "l", "type": "x509", "public_key": text});
    let stored = bring(&service, "alice", "2.2", more).await;
    assert_eq!(stored.status, 201, "{}", stored.body);
    let shown = service.get("alice", "2.82", "/os-keypairs/l").await;
    let shown = &shown.body["keypair"];
    assert_eq!(shown["type"], "x509");
    assert_eq!(shown["public_key"], made["public_key"]);
    assert_eq!(shown["fingerprint"], made["fingerprint"]);
    let as_ssh = bring(
        &service,
        "alice",
        "2.2",
        json!({"name": "m", "public_key": made["public_key"]}),
    )
    .await;
    assert_eq!(as_ssh.status, 400);
}
