-- Tables and functions of the orchestrator's database, written from the description of their behaviour.
-- A line that ends in `-- old` stands for a database of 2025 only, `-- new` for one of 2026, `-- checked` for one built from its migrations.

CREATE TYPE task_status AS ENUM ('Queued', 'In Progress', 'Complete', 'Failed', 'Cancelled');

CREATE TABLE users (id uuid PRIMARY KEY, credits numeric NOT NULL DEFAULT 0, settings jsonb NOT NULL DEFAULT '{}');
CREATE TABLE projects (id uuid PRIMARY KEY, user_id uuid NOT NULL REFERENCES users);
CREATE TABLE task_types (name text PRIMARY KEY, run_type text NOT NULL DEFAULT 'gpu', is_active boolean NOT NULL DEFAULT true);
CREATE TABLE workers (
  id text PRIMARY KEY,
  instance_type text NOT NULL DEFAULT 'external',
  status text NOT NULL DEFAULT 'active'
  CHECK (status IN ('active', 'inactive', 'terminated')) -- checked
  ,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_heartbeat timestamptz NOT NULL DEFAULT now(), -- old
  last_heartbeat timestamptz, -- new
  current_model text, -- new
  metadata jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE tasks (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  task_type text NOT NULL
  REFERENCES task_types -- new
  ,
  params jsonb NOT NULL DEFAULT '{}',
  status task_status NOT NULL DEFAULT 'Queued',
  dependant_on uuid, -- old
  dependant_on uuid[], -- new
  idempotency_key text, -- new
  worker_id text REFERENCES workers ON DELETE SET NULL,
  attempts integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz,
  generation_started_at timestamptz,
  generation_processed_at timestamptz,
  output_location text,
  error_message text,
  result_data jsonb NOT NULL DEFAULT '{}',
  project_id uuid REFERENCES projects,
  generation_created boolean NOT NULL DEFAULT false
);
CREATE TABLE system_logs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  timestamp timestamptz NOT NULL DEFAULT now(),
  source_type text NOT NULL CHECK (source_type IN ('orchestrator_gpu', 'orchestrator_api', 'worker')),
  source_id text NOT NULL,
  log_level text NOT NULL,
  message text NOT NULL,
  task_id uuid,
  worker_id text,
  cycle_number integer,
  metadata jsonb NOT NULL DEFAULT '{}'
);
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON tasks TO anon, authenticated;

CREATE FUNCTION all_dependencies_complete(p_dependant_on uuid[]) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT count(*) FILTER (WHERE t.status = 'Complete') = count(*)
  FROM unnest(coalesce(p_dependant_on, '{}')) AS wanted (id) LEFT JOIN tasks t USING (id)
$$;
CREATE FUNCTION get_task_run_type(p_task_type text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT run_type FROM task_types WHERE name = p_task_type), 'gpu')
$$;

CREATE SCHEMA internal;
GRANT USAGE ON SCHEMA internal TO service_role;
CREATE VIEW internal.owners AS
  SELECT u.id AS user_id, u.credits, coalesce((u.settings ->> 'allows_cloud')::boolean, true) AS allows_cloud,
    count(t.id) FILTER (WHERE t.status = 'Queued') AS queued_tasks,
    count(t.id) FILTER (WHERE t.status = 'In Progress' AND t.task_type NOT LIKE '%orchestrator%') AS in_progress_tasks
  FROM users u LEFT JOIN projects p ON p.user_id = u.id LEFT JOIN tasks t ON t.project_id = p.id GROUP BY u.id;
CREATE VIEW internal.queue AS
  SELECT t.id, t.task_type, t.created_at, t.project_id, get_task_run_type(t.task_type) AS run_type, o.user_id,
    CASE WHEN o.user_id IS NULL THEN 'unknown'
      WHEN o.credits <= 0 THEN 'no_credits'
      WHEN NOT o.allows_cloud THEN 'cloud_disabled'
      WHEN o.in_progress_tasks >= 5 THEN 'concurrency_limit'
      WHEN NOT all_dependencies_complete(ARRAY[t.dependant_on]) AND t.dependant_on IS NOT NULL THEN 'dependency_blocked' -- old
      WHEN NOT all_dependencies_complete(t.dependant_on) THEN 'dependency_blocked' -- new
    END AS held_by
  FROM tasks t LEFT JOIN projects p ON p.id = t.project_id LEFT JOIN internal.owners o ON o.user_id = p.user_id
  WHERE t.status = 'Queued';
CREATE VIEW internal.active AS
  SELECT t.*, get_task_run_type(t.task_type) AS run_type FROM tasks t WHERE t.status = 'In Progress';
GRANT SELECT ON ALL TABLES IN SCHEMA internal TO service_role;

