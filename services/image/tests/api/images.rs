//! Lists and single images.

use serde_json::json;

use super::service::{HERE, HIDDEN, HOSTS, Service};

#[tokio::test]
async fn an_image_is_shown_with_its_properties_as_in_glance() {
    let service = Service::start();
    let shown = service.get(&format!("/v2/images/{HERE}")).await;
    assert_eq!(shown.status, 200);
    let mut image = shown.body;
    let came = image["created_at"].as_str().unwrap().to_owned();
    assert!(came.ends_with('Z') && came.len() == 20, "{came}");
    image.as_object_mut().unwrap().remove("created_at");
    image.as_object_mut().unwrap().remove("updated_at");
    assert_eq!(
        image,
        json!({
            "id": HERE, "name": "here", "status": "active", "visibility": "public", "protected": true, "os_hidden": false,
            "owner": null, "disk_format": "raw", "container_format": "bare",
            "checksum": "781e5e245d69b566979b86e28d23f2c7", "os_hash_algo": "sha512",
            "os_hash_value": "bb96c2fc40d2d54617d6f276febe571f623a8dadf0b734855299b0e107fda32cf6b69f2da32b36445d73690b93cbd0f7bfc20e0f7f28553d2a4428f23b716e90",
            "size": 10, "virtual_size": 10, "min_ram": 64, "min_disk": 0, "tags": ["lts"], "os_distro": "debian",
            "self": format!("/v2/images/{HERE}"), "file": format!("/v2/images/{HERE}/file"), "schema": "/v2/schemas/image",
        })
    );
    let hosts = service.get(&format!("/v2/images/{HOSTS}")).await.body;
    assert_eq!(hosts["checksum"], json!(null));
    assert_eq!(
        (
            &hosts["os_hash_algo"],
            &hosts["size"],
            &hosts["virtual_size"]
        ),
        (&json!("sha256"), &json!(20), &json!(null))
    );
    let hidden = service.get(&format!("/v2/images/{HIDDEN}")).await.body;
    assert_eq!(
        (&hidden["size"], &hidden["name"]),
        (&json!(null), &json!("hidden"))
    );
}

#[tokio::test]
async fn a_list_is_filtered_sorted_and_paged() {
    let service = Service::start();
    for (query, names) in [
        ("?sort=name:asc", vec!["here", "hosts"]),
        ("?sort_key=name&sort_dir=desc", vec!["hosts", "here"]),
        ("?os_hidden=true", vec!["hidden"]),
        ("?os_distro=debian", vec!["here"]),
        ("?tag=lts&size_max=10", vec!["here"]),
        ("?name=nothing", vec![]),
    ] {
        let reply = service.get(&format!("/v2/images{query}")).await;
        assert_eq!(
            (reply.status.as_u16(), reply.names()),
            (200, names),
            "{query}"
        );
    }
    let first = service.get("/v2/images?limit=1&sort=name:asc").await;
    assert_eq!(first.names(), ["here"]);
    assert_eq!(first.body["first"], "/v2/images?limit=1&sort=name%3Aasc");
    let next = first.body["next"].as_str().unwrap();
    let next = service.get(next).await;
    assert_eq!(next.names(), ["hosts"]);
    assert_eq!(next.body["next"], json!(null));
    assert_eq!(
        service.get("/v2/images").await.body["schema"],
        "/v2/schemas/images"
    );
}

#[tokio::test]
async fn an_image_has_no_members() {
    let service = Service::start();
    let members = service.get(&format!("/v2/images/{HERE}/members")).await;
    assert_eq!(
        members.body,
        json!({"members": [], "schema": "/v2/schemas/members"})
    );
    let member = service.get(&format!("/v2/images/{HERE}/members/p")).await;
    assert_eq!(member.status, 404);
    let nowhere = service.get("/v2/images/nowhere/members").await;
    assert_eq!(nowhere.status, 404);
}

#[tokio::test]
async fn without_a_file_of_images_there_are_none() {
    let service = Service::without_images();
    let list = service.get("/v2/images").await;
    assert_eq!((list.status.as_u16(), list.names()), (200, vec![]));
}

#[tokio::test]
async fn an_agent_reads_images_with_the_role_service_alone() {
    let service = Service::start();
    let agent = [("x-auth-token", "agent:service"), ("x-roles", "service")];
    for path in [
        "/v2/images".to_owned(),
        format!("/v2/images/{HERE}"),
        format!("/v2/images/{HERE}/file"),
    ] {
        assert_eq!(
            service.ask("GET", &path, &agent).await.status,
            200,
            "{path}"
        );
        let nobody = [("x-auth-token", "agent:service"), ("x-roles", "other")];
        assert_eq!(
            service.ask("GET", &path, &nobody).await.status,
            403,
            "{path}"
        );
    }
}
