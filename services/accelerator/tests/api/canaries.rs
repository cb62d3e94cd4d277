//! Canaries: each measured defect of the peer is planted in front of this service, and the check named after it must
//! fail. A check that passes would miss the defect.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_store::Statement;
use serde_json::{Value, json};

use super::defects as checks;
use super::service::{ABSENT, HOST, Reply, Service};

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    M1,
    M2,
    M3,
    M4,
    M5,
    M6,
    M7,
    M8,
    M9,
    M10,
    /// Defect M10: the answer is right, but no event is sent.
    M10Lost,
    M11,
    M12,
    M13,
    /// Defect M13 for an object that does not exist.
    M13Absent,
    M14,
    /// What M14 does: it is refused, and done all the same.
    M14Done,
}

thread_local! {
    /// The defect of the services that this test asks, and whether it has come to be.
    static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
    static STRUCK: Cell<bool> = const { Cell::new(false) };
}

/// The defect that stands before a service here; none in all other tests.
pub(crate) fn planted() -> Option<Defect> {
    PLANTED.get()
}

impl Defect {
    const ALL: [Self; 17] = [
        Self::M1,
        Self::M2,
        Self::M3,
        Self::M4,
        Self::M5,
        Self::M6,
        Self::M7,
        Self::M8,
        Self::M9,
        Self::M10,
        Self::M10Lost,
        Self::M11,
        Self::M12,
        Self::M13,
        Self::M13Absent,
        Self::M14,
        Self::M14Done,
    ];

    /// Its check. A new row does not compile without one.
    fn check(self) -> fn() {
        match self {
            Self::M1 => {
                checks::m1_a_bind_that_cannot_have_all_its_handles_takes_none_and_says_so_by_event
            }
            Self::M2 => checks::m2_a_bind_to_an_unknown_provider_ends_and_a_right_one_may_follow,
            Self::M3 => checks::m3_a_list_delete_removes_what_exists_wherever_the_missing_one_stands,
            Self::M4 => {
                checks::m4_handles_of_a_guest_that_never_came_are_released_after_the_grace_time
            }
            Self::M5 => {
                checks::m5_a_device_that_vanishes_while_bound_stays_marked_and_does_not_hold_up_the_report
            }
            Self::M6 => {
                checks::m6_a_vanished_device_goes_when_its_last_holder_does_and_the_next_reports_pass
            }
            Self::M7 => {
                checks::m7_every_report_is_answered_whole_so_that_a_provider_lost_elsewhere_is_seen
            }
            Self::M8 => checks::m8_a_disabled_device_accepts_no_bind,
            Self::M9 => checks::m9_a_profile_in_use_is_a_conflict_without_sql_in_the_message,
            Self::M10 | Self::M10Lost => {
                checks::m10_a_receiver_that_answers_404_does_not_fail_the_bind_and_gets_the_event_again
            }
            Self::M11 => checks::m11_a_bind_that_names_a_wrong_host_is_refused,
            Self::M12 => checks::m12_tenants_see_no_hardware,
            Self::M13 | Self::M13Absent => checks::m13_a_fault_of_the_server_shows_no_internals,
            Self::M14 | Self::M14Done => checks::m14_what_is_the_clients_fault_is_a_4xx,
        }
    }