CREATE FUNCTION count_eligible_tasks_service_role(p_include_active boolean DEFAULT false, p_run_type text DEFAULT NULL)
RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT ((SELECT count(*) FROM internal.queue WHERE held_by IS NULL AND run_type = coalesce(p_run_type, run_type))
    + (SELECT count(*) FROM internal.active WHERE p_include_active AND run_type = coalesce(p_run_type, run_type)))::integer
$$;
CREATE FUNCTION count_queued_tasks_breakdown_service_role(p_run_type text DEFAULT NULL)
RETURNS TABLE (claimable_now bigint, blocked_by_capacity bigint, blocked_by_deps bigint, blocked_by_settings bigint, total_queued bigint)
LANGUAGE sql STABLE AS $$
  SELECT count(*) FILTER (WHERE held_by IS NULL), count(*) FILTER (WHERE held_by = 'concurrency_limit'),
    count(*) FILTER (WHERE held_by = 'dependency_blocked'),
    count(*) FILTER (WHERE held_by IN ('no_credits', 'cloud_disabled', 'unknown')), count(*)
  FROM internal.queue WHERE run_type = coalesce(p_run_type, run_type)
$$;
CREATE FUNCTION per_user_capacity_stats_service_role()
RETURNS TABLE (user_id uuid, credits numeric, queued_tasks bigint, in_progress_tasks bigint, allows_cloud boolean, at_limit boolean)
LANGUAGE sql STABLE AS $$
  SELECT o.user_id, o.credits, o.queued_tasks, o.in_progress_tasks, o.allows_cloud, o.in_progress_tasks >= 5
  FROM internal.owners o ORDER BY 1
$$;
CREATE FUNCTION analyze_task_availability_service_role(p_include_active boolean DEFAULT false, p_run_type text DEFAULT NULL)
RETURNS jsonb LANGUAGE sql STABLE AS $$
  WITH queued AS (SELECT * FROM internal.queue WHERE run_type = coalesce(p_run_type, run_type)),
    active AS (SELECT count(*) AS n FROM internal.active WHERE p_include_active AND run_type = coalesce(p_run_type, run_type)),
    reasons AS (SELECT unnest(ARRAY['no_credits', 'cloud_disabled', 'concurrency_limit', 'dependency_blocked', 'unknown']) AS reason)
  SELECT jsonb_build_object(
    'totals', (SELECT jsonb_build_object('queued_only', count(*) FILTER (WHERE held_by IS NULL), 'active_only', (SELECT n FROM active),
      'queued_plus_active', count(*) FILTER (WHERE held_by IS NULL) + (SELECT n FROM active)) FROM queued),
    'rejection_reasons', (SELECT jsonb_object_agg(reason, (SELECT count(*) FROM queued WHERE held_by = reason)) FROM reasons),
    'user_stats', (SELECT coalesce(jsonb_agg(s), '[]') FROM per_user_capacity_stats_service_role() s))
