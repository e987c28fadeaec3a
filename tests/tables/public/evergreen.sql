-- dialect: postgres
CREATE SCHEMA action_trigger;
CREATE TABLE action_trigger.hook (key text PRIMARY KEY, core_type text NOT NULL, description text, passive boolean NOT NULL DEFAULT false);
INSERT INTO action_trigger.hook VALUES ('checkout.due', 'circ', 'Checked out item is due', true), ('hold.available', 'ahr', 'Hold is available for pickup', false), ('lost.auto', 'circ', 'Item set to lost', true);
CREATE TABLE action_trigger.event_definition (id serial PRIMARY KEY, active boolean NOT NULL DEFAULT true, owner integer NOT NULL, name text NOT NULL, hook text NOT NULL REFERENCES action_trigger.hook (key), validator text NOT NULL, reactor text NOT NULL, delay interval NOT NULL DEFAULT '5 minutes', delay_field text, template text, UNIQUE (owner, name));
INSERT INTO action_trigger.event_definition (owner, name, hook, validator, reactor, delay, delay_field, template) VALUES
 (1, '3 Day Courtesy Notice', 'checkout.due', 'CircIsOpen', 'SendEmail', '-3 days', 'due_date', 'Dear [% user.first_given_name %]'),
 (1, '7 Day Overdue', 'checkout.due', 'CircIsOverdue', 'SendEmail', '7 days', 'due_date', 'Dear [% user.first_given_name %]'),
 (1, 'Hold Ready for Pickup', 'hold.available', 'HoldIsAvailable', 'SendEmail', '30 minutes', 'shelf_time', 'Dear [% user.first_given_name %]');
CREATE TABLE action_trigger.event_output (id bigserial PRIMARY KEY, create_time timestamptz NOT NULL DEFAULT now(), is_error boolean NOT NULL DEFAULT false, data text NOT NULL);
INSERT INTO action_trigger.event_output (create_time, is_error, data) SELECT timestamptz '2026-10-02 04:00+00' + g * interval '9 hours', g % 9 = 0, CASE WHEN g % 9 = 0 THEN 'Error: template error - undef error - user.email' ELSE 'To: patron' || g || '@library.example' END FROM generate_series(1, 130) g;

CREATE TABLE action_trigger.event (
  id bigserial PRIMARY KEY,
  target bigint NOT NULL,
  event_def integer REFERENCES action_trigger.event_definition (id) DEFERRABLE INITIALLY DEFERRED,
  add_time timestamp with time zone NOT NULL DEFAULT now(),
  run_time timestamp with time zone NOT NULL,
  start_time timestamp with time zone,
  update_time timestamp with time zone,
  complete_time timestamp with time zone,
  update_process integer,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'invalid', 'found', 'collecting', 'collected', 'validating', 'valid', 'reacting', 'reacted', 'cleaning', 'complete', 'error')),
  user_data text,
  template_output bigint REFERENCES action_trigger.event_output (id),
  error_output bigint REFERENCES action_trigger.event_output (id),
  async_output bigint REFERENCES action_trigger.event_output (id)
);
CREATE INDEX atev_target_def_idx ON action_trigger.event (target, event_def);
CREATE INDEX atev_def_state ON action_trigger.event (event_def, state);
CREATE INDEX atev_template_output ON action_trigger.event (template_output);

INSERT INTO action_trigger.event (target, event_def, add_time, run_time, start_time, update_time, complete_time, update_process, state, user_data, template_output, error_output, async_output)
SELECT 41000 + i * 3, 1 + i % 3, c,
  CASE WHEN st = 'pending' AND i > 172 THEN timestamptz '2026-11-24 12:30+00' + (i - 172) * interval '150 minutes' ELSE c + interval '30 minutes' END,
  CASE WHEN st <> 'pending' THEN r END,
  CASE WHEN st <> 'pending' THEN r + (2 + i % 20) * interval '1 second' END,
  CASE WHEN st IN ('complete', 'invalid') THEN r + (2 + i % 20) * interval '1 second' END,
  CASE WHEN st <> 'pending' THEN 11000 + i % 97 END,
  st, CASE WHEN i % 22 = 0 THEN '{"pickup":"main"}' END,
  CASE WHEN st = 'complete' THEN 9 * (i % 14) + 1 + i % 8 END,
  CASE WHEN st = 'error' THEN 9 * (1 + i % 14) END, NULL
FROM (SELECT *, CASE WHEN st IN ('reacting', 'validating') THEN timestamptz '2026-11-24 11:59:31+00' ELSE c + interval '32 minutes' END AS r
  FROM (SELECT i,
    CASE WHEN i <= 158 THEN timestamptz '2026-10-01 05:10:09.3+00' + i * interval '8 hours 8 minutes' + (i * 31 % 43) * interval '67 seconds' ELSE timestamptz '2026-11-24 11:14:03.8+00' + (i - 158) * interval '80 seconds' END AS c,
    CASE WHEN i <= 158 THEN CASE WHEN i % 19 = 6 THEN 'error' WHEN i % 12 = 5 THEN 'invalid' ELSE 'complete' END WHEN i <= 161 THEN 'reacting' WHEN i = 162 THEN 'validating' ELSE 'pending' END AS st
    FROM generate_series(1, 188) i) a) b ORDER BY i;
