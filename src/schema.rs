//! The table of contents of the schema: every SQL file, in the order in which it is loaded.

use pgrx::prelude::*;

extension_sql_file!("../sql/base/schema.sql", name = "base_schema", bootstrap);
extension_sql_file!(
    "../sql/base/config.sql",
    name = "base_config",
    requires = [
        base::clock::fn_clock_now,
        base::config::fn_config_accepts,
        base::config::fn_config_defaults,
        base::cache::fn_settings_changed,
    ],
);
extension_sql_file!("../sql/queue/queue.sql", name = "queue_queue", requires = ["base_config"]);
extension_sql_file!(
    "../sql/queue/failure.sql",
    name = "queue_failure",
    requires = ["queue_queue", queue::admin::policies::fn_error_class_defaults],
);
extension_sql_file!("../sql/queue/limits.sql", name = "queue_limits", requires = ["queue_failure"]);
extension_sql_file!("../sql/queue/domains.sql", name = "queue_domains", requires = ["queue_limits"]);
extension_sql_file!("../sql/queue/job.sql", name = "queue_job", requires = ["queue_domains"]);
extension_sql_file!("../sql/queue/dead_letter.sql", name = "queue_dead_letter", requires = ["queue_job"]);
extension_sql_file!("../sql/queue/heartbeat.sql", name = "queue_heartbeat", requires = ["queue_dead_letter"]);
extension_sql_file!("../sql/queue/job_queue.sql", name = "queue_job_queue", requires = ["queue_heartbeat"]);
extension_sql_file!(
    "../sql/queue/views.sql",
    name = "queue_views",
    requires = ["queue_job_queue", base::config::fn_config_get],
);
extension_sql_file!("../sql/events/event.sql", name = "events_event", requires = ["queue_views"]);
extension_sql_file!("../sql/events/log.sql", name = "events_log", requires = ["events_event"]);
extension_sql_file!(
    "../sql/queue/schedule.sql",
    name = "queue_schedule",
    requires = ["events_log", queue::admin::schedules::fn_schedule_upcoming],
);
extension_sql_file!("../sql/queue/handler.sql", name = "queue_handler", requires = ["queue_schedule"]);
extension_sql_file!(
    "../sql/engine/engine.sql",
    name = "engine_engine",
    requires = [
        "queue_handler",
        engine::chores::fn_engine_chore_defaults,
        engine::status::fn_engine_live,
        engine::status::fn_engine_state,
    ],
);
extension_sql_file!(
    "../sql/queue/limit_views.sql",
    name = "queue_limit_views",
    requires = [
        "engine_engine",
        queue::capacity::limits::fn_limit_set,
        queue::capacity::limits::fn_limit_counted,
        queue::capacity::limits::fn_limit_gauge,
    ],
);
extension_sql_file!("../sql/queue/insight.sql", name = "queue_insight", requires = ["queue_limit_views"]);
extension_sql_file!("../sql/flow/steps.sql", name = "flow_steps", requires = ["queue_insight"]);
extension_sql_file!("../sql/flow/mission.sql", name = "flow_mission", requires = ["flow_steps"]);
extension_sql_file!("../sql/flow/effect.sql", name = "flow_effect", requires = ["flow_mission"]);
extension_sql_file!(
    "../sql/governance/policy.sql",
    name = "governance_policy",
    requires = ["flow_effect", governance::policies::fn_policy_accepts],
);
extension_sql_file!("../sql/governance/proposal.sql", name = "governance_proposal", requires = ["governance_policy"]);
extension_sql_file!("../sql/base/access.sql", name = "base_access", requires = ["governance_proposal"]);
extension_sql_file!("../sql/functions.sql", name = "functions", finalize);
