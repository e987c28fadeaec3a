//! Claims on a server: many passes at once, lost connections, restarts and kills.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{fs, thread};

use crate::testenv::*;
use test_support::cluster::{Cluster, Database, cluster, pgbouncer, pgbouncer_with};

const RECORDS: usize = 600;
/// Which of a server's sessions are those of passes on the database at hand.
const OF_PASSES: &str = "application_name = 'backlog' AND datname = current_database()";

/// The usual table with new records, and passes on it from as many machines as there are
/// directories.
struct Machines {
    database: Database,
    machines: Vec<TestEnv>,
    /// Where handlers note what they do.
    notes: TestEnv,
}

impl Machines {
    fn new(cluster: &Cluster, records: usize) -> Self {
        let database = cluster.database();
        let machines: Vec<_> = (0..4).map(|_| TestEnv::on(&database)).collect();
        machines[0].run("init").success();
        database.sql(&format!(
            "INSERT INTO backlog (date_inserted) SELECT now() - n * interval '1 s' \
             FROM generate_series(1, {records}) n; ANALYZE backlog"
        ));
        Self { database, machines, notes: TestEnv::empty() }
    }

    /// The function of the server remains as `FUNCTION_usual`.
    fn replace_lock_function(&self, function: &str, body: &str) {
        self.database.sql(&format!(
            "ALTER FUNCTION pg_catalog.{function}(bigint) RENAME TO {function}_usual;
             CREATE FUNCTION pg_catalog.{function}(bigint) RETURNS boolean LANGUAGE sql AS $${body}$$"
        ));
    }

    fn restore_lock_function(&self, function: &str) {
        self.database.sql(&format!(
            "DROP FUNCTION pg_catalog.{function}(bigint);
             ALTER FUNCTION pg_catalog.{function}_usual(bigint) RENAME TO {function}"
        ));
    }

    /// A handler that notes each record, and that another one was at it at the same time.
    fn handler(&self) -> String {
        let dir = self.notes.path("").display().to_string();
        self.notes.script(
            "handler",
            &format!(
                "exec 9>{dir}/lock-$BACKLOG_ID\nflock -n 9 || echo $BACKLOG_ID >>{dir}/overlap\n\
                 echo $BACKLOG_ID >>{dir}/handled\n"
            ),
        )
    }

    fn spawn(&self, machine: usize, handler: &str) -> Child {
        let args = format!("process --ndays 1 --jobs 2 -- {handler}");
        piped(&mut self.machines[machine].command(&args))
    }

    fn finished(&self, child: Child) -> Ran {
        child.ran()
    }

    fn handled(&self) -> usize {
        fs::read_to_string(self.notes.path("handled")).unwrap_or_default().lines().count()
    }

    /// Every record was handled, no two handlers were at one at the same time, and so many runs
    /// were one too many.
    #[track_caller]
    fn repeats(&self) -> usize {
        let overlaps = fs::read_to_string(self.notes.path("overlap")).unwrap_or_default();
        assert_eq!(overlaps, "", "handled by two at the same time");
        let counts = "SELECT status, count(*) FROM backlog GROUP BY 1";
        let records = self.database.query("SELECT count(*) FROM backlog");
        assert_eq!(self.database.query(counts), format!("SUCCESS|{records}"));
        let text = fs::read_to_string(self.notes.path("handled")).unwrap();
        let mut ids: Vec<_> = text.lines().collect();
        let runs = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len().to_string(), records, "a record was not handled");
        runs - ids.len()
    }

    /// The server's processes that serve the passes, each on a line.
    fn sessions(&self) -> String {
        self.database.query(&format!("SELECT pid FROM pg_stat_activity WHERE {OF_PASSES}"))
    }

    /// Number of sessions of all passes.
    fn session_count(&self) -> usize {
        self.sessions().lines().count()
    }

    /// Tells all sessions of the passes to end, without waiting for that, and returns their number.
    fn terminate_all(&self) -> usize {
        let told = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity";
        self.database.query(&format!("{told} WHERE {OF_PASSES}")).parse().unwrap()
    }

    /// Ends one of the sessions that passes have, chosen by the number.
    fn terminate(&self, number: usize) {
        self.database.query(&format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM (SELECT pid FROM pg_stat_activity \
             WHERE {OF_PASSES} ORDER BY md5(pid::text || '{number}') LIMIT 1) one"
        ));
    }
}

