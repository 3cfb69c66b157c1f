//! The path version of the control plane, and the fall-back from v2 to v1.

/// A path version of the control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ApiVersion {
    /// `/sandboxes`
    V1,
    /// `/v2/sandboxes`
    #[default]
    V2,
}

/// Which version one create talks to.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// The version creates are sent to.
    pub(super) create: ApiVersion,
    /// The version lists are asked from.
    pub(super) list: ApiVersion,
    /// What is certain about the server, to be remembered for later calls.
    pub(super) known: Option<ApiVersion>,
    /// Its list answered 404 or 405 on v2: a create's 404 needs no probe.
    v2_list_missing: bool,
}

/// Whether a 404 or 405 means that v2 is not there.
pub(super) enum Missing {
    /// It does.
    Yes,
    /// It may be: a probe will tell.
    Perhaps,
    /// It does not.
    No,
}

impl Route {
    pub(super) fn new(known: Option<ApiVersion>) -> Self {
        let version = known.unwrap_or_default();
        Self { create: version, list: version, known, v2_list_missing: false }
    }

    pub(super) fn of_status(&self, status: u16) -> Missing {
        match status {
            _ if self.create == ApiVersion::V1 || self.known.is_some() => Missing::No,
            405 => Missing::Yes,
            404 if self.v2_list_missing => Missing::Yes,
            404 => Missing::Perhaps,
            _ => Missing::No,
        }
    }

    /// v2 is not there. Not remembered before v1 has answered.
    pub(super) fn fall_back(&mut self) {
        self.create = ApiVersion::V1;
        self.list = ApiVersion::V1;
    }

    /// The version creates are sent to answered one with success.
    pub(super) fn confirm_create(&mut self) {
        self.known = Some(self.create);
    }

    /// v2 answered a probe or a list with success.
    pub(super) fn confirm_v2(&mut self) {
        if self.create == ApiVersion::V2 {
            self.known = Some(ApiVersion::V2);
        }
    }

    /// A list failed with this status. Returns whether v1 is to be asked instead.
    pub(super) fn list_failed(&mut self, status: Option<u16>) -> bool {
        let missing = matches!(status, Some(404 | 405)) && self.list == ApiVersion::V2 && self.known.is_none();
        if missing {
            self.list = ApiVersion::V1;
            self.v2_list_missing = true;
        }
        missing
    }
}
