use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::*;
use crate::operation::Condition;

const LIMIT: Duration = Duration::from_secs(20);

/// A server that reads one request and then sends these pieces; returns what it received.
fn server(
    folder: &tempfile::TempDir,
    pieces: Vec<String>,
) -> (OvsdbClient, JoinHandle<Vec<Value>>) {
    let path = folder.path().join("db.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = vec![0; 4096];
        let read = stream.read(&mut received).await.unwrap();
        received.truncate(read);
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.shutdown().await.unwrap();
        stream.read_to_end(&mut received).await.ok();
        let messages = serde_json::Deserializer::from_slice(&received).into_iter::<Value>();
        messages.map(Result::unwrap).collect()
    });
    (OvsdbClient::new(OvsdbEndpoint::Unix(path), LIMIT), serving)
}

fn select() -> Operation {
    Operation::Select {
        table: "Bridge",
        conditions: vec![Condition::equals("name", "br-int")],
        columns: vec!["name"],
    }
}

async fn transact(pieces: &[&str]) -> Result<Vec<OperationResult>, OvsdbError> {
    let folder = tempfile::tempdir().unwrap();
    let pieces = pieces.iter().map(ToString::to_string).collect();
    let (client, serving) = server(&folder, pieces);
    let result = client.transact(&[select()]).await;
    serving.await.unwrap();
    result
}

#[tokio::test]
async fn an_answer_in_pieces_is_read_whole_and_an_echo_is_answered_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let pieces = [
        r#"{"method":"echo","params":["ping"],"id":"echo"}{"id":1,"err"#,
        r#"or":null,"result":[{"rows":[{"na"#,
        r#"me":"br-int"}]}]}"#,
    ];
    let (client, serving) = server(&folder, pieces.map(str::to_owned).to_vec());
    let results = client.transact(&[select()]).await.unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].rows[0]["name"], "br-int");
    drop(client);
    let received = serving.await.unwrap();
    assert_eq!(received[0]["method"], "transact");
    assert_eq!(received[0]["params"][1]["where"][0][2], "br-int");
    assert_eq!(received[1]["result"], json!(["ping"]));
    assert_eq!(received[1]["id"], "echo");
}

#[tokio::test]
async fn a_failed_operation_refuses_the_transaction_with_the_servers_words() {
    let error = transact(&[
        r#"{"id":1,"error":null,"result":[{"error":"constraint violation","details":"two rows"},null]}"#,
    ])
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the Open vSwitch database refused the transaction: constraint violation (two rows)"
    );
    assert!(!error.is_wait_timeout());
    let late = r#"{"id":1,"error":null,"result":[{"error":"timed out","details":"wait"}]}"#;
    assert!(transact(&[late]).await.unwrap_err().is_wait_timeout());
}

#[tokio::test]
async fn an_answer_that_is_cut_off_or_no_json_is_an_error() {
    for (pieces, expected) in [
        (vec![r#"{"id":1,"result":["#], "failed"),
        (vec![], "failed"),
        (vec!["HTTP/1.1 400 Bad Request\r\n"], "unreadable"),
        (
            vec![r#"{"id":1,"error":null,"result":[]}"#],
            "0 results for 1 operations",
        ),
        (vec![r#"{"id":1,"error":null,"result":{}}"#], "not an array"),
    ] {
        let error = transact(&pieces).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{pieces:?}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let endpoint: OvsdbEndpoint = "unix:/nonexistent/db.sock".parse().unwrap();
    let error = OvsdbClient::new(endpoint, LIMIT)
        .transact(&[select()])
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "cannot connect to the Open vSwitch database at unix:/nonexistent/db.sock"
        ),
        "{text}"
    );
    assert_eq!(error.disposition(), berth_model::Disposition::Retry);
}