fn piped(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn four_passes_at_once_handle_each_record_once() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, RECORDS);
    let handler = machines.handler();
    let passes: Vec<_> = (0..4).map(|machine| machines.spawn(machine, &handler)).collect();
    for pass in passes {
        machines.finished(pass).silent();
    }
    assert_eq!(machines.repeats(), 0);
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(machines.database.query(locks), "0");
}

#[test]
fn sessions_that_are_terminated_cost_no_record_and_no_repeat() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, 2 * RECORDS);
    let handler = machines.handler();
    let mut passes: Vec<_> = (0..4).map(|machine| machines.spawn(machine, &handler)).collect();
    let mut terminated = 0;
    let mut has_ended = || passes.iter_mut().any(|pass| pass.try_wait().unwrap().is_some());
    // A pass that loses both of its sessions at the same time is another matter, however slow the
    // machine is: each has them all again and has gone on before the next one is terminated.
    loop {
        wait_until("all sessions are there", || machines.session_count() == 8 || has_ended());
        let before = machines.handled();
        wait_until("some are handled", || machines.handled() > before + 40 || has_ended());
        if has_ended() {
            break;
        }
        machines.terminate(terminated);
        terminated += 1;
    }
    assert!(terminated > 2, "only {terminated} were terminated");
    for pass in passes {
        machines.finished(pass).silent();
    }
    assert_eq!(machines.repeats(), 0, "after {terminated} terminations");
}

#[test]
fn a_server_that_is_started_again_in_the_middle_costs_no_record_and_no_repeat() {
    for crashes in [false, true] {
        let Some(cluster) = Cluster::private(&["fsync=on"]) else { return };
        let machines = Machines::new(&cluster, RECORDS);
        let handler = machines.handler();
        let passes: Vec<_> = (0..4).map(|machine| machines.spawn(machine, &handler)).collect();
        wait_until("some are handled", || machines.handled() > RECORDS / 3);
        match crashes {
            true => cluster.crash(),
            false => cluster.restart(),
        }
        for pass in passes {
            machines.finished(pass).silent();
        }
        assert_eq!(machines.repeats(), 0, "crash: {crashes}");
    }
}

/// Commits stay in the memory of the server until something writes them to the disk.
const LAZY: [&str; 3] = ["fsync=on", "wal_writer_delay=10s", "wal_buffers=16MB"];

#[test]
fn what_a_pass_has_done_survives_a_crash_of_the_server_right_behind_it() {
    let Some(cluster) = Cluster::private(&LAZY) else { return };
    let machines = Machines::new(&cluster, 30);
    let [first, second] = [&machines.machines[0], &machines.machines[1]];
    let handler = machines.handler();
    first.run(&format!("process --ndays 1 --max-records 20 -- {handler}")).silent();
    cluster.crash();
    let done = "SELECT count(*) FROM backlog WHERE status = 'SUCCESS'";
    assert_eq!(machines.database.query(done), "20");
    // A claim that is free says that its record's outcome is there to stay, while others are in hand.
    let pausing = first.pausing();
    let script = format!("[ $BACKLOG_ID -lt 30 ] || {{ {}; }}", pausing.script);
    let args = format!("process --ndays 1 --order oldest --jobs 2 -- {}", sh(&script));
    let pass = first.spawn(&args);
    pausing.wait_for_begin();
    wait_until("all others are done", || machines.database.query(done) == "29");
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    wait_until("their claims are free", || machines.database.query(locks) == "2");
    cluster.crash();
    assert_eq!(machines.database.query(done), "29");
    pausing.let_go();
    machines.finished(pass).silent();
    second.run(&format!("process --ndays 1 -- {handler}")).silent();
    assert_eq!(machines.database.query(done), "30");
    assert_eq!(machines.handled(), 20, "a record was tried again");
}

/// A co-process that notes each record in a file.
pub const EVERY_THIRD_FAILS: &str = "import sys, json\n\
    next(sys.stdin)\n\
    handled = open(sys.argv[1], 'a')\n\
    for line in sys.stdin:\n    \
        number = json.loads(line)['id']\n    \
        print(number, file=handled, flush=True)\n    \
        outcome = 'success' if number % 3 else 'failure'\n    \
        print(json.dumps({'id': number, 'outcome': outcome}), flush=True)\n";

/// A pass with a co-process over 9,000 records.
fn streaming(cluster: &Cluster) -> (Machines, Child) {
    let machines = Machines::new(cluster, 9_000);
    let notes = machines.notes.path("handled").display().to_string();
    let args =
        format!("process --fibonacci --stream -- python3 -c {} {notes}", quoted(EVERY_THIRD_FAILS));
    let pass = piped(&mut machines.machines[0].command(&args));
    (machines, pass)
}

