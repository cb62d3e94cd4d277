//! Programming of devices: PATCH /v2/deployables/{uuid}/program (Cyborg's), and the work list of a host's agent (Berth's own).
//!
//! GET /internal/v1/hosts/{host}/programmings lists what is due on a host, and POST /internal/v1/hosts/{host}/programmings/{uuid}
//! reports a result. The service stores what is due. The agent stores nothing and repeats what it did not report.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AttachHandleInfoBody;
use crate::BodyError;

/// What a device is programmed with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// An image of the image service, by its UUID: `accel:bitstream_id`.
    BitstreamId(String),
    /// A function, by its vendor's name: `accel:function_id`.
    FunctionId(String),
}

/// One programming that is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueProgramming {
    /// The UUID, by which the result is reported.
    pub uuid: Uuid,
    pub deployable_uuid: Uuid,
    pub rp_uuid: Uuid,
    pub program: Program,
    /// The request that waits for it; missing if an operator requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arq_uuid: Option<Uuid>,
    /// The handles to program: the request's, or all of the deployable.
    pub attach_handles: Vec<ProgrammedHandle>,
}

/// A handle of a programmed device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgrammedHandle {
    pub uuid: Uuid,
    /// The attach handle's type: `PCI`, `MDEV` or `TEST_PCI`.
    pub attach_type: String,
    pub attach_info: AttachHandleInfoBody,
}

/// All due programmings of a host, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueProgrammings {
    pub programmings: Vec<DueProgramming>,
}

/// The end of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgrammingEnd {
    /// Why programming failed; missing on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One step of PATCH /v2/deployables/{uuid}/program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStep {
    /// The patched member: `/bitstream_id` or `/program`.
    pub path: String,
    /// The JSON Patch operation, always `replace`.
    pub op: String,
    pub value: Vec<ProgramImage>,
}

/// The image of such a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramImage {
    /// Its UUID in the image service.
    pub image_uuid: Uuid,
}

/// The image in a patch of exactly one step.
pub fn read_program(steps: &[ProgramStep]) -> Result<Uuid, BodyError> {
    let [step] = steps else {
        return Err(BodyError::field("[]", "exactly one step is expected"));
    };
    // The second form is what OpenStack's client sends.
    if !["/bitstream_id", "/program"].contains(&step.path.as_str()) {
        return Err(BodyError::field("[0].path", "/bitstream_id is expected"));
    }
    if step.op != "replace" {
        return Err(BodyError::field("[0].op", "replace is expected"));
    }
    match step.value.as_slice() {
        [image] => Ok(image.image_uuid),
        _ => Err(BodyError::field(
            "[0].value",
            "exactly one image is expected",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";

    #[test]
    fn one_step_with_one_image_is_read_and_all_else_refused_with_the_field() {
        let whole = format!(
            r#"[{{"path": "/bitstream_id", "op": "replace", "value": [{{"image_uuid": "{IMAGE}"}}]}}]"#
        );
        let read = |text: &str| {
            let steps: Vec<ProgramStep> =
                decode(text.as_bytes()).map_err(|error| error.to_string())?;
            read_program(&steps).map_err(|error| error.to_string())
        };
        assert_eq!(
            read(&whole).map(|image| image.to_string()),
            Ok(IMAGE.to_owned())
        );
        let other = read(&whole.replace("/bitstream_id", "/program"));
        assert_eq!(other, read(&whole));
        for (from, to, field) in [
            ("/bitstream_id", "/name", "path"),
            ("replace", "add", "op"),
            (IMAGE, "x", "image_uuid"),
            (&whole[1..whole.len() - 1], "", "[]"),
        ] {
            let refused = read(&whole.replace(from, to)).unwrap_err();
            assert!(refused.contains(field), "{to}: {refused}");
        }
    }

    #[test]
    fn a_program_is_known_by_its_name_in_the_profile() {
        let text = encode(&Program::FunctionId("f".to_owned()));
        assert_eq!(text, br#"{"function_id":"f"}"#);
        let text = encode(&Program::BitstreamId(IMAGE.to_owned()));
        assert_eq!(
            text,
            format!(r#"{{"bitstream_id":"{IMAGE}"}}"#).into_bytes()
        );
    }
}
