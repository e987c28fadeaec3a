//! What others plant where a pass comes by, and the rule for root. They gain nothing from it, and honest
//! users lose nothing by it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::testenv::*;

/// The attacker, who owns nothing on this machine.
const NOBODY: u32 = 65534;
/// Another user, of the same group as the attacker where that is said.
const SOMEBODY: u32 = 65533;

/// A directory of the attacker's with a database of his, in a place that everybody can enter.
struct Shop {
    env: TestEnv,
    dir: PathBuf,
}

impl Shop {
    /// None if this is not root, who alone can be several users.
    fn new(what: &str) -> Option<Self> {
        let env = TestEnv::empty();
        if fs::metadata(env.path("")).unwrap().uid() != 0 {
            skipped(&format!("{what}: needs root"));
            return None;
        }
        let shop = Self { dir: env.path("shop"), env };
        fs::set_permissions(shop.env.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(&shop.dir).unwrap();
        shop.env.run("init --db shop/app.db --trust-owner").success();
        // The files beside a write-ahead log come and go.
        shop.own("shop", NOBODY, NOBODY, 0o755);
        shop.own("shop/app.db", NOBODY, NOBODY, 0o644);
        shop.insert(1);
        Some(shop)
    }

    fn own(&self, name: &str, uid: u32, gid: u32, mode: u32) {
        let path = self.env.path(name);
        chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn insert(&self, id: u32) {
        let connection = rusqlite::Connection::open(self.env.path("shop/app.db")).unwrap();
        let sql = "INSERT OR REPLACE INTO BACKLOG (ID, DATE_INSERTED) VALUES (?1, '2026-11-20')";
        connection.execute(sql, [id]).unwrap();
    }

    fn state(&self, name: &str) -> PathBuf {
        self.env.path("shop/app.db.backlog").join(name)
    }

    fn statuses(&self) -> String {
        let connection = rusqlite::Connection::open(self.env.path("shop/app.db")).unwrap();
        let sql = "SELECT group_concat(STATUS) FROM BACKLOG";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// A pass by the owner of the database, with a cursor.
    fn pass(&self, more: &str) -> Ran {
        self.pass_as(NOBODY, NOBODY, more)
    }

    /// A pass by root.
    fn pass_of_root(&self, more: &str) -> Ran {
        let line = "process --now @1795219200 --progressive --db shop/app.db";
        self.env.run(&format!("{line} {more} -- true"))
    }

    /// The program, run by the owner of the database.
    fn run(&self, args: &str) -> Ran {
        self.run_as(NOBODY, NOBODY, args)
    }

    /// A pass by another user.
    fn pass_as(&self, uid: u32, gid: u32, more: &str) -> Ran {
        self.pass_with(uid, gid, more, "true")
    }

    fn pass_with(&self, uid: u32, gid: u32, more: &str, handler: &str) -> Ran {
        let line = "process --now @1795219200 --progressive --db shop/app.db";
        self.run_as(uid, gid, &format!("{line} {more} -- {handler}"))
    }

    /// The program, run by another user.
    fn run_as(&self, uid: u32, gid: u32, args: &str) -> Ran {
        let (uid, gid) = (uid.to_string(), gid.to_string());
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &uid, "--regid", &gid, "--clear-groups", "--"])
            .arg(env!("CARGO_BIN_EXE_backlog"))
            .args(args.words())
            .current_dir(self.env.path(""))
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command.ran()
    }

    /// Lets the attacker make the state directory, as his own pass would have.
    fn plant_state(&self) {
        fs::create_dir(self.state("")).unwrap();
        self.own("shop/app.db.backlog", NOBODY, NOBODY, 0o755);
    }
}

fn as_owner<T>(path: &Path, of: impl Fn(&fs::Metadata) -> T) -> T {
    of(&fs::symlink_metadata(path).unwrap())
}

#[test]
fn a_link_that_is_planted_in_the_state_directory_leads_nowhere() {
    let Some(shop) = Shop::new("links in the state directory") else { return };
    let target = shop.env.path("of-root");
    for name in ["lines", "state.db", "state.db-journal"] {
        shop.plant_state();
        symlink(&target, shop.state(name)).unwrap();
        let why = "it is a symbolic link; backlog did not create it: remove it";
        let path = format!("app.db.backlog/{name}: {why}");
        let checked = shop.run("check --db shop/app.db --progressive");
        assert!(checked.exit == Some(1) && checked.stdout.contains(why), "{checked:?}");
        if name == "lines" {
            shop.pass("").fails(1, &[&path]);
            assert_eq!(shop.statuses(), "NEW");
        } else {
            let said = shop.pass("").success().stderr;
            assert!(said.contains(&path) && said.contains("the pass continues"), "{said}");
            assert_eq!(shop.statuses(), "SUCCESS");
        }
        assert!(!target.exists(), "root made it");
        fs::remove_dir_all(shop.state("")).unwrap();
    }
}

#[test]
fn a_state_directory_that_is_a_link_is_not_followed() {
    let Some(shop) = Shop::new("a link for the state directory") else { return };
    let target = shop.env.path("of-root");
    fs::create_dir(&target).unwrap();
    symlink(&target, shop.env.path("shop/app.db.backlog")).unwrap();
    shop.pass("").fails(1, &["app.db.backlog: it is a symbolic link; remove it"]);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(as_owner(&target, MetadataExt::uid), 0);
}

#[test]
fn a_hard_link_in_the_state_directory_is_left_as_it_is() {
    let Some(shop) = Shop::new("a hard link in the state directory") else { return };
    let says = "it has another name, a hard link; backlog did not create it: remove it";
    for (uid, mode) in [(NOBODY, 0o666), (SOMEBODY, 0o666), (0, 0o666)] {
        let target = shop.env.path("shop/precious");
        fs::write(&target, "precious").unwrap();
        shop.own("shop/precious", uid, uid, mode);
        for name in ["lines", "state.db", "state.db-journal"] {
            shop.plant_state();
            fs::hard_link(&target, shop.state(name)).unwrap();
            let ran = shop.pass("");
            assert_eq!(ran.exit, Some(i32::from(name == "lines")), "{ran:?}");
            assert_contains(&ran.stderr, says);
            assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
            assert_eq!(as_owner(&target, |meta| (meta.uid(), meta.mode() & 0o777)), (uid, mode));
            fs::remove_dir_all(shop.state("")).unwrap();
        }
    }
}

#[test]
fn a_fifo_in_the_state_directory_holds_nobody_up() {
    let Some(shop) = Shop::new("a FIFO in the state directory") else { return };
    for name in ["lines", "state.db", "state.db-journal"] {
        shop.plant_state();
        assert!(Command::new("mkfifo").arg(shop.state(name)).status().unwrap().success());
        shop.own(&format!("shop/app.db.backlog/{name}"), NOBODY, NOBODY, 0o666);
        let ran = shop.pass("");
        assert_eq!(ran.exit, Some(i32::from(name == "lines")), "{ran:?}");
        assert_contains(
            &ran.stderr,
            "it is not a regular file; backlog did not create it: remove it",
        );
        shop.run("status --db shop/app.db --progressive").success();
        fs::remove_dir_all(shop.state("")).unwrap();
    }
}

#[test]
fn a_state_directory_that_somebody_else_made_beforehand_is_refused() {
    let Some(shop) = Shop::new("a directory in a sticky place") else { return };
    shop.own("shop", 0, 0, 0o1777);
    shop.own("shop/app.db", SOMEBODY, SOMEBODY, 0o644);
    shop.plant_state();
    shop.pass_as(SOMEBODY, SOMEBODY, "").fails(
        1,
        &["it is a directory of user 65534, and must be root's or user 65533's; remove it"],
    );
    assert_eq!(fs::read_dir(shop.state("")).unwrap().count(), 0);
}

#[test]
fn a_state_directory_that_more_can_write_than_the_database_is_refused() {
    let Some(shop) = Shop::new("modes of the state directory") else { return };
    shop.plant_state();
    for (mode, says) in [
        (0o777, "could not use "),
        (0o777, "app.db.backlog: everybody can write to it, but not to the database; chmod o-w "),
        (0o775, "its group can write to it, but not to the database; chmod g-w "),
    ] {
        shop.own("shop/app.db.backlog", NOBODY, NOBODY, mode);
        shop.pass("").fails(1, &[says]);
    }
    shop.own("shop/app.db", NOBODY, NOBODY, 0o664);
    shop.pass("").silent();
    fs::create_dir(shop.env.path("shared")).unwrap();
    shop.own("shared", 0, 0, 0o1777);
    shop.pass("--state-dir shared")
        .fails(1, &["to the database; name a private directory with --state-dir"]);
}

#[test]
fn a_read_only_database_makes_no_state_directory_and_one_that_is_made_can_be_used() {
    let Some(shop) = Shop::new("a read-only database") else { return };
    let checked = |about: &str, says: &str| {
        let stdout = shop.run("check --db shop/app.db").stdout;
        let stdout = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stdout.contains(about) && stdout.contains(says), "{stdout}");
    };
    // Files that a reader made beside it stay read-only.
    shop.own("shop/app.db", NOBODY, NOBODY, 0o444);
    shop.run("status --db shop/app.db").success();
    shop.own("shop/app.db", NOBODY, NOBODY, 0o644);
    checked("error database", "app.db-shm: permission denied");
    // A reader of a write-ahead log must be able to write.
    let connection = rusqlite::Connection::open(shop.env.path("shop/app.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(connection);
    shop.own("shop/app.db", NOBODY, NOBODY, 0o444);
    checked("error claims could not use", "it is read-only, with mode 444; chmod u+w ");
    let pass = || shop.pass("");
    let pause = || shop.run("pause --db shop/app.db");
    let root = || shop.pass_of_root("--trust-owner");
    for command in [&pass as &dyn Fn() -> Ran, &pause, &root] {
        command().fails(1, &["shop/app.db: it is read-only, with mode 444; chmod u+w "]);
        assert!(!shop.state("").exists());
    }
    shop.own("shop/app.db", NOBODY, NOBODY, 0o644);
    shop.pass_as(SOMEBODY, SOMEBODY, "").fails(1, &["shop/app.db: attempt to write a readonly"]);
    assert!(!shop.state("").exists());
    shop.own("shop/app.db", NOBODY, NOBODY, 0o244);
    shop.pass_of_root("--trust-owner").silent();
    assert_eq!(as_owner(&shop.state(""), |meta| meta.mode() & 0o700), 0o700);
    shop.own("shop/app.db", NOBODY, NOBODY, 0o644);
    shop.insert(1);
    pass().silent();
    assert_eq!(shop.statuses(), "SUCCESS");
    // One of an older version.
    fs::remove_dir_all(shop.state("")).unwrap();
    shop.plant_state();
    shop.own("shop/app.db.backlog", NOBODY, NOBODY, 0o555);
    checked("ok claims kept in ", "app.db.backlog");
    pass().silent();
    assert_eq!(as_owner(&shop.state(""), |meta| meta.mode() & 0o777), 0o755);
}

#[test]
fn roots_pass_makes_the_state_directory_as_the_databases_owner() {
    let Some(shop) = Shop::new("root's pass on somebody's database") else { return };
    shop.pass_of_root("--trust-owner").silent();
    let names: Vec<_> = fs::read_dir(shop.state("")).unwrap().flatten().collect();
    assert!(names.len() >= 3, "claims, lines and a cursor: {names:?}");
    for path in names.iter().map(fs::DirEntry::path).chain([shop.state("")]) {
        let owner = as_owner(&path, |found| (found.uid(), found.gid()));
        assert_eq!(owner, (NOBODY, NOBODY), "{}", path.display());
    }
    assert_eq!(shop.statuses(), "SUCCESS");
    // So does a joblog, which a pass of the owner's goes on with.
    shop.pass_of_root("--trust-owner --joblog shop/jobs.log").silent();
    let owner = |name| as_owner(&shop.env.path(name), |found| (found.uid(), found.gid()));
    assert_eq!(owner("shop/jobs.log"), owner("shop"));
    assert_ne!(owner("shop").0, 0);
    // One that is there stays whose it is.
    fs::write(shop.env.path("shop/theirs.log"), "").unwrap();
    shop.own("shop/theirs.log", SOMEBODY, SOMEBODY, 0o644);
    shop.pass_of_root("--trust-owner --joblog shop/theirs.log").silent();
    assert_eq!(owner("shop/theirs.log"), (SOMEBODY, SOMEBODY));
    // What its owner then does by hand goes on from there, and the other way round.
    for id in [2, 3] {
        shop.insert(id);
        shop.pass_as(NOBODY, NOBODY, "").silent();
        shop.insert(id + 10);
        shop.pass_of_root("--trust-owner").silent();
    }
    assert_eq!(shop.statuses(), ["SUCCESS"; 5].join(","));
}

#[test]
fn honest_users_share_a_database_wherever_it_is() {
    let Some(shop) = Shop::new("databases in various places") else { return };
    let done = |what: &str| {
        assert!(!shop.statuses().contains("NEW"), "{what}");
        let _ = fs::remove_dir_all(shop.state(""));
    };
    let group = 65532;
    let pass = |what: &str, more: &str| {
        shop.insert(1);
        shop.pass_of_root(more).silent();
        shop.pass_of_root(more).silent();
        done(what);
    };
    for (mode, owner) in [(0o700, NOBODY), (0o755, NOBODY), (0o700, 0)] {
        shop.own("shop", 0, 0, mode);
        shop.own("shop/app.db", owner, owner, 0o600);
        let more = "--trust-owner";
        pass("in a directory of root's", if owner == 0 { "" } else { more });
    }
    shop.own("shop", NOBODY, NOBODY, 0o700);
    shop.own("shop/app.db", NOBODY, NOBODY, 0o600);
    pass("at home", "--trust-owner");
    // Two users of a group, one of whom made the database, and root.
    shop.own("shop", SOMEBODY, group, 0o2775);
    shop.own("shop/app.db", NOBODY, group, 0o664);
    let passes: [&dyn Fn() -> Ran; 3] =
        [&|| shop.pass_of_root("--trust-owner"), &|| shop.pass_as(NOBODY, group, ""), &|| {
            shop.pass_as(SOMEBODY, group, "")
        }];
    for first in 0..3 {
        for next in 0..3 {
            shop.insert(1);
            passes[(first + next) % 3]().silent();
            assert_eq!(shop.statuses(), "SUCCESS", "{first} {next}");
        }
        fs::remove_dir_all(shop.state("")).unwrap();
    }
    // On another file system.
    let device = fs::metadata(&shop.dir).unwrap().dev();
    let mut others = ["/dev/shm", "/tmp"].into_iter();
    if let Some(elsewhere) =
        others.find(|path| fs::metadata(path).is_ok_and(|directory| directory.dev() != device))
    {
        let dir = tempfile::tempdir_in(elsewhere).unwrap();
        let db = dir.path().join("app.db");
        fs::copy(shop.env.path("shop/app.db"), &db).unwrap();
        for path in [dir.path(), &db] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let db = db.to_str().unwrap();
        shop.env.run(&format!("process --ndays 9 --db {db} --trust-owner -- true")).silent();
        assert_eq!(as_owner(&dir.path().join("app.db.backlog/lines"), MetadataExt::uid), NOBODY);
    }
    // A database behind a link keeps its state where it really is.
    symlink("shop/app.db", shop.env.path("link.db")).unwrap();
    shop.insert(1);
    let args = "process --now @1795219200 --ndays 9 --db link.db -- true";
    shop.run_as(SOMEBODY, group, args).silent();
    assert!(shop.state("lines").exists());
    done("behind a link");
}

#[test]
fn a_named_state_directory_is_its_owners() {
    let Some(shop) = Shop::new("--state-dir") else { return };
    // Files that root makes belong to the owner of the database.
    shop.pass_of_root("--state-dir a/b/state --trust-owner").silent();
    let state = shop.env.path("a/b/state");
    for file in
        fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path()).chain([state.clone()])
    {
        assert_eq!(as_owner(&file, MetadataExt::uid), NOBODY, "{}", file.display());
    }
    // One of root's is shared with a database of another user.
    shop.own("a/b/state", 0, 0, 0o755);
    fs::copy(shop.env.path("shop/app.db"), shop.env.path("other.db")).unwrap();
    shop.own("other.db", SOMEBODY, SOMEBODY, 0o644);
    let line = "--state-dir a/b/state --trust-owner";
    shop.env.run(&format!("process --db other.db --ndays 9 {line} -- true")).silent();
    let status = shop.env.run(&format!("status --db shop/app.db {line}"));
    assert_lacks(&status.success().stdout, "not shown");
    // One of the database's owner is used by both.
    fs::create_dir(shop.env.path("mine")).unwrap();
    shop.own("mine", NOBODY, NOBODY, 0o755);
    for _ in 0..2 {
        shop.insert(1);
        shop.pass_of_root("--state-dir mine --trust-owner").silent();
        shop.insert(1);
        shop.pass_as(NOBODY, NOBODY, "--state-dir mine").silent();
        assert_eq!(shop.statuses(), "SUCCESS");
    }
    // A link counts if this user or root has made it.
    symlink("mine", shop.env.path("link")).unwrap();
    shop.pass("--state-dir link").silent();
    symlink("../mine", shop.env.path("shop/link")).unwrap();
    std::os::unix::fs::lchown(shop.env.path("shop/link"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    shop.pass("--state-dir shop/link")
        .fails(1, &["shop/link is a symbolic link of user 65533, which is followed only if"]);
    fs::create_dir(shop.env.path("theirs")).unwrap();
    shop.own("theirs", SOMEBODY, SOMEBODY, 0o755);
    shop.pass("--state-dir theirs").fails(
        1,
        &["theirs: it is a directory of user 65533, and must be root's or user 65534's; remove"],
    );
}

/// Has some bytes of a file locked.
fn lock_as(file: &fs::File, kind: i32, l_start: i64, l_len: i64) {
    let [l_type, l_whence] = [kind, nix::libc::SEEK_SET].map(|number| number.try_into().unwrap());
    let lock = nix::libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 };
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
}

#[test]
fn who_may_only_read_a_database_keeps_no_pass_out() {
    let Some(shop) = Shop::new("locks of a bystander") else { return };
    // A reader of a write-ahead log must be able to write.
    let connection = rusqlite::Connection::open(shop.env.path("shop/app.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(connection);
    shop.pass_as(NOBODY, NOBODY, "").silent();
    // SQLite's lock of a reader would keep passes from writing what they remember.
    let locked = |name: &str| !name.ends_with(".paused");
    shop.run("pause --db shop/app.db").success();
    shop.run("resume --db shop/app.db").success();
    let names = fs::read_dir(shop.state("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| locked(name)).count(), 5, "{names:?}");
    for name in &names {
        let may_read = as_owner(&shop.state(name), |meta| meta.mode() & 0o044 != 0);
        assert_eq!(may_read, !locked(name), "{name}");
    }
    // Such a user sees the records, and is told why he does not see the passes.
    let seen = shop.run_as(SOMEBODY, SOMEBODY, "status --db shop/app.db").success().stdout;
    assert_contains(&seen, "SUCCESS");
    let seen = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    let says =
        "app.db.backlog/state.db, which belongs to user 65534 with mode 600: permission denied";
    assert!(
        seen.contains("some passes are not shown: could not open ") && seen.contains(says),
        "{seen}"
    );
    // Where a group may write, its members take part.
    shop.own("shop/app.db", NOBODY, NOBODY, 0o664);
    fs::remove_dir_all(shop.state("")).unwrap();
    shop.own("shop", NOBODY, NOBODY, 0o775);
    shop.insert(1);
    shop.pass_as(SOMEBODY, NOBODY, "").silent();
    assert_eq!(as_owner(&shop.state("lines"), |meta| meta.mode() & 0o777), 0o660);
}

#[test]
fn a_read_lock_is_named_and_passes_for_no_pass() {
    for file in ["lines", "claims"] {
        let env = TestEnv::with_records(1, MIDNIGHT);
        let args = "process --ndays 1 -- true";
        env.pass("--ndays 1 -- false").silent();
        let found =
            fs::read_dir(env.path("test.db.backlog")).unwrap().map(|entry| entry.unwrap().path());
        let path = found.into_iter().find(|path| path.to_str().unwrap().ends_with(file)).unwrap();
        let reader = fs::File::open(&path).unwrap();
        lock_as(&reader, nix::libc::F_RDLCK, 0, 0);
        let says = [path.to_str().unwrap(), "another program holds a read lock on it"];
        env.run_at(MIDNIGHT + 60, args).fails(75, &says);
        env.run_at(MIDNIGHT + 60, &with_options("--wait", args)).fails(75, &says);
        assert_eq!(env.statuses(), "1|ERROR");
        assert_lacks(&env.run_at(MIDNIGHT + 60, "status").success().stdout, "running");
        // A process that another test starts just now may have inherited the open file.
        lock_as(&reader, nix::libc::F_UNLCK, 0, 0);
        env.run_at(MIDNIGHT + 60, args).silent();
        assert_eq!(env.statuses(), "1|SUCCESS");
    }
}

#[test]
fn a_joblog_and_a_picture_follow_no_link_of_somebody_elses() {
    let Some(shop) = Shop::new("links for the joblog") else { return };
    shop.own("shop", 0, 0, 0o1777);
    let lchown = |path: &Path, uid| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    let target = shop.env.path("shop/target");
    let link = shop.env.path("shop/log");
    symlink(&target, &link).unwrap();
    shop.pass("--joblog shop/log").silent();
    assert!(fs::read_to_string(&target).unwrap().contains("\"outcome\":\"success\""));
    assert_eq!(as_owner(&target, MetadataExt::mode) & 0o777, 0o640);
    fs::remove_file(&target).unwrap();
    lchown(&link, SOMEBODY);
    shop.insert(1);
    let says = "shop/log is a symbolic link of user 65533, which is followed only if root or this user owns it";
    shop.pass("--joblog shop/log").fails(1, &[says]);
    let svg = "simulate --policy even --for 10m --svg shop/log";
    shop.run(svg).fails(1, &[says]);
    // Pages and pictures are written by root as well, and no link of another user's is followed.
    shop.env.run(svg).fails(1, &[says]);
    assert!(!target.exists());
    assert_eq!(shop.statuses(), "NEW");
    fifo(&shop.env.path("shop/fifo"));
    shop.own("shop/fifo", NOBODY, NOBODY, 0o666);
    shop.pass("--joblog shop/fifo").fails(1, &["shop/fifo: it is not a regular file"]);
    // Nor one on the way.
    let planted = shop.env.path("shop/logs");
    fs::create_dir(shop.env.path("roots")).unwrap();
    symlink("../roots", &planted).unwrap();
    lchown(&planted, SOMEBODY);
    let says =
        "logs on the way to shop/logs/jobs is a symbolic link of user 65533, which is followed";
    shop.pass("--joblog shop/logs/jobs").fails(1, &[says]);
    assert_eq!(fs::read_dir(shop.env.path("roots")).unwrap().count(), 0);
    shop.pass("--state-dir shop/logs/state").fails(1, &["logs on the way to shop/logs/state"]);
    // Whoever reads from a FIFO of his need not go on.
    shop.own("shop/fifo", SOMEBODY, SOMEBODY, 0o666);
    let reader =
        fs::File::options().read(true).write(true).open(shop.env.path("shop/fifo")).unwrap();
    shop.pass("--joblog shop/fifo").fails(1, &["shop/fifo: it is not a regular file"]);
    drop(reader);
    shop.own("shop/fifo", NOBODY, NOBODY, 0o644);
    let reader =
        fs::File::options().read(true).write(true).open(shop.env.path("shop/fifo")).unwrap();
    shop.pass("--joblog shop/fifo").fails(1, &["shop/fifo: it is not a regular file"]);
    drop(reader);
    // The kernel's own links are its word.
    shop.pass_of_root("--trust-owner --joblog /dev/stdout").success();
    assert_eq!(shop.statuses(), "SUCCESS");
}

/// A file that root's pass reads, and what it would do.
const CONFIG: &str = "[queue.default]\ndb = \"app.db\"\nndays = 9\nexec = [\"touch\", \"ran\"]\n";

/// Lets the attacker write a file, as setfacl(1) does.
fn share_with_nobody(path: &Path) {
    let (user, read, write) = (NOBODY, 4_u16, 6_u16);
    let entries = [(1_u16, write, u32::MAX), (2, write, user), (4, read, u32::MAX)];
    let entries = entries.into_iter().chain([(16, write, u32::MAX), (32, read, u32::MAX)]);
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags).unwrap();
}

/// A pass in the shop that finds or names what it is told to do.
fn told(shop: &Shop, args: &str) -> Ran {
    let mut command = shop.env.command("process --now @1795219200");
    command.args(args.words()).env_remove("BACKLOG_DB").current_dir(&shop.dir).ran()
}

/// The message to user 65534 where a backlog.toml is found.
fn found(shop: &Shop) -> Ran {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .args([env!("CARGO_BIN_EXE_backlog"), "process", "--now", "@1795219200", "-v"])
        .current_dir(&shop.dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    command.ran()
}

#[test]
fn a_backlog_toml_that_is_found_counts_only_if_nobody_else_can_write_it() {
    let Some(shop) = Shop::new("a backlog.toml of somebody else's") else { return };
    let config = shop.dir.join("backlog.toml");
    fs::write(&config, CONFIG).unwrap();
    let own = |name: &str, uid: u32, gid: u32, mode: u32| shop.own(name, uid, gid, mode);
    let (dir, file) = ("shop", "shop/backlog.toml");
    let refused = |says: &str| {
        found(&shop).fails(2, &[says, "to use it anyway: --config ", "backlog.toml"]);
        assert!(!shop.dir.join("ran").exists());
        assert_eq!(shop.statuses(), "NEW");
    };
    own(file, SOMEBODY, SOMEBODY, 0o644);
    refused("backlog.toml is not read, because it belongs to user 65533; ");
    own(file, 0, 0, 0o646);
    refused("it can be written by others; ");
    own(file, 0, SOMEBODY, 0o664);
    refused("it can be written by others; ");
    own(file, 0, 0, 0o644);
    own(dir, SOMEBODY, SOMEBODY, 0o755);
    refused("it is in a directory that belongs to user 65533; ");
    own(dir, 0, 0, 0o777);
    refused("it is in a directory that can be written by others; ");
    // A link counts by where it leads, and by who has made it.
    own(dir, 0, 0, 0o1777);
    fs::rename(&config, shop.env.path("real.toml")).unwrap();
    symlink("../real.toml", &config).unwrap();
    let lchown = |uid| std::os::unix::fs::lchown(&config, Some(uid), Some(uid)).unwrap();
    lchown(SOMEBODY);
    found(&shop).fails(2, &["is a symbolic link of user 65533, which is followed only if"]);
    lchown(NOBODY);
    own("real.toml", 0, SOMEBODY, 0o664);
    refused("it can be written by others; ");
    // One's own group is one's own, and in a sticky directory nobody can replace the file.
    fs::remove_file(&config).unwrap();
    fs::rename(shop.env.path("real.toml"), &config).unwrap();
    own(file, NOBODY, NOBODY, 0o664);
    assert_contains(&found(&shop).success().stderr, &format!("info: read {}", config.display()));
    assert!(shop.dir.join("ran").exists());
}

#[test]
fn a_backlog_toml_that_root_reads_must_be_roots_also_where_it_is_named() {
    let Some(shop) = Shop::new("a backlog.toml that is named") else { return };
    shop.own("shop", 0, 0, 0o755);
    shop.own("shop/app.db", 0, 0, 0o644);
    let file = shop.dir.join("backlog.toml");
    fs::write(&file, CONFIG).unwrap();
    let shown = file.display();
    let copy = format!(
        "copy it for root (install -m 600 {shown} /etc/backlog.toml), or pass --trust-owner"
    );
    let run_as = "backlog.toml belongs to nobody: run this as nobody (crontab -u nobody -e, ";
    let refused = |says: &[&str]| {
        for args in ["", "--config backlog.toml"] {
            told(&shop, args).fails(2, says);
            assert!(!shop.dir.join("ran").exists());
        }
    };
    shop.own("shop/backlog.toml", NOBODY, NOBODY, 0o644);
    refused(&[run_as, &copy]);
    shop.own("shop/backlog.toml", 0, 0, 0o646);
    refused(&["can be written by others: chmod o-w ", &copy]);
    shop.own("shop/backlog.toml", 0, 0, 0o664);
    refused(&["can be written by group root: chmod g-w ", &copy]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    share_with_nobody(&file);
    refused(&["can be written by group root: chmod g-w ", &copy]);
    fs::remove_file(&file).unwrap();
    fs::write(&file, CONFIG).unwrap();
    shop.own("shop/backlog.toml", 0, 0, 0o644);
    shop.own("shop", 0, 0, 0o1777);
    refused(&["shop can be written by others: move ", "into a directory of root's", &copy]);
    shop.own("shop", NOBODY, NOBODY, 0o755);
    refused(&["shop belongs to nobody: run this as nobody "]);
    // Nor may somebody else choose which of root's it is, and from where its paths begin.
    shop.own("shop", 0, 0, 0o755);
    symlink("backlog.toml", shop.dir.join("link.toml")).unwrap();
    std::os::unix::fs::lchown(shop.dir.join("link.toml"), Some(NOBODY), Some(NOBODY)).unwrap();
    told(&shop, "--config link.toml").fails(2, &["link.toml belongs to nobody: "]);
    assert!(!shop.dir.join("ran").exists());
    told(&shop, "--config backlog.toml").silent();
    assert!(shop.dir.join("ran").exists());
    // `check` says it, and goes on.
    shop.own("shop/backlog.toml", NOBODY, NOBODY, 0o644);
    let mut command = shop.env.command("check");
    let checked = command.env_remove("BACKLOG_DB").current_dir(&shop.dir).ran();
    let stdout = checked.stdout.replace("\n                 ", " ");
    assert!(stdout.contains(run_as) && stdout.contains("handler"), "{checked:?}");
    assert_eq!(checked.exit, Some(1));
}

/// Every command that is about a table, with what it needs to be one.
const COMMANDS: [&str; 20] = [
    "adopt --table BACKLOG",
    "init",
    "add {}",
    "process --ndays 9 -- true",
    "process --ndays 9 --dry-run",
    "pause",
    "resume",
    "status",
    "status --html page.html",
    "list",
    "failures",
    "show 1",
    "explain 1",
    "stop 1",
    "prune --older-than 1d --status ARCHIVED",
    "archive 1",
    "restore 1",
    "retry 1",
    "crontab --ndays 9 -- /bin/true",
    "simulate --from-table --policy even",
];

#[test]
fn root_works_only_on_what_root_alone_can_change() {
    let Some(shop) = Shop::new("databases of other users") else { return };
    let db = shop.env.path("shop/app.db");
    let shown = db.canonicalize().unwrap().display().to_string();
    let run = |args: &str| shop.env.run(&with_options("--db shop/app.db", args));
    let help = shop.env.run("--help").success().stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let known = listed.take_while(|line| line.starts_with("  ")).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        name.chars().all(|c| c.is_ascii_lowercase()).then_some(name)
    });
    let known: Vec<_> = known
        .filter(|value| !value.is_empty() && !["check", "completions", "help"].contains(value))
        .collect();
    assert!(known.len() > 10, "{known:?}");
    for name in known {
        assert!(
            COMMANDS.iter().any(|command| command.split(' ').next() == Some(name)),
            "{name} is not tried"
        );
    }
    let of_owner = format!(
        "backlog: {shown} belongs to nobody: run this as nobody (crontab -u nobody -e, or the user \
         field of /etc/cron.d), or pass --trust-owner\n"
    );
    let dir = shop.dir.canonicalize().unwrap().display().to_string();
    for (whose, mode, mode_of_db, says) in [
        ((NOBODY, NOBODY), 0o755, 0o644, of_owner),
        (
            (12_345, 0),
            0o755,
            0o644,
            format!(
                "backlog: {shown} belongs to user 12345: run this as user 12345, or pass --trust-owner\n"
            ),
        ),
        (
            (0, 0),
            0o777,
            0o644,
            format!(
                "backlog: {dir} can be written by others: chmod o-w {dir}, or pass --trust-owner\n"
            ),
        ),
        (
            (0, 0),
            0o2775,
            0o644,
            format!(
                "backlog: {dir} can be written by group root: chmod g-w {dir}, or pass --trust-owner\n"
            ),
        ),
        ((0, 0), 0o1777, 0o644, format!("backlog: {dir} can be written by others: move ")),
        (
            (0, 0),
            0o755,
            0o664,
            format!(
                "backlog: {shown} can be written by group root: chmod g-w {shown}, or pass --trust-owner\n"
            ),
        ),
    ] {
        shop.own("shop", whose.0, whose.1, mode);
        shop.own("shop/app.db", whose.0, whose.1, mode_of_db);
        for command in COMMANDS {
            let ran = run(command);
            assert!(ran.exit == Some(2) && ran.stderr.starts_with(&says), "{command:?}: {ran:?}");
        }
        let checked = run("check --ndays 9 -- /bin/true");
        let stdout = checked.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = says.trim_start_matches("backlog: ").trim();
        assert!(stdout.contains(&format!("error database {why}")), "{checked:?}");
        assert!(stdout.contains("handler"), "it goes on: {checked:?}");
        assert_eq!(checked.exit, Some(1));
        assert_eq!(shop.statuses(), "NEW");
        assert!(!shop.state("").exists() && !shop.env.path("page.html").exists());
        // The same with the owner's rights, and said to be fine.
        shop.pass_of_root("--trust-owner").silent();
        assert_eq!(shop.statuses(), "SUCCESS");
        shop.insert(1);
        let mut command = shop.env.command("list --db shop/app.db");
        command.env("BACKLOG_TRUST_OWNER", "1").ran().success();
        fs::remove_dir_all(shop.state("")).unwrap();
    }
    // As its owner it works.
    shop.own("shop", NOBODY, NOBODY, 0o755);
    shop.own("shop/app.db", NOBODY, NOBODY, 0o644);
    shop.pass("").silent();
    assert_eq!(shop.statuses(), "SUCCESS");
}

#[test]
fn root_looks_at_each_file_of_a_pass_and_at_the_links_to_it() {
    let Some(shop) = Shop::new("other files of a pass") else { return };
    let roots = shop.env.path("roots");
    fs::create_dir(&roots).unwrap();
    shop.env.run("init --db roots/app.db").success();
    fs::create_dir(shop.env.path("shop/state")).unwrap();
    shop.own("shop/state", NOBODY, NOBODY, 0o755);
    symlink("../shop", roots.join("way")).unwrap();
    let pass = |more: &str| shop.env.run(&format!("process --db roots/app.db --ndays 9 {more}"));
    let shop_shown = shop.dir.canonicalize().unwrap().display().to_string();
    for (more, place) in [
        ("--state-dir shop/state -- true", "/state"),
        ("--state-dir shop/other -- true", ""),
        ("--joblog shop/joblog -- true", ""),
        ("--joblog roots/way/joblog -- true", ""),
        ("--ca-file shop/app.db --post https://localhost", "/app.db"),
    ] {
        let says = format!("backlog: {shop_shown}{place} belongs to nobody: run this as nobody ");
        pass(more).fails(2, &[&says]);
    }
    for key in ["sslrootcert", "sslcert", "sslkey"] {
        let db = format!("postgres://localhost/x?{key}={}/app.db", shop.dir.display());
        let says = format!("backlog: {shop_shown}/app.db belongs to nobody: run this as nobody ");
        shop.env.run(&format!("status --db {db} --state-dir roots/state")).fails(2, &[&says]);
    }
    for end in ["-wal", "-journal", "-shm", ".backlog"] {
        let path = shop.env.path(&format!("roots/app.db{end}"));
        let _ = fs::remove_file(&path);
        fs::write(&path, "").unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        pass("-- true").fails(2, &[&format!("app.db{end} belongs to nobody: ")]);
        fs::remove_file(&path).unwrap();
    }
    // A file in the state directory, and one that only a pass needs.
    pass("-- true").silent();
    let lines = roots.join("app.db.backlog/lines");
    chown(&lines, Some(NOBODY), Some(NOBODY)).unwrap();
    pass("-- true").fails(1, &["lines: it belongs to user 65534; backlog did not create it"]);
    fs::remove_file(&lines).unwrap();
    let list = "list --db roots/app.db --set joblog=shop/joblog";
    shop.env.run(list).fails(2, &["shop belongs to nobody: "]);
    // A link of another user's, also where it leads to what is root's.
    symlink("../roots/app.db", shop.env.path("shop/link.db")).unwrap();
    shop.own("shop", 0, 0, 0o1777);
    let link = |uid| std::os::unix::fs::lchown(shop.env.path("shop/link.db"), Some(uid), Some(uid));
    link(NOBODY).unwrap();
    let status = "status --db shop/link.db";
    shop.env.run(status).fails(2, &["link.db belongs to nobody: "]);
    link(0).unwrap();
    shop.env.run(status).success();
    // Root writes published files wherever they are read.
    shop.own("shop", NOBODY, NOBODY, 0o755);
    pass("--metrics shop/pass.prom -- true").silent();
    shop.env.run("status --db roots/app.db --html shop/page.html").success();
    assert!(shop.env.path("shop/pass.prom").exists() && shop.env.path("shop/page.html").exists());
}

#[test]
fn trust_in_an_owner_is_a_word_of_the_command_line_and_no_handlers() {
    let Some(shop) = Shop::new("trust in an owner") else { return };
    let line = "process --ndays 9 --now @1795219200 --db shop/app.db";
    let mut command = shop.env.command(&format!("{line} -- sh -c 'env >shop/env'"));
    command.env("BACKLOG_TRUST_OWNER", "yes").ran().silent();
    let env = fs::read_to_string(shop.env.path("shop/env")).unwrap();
    assert!(env.contains("BACKLOG_ID=1") && !env.contains("TRUST_OWNER"), "{env}");
    let mut command = shop.env.command(line);
    let why = "BACKLOG_TRUST_OWNER is \"maybe\"; it must be 1 or 0";
    command.env("BACKLOG_TRUST_OWNER", "maybe").ran().fails(2, &[why]);
    let mut command = shop.env.command(line);
    command.env("BACKLOG_TRUST_OWNER", "0").ran().fails(2, &["belongs to nobody"]);
    fs::write(shop.env.path("backlog.toml"), "[defaults]\ntrust_owner = true\n").unwrap();
    shop.env.run("status").fails(2, &["no key \"trust_owner\""]);
    fs::remove_file(shop.env.path("backlog.toml")).unwrap();
    // A printed line for a crontab says it as well.
    let printed = shop.env.run("crontab --db shop/app.db --ndays 9 --trust-owner -- /bin/true");
    assert_contains(&printed.success().stdout, " --trust-owner ");
}

#[test]
fn what_is_read_as_a_file_is_one_and_has_an_end() {
    let env = TestEnv::new();
    let fifo = env.path_text("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    env.write("long", vec![b'#'; 1024 * 1024 + 1]);
    for (args, says) in [
        ("--config fifo --ndays 1", "fifo: it is not a regular file"),
        ("--config /dev/zero --ndays 1", "/dev/zero: it is not a regular file"),
        ("--config long --ndays 1", "long: it is longer than 1048576 bytes"),
        ("--every 1m --policy sns:fifo", "could not read fifo: it is not a regular file"),
        ("--every 1m --policy sns:long", "could not read long: it is longer than "),
    ] {
        env.run(&format!("process {args} -- true")).fails(2, &[says]);
    }
    symlink("fifo", env.path("backlog.toml")).unwrap();
    env.run("process --ndays 1 -- true").fails(2, &["it is not a regular file"]);
}

#[test]
fn check_names_a_file_with_credentials_that_others_can_read() {
    let env = TestEnv::new();
    let config = env.path("backlog.toml");
    let read = |text: &str, mode: u32| {
        fs::write(&config, format!("[defaults]\nndays = 1\n{text}")).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(mode)).unwrap();
        env.run("check").stdout
    };
    let header = "post = 'http://localhost'\nheader = 'Authorization: Bearer s3cret'\n";
    for (text, says) in [
        (header, "others can read a credential in `header`: chmod 600 "),
        ("post = 'http://u:s3cret@localhost'\n", "others can read a login in `post`: chmod 600 "),
        (
            "db = 'postgres://u:s3cret@localhost/x'\n",
            "others can read a password in `db`: chmod 600 ",
        ),
    ] {
        let said = read(text, 0o644);
        assert!(said.contains(says) && !said.contains("s3cret"), "{said}");
        assert!(!read(text, 0o600).contains("others can read"));
    }
    let harmless = "post = 'http://localhost'\nheader = 'X-Source: shop'\n";
    assert!(!read(harmless, 0o644).contains("others can read"));
}

#[test]
fn a_command_that_would_run_what_a_record_says_is_refused_wherever_it_stands() {
    let env = TestEnv::new();
    env.sql(
        "INSERT INTO BACKLOG (DATE_INSERTED, PAYLOAD) VALUES ('2026-11-20', '\"; touch ran\"')",
    );
    let code = "-- sh -c 'echo {PAYLOAD}'";
    let says = "the record's {PAYLOAD} in \"echo {PAYLOAD}\" could be run as code; let the program \
                read $BACKLOG_ROW_PAYLOAD, or the JSON on its standard input";
    let run =
        |command: &str, rest: &str| env.run_at(MIDNIGHT, &format!("{command} --ndays 9 {rest}"));
    run("process", code).fails(2, &[says]);
    run("process", "-- {PAYLOAD}").fails(2, &["would choose the program that is run"]);
    run("crontab", code).fails(2, &[says]);
    let checked = run("check", code);
    assert!(checked.exit == Some(1) && checked.stdout.contains(says), "{checked:?}");
    let archive = r#"--max-age 1s --on-archive "sh -c 'echo {payload}'" -- false"#;
    run("process", archive).fails(2, &["--on-archive: the record's {payload} in \"echo"]);
    // So it is with what stands in backlog.toml.
    let config = "[defaults]\nexec = ['sh', '-c', 'echo {payload}']\nndays = 9\n";
    env.write("backlog.toml", config);
    for command in ["process", "crontab"] {
        env.run(command).fails(2, &["the record's {payload} in \"echo {payload}\" could be run"]);
    }
    let config =
        "[defaults]\nexec = ['true']\nexec_on_archive = ['sh', '-c', '{payload}']\nndays = 9\n";
    env.write("backlog.toml", config);
    for command in ["process", "crontab"] {
        env.run(command).fails(2, &["--on-archive: the record's {payload} after -c could"]);
    }
    assert!(env.run("check").stdout.contains("--on-archive: the record's {payload} after -c"));
    assert_eq!(env.statuses(), "1|NEW");
    assert!(!env.path("ran").exists());
    fs::remove_file(env.path("backlog.toml")).unwrap();
    // An argument of its own is a value, and ${id} is the shell's.
    run("process", r#"-- sh -c 'id=7; echo "${id} $1" >said' sh {PAYLOAD}"#).silent();
    assert_eq!(env.read("said"), "7 \"; touch ran\"\n");
}

#[test]
fn root_and_the_owner_of_a_database_end_each_others_pauses_and_nobody_else_can() {
    let Some(shop) = Shop::new("pauses of another user's database") else { return };
    let (pause, resume) = ("pause --db shop/app.db", "resume --db shop/app.db");
    let root = |args: &str| shop.env.run(&format!("{args} --trust-owner"));
    root(pause).success();
    for file in fs::read_dir(shop.state("")).unwrap().flatten().map(|file| file.path()) {
        assert_eq!(as_owner(&file, MetadataExt::uid), NOBODY, "{}", file.display());
    }
    shop.pass_as(NOBODY, NOBODY, "").silent();
    assert_eq!(shop.statuses(), "NEW");
    // Whoever may read it can without a write-ahead log.
    let connection = rusqlite::Connection::open(shop.env.path("shop/app.db")).unwrap();
    connection.query_row("PRAGMA journal_mode = delete", [], |_| Ok(())).unwrap();
    drop(connection);
    for command in [pause, resume] {
        let says = ["app.db.backlog/table-BACKLOG", "belongs to user 65534", "run it as that user"];
        shop.run_as(SOMEBODY, SOMEBODY, command).fails(1, &says);
    }
    shop.run_as(NOBODY, NOBODY, resume).success();
    shop.run_as(NOBODY, NOBODY, pause).success();
    shop.pass_of_root("--trust-owner").silent();
    assert_eq!(shop.statuses(), "NEW");
    root(resume).success();
    shop.pass_of_root("--trust-owner").silent();
    assert_eq!(shop.statuses(), "SUCCESS");
}

#[test]
fn a_link_in_the_place_of_a_pause_is_not_followed() {
    let Some(shop) = Shop::new("a link for a pause") else { return };
    shop.plant_state();
    shop.run("pause --db shop/app.db").success();
    let names = fs::read_dir(shop.state("")).unwrap().flatten().map(|file| file.path());
    let pause = names.last().unwrap();
    let target = shop.env.path("of-root");
    fs::write(&target, "mine").unwrap();
    fs::remove_file(&pause).unwrap();
    symlink(&target, &pause).unwrap();
    let told = shop.pass("").success().stderr;
    assert_contains(&told, "it is a symbolic link; backlog did not create it: remove it");
    assert_eq!(shop.statuses(), "NEW", "it is a pause all the same");
    let status = shop.run("status --db shop/app.db").success().stdout;
    assert_contains(&status, ": it is a symbolic link; backlog did not create it: remove it");
    shop.run("pause --db shop/app.db").success();
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    shop.run("resume --db shop/app.db").success();
    assert!(target.exists());
    shop.pass("").silent();
    assert_eq!(shop.statuses(), "SUCCESS");
}

#[test]
fn what_stands_beside_a_database_holds_nobody_up() {
    let env = TestEnv::with_schema(SCHEMA);
    for end in ["journal", "wal", "shm"] {
        let path = env.path(&format!("test.db-{end}"));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for args in ["status", "process --ndays 1 -- true", "init"] {
            env.run(args)
                .fails(1, &[&format!("test.db-{end}: it is not a regular file; remove it")]);
        }
        fs::remove_file(path).unwrap();
    }
    env.run("status").success();
}

#[test]
fn a_journal_that_somebody_puts_beside_a_database_is_not_believed() {
    let Some(shop) = Shop::new("a journal of somebody's in a sticky directory") else { return };
    shop.own("shop", 0, 0, 0o1777);
    shop.own("shop/app.db", SOMEBODY, SOMEBODY, 0o600);
    let pass = || shop.pass_as(SOMEBODY, SOMEBODY, "");
    for end in ["journal", "wal"] {
        let path = shop.env.path(&format!("shop/app.db-{end}"));
        let _ = fs::remove_file(&path);
        fs::write(&path, "pages").unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        let says = format!(
            "shop/app.db-{end}: it belongs to user 65534, who may not write the database; remove it"
        );
        pass().fails(1, &[&says]);
        fs::remove_file(&path).unwrap();
    }
    pass().silent();
    assert_eq!(shop.statuses(), "SUCCESS");
}

#[test]
fn users_who_share_a_database_share_the_record_of_its_passes() {
    let Some(shop) = Shop::new("a record of passes of two users") else { return };
    shop.own("shop", NOBODY, NOBODY, 0o770);
    shop.own("shop/app.db", NOBODY, NOBODY, 0o660);
    shop.pass_as(NOBODY, NOBODY, "").silent();
    for name in ["state.db", "state.db-journal"] {
        let found = as_owner(&shop.state(name), |meta| (meta.uid(), meta.mode() & 0o777));
        assert_eq!(found, (NOBODY, 0o660), "{name}");
    }
    // The outcomes so far are told while a pass runs.
    (2..4).for_each(|id| shop.insert(id));
    let seen = shop.env.path("shop/seen");
    let select = "SELECT quote(ended), json_extract(counts, '$.succeeded') FROM passes";
    let look = format!(
        "sqlite3 {} \"{select} ORDER BY number\" >{}",
        shop.state("state.db").display(),
        seen.display()
    );
    shop.pass_with(SOMEBODY, NOBODY, "", &shop.env.script("looking", &look)).silent();
    let seen = fs::read_to_string(seen).unwrap();
    assert_eq!(seen.lines().last(), Some("NULL|1"), "{seen}");
    let status = json(&shop.run("status --db shop/app.db --json").success().stdout);
    let line = &status["passes"]["lines"][0];
    assert_eq!((&line["last"]["uid"], &line["totals"]["succeeded"]), (&SOMEBODY.into(), &3.into()));
}

#[test]
fn members_of_a_group_share_state_db_whatever_their_own_group_is() {
    let Some(shop) = Shop::new("a group that shares a database") else { return };
    let (one, other, group) = (1_001, 1_002, 3_000);
    // SQLite makes the files of a write-ahead log with the group of the process.
    let connection = rusqlite::Connection::open(shop.env.path("shop/app.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    drop(connection);
    shop.own("shop", one, group, 0o770);
    shop.own("shop/app.db", one, group, 0o660);
    let pass = |uid: u32, at: i64| {
        let (uid, now) = (uid.to_string(), format!("@{at}"));
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &uid, "--regid", &uid, "--groups", &group.to_string(), "--"])
            .arg(env!("CARGO_BIN_EXE_backlog"))
            .args([
                "process",
                "--ndays",
                "9999",
                "--db",
                "shop/app.db",
                "--now",
                &now,
                "--",
                "true",
            ])
            .current_dir(shop.env.path(""))
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command.ran()
    };
    for (minute, uid) in (0..).zip([one, other, one, other]) {
        shop.insert(minute + 2);
        pass(uid, MIDNIGHT + i64::from(minute) * 60).silent();
    }
    let status = shop.run_as(one, group, "status --db shop/app.db --json");
    let status = json(&status.success().stdout);
    let line = &status["passes"]["lines"][0];
    assert_eq!((&line["last"]["uid"], &line["totals"]["succeeded"]), (&other.into(), &5.into()));
}

#[test]
fn state_db_of_several_databases_is_readable_for_nobody_who_cannot_read_all() {
    let Some(shop) = Shop::new("a directory for two databases") else { return };
    fs::create_dir(shop.env.path("state")).unwrap();
    shop.own("state", NOBODY, NOBODY, 0o750);
    fs::copy(shop.env.path("shop/app.db"), shop.env.path("shop/secret.db")).unwrap();
    shop.own("shop/app.db", NOBODY, NOBODY, 0o660);
    shop.own("shop/secret.db", NOBODY, NOBODY, 0o600);
    let mode = || as_owner(&shop.env.path("state/state.db"), |meta| meta.mode() & 0o777);
    shop.pass_as(NOBODY, NOBODY, "--state-dir state").silent();
    assert_eq!(mode(), 0o660);
    let line = "process --ndays 9 --db shop/secret.db --state-dir state";
    shop.run_as(NOBODY, NOBODY, &format!("{line} -- true")).silent();
    assert_eq!(mode(), 0o600);
}

/// A FIFO that nobody writes to.
fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_is_no_file_holds_nobody_up_in_the_place_of_certificates() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    fifo(&env.path("certificates"));
    let file = env.path_text("certificates");
    let words = "process --ndays 9 --now @1795219200 --post https://127.0.0.1:9/";
    let why = "certificates: it is not a regular file";
    env.run(&format!("{words} --ca-file {file}")).fails(1, &[why]);
    let mut command = env.command(words);
    command.env("SSL_CERT_FILE", &file).ran().fails(1, &["SSL_CERT_FILE", why]);
    let mut command = env.command(words);
    // Other files of a directory are passed over.
    let ran_with = command.env("SSL_CERT_DIR", env.path("")).ran();
    ran_with.fails(1, &["there is no certificate in SSL_CERT_DIR"]);
    let url = format!("postgres://u@127.0.0.1:9/x?sslmode=verify-full&sslrootcert={file}");
    env.run(&format!("status --db {url}")).fails(2, &[why]);
    assert_eq!(env.statuses(), "1|NEW");
}

#[test]
fn manual_pages_are_written_through_no_link_and_to_no_fifo() {
    let env = TestEnv::empty();
    let pages = env.path_text("man");
    fs::create_dir_all(env.path("man/man1")).unwrap();
    let page = env.path("man/man1/backlog-add.1");
    symlink(env.path("target"), &page).unwrap();
    let why = ["could not write ", "backlog-add.1: it is not a regular file"];
    env.run(&format!("man {pages}")).fails(1, &why);
    assert!(!env.path("target").exists());
    fs::remove_file(&page).unwrap();
    fifo(&page);
    env.run(&format!("man {pages}")).fails(1, &why);
    fs::remove_file(&page).unwrap();
    env.run(&format!("man {pages}")).success();
    env.run(&format!("man {pages}")).success();
    fs::rename(env.path("man/man1"), env.path("elsewhere")).unwrap();
    symlink("../elsewhere", env.path("man/man1")).unwrap();
    env.run(&format!("man {pages}")).fails(1, &["could not write "]);
    fs::remove_file(env.path("man/man1")).unwrap();
    fs::rename(env.path("elsewhere"), env.path("man/man1")).unwrap();
    assert!(fs::read_to_string(&page).unwrap().contains(".TH backlog-add 1"));
}

#[test]
fn reports_are_hidden_from_whom_the_database_is_and_no_lock_holds_them_up() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    for (database, report) in [(0o600, 0o600), (0o640, 0o640), (0o644, 0o644)] {
        fs::set_permissions(env.db(), fs::Permissions::from_mode(database)).unwrap();
        fs::create_dir(env.path("reports")).unwrap();
        // Whoever may read a directory may lock it, and keep the lock.
        let directory = fs::File::open(env.path("reports")).unwrap();
        rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let words = "status --fibonacci --html reports/page.html";
        env.run(&format!("{words} --metrics reports/status.prom")).success();
        let pass = "process --fibonacci --metrics reports/pass.prom -- true";
        env.run(pass).silent();
        for name in ["page.html", "status.prom", "pass.prom"] {
            let mode = fs::metadata(env.path("reports").join(name)).unwrap().mode() & 0o777;
            assert_eq!(mode, report, "{name} of a database with mode {database:o}");
        }
        fs::remove_dir_all(env.path("reports")).unwrap();
    }
}

#[test]
fn a_queue_has_a_name_that_no_shell_takes_for_anything_else() {
    let env = TestEnv::new();
    let long = "a".repeat(64);
    for (name, is_legal) in [
        ("orders", true),
        ("7", true),
        ("e-mails_2.x", true),
        (&long, true),
        (&format!("{long}a"), false),
        ("", false),
        ("-x", false),
        (".x", false),
        ("a b", false),
        ("a$(touch ran)", false),
        ("a`touch ran`", false),
        ("a;b", false),
        ("größer", false),
        ("a\u{3164}", false),
    ] {
        let config = toml::Table::from_iter([(
            "queue".into(),
            toml::Value::Table(toml::Table::from_iter([(
                name.into(),
                toml::Value::Table(toml::Table::from_iter([("ndays".into(), 7.into())])),
            )])),
        )]);
        env.write("backlog.toml", config.to_string());
        let says =
            ["a name starts with a letter or digit, and has up to 64 of A-Z, a-z, 0-9, _, . and -"];
        if is_legal {
            env.run("status").success();
            env.run(&format!("status --queue {name}")).success();
        } else {
            env.run("status").fails(2, &says);
            fs::remove_file(env.path("backlog.toml")).unwrap();
            env.run(&format!("status --queue={}", quoted(name))).fails(2, &[""]);
        }
    }
}

#[test]
fn a_stranger_that_was_handed_a_descriptor_of_a_pass_outlives_it() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let staying = env.staying();
    // A descendant that has lost the token has the descriptor under its number.
    let script = format!(
        "env -i sh -c 'echo $$ >{}; exec sleep 60' & {}",
        env.path("child").display(),
        staying.script
    );
    let mut pass = env.spawn(&format!("process --now @{MIDNIGHT} --ndays 1 -- {}", sh(&script)));
    staying.wait_for_begin();
    wait_until("the descendant begins", || {
        fs::read_to_string(env.path("child")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let child = env.read("child").trim().to_string();
    let fds = fs::read_dir(format!("/proc/{child}/fd")).unwrap().flatten();
    let is_high =
        |entry: &fs::DirEntry| entry.file_name().to_str().unwrap().parse::<u32>().unwrap() >= 30;
    let pipes = fds.filter(is_high).filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|to| to.to_str().unwrap().starts_with("pipe:"))
    });
    // As if the pass had handed it over.
    let handed: Vec<_> = pipes.map(|entry| fs::File::open(entry.path()).unwrap()).collect();
    assert!(!handed.is_empty());
    let mut stranger = Command::new("sleep");
    stranger.arg("60");
    let far = |file| {
        let far = rustix::io::fcntl_dupfd_cloexec(file, 500).unwrap();
        rustix::io::fcntl_setfd(&far, rustix::io::FdFlags::empty()).unwrap();
        far
    };
    let far: Vec<_> = handed.iter().map(far).collect();
    let mut stranger = stranger.spawn().unwrap();
    drop(far);
    let mut other = None;
    if fs::metadata(env.path("")).unwrap().uid() == 0 {
        // Another user's process has it under the same number.
        let fds = fs::read_dir(format!("/proc/{child}/fd")).unwrap().flatten();
        let number =
            fds.filter(is_high).map(|entry| entry.file_name().into_string().unwrap()).next();
        let number = number.unwrap().parse().unwrap();
        let same = rustix::io::fcntl_dupfd_cloexec(&handed[0], number).unwrap();
        if std::os::fd::AsRawFd::as_raw_fd(&same) == number {
            rustix::io::fcntl_setfd(&same, rustix::io::FdFlags::empty()).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "60"]);
            let spawned = command.env_clear().env("PATH", "/usr/bin:/bin").spawn().unwrap();
            let proc = format!("/proc/{}", spawned.id());
            wait_until("it belongs to another user", || {
                fs::metadata(&proc).is_ok_and(|found| found.uid() == NOBODY)
            });
            other = Some(spawned);
        }
    }
    drop(handed);
    env.kill(&mut pass);
    if let Some(mut other) = other {
        assert!(other.try_wait().unwrap().is_none(), "another user's process is none of ours");
        other.kill().unwrap();
        other.wait().unwrap();
    }
    assert!(!Path::new(&format!("/proc/{child}/exe")).exists(), "a descendant ends with its pass");
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger is none of its own");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_lock_file_that_more_can_read_than_may_write_the_database_is_closed_again() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.pass("--ndays 1 -- true").silent();
    let modes = || {
        let found = fs::read_dir(env.path("test.db.backlog")).unwrap().flatten();
        let locks = found.filter(|entry| {
            let name = entry.file_name().into_string().unwrap();
            ["lines", "passes"].contains(&&*name) || name.ends_with(".claims")
        });
        locks.map(|entry| entry.metadata().unwrap().mode() & 0o777).collect::<Vec<_>>()
    };
    for entry in fs::read_dir(env.path("test.db.backlog")).unwrap().flatten() {
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o666)).unwrap();
    }
    env.insert_one(2, MIDNIGHT);
    env.pass("--ndays 1 -- true").silent();
    assert_eq!(modes(), [0o600; 3]);
}