#[test]
fn outcomes_that_a_crash_of_the_server_takes_away_are_written_again() {
    // Each flush waits for so many microseconds, in which a crash finds much to take away.
    let settings = [&LAZY[..], &["commit_delay=30000", "commit_siblings=0"]].concat();
    let Some(cluster) = Cluster::private(&settings) else { return };
    let (machines, pass) = streaming(&cluster);
    for crashes in 1..=2 {
        wait_until("more are handled", || machines.handled() > crashes * 2_500);
        cluster.crash();
    }
    let ran = machines.finished(pass);
    assert_lacks(&ran.stderr, "changed");
    assert_eq!(ran.exit, Some(0), "{}", ran.stderr);
    let counts = "SELECT status, failures, count(*) FROM backlog GROUP BY 1, 2 ORDER BY 1";
    assert_eq!(machines.database.query(counts), "ERROR|1|3000\nSUCCESS|0|6000");
    assert_eq!(machines.handled(), 9_000);
}

#[test]
fn what_a_crash_may_have_taken_away_is_named_if_the_server_stays_away() {
    let settings = [&LAZY[..], &["commit_delay=100000", "commit_siblings=0"]].concat();
    let Some(cluster) = Cluster::private(&settings) else { return };
    let (machines, pass) = streaming(&cluster);
    wait_until("many are handled", || machines.handled() > 1_000);
    cluster.stop();
    assert!(signal("-TERM", pass.id()));
    let ran = machines.finished(pass);
    assert_eq!(ran.exit, Some(75), "{}", ran.stderr);
    assert_contains(&ran.stderr, "if the server has crashed, the table may not show the outcomes");
}

#[test]
fn an_idle_pass_ends_if_the_server_stays_away_for_a_minute() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let machines = Machines::new(&cluster, 3);
    let args = format!("process --ndays 1 --rate 12/m -- {}", machines.handler());
    let mut pass = piped(&mut machines.machines[0].command(&args));
    wait_until("one is handled", || machines.handled() > 0);
    cluster.stop();
    wait_until("the pass ends", || pass.try_wait().unwrap().is_some());
    let ran = machines.finished(pass);
    // If the claim comes before the heartbeat that notices the loss, the claim itself waits.
    let says = ["could not claim records for a minute", "lost the connection to"];
    assert!(says.iter().any(|says| ran.stderr.contains(says)), "{}", ran.stderr);
    assert_eq!(ran.exit, Some(75));
}

#[test]
fn killed_passes_lose_nothing_and_repeat_only_what_was_in_hand() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, RECORDS);
    let handler = machines.handler();
    let mut kills = 0;
    let mut passes: Vec<_> = (0..4).map(|machine| machines.spawn(machine, &handler)).collect();
    while machines.handled() < RECORDS * 3 / 4 {
        let before = machines.handled();
        wait_until("some more are handled", || machines.handled() > before + 20);
        let machine = kills % 4;
        passes[machine].kill().unwrap();
        passes[machine].wait().unwrap();
        passes[machine] = machines.spawn(machine, &handler);
        kills += 1;
    }
    for pass in passes {
        machines.finished(pass).silent();
    }
    // What was just being tried when its pass was killed may have been in the hands of others'
    // lists already.
    machines.machines[0].run(&format!("process --ndays 1 --drain -- {handler}")).silent();
    let repeats = machines.repeats();
    assert!(repeats <= kills * 2, "{repeats} repeats after {kills} kills");
}

#[test]
fn an_outcome_is_settled_although_the_connections_were_lost_meanwhile() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let machines = Machines::new(&cluster, 1);
    let env = &machines.machines[0];
    let pausing = env.pausing();
    let pass = env.spawn_logging(&format!("process --ndays 1 -v -- {}", sh(&pausing.script)));
    pausing.wait_for_begin();
    cluster.stop();
    pausing.let_go();
    env.logs("lost a connection to postgres://");
    cluster.start();
    machines.finished(pass).exits(0);
    assert_eq!(machines.database.query("SELECT status FROM backlog"), "SUCCESS");
}