$$;
CREATE FUNCTION func_get_tasks_by_status(status_filter text[])
RETURNS TABLE (id uuid, status text, attempts integer, worker_id text, created_at timestamptz, generation_started_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT t.id, t.status::text, t.attempts, t.worker_id, t.created_at, t.generation_started_at
  FROM tasks t WHERE t.status::text = ANY (status_filter) ORDER BY t.created_at, t.id
$$;

-- What follows changes rows: it is here so that a test can tell that nobody called it.
CREATE FUNCTION claim_next_task_service_role(p_worker_id text, p_include_active boolean DEFAULT false, p_run_type text DEFAULT NULL,
  p_same_model_only boolean DEFAULT false, p_max_task_wait_minutes integer DEFAULT 5) RETURNS SETOF tasks LANGUAGE sql AS $$
  UPDATE tasks SET status = 'In Progress', worker_id = p_worker_id, generation_started_at = now(), updated_at = now()
  WHERE id = (SELECT q.id FROM internal.queue q WHERE q.held_by IS NULL AND q.run_type = coalesce(p_run_type, q.run_type)
    ORDER BY q.created_at, q.id LIMIT 1) RETURNING *
$$;
CREATE FUNCTION func_claim_available_task(worker_id_param text) RETURNS SETOF tasks LANGUAGE sql AS $$ -- old
  SELECT * FROM claim_next_task_service_role(worker_id_param) -- old
$$; -- old
CREATE FUNCTION claim_next_task_user_pat(p_user_id uuid, p_include_active boolean DEFAULT false) RETURNS SETOF tasks LANGUAGE sql AS $$
  UPDATE tasks SET status = 'In Progress', generation_started_at = now(), updated_at = now()
  WHERE id = (SELECT q.id FROM internal.queue q WHERE q.held_by IS NULL AND q.user_id = p_user_id ORDER BY q.created_at LIMIT 1)
  RETURNING *
$$;
CREATE FUNCTION func_mark_task_complete(task_id_param uuid, result_data_param jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
  UPDATE tasks SET status = 'Complete', result_data = result_data_param, generation_processed_at = now() WHERE id = task_id_param
$$;
CREATE FUNCTION func_mark_task_failed(task_id_param uuid, error_message_param text) RETURNS void LANGUAGE sql AS $$
  UPDATE tasks SET attempts = attempts + 1, error_message = error_message_param, generation_processed_at = now(),
    status = CASE WHEN attempts + 1 >= 3 THEN 'Failed' ELSE 'Queued' END::task_status WHERE id = task_id_param
$$;
CREATE FUNCTION func_reset_orphaned_tasks(failed_worker_ids text[]) RETURNS integer LANGUAGE sql AS $$
  WITH reset AS (UPDATE tasks SET status = 'Queued', worker_id = NULL, generation_started_at = NULL, updated_at = now()
    WHERE status = 'In Progress' AND worker_id = ANY (failed_worker_ids) AND attempts < 3 AND task_type NOT LIKE '%orchestrator%'
    RETURNING 1) SELECT count(*)::integer FROM reset
$$;
CREATE FUNCTION func_update_worker_heartbeat(worker_id_param text, vram_total_mb_param integer DEFAULT NULL,
  vram_used_mb_param integer DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
  INSERT INTO workers (id, instance_type, status, last_heartbeat, metadata) VALUES (worker_id_param, 'external', 'active', now(),
    jsonb_build_object('vram_total_mb', vram_total_mb_param, 'vram_used_mb', vram_used_mb_param))
  ON CONFLICT (id) DO UPDATE SET status = 'active', last_heartbeat = now(), metadata = workers.metadata || excluded.metadata
$$;
CREATE FUNCTION func_insert_logs_batch(logs jsonb) RETURNS jsonb LANGUAGE sql AS $$
  WITH kept AS (INSERT INTO system_logs (source_type, source_id, log_level, message)
    SELECT l ->> 'source_type', l ->> 'source_id', l ->> 'log_level', l ->> 'message' FROM jsonb_array_elements(logs) l RETURNING 1)
  SELECT jsonb_build_object('success', true, 'inserted', count(*), 'errors', 0) FROM kept
$$;
CREATE FUNCTION func_worker_heartbeat_with_logs(worker_id_param text, vram_total_mb_param integer DEFAULT NULL,
  vram_used_mb_param integer DEFAULT NULL, logs_param jsonb DEFAULT '[]', current_task_id_param uuid DEFAULT NULL)
RETURNS jsonb LANGUAGE sql AS $$
  SELECT func_update_worker_heartbeat(worker_id_param, vram_total_mb_param, vram_used_mb_param);
  SELECT func_insert_logs_batch(logs_param) || jsonb_build_object('heartbeat_updated', true)
$$;
CREATE FUNCTION func_worker_heartbeat_with_logs(worker_id_param text, vram_total_mb_param integer DEFAULT NULL,
  vram_used_mb_param integer DEFAULT NULL, logs_param jsonb DEFAULT '[]', current_task_id_param uuid DEFAULT NULL,
  status_param text DEFAULT 'active') RETURNS jsonb LANGUAGE sql AS $$
  SELECT func_update_worker_heartbeat(worker_id_param, vram_total_mb_param, vram_used_mb_param);
  UPDATE workers SET status = status_param WHERE id = worker_id_param;
  SELECT func_insert_logs_batch(logs_param) || jsonb_build_object('heartbeat_updated', true)
$$;
CREATE FUNCTION cascade_task_failure(p_task_id uuid) RETURNS integer LANGUAGE sql AS $$
  WITH gone AS (UPDATE tasks SET status = 'Failed', error_message = 'a dependency failed'
    WHERE status = 'Queued'
    AND dependant_on = p_task_id RETURNING 1) -- old
    AND p_task_id = ANY (dependant_on) RETURNING 1) -- new
  SELECT count(*)::integer FROM gone
$$;
CREATE FUNCTION auto_fail_stale_tasks() RETURNS integer LANGUAGE sql AS $$
  WITH gone AS (UPDATE tasks SET status = 'Failed', error_message = 'stale'
    WHERE status = 'In Progress' AND coalesce(updated_at, generation_started_at) < now() - interval '24 hours' RETURNING 1)
  SELECT count(*)::integer FROM gone
$$;
CREATE FUNCTION func_cleanup_old_logs() RETURNS integer LANGUAGE sql AS $$
  WITH gone AS (DELETE FROM system_logs WHERE timestamp < now() - interval '48 hours' RETURNING 1) SELECT count(*)::integer FROM gone
$$;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
