//! Where missions, their steps and their counts stand, and every arrow between two statuses.
//!
//! The schema has the same words in `sql/flow/mission.sql`; a test compares the two.

use crate::state::JobState;
use crate::words::words;

words! {
    /// Where a mission stands.
    MissionStatus {
        /// It was started paused, and has not begun.
        Approved = "approved",
        Running = "running",
        /// No further step begins; those that are under way go on to their ends.
        Cancelling = "cancelling",
        /// Its steps have ended, and its effects are being compensated.
        Compensating = "compensating",
        /// How it ends is decided, and what is to be done in any case is being done.
        Finishing = "finishing",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

words! {
    /// Where a step stands, or an item of the list that it works through. An item never waits and is never skipped.
    StepStatus {
        /// It has not begun.
        Waiting = "waiting",
        /// Its job, its jobs or its mission are under way.
        Queued = "queued",
        Succeeded = "succeeded",
        Failed = "failed",
        /// What it asked for did not come.
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

words! {
    /// What people are shown of a step: that it runs is seen from the lease of its job.
    ShownStatus {
        Waiting = "waiting",
        Queued = "queued",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

words! {
    /// How a step must end for the step that waits for it.
    Required {
        Succeeded = "succeeded",
        Failed = "failed",
        Skipped = "skipped",
        /// In any way.
        Ended = "ended",
    }
}

words! {
    /// Whether further steps of a mission become jobs; all rows of its counts say it.
    CountState {
        Running = "running",
        Paused = "paused",
        /// It has failed or was cancelled, and waits for what is under way.
        Stopping = "stopping",
    }
}

/// Every arrow between two statuses of a mission, with what takes it.
pub const MISSION_ARROWS: &[(MissionStatus, MissionStatus, &str)] = {
    use MissionStatus::*;
    &[
        (Approved, Running, "fn_mission_resume"),
        (Approved, Cancelling, "fn_mission_cancel"),
        (Approved, Succeeded, "steps that have nothing to do"),
        (Approved, Failed, "its time-out, or parameters that cannot be made"),
        (Running, Succeeded, "the end of its last step"),
        (Running, Failed, "the end of its last step"),
        (Running, Cancelling, "fn_mission_cancel"),
        (Cancelling, Cancelled, "the end of its last step"),
        (Cancelling, Compensating, "the end of its last step"),
        (Compensating, Cancelled, "the end of its last compensation"),
        (Approved, Compensating, "its time-out, where its template has on_failure compensate"),
        (Running, Compensating, "the end of its last step, where its template has on_failure compensate"),
        (Approved, Finishing, "the end of its last step, where its template has finally"),
        (Running, Finishing, "the end of its last step, where its template has finally"),
        (Cancelling, Finishing, "the end of its last step, where its template has finally"),
        (Compensating, Finishing, "the end of its last compensation, where its template has finally"),
        (Finishing, Succeeded, "the end of what is done in any case"),
        (Finishing, Failed, "the end of what is done in any case"),
        (Finishing, Cancelled, "the end of what is done in any case"),
        (Compensating, Failed, "a compensation that failed, or an effect of which nobody knows whether it happened"),
    ]
};

/// How an end is taken back, by a person: not an arrow that anything takes by itself.
pub const MISSION_REVIVED: (MissionStatus, MissionStatus, &str) =
    (MissionStatus::Failed, MissionStatus::Running, "fn_mission_retry");

/// Every arrow between two statuses of a step, as it is stored, with what takes it.
pub const STEP_ARROWS: &[(StepStatus, StepStatus, &str)] = {
    use StepStatus::*;
    &[
        (Waiting, Queued, "the end of a step before it"),
        (Waiting, Skipped, "the end of a step before it"),
        (Waiting, Succeeded, "an empty list to work through"),
        (Waiting, Failed, "parameters that cannot be made"),
        (Waiting, Cancelled, "the end of the mission"),
        (Queued, Succeeded, "the end of its job"),
        (Queued, Failed, "the end of its job"),
        (Queued, Cancelled, "the end of its job"),
    ]
};

impl MissionStatus {
    /// The status of a mission that is started.
    pub fn first(paused: bool) -> MissionStatus {
        if paused { MissionStatus::Approved } else { MissionStatus::Running }
    }

    pub fn is_end(self) -> bool {
        matches!(self, MissionStatus::Succeeded | MissionStatus::Failed | MissionStatus::Cancelled)
    }

    /// Whether nobody has cancelled it and it has not ended: it can be cancelled, and a pause of it can be ended.
    pub fn goes_on(self) -> bool {
        matches!(self, MissionStatus::Approved | MissionStatus::Running)
    }

    /// Whether its steps may still do something: the end of the last one changes its status.
    pub fn waits_for_steps(self) -> bool {
        self.goes_on() || self == MissionStatus::Cancelling
    }

    /// How a mission of this status ends when its last step has ended. `has_failed`: something has made it fail.
    pub fn end(self, has_failed: bool) -> MissionStatus {
        match self {
            MissionStatus::Cancelling | MissionStatus::Compensating => MissionStatus::Cancelled,
            _ if has_failed => MissionStatus::Failed,
            _ => MissionStatus::Succeeded,
        }
    }
}

impl StepStatus {
    pub fn is_end(self) -> bool {
        !matches!(self, StepStatus::Waiting | StepStatus::Queued)
    }

    /// What the end of a job means for its step, or for its item.
    pub fn of_job(state: JobState) -> StepStatus {
        match state {
            JobState::Succeeded => StepStatus::Succeeded,
            JobState::Cancelled => StepStatus::Cancelled,
            _ => StepStatus::Failed,
        }
    }

    /// What the end of a mission means for the step whose work it was.
    pub fn of_mission(end: MissionStatus) -> StepStatus {
        match end {
            MissionStatus::Succeeded => StepStatus::Succeeded,
            MissionStatus::Cancelled => StepStatus::Cancelled,
            _ => StepStatus::Failed,
        }
    }

    /// How a step ends whose items have all ended. `cancelled`: the items that did not succeed were cancelled.
    pub fn of_list(enough_succeeded: bool, cancelled: bool) -> StepStatus {
        match (enough_succeeded, cancelled) {
            (true, _) => StepStatus::Succeeded,
            (false, true) => StepStatus::Cancelled,
            (false, false) => StepStatus::Failed,
        }
    }

    /// Whether a step that ends so ends its mission, if that depends on it.
    pub fn is_failure(self) -> bool {
        matches!(self, StepStatus::Failed | StepStatus::Cancelled)
    }

    /// Whether a fork may keep the step as it ended. `fails_mission`: a failure of it ends the mission.
    pub fn ended_well(self, fails_mission: bool) -> bool {
        match self {
            StepStatus::Succeeded | StepStatus::Skipped => true,
            StepStatus::Failed => !fails_mission,
            StepStatus::Waiting | StepStatus::Queued | StepStatus::Cancelled => false,
        }
    }
}

impl Required {
    /// Whether a step that has ended so is what is asked for.
    pub fn is_met_by(self, status: StepStatus) -> bool {
        match self {
            Required::Succeeded => status == StepStatus::Succeeded,
            Required::Failed => status == StepStatus::Failed,
            Required::Skipped => status == StepStatus::Skipped,
            Required::Ended => status.is_end(),
        }
    }
}

impl CountState {
    /// The state of a mission that is started.
    pub fn first(paused: bool) -> CountState {
        if paused { CountState::Paused } else { CountState::Running }
    }
}