#[test]
fn a_record_that_another_pass_got_meanwhile_is_reported_and_left_to_it() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, 1);
    let [first, second] = [&machines.machines[0], &machines.machines[1]];
    let (slow, other) = (first.pausing(), second.pausing());
    let args = "process --ndays 1 --";
    let pass = first.spawn(&format!("{args} {}", sh(&slow.script)));
    slow.wait_for_begin();
    // It cannot take its claim back while it is stopped.
    let signal = |name: &str| {
        assert!(signal(name, pass.id()));
    };
    signal("-STOP");
    wait_until("its sessions are gone", || machines.terminate_all() == 0);
    let successor = second.spawn(&format!("{args} {}", sh(&other.script)));
    other.wait_for_begin();
    signal("-CONT");
    // It ends its handler, which would wait for ever.
    machines.finished(pass).fails(1, &["claim lost: record 1", "the handler was ended"]);
    assert_eq!(machines.database.query("SELECT status FROM backlog"), "ERROR");
    other.let_go();
    machines.finished(successor).silent();
    assert_eq!(machines.database.query("SELECT status FROM backlog"), "SUCCESS");
}

#[test]
fn claims_stand_although_both_sessions_or_the_server_were_lost_while_nothing_was_done() {
    let Some(cluster) = Cluster::private(&["fsync=on"]) else { return };
    for crashes in [false, true] {
        let machines = Machines::new(&cluster, 1);
        let env = &machines.machines[0];
        let pausing = env.pausing();
        let pass = env.spawn(&format!("process --ndays 1 -- {}", sh(&pausing.script)));
        pausing.wait_for_begin();
        let before = machines.sessions();
        if crashes {
            // One process of the server that is killed takes all others with it.
            assert!(signal("-KILL", before.lines().next().unwrap()));
        } else {
            machines.terminate_all();
            wait_until("its sessions are back", || {
                let now = machines.sessions();
                now.lines().count() == 2 && now.lines().all(|pid| !before.contains(pid))
            });
            let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
            wait_until("its claim is back", || machines.database.query(locks) == "2");
        }
        let handler = machines.handler();
        // While the server recovers there is nothing to connect to.
        wait_until("another pass has come and gone", || {
            let ran = machines.machines[1].run(&format!("process --ndays 1 -- {handler}"));
            assert!([Some(0), Some(75)].contains(&ran.exit), "{ran:?}");
            ran.exit == Some(0)
        });
        assert_eq!(machines.handled(), 0, "crashes: {crashes}");
        pausing.let_go();
        machines.finished(pass).silent();
        assert_eq!(machines.database.query("SELECT status FROM backlog"), "SUCCESS");
    }
}

#[test]
fn behind_a_pooler_for_transactions_claims_hold_all_the_same() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, 400);
    let Some(pool) = pgbouncer(cluster) else { return };
    let pooled = pool.database(&machines.database);
    let handler = machines.handler();
    let spawn = |machine: usize| {
        let url = if machine < 3 { pooled.url() } else { machines.database.url() };
        let args = format!("process --ndays 1 --jobs 2 -- {handler}");
        piped(machines.machines[machine].command(&args).env("BACKLOG_DB", url))
    };
    let passes: Vec<_> = (0..4).map(spawn).collect();
    for pass in passes {
        machines.finished(pass).silent();
    }
    assert_eq!(machines.repeats(), 0);
    // A claim through the pool is one for a pass beside it, and the other way round.
    for (one, other) in [(&pooled, &machines.database), (&machines.database, &pooled)] {
        machines.database.sql("UPDATE backlog SET status = 'NEW' WHERE id = 7");
        let env = &machines.machines[0];
        let pausing = env.pausing();
        let args = format!("process --ndays 1 -vv -- {}", sh(&pausing.script));
        let pass = piped(env.command(&args).env("BACKLOG_DB", one.url()));
        pausing.wait_for_begin();
        let args = format!("process --ndays 1 -vv -- {handler}");
        let beside = machines.machines[1].command(&args).env("BACKLOG_DB", other.url()).output();
        let beside = ran(&beside.unwrap());
        assert_contains(&beside.stderr, "record 7 is claimed by another pass");
        pausing.let_go();
        let ran = machines.finished(pass);
        assert_eq!(ran.stderr.contains("is a pooler"), one.url() == pooled.url(), "{ran:?}");
        let _ = fs::remove_file(env.path("began"));
        let _ = fs::remove_file(env.path("go"));
    }
}

