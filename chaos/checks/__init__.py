"""Checks: pure functions from a history to a finding, one idea a module. `base` says what a check is.

Importing this package registers every check, so that an expectation stored in a history finds the function it names.
"""

from chaos.checks.actors import actor_gone, actor_process_kept, actor_started_anew
from chaos.checks.attempt_unchanged import attempt_unchanged
from chaos.checks.attempts import attempts_cleared, attempts_opened
from chaos.checks.base import Check, check
from chaos.checks.connection import connection_broken, connection_kept, connection_stalled
from chaos.checks.deletion_waited import deletion_waited
from chaos.checks.driver import driver_gone, job_failed
from chaos.checks.environment import environment_is
from chaos.checks.executions import one_submission
from chaos.checks.fault_lasted import fault_lasted
from chaos.checks.functional_twice import functional_twice
from chaos.checks.head_crash_loops import head_crash_loops
from chaos.checks.head_kept import head_kept
from chaos.checks.head_recoveries import head_recoveries
from chaos.checks.head_recovery import head_recovery
from chaos.checks.head_recreated import head_recreated
from chaos.checks.metadata import job_remembered, metadata_kept
from chaos.checks.one_head import one_head
from chaos.checks.one_writer import one_writer
from chaos.checks.operator_replaced import job_kept, pods_kept
from chaos.checks.outage import outage_ended
from chaos.checks.owned import owned_gone, owned_kept
from chaos.checks.rayjob_status import operator_killed_in_window, status_moved_on
from chaos.checks.redis_access import redis_answers, redis_out_of_reach
from chaos.checks.redis_failover import redis_failed_over
from chaos.checks.redis_keys import (
    cleanup_failed,
    cluster_gone,
    gone_after_cleanup,
    keys_left,
    keys_removed,
    keys_untouched,
)
from chaos.checks.resumed import resumed, shut_down_after
from chaos.checks.scale_up import scale_up_granted
from chaos.checks.service_outage import outage_shorter, start_up_waited_for
from chaos.checks.stopped_later import gone_untold, stopped_later
from chaos.checks.submission_id import id_accepted_again, id_refused, written_once
from chaos.checks.submitter import one_submitter_job, same_job_reused
from chaos.checks.submitter_retried import submitter_retried
from chaos.checks.timeout import head_exited, workers_outlived_outage, workers_timed_out
from chaos.checks.two_statuses import statuses_differ, success_converged
from chaos.checks.work import task_retried, work_resumed
from chaos.checks.workers_lost import workers_lost
from chaos.checks.workers_replaced import workers_replaced
from chaos.checks.workers_survived import workers_survived

__all__ = [
    "Check",
    "actor_gone",
    "actor_process_kept",
    "actor_started_anew",
    "attempt_unchanged",
    "attempts_cleared",
    "attempts_opened",
    "check",
    "cleanup_failed",
    "cluster_gone",
    "connection_broken",
    "connection_kept",
    "connection_stalled",
    "deletion_waited",
    "driver_gone",
    "environment_is",
    "fault_lasted",
    "functional_twice",
    "gone_after_cleanup",
    "gone_untold",
    "head_crash_loops",
    "head_exited",
    "head_kept",
    "head_recoveries",
    "head_recovery",
    "head_recreated",
    "id_accepted_again",
    "id_refused",
    "job_failed",
    "job_kept",
    "job_remembered",
    "keys_left",
    "keys_removed",
    "keys_untouched",
    "metadata_kept",
    "one_head",
    "one_submission",
    "one_submitter_job",
    "one_writer",
    "operator_killed_in_window",
    "outage_ended",
    "outage_shorter",
    "owned_gone",
    "owned_kept",
    "pods_kept",
    "redis_answers",
    "redis_failed_over",
    "redis_out_of_reach",
    "resumed",
    "same_job_reused",
    "scale_up_granted",
    "shut_down_after",
    "start_up_waited_for",
    "status_moved_on",
    "statuses_differ",
    "stopped_later",
    "submitter_retried",
    "success_converged",
    "task_retried",
    "work_resumed",
    "workers_lost",
    "workers_outlived_outage",
    "workers_replaced",
    "workers_survived",
    "workers_timed_out",
    "written_once",
]
