//! Tests of the version list, which needs no token.

use serde_json::json;

use super::service::Service;

#[tokio::test]
async fn versions_need_no_token_and_link_below_the_requested_path() {
    let service = Service::start();
    for (path, status) in [
        ("", 300),
        ("/", 300),
        ("/versions", 200),
        ("/v2", 300),
        ("/v2/", 300),
    ] {
        let reply = service.ask("GET", path, &[]).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
        let versions = reply.body["versions"].as_array().unwrap();
        assert_eq!(
            versions[0],
            json!({"id": "v2.9", "status": "CURRENT", "links": [{"rel": "self", "href": "http://cloud/image/v2/"}]})
        );
        assert_eq!(versions.last().unwrap()["id"], "v2.0");
        assert!(versions[1..].iter().all(|it| it["status"] == "SUPPORTED"));
    }
}

#[tokio::test]
async fn schemas_name_every_key_of_the_documents() {
    let service = Service::start();
    let schema = service.get("/v2/schemas/image").await.body;
    let images = service.get("/v2/schemas/images").await.body;
    assert_eq!(images["properties"]["images"]["items"], schema);
    let image = &service.get("/v2/images?name=hosts").await.body["images"][0];
    for key in image.as_object().unwrap().keys() {
        assert!(schema["properties"].get(key).is_some(), "{key}");
    }
    for (name, key) in [("member", "member_id"), ("members", "members")] {
        let schema = service.get(&format!("/v2/schemas/{name}")).await.body;
        assert!(schema["properties"].get(key).is_some(), "{schema}");
    }
}