    /// What a caller of a service with the defect gets.
    pub(crate) async fn answer(
        self,
        service: &Service,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Reply {
        let is_bind = method == "PATCH" && body.as_deref().is_some_and(|it| it.contains("\"add\""));
        let is_report = method == "PUT" && path.starts_with("/internal/");
        let pass = |body| service.really(method, path, body);
        match self {
            Self::M1 if is_bind => one_by_one(service, path, body).await,
            Self::M2 if is_bind && body.as_deref().is_some_and(|it| it.contains(ABSENT)) => {
                let reply = pass(body).await;
                let sql = "UPDATE accelerator_requests SET state = 'BindStarted' WHERE state = 'BindFailed'";
                service.change(Statement::new(sql)).await;
                strike(reply)
            }
            Self::M3 if method == "DELETE" && path.contains("?arqs=") && path.contains(ABSENT) => {
                failing(service, 404, &format!("{ABSENT} does not exist")).await
            }
            Self::M4 if is_report => {
                let mut reported = read(body.as_deref());
                reported
                    .as_object_mut()
                    .map(|reported| reported.remove("guests"));
                strike(pass(Some(reported.to_string())).await)
            }
            Self::M5 if is_report && service.held().await > 0 => {
                failing(service, 500, "provider in use").await
            }
            // Once something held has vanished, no report of its host passes.
            Self::M6 if is_report && STRUCK.get() => {
                failing(service, 500, "FOREIGN KEY constraint failed").await
            }
            Self::M6 if is_report && service.held().await > 0 => strike(pass(body).await),
            // What is not different from the last report is not looked at.
            Self::M7
                if is_report
                    && service.really("GET", path, None).await.body["devices"][0].is_object() =>
            {
                let mut reply = pass(body).await;
                reply.body["devices"] = json!([]);
                strike(reply)
            }
            Self::M8 if is_bind => {
                let sql = "UPDATE devices SET status = 'enabled'";
                service.change(Statement::new(sql)).await;
                strike(pass(body).await)
            }
            Self::M9 if method == "DELETE" && path.starts_with("/v2/device_profiles") => {
                let reply = pass(body).await;
                match reply.status.as_u16() {
                    409 => failing(service, 500, "DELETE FROM device_profiles: FOREIGN KEY").await,
                    _ => reply,
                }
            }
            Self::M10 if is_bind => {
                pass(body).await;
                failing(service, 400, "the notification was answered 404").await
            }
            Self::M10Lost if is_bind => {
                let reply = pass(body).await;
                let sql = "DELETE FROM events";
                service.change(Statement::new(sql)).await;
                strike(reply)
            }
            Self::M11 if is_bind => {
                let reported = body.map(|body| body.replace("compute2", HOST));
                strike(pass(reported).await)
            }
            Self::M12 if method == "GET" => {
                strike(service.by("admin").really(method, path, body).await)
            }
            Self::M13 | Self::M13Absent | Self::M14 | Self::M14Done => {
                let reply = pass(body).await;
                match (self, reply.status.as_u16()) {
                    (Self::M13, status @ 500) | (Self::M13Absent, status @ 404) => {
                        let text = "Traceback (most recent call last)";
                        failing(service, status, text).await
                    }
                    (Self::M14, 400) => failing(service, 500, "KeyError").await,
                    (Self::M14Done, 400) if method == "DELETE" => {
                        service
                            .change(Statement::new("DELETE FROM accelerator_requests"))
                            .await;
                        strike(reply)
                    }
                    _ => reply,
                }
            }
            _ => pass(body).await,
        }
    }
}

/// Binds the requests one by one: those bound before the first failure stay bound, and no event is sent.
async fn one_by_one(service: &Service, path: &str, body: Option<String>) -> Reply {
    let asked = read(body.as_deref());
    for (uuid, steps) in asked.as_object().into_iter().flatten() {
        let one = json!({ uuid: steps }).to_string();
        let reply = service.really("PATCH", path, Some(one)).await;
        if !reply.status.is_success() {
            break;
        }
    }
    failing(service, 409, "16 free of 17 wanted").await
}

fn read(body: Option<&str>) -> Value {
    serde_json::from_str(body.unwrap_or_default()).unwrap_or_default()
}

fn strike(reply: Reply) -> Reply {
    STRUCK.set(true);
    reply
}

/// An answer that this service would not give here.
async fn failing(service: &Service, status: u16, message: &str) -> Reply {
    let reply = service.really("GET", "/", None).await;
    let body = json!({"error_message": json!({"faultstring": message}).to_string()});
    strike(Reply {
        status: http::StatusCode::from_u16(status).expect("a status"),
        text: body.to_string(),
        body,
        ..reply
    })
}

#[test]
fn each_defect_is_caught_by_the_check_that_is_named_after_it() {
    let mut passed = Vec::new();
    for defect in Defect::ALL {
        STRUCK.set(false);
        PLANTED.set(Some(defect));
        let caught = catch_unwind(AssertUnwindSafe(defect.check())).is_err();
        PLANTED.set(None);
        if !caught || !STRUCK.get() {
            passed.push(defect);
        }
    }
    assert!(passed.is_empty(), "not caught: {passed:?}");
}