#[test]
fn a_pooler_for_sessions_is_a_server_and_one_for_statements_is_refused() {
    let Some(cluster) = cluster() else { return };
    for mode in ["session", "statement"] {
        let machines = Machines::new(cluster, 3);
        let Some(pool) = pgbouncer_with(cluster, &[&format!("pool_mode={mode}")]) else { return };
        let url = pool.database(&machines.database).url();
        let args = format!("process --ndays 1 -vv -- {}", machines.handler());
        let mut command = machines.machines[0].command(&args);
        let ran = command.env("BACKLOG_DB", url).ran();
        if mode == "session" {
            assert_lacks(&ran.stderr, "is a pooler");
            assert_eq!((ran.exit, machines.repeats()), (Some(0), 0), "{ran:?}");
        } else {
            ran.fails(1, &["postgres://", "not allowed in statement pooling mode"]);
            assert_eq!(machines.handled(), 0);
        }
    }
}

#[test]
fn what_a_pooler_refuses_for_good_is_told_from_what_passes() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    let machines = Machines::new(&cluster, 1);
    let Some(pool) = pgbouncer_with(&cluster, &["query_wait_timeout=1"]) else { return };
    let url = pool.database(&machines.database).url();
    let handler = machines.handler();
    let run =
        |url: &str, args: &str| machines.machines[0].command(args).env("BACKLOG_DB", url).ran();
    let pass = format!("process --ndays 1 -- {handler}");
    for args in ["list", &pass] {
        let refused = run(&format!("{url}&options=-c%20search_path%3Dpublic"), args);
        refused.fails(1, &["could not connect to postgres://", "unsupported startup parameter"]);
    }
    // All connections of the pool are in use.
    let mut others: Vec<_> = (0..4).map(|_| pool.database(&machines.database).client()).collect();
    others.iter_mut().for_each(|other| other.batch_execute("BEGIN").unwrap());
    for args in ["list", &pass] {
        run(&url, args).fails(75, &["postgres://", "query_wait_timeout", "try later"]);
    }
    drop(others);
    cluster.stop();
    for _ in 0..2 {
        for args in ["list", &pass] {
            run(&url, args).fails(75, &["postgres://", "try later"]);
        }
    }
    assert_eq!(machines.handled(), 0);
}

#[test]
fn an_outcome_is_settled_although_the_server_behind_a_pooler_was_away_meanwhile() {
    for crashes in [false, true] {
        let Some(cluster) = Cluster::private(&[]) else { return };
        let machines = Machines::new(&cluster, 1);
        let Some(pool) = pgbouncer(&cluster) else { return };
        let url = pool.database(&machines.database).url();
        let env = &machines.machines[0];
        let pausing = env.pausing();
        let args = format!("process --ndays 1 -v -- {}", sh(&pausing.script));
        let pass = piped(env.command(&args).env("BACKLOG_DB", url));
        pausing.wait_for_begin();
        match crashes {
            true => cluster.crash(),
            false => cluster.restart(),
        }
        pausing.let_go();
        machines.finished(pass).exits(0);
        assert_eq!(machines.database.query("SELECT status FROM backlog"), "SUCCESS");
    }
}

/// Has all sessions only read from now on, or write again.
pub fn set_read_only(database: &Database, is_read_only: bool) {
    let mut client = database.client();
    client.batch_execute("SET default_transaction_read_only = off").unwrap();
    client
        .batch_execute(&format!("ALTER SYSTEM SET default_transaction_read_only = {is_read_only}"))
        .unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
}