#[test]
fn root_takes_no_state_directory_in_which_everybody_can_put_files() {
    let Some(shop) = Shop::new("a shared state directory") else { return };
    shop.own("shop", 0, 0, 0o755);
    shop.own("shop/app.db", 0, 0, 0o644);
    fs::create_dir_all(shop.state("")).unwrap();
    shop.own("shop/app.db.backlog", 0, 0, 0o1777);
    shop.pass_of_root("").fails(2, &["app.db.backlog can be written by others"]);
}

#[test]
fn a_report_that_somebody_else_made_beforehand_is_not_his() {
    let Some(shop) = Shop::new("planted reports") else { return };
    shop.own("shop", 0, 0, 0o755);
    shop.own("shop/app.db", 0, 0, 0o600);
    fs::create_dir(shop.env.path("pub")).unwrap();
    shop.own("pub", 0, 0, 0o1777);
    for name in ["page.html", "pass.prom", "log"] {
        shop.env.write(&format!("pub/{name}"), "");
        shop.own(&format!("pub/{name}"), NOBODY, NOBODY, 0o666);
    }
    let pass = "process --db shop/app.db --ndays 9 --now 2026-11-21T00:00:00Z";
    shop.env.run(&format!("{pass} --metrics pub/pass.prom -- true")).silent();
    shop.env.run("status --db shop/app.db --html pub/page.html").success();
    for name in ["page.html", "pass.prom"] {
        let found = fs::metadata(shop.env.path("pub").join(name)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{name}");
    }
    shop.run_as(SOMEBODY, SOMEBODY, "init --db pub/own.db").success();
    shop.run_as(SOMEBODY, SOMEBODY, "process --db pub/own.db --ndays 9 --joblog pub/log -- true")
        .fails(1, &["pub/log: it belongs to user 65534; remove it"]);
}

#[test]
fn a_damaged_record_of_passes_is_replaced_under_a_lock_on_the_directory() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.pass("--ndays 1 -- true").silent();
    fs::write(env.path("test.db.backlog/state.db"), [b'x'; 8192]).unwrap();
    let directory = fs::File::open(env.path("test.db.backlog")).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    env.run_at(MIDNIGHT + HOUR, "process --ndays 1 -- true");
    assert!(env.path("test.db.backlog/state.db.damaged").exists());
    assert_contains(&env.run_at(MIDNIGHT + HOUR, "status").success().stdout, "last pass");
}

#[test]
fn what_is_no_file_is_no_database() {
    let env = TestEnv::empty();
    for db in ["/dev/null", "/dev/zero"] {
        for command in ["status", "init"] {
            let why = format!("could not open {db}: it is not a regular file");
            env.run(&format!("{command} --db {db}")).fails(1, &[&why]);
        }
    }
    for command in ["status", "init"] {
        env.run(&format!("{command} --db ' '")).fails(2, &["--db is empty"]);
    }
}

#[test]
fn manual_pages_make_no_directory_behind_a_link_of_somebody_elses() {
    let Some(shop) = Shop::new("a link to a directory") else { return };
    fs::create_dir(shop.env.path("own")).unwrap();
    shop.own("shop", 0, 0, 0o1777);
    symlink("../own", shop.env.path("shop/man")).unwrap();
    std::os::unix::fs::lchown(shop.env.path("shop/man"), Some(NOBODY), Some(NOBODY)).unwrap();
    shop.env.run("man shop/man").fails(1, &["is a symbolic link of user 65534"]);
    assert_eq!(fs::read_dir(shop.env.path("own")).unwrap().count(), 0);
}