#[test]
fn outcomes_outlive_a_server_that_only_reads_for_a_while() {
    let Some(cluster) = Cluster::private(&[]) else { return };
    for is_moved in [false, true] {
        let machines = Machines::new(&cluster, 3);
        let env = &machines.machines[0];
        let name = machines.database.query("SELECT current_database()");
        let pausing = env.pausing();
        let script = format!("echo $BACKLOG_ID >>seen; {}", pausing.script);
        let pass = env.spawn_logging(&format!("process --ndays 1 -v --jobs 2 -- {}", sh(&script)));
        pausing.wait_for_begin();
        set_read_only(&machines.database, true);
        pausing.let_go();
        env.logs("in a read-only transaction; trying again");
        thread::sleep(Duration::from_secs(1));
        match is_moved {
            // Only sessions that begin now can write, as on another server.
            true => {
                let set = "SET default_transaction_read_only = off";
                let mut client = machines.database.client();
                client.batch_execute(set).unwrap();
                client.batch_execute(&format!("ALTER DATABASE {name} {set}")).unwrap();
            }
            false => set_read_only(&machines.database, false),
        }
        machines.finished(pass).success();
        assert_eq!(machines.database.query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
        let seen = env.read("seen");
        assert_eq!(seen.lines().count(), 3, "moved: {is_moved}: {seen}");
        set_read_only(&machines.database, false);
    }
    // At the beginning of a pass, and for a command of a person, that is an error.
    let machines = Machines::new(&cluster, 3);
    set_read_only(&machines.database, true);
    let handler = machines.handler();
    for args in [&format!("process --ndays 1 -- {handler}"), "archive 1"] {
        let says = ["in a read-only transaction; this server is a standby: name the primary"];
        machines.machines[0].run(args).fails(1, &says);
    }
    assert_eq!(machines.handled(), 0);
}

#[test]
fn outcomes_outlive_a_failover_to_a_standby() {
    for parameter in ["", "&target_session_attrs=read-write"] {
        let Some(primary) = Cluster::private(&[]) else { return };
        let machines = Machines::new(&primary, 3);
        let Some(standby) = primary.standby() else { return };
        let name = machines.database.query("SELECT current_database()");
        let other = standby.existing(&name);
        let pending = "SELECT count(*) FROM backlog WHERE status <> 'SUCCESS'";
        let env = &machines.machines[0];
        let pausing = env.pausing();
        // Record 1 is done before the failover.
        let script =
            format!("echo $BACKLOG_ID >>seen; [ $BACKLOG_ID = 1 ] || {{ {}; }}", pausing.script);
        let args = format!("process --ndays 1 -v --jobs 2 -- {}", sh(&script));
        let hosts =
            [&primary, &standby].map(|server| server.sockets().display().to_string()).join(",");
        let url = format!("postgres://postgres@/{name}?host={hosts}{parameter}");
        let pass = piped(env.command(&args).env("BACKLOG_DB", url));
        pausing.wait_for_begin();
        wait_until("the standby has the first outcome", || other.query(pending) == "2");
        primary.stop();
        pausing.let_go();
        thread::sleep(Duration::from_secs(1));
        standby.promote();
        machines.finished(pass).success();
        assert_eq!(other.query(pending), "0");
        let seen = env.read("seen");
        assert_eq!(seen.lines().count(), 3, "{parameter}: {seen}");
    }
}

/// The URL of a database on whose way one connection is cut after this number of messages of clients, each second time
/// with the server's last words, and a function that says whether that has happened. All later connections are left alone.
pub fn cut_once(
    cluster: &Cluster,
    database: &Database,
    messages: usize,
) -> (String, impl Fn() -> bool + use<>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = database.query("SELECT current_database()");
    let url = format!("postgres://postgres@127.0.0.1:{port}/{name}?sslmode=disable");
    let socket = cluster.sockets().join(".s.PGSQL.5432");
    let left = Arc::new(AtomicUsize::new(messages));
    let seen = left.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, server) = (client.unwrap(), UnixStream::connect(&socket).unwrap());
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let (left, mut server) = (left.clone(), server);
            thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(size @ 1..) = client.read(&mut buffer) {
                    let before = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                    if before == Ok(1) {
                        let last_words = "SFATAL\0VFATAL\0C57P01\0Mterminating connection due to \
                                          administrator command\0\0";
                        if messages.is_multiple_of(2) {
                            let size = u32::try_from(last_words.len() + 4).unwrap().to_be_bytes();
                            let _ = client
                                .write_all(&[b"E", &size[..], last_words.as_bytes()].concat());
                        }
                        let _ = client.shutdown(Shutdown::Both);
                        break;
                    }
                    if server.write_all(&buffer[..size]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    (url, move || seen.load(Relaxed) == 0)
}

#[test]
fn a_session_that_ends_at_any_moment_is_explained_and_tried_later() {
    let Some(cluster) = cluster() else { return };
    let machines = Machines::new(cluster, 2);
    machines.database.sql("UPDATE backlog SET status = 'SUCCESS'");
    let has_pgmq = machines.database.install_pgmq();
    let env = &machines.machines[0];
    if has_pgmq {
        env.run("init --pgmq jobs").success();
    }
    let handler = machines.handler();
    for (args, is_of_pgmq) in [
        ("list --where 'id > 0' --set date_inserted.sql=now()", false),
        ("explain 1 --ndays 1", false),
        ("init --if-missing", false),
        ("add [1]", false),
        ("archive 1", false),
        (&format!("process --ndays 1 -- {handler}"), false),
        ("status --pgmq jobs", true),
        ("list --pgmq none", true),
        ("init --if-missing --pgmq jobs", true),
        (&format!("process --pgmq jobs -- {handler}"), true),
    ] {
        if is_of_pgmq && !has_pgmq {
            continue;
        }
        let usual = env.run(args);
        for (cuts, messages) in (1..).enumerate() {
            let (url, _) = cut_once(cluster, &machines.database, messages);
            let cut = env.command(args).env("BACKLOG_DB", &url).ran();
            if cut.exit == usual.exit {
                assert!(cuts > 2, "{args:?}: {cuts} cuts, {cut:?}");
                break;
            }
            cut.fails(75, &[url.trim_end_matches("?sslmode=disable")]);
        }
    }
}

#[test]
fn a_server_whose_locks_do_not_lock_is_found_before_a_handler_runs() {
    let Some(cluster) = cluster() else { return };
    let Some(pool) = pgbouncer(cluster) else { return };
    for (granted, is_pooled) in [("true", false), ("true", true), ("false", false)] {
        let machines = Machines::new(cluster, 3);
        let functions = ["pg_try_advisory_lock", "pg_try_advisory_xact_lock"];
        for function in functions {
            machines.replace_lock_function(function, &format!("SELECT {granted}"));
        }
        let pooled = pool.database(&machines.database);
        let database = if is_pooled { &pooled } else { &machines.database };
        let args = format!("process --ndays 1 -- {}", machines.handler());
        let mut command = machines.machines[0].command(&args);
        command.env("BACKLOG_DB", database.url()).ran().fails(
            1,
            &[
                "could not claim records in postgres://",
                "got an advisory lock that the first one holds",
            ],
        );
        assert_eq!(machines.handled(), 0);
        assert_eq!(machines.database.query("SELECT DISTINCT status FROM backlog"), "NEW");
        for function in functions {
            machines.restore_lock_function(function);
        }
        machines.machines[0].run(&args).silent();
        assert_eq!(machines.handled(), 3);
    }
}

#[test]
fn a_session_that_ends_while_the_locks_are_tested_is_not_taken_for_a_server_without_locks() {
    let Some(cluster) = cluster() else { return };
    let Some(pool) = pgbouncer(cluster) else { return };
    for is_pooled in [false, true] {
        let machines = Machines::new(cluster, 3);
        let function = if is_pooled { "pg_try_advisory_xact_lock" } else { "pg_try_advisory_lock" };
        let ends_the_holder = format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks
             WHERE locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = $1;
             SELECT {function}_usual($1)"
        );
        machines.replace_lock_function(function, &ends_the_holder);
        let pooled = pool.database(&machines.database);
        let database = if is_pooled { &pooled } else { &machines.database };
        let args = format!("process --ndays 1 -- {}", machines.handler());
        let mut command = machines.machines[0].command(&args);
        let ended = command.env("BACKLOG_DB", database.url()).ran().exits(75);
        assert_lacks(&ended.stderr, "got an advisory lock");
        machines.restore_lock_function(function);
        machines.machines[0].run(&args).silent();
        assert_eq!(machines.handled(), 3);
    }
}

#[test]
fn a_pass_with_nothing_due_among_a_million_finished_rows_looks_at_a_few_pages() {
    let settings = [
        "session_preload_libraries=auto_explain",
        "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on",
        "auto_explain.log_buffers=on",
        "max_wal_size=4GB",
    ];
    let Some(cluster) = Cluster::private(&settings) else { return };
    let machines = Machines::new(&cluster, 0);
    machines.database.sql(
        "SET auto_explain.log_min_duration = -1;
         INSERT INTO backlog (status, date_inserted, failures)
         SELECT 'SUCCESS', now() - n * interval '1 s', n % 3 FROM generate_series(1, 1000000) n",
    );
    machines.database.sql("VACUUM ANALYZE backlog");
    let env = &machines.machines[0];
    let mut seen = cluster.log().len();
    for schedule in ["--ndays=7", "--fibonacci", "--progressive", "--policy=even"] {
        env.run(&format!("process {schedule} -- /bin/true")).silent();
        let log = cluster.log();
        let (statements, buffers) = buffers(&log[seen..]);
        seen = log.len();
        assert!(statements > 0, "{schedule}: nothing was logged");
        assert!(buffers < 100, "{schedule}: {statements} statements, {buffers} buffers");
    }
}

/// Number of logged statements about the table, and of the buffers that they touched.
fn buffers(log: &str) -> (usize, u64) {
    let about = |plan: &&str| {
        let query = plan.lines().next().unwrap_or_default();
        query.contains("\"backlog\"") && !query.contains("pg_attribute")
    };
    let plans: Vec<_> = log.split("Query Text:").skip(1).filter(about).collect();
    let of = |plan: &&str| {
        // The first line is that of the whole plan.
        let line = plan.lines().find(|line| line.trim_start().starts_with("Buffers:"));
        let numbers = line.unwrap_or_default().split(' ').filter_map(|word| {
            let (kind, number) = word.split_once('=')?;
            ["hit", "read"].contains(&kind).then(|| number.parse::<u64>().ok())?
        });
        numbers.sum::<u64>()
    };
    (plans.len(), plans.iter().map(of).sum())
}

/// The program as a user whom the machine does not know, as in a container with a random number.
fn stranger(env: &TestEnv, home: Option<&str>, args: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=12345", "--regid=12345", "--clear-groups", "--"])
        .arg(env!("CARGO_BIN_EXE_backlog"))
        .args(args.words())
        .current_dir(env.path(""))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("BACKLOG_DB", env.url().unwrap());
    command.envs(home.map(|home| ("HOME", home)));
    command
}

#[test]
fn without_a_usable_home_a_pass_on_a_server_goes_on_without_a_state_directory() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    if !rustix::process::geteuid().is_root() {
        return skipped("a random user: needs root");
    }
    let env = TestEnv::on(&database);
    env.run("init").success();
    fs::set_permissions(env.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let renew = || {
        database.sql("TRUNCATE backlog; INSERT INTO backlog (date_inserted) VALUES (now())");
    };
    let run = |home, args: &str| stranger(&env, home, args).ran();
    let statuses = || database.query("SELECT string_agg(status, ',') FROM backlog");
    let pass = "process --ndays 9 -- true";
    let lost = "; without one the history of passes, the causes of failures, the position where a limited pass stopped and the missed ticks are lost: name one with --state-dir";
    for (home, why) in [
        (None, "neither XDG_STATE_HOME nor HOME is set"),
        (Some("/"), "could not open /.local/state/backlog: permission denied"),
        (Some("/root"), "could not open /root/.local/state/backlog: permission denied"),
    ] {
        renew();
        let said = run(home, pass).success();
        assert_eq!(said.stderr, format!("backlog: no state directory: {why}{lost}\n"));
        assert_eq!(statuses(), "SUCCESS");
        for args in ["status", "list", "failures", "explain 1", "retry 1"] {
            let said = run(home, args);
            assert!(said.stderr.is_empty(), "{args:?}: {said:?}");
        }
        let status = run(home, "status").stdout;
        let has_none = status.contains(": no state directory has a record of them; name one with ");
        assert_eq!(has_none, home.is_none(), "{status}");
        let checked = run(home, "check --ndays 9 -- /bin/true").stdout;
        let checked = checked.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&checked, &format!("warning claims no state directory: {why}"));
        run(home, "pause").fails(2, &["with --state-dir"]);
    }
    // A directory that is named must be there.
    renew();
    let named = "process --ndays 9 --state-dir /state -- true";
    run(None, named).fails(1, &["could not open /state: permission denied"]);
    // One pass of a line at a time; the lock is in the session that claims.
    let pausing = env.pausing();
    let line = format!("process --ndays 9 -- {}", sh(&pausing.script));
    let mut first = stranger(&env, None, &line).stderr(Stdio::null()).spawn().unwrap();
    pausing.wait_for_begin();
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'backlog'";
    assert_eq!(database.query(&format!("{sessions} AND datname = current_database()")), "2");
    let second = run(None, "process -v --ndays 9 -- false").success();
    assert_contains(&second.stderr, "a pass of this line is running");
    run(None, "process --ndays 8 -- false").success();
    let waiting = "process --wait --ndays 9 -- false";
    let mut third = stranger(&env, None, waiting).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the third pass waits for the lock", || {
        database.query("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
            == "1"
    });
    pausing.let_go();
    assert!(first.wait().unwrap().success() && third.wait().unwrap().success());
    assert_eq!(statuses(), "SUCCESS");
    // Behind a pooler that lends transactions there is no such lock, and claims exclude each other.
    let Some(pool) = pgbouncer(cluster) else { return };
    renew();
    let pooled = pool.database(&database);
    let mut command = stranger(&env, None, pass);
    command.env("BACKLOG_DB", pooled.url()).ran().success();
    assert_eq!(statuses(), "SUCCESS");
}
