use super::*;

fn refused(line: &str) -> Option<String> {
    let words = shlex::split(line).unwrap();
    let argv: Vec<_> = words.into_iter().map(OsString::from).collect();
    let is_column = |name: &str| ["id", "to"].contains(&name.to_ascii_lowercase().as_str());
    check(&argv, &is_column).err().map(|error| error.to_string())
}

#[test]
fn values_that_would_be_run_are_refused() {
    for line in [
        "{to}",
        "./{to}.sh",
        "env {to}",
        "sudo {to}",
        "xargs {to} a",
        "sh -c 'mail {to}'",
        "sh -c 'mail {ID}'",
        "/bin/sh -ec 'mail {id}'",
        "sh -c -e 'mail {to}'",
        "sh -c -- 'mail {to}'",
        "bash -o pipefail -c 'mail {to}'",
        "bash -c -o pipefail 'mail {to}'",
        "bash -co pipefail 'mail {to}'",
        "bash -eo pipefail -c 'mail {to}'",
        "bash --norc -c 'mail {to}'",
        "bash --rcfile x -c 'mail {to}'",
        "bash +e -lc 'mail {to}'",
        "bash5.2 -c {to}",
        "busybox sh -c 'mail {to}'",
        "env A=b -- sh -c 'mail {to}'",
        "sudo -u www timeout -k 5 60 nice -n 5 dash -c 'mail {to}'",
        "xargs -I% zsh -c 'mail {to}'",
        "python3 -c 'print({to})'",
        "python3.11 -X dev -W ignore -c 'print({to})'",
        "python3 -Wignore -c 'print({to})'",
        "python3 -c'print({to})'",
        "perl -MJSON::PP -MFile::Spec -e 'print {to}'",
        "perl -lane 'print {to}'",
        "perl -e 1 -e 'print {to}'",
        "ruby -r json -e 'p {to}'",
        "node -e 'f({to})'",
        "node --eval 'f({to})'",
        "node --eval='f({to})'",
        "node --no-warnings -p 'f({to})'",
        "php -r 'f({to});'",
        "su alice -c 'mail {to}'",
        "su - alice -lc 'mail {to}'",
        "su --command='mail {to}' alice",
        "env -S 'mail {to}'",
        "env '-Smail {to}'",
        "env -i --split-string 'mail {to}'",
        "ssh host mail {to}",
        "ssh -p 22 host -- 'mail {to}'",
        "ssh -oX=foo host 'mail {to}'",
        "ssh -vp 22 host 'mail {to}'",
        "ssh {to} mail",
        "ssh -o 'ProxyCommand=nc {to} 22' host",
        // Code behind code, and options behind it.
        "perl -e 1 {to}",
        "perl -pe s/a/b/ {to}",
        "node -e 1 {to}",
        "ruby -e 1 {to}",
        "php -r 1 {to}",
        "perl -0777ne 'print {to}'",
        "perl -l012 -0777ne 'print {to}'",
        "perl -E 'say {to}'",
        "perl '-M{to}' x.pl",
        "perl -I {to} x.pl",
        "php -B 1 -R 'f({to});'",
        "node --import {to} x.js",
        // A script, or an option.
        "python3 {to}",
        "perl {to}",
        "sh {to}",
        "bash -x {to}",
        "node {to}",
        "su {to}",
        "su alice {to}",
        // Programs that run others.
        "env -S 'sh -c' {to}",
        "env -S 'sh -c' 'mail {to}'",
        "env --split-string='sh -c' 'mail {to}'",
        "env '-iSbash -c' {to}",
        "env -i {to}",
        "env A=b {to}",
        "env -u A -C / {to}",
        "timeout 5 {to}",
        "timeout -s KILL -k 5 60 {to}",
        "timeout --signal KILL 60 {to}",
        "nice -n 5 {to}",
        "sudo -u www {to}",
        "xargs -0 -n 1 {to}",
        "setsid -w {to}",
        "chroot / {to}",
        "runuser -u www -- {to}",
        "runuser -u www {to}",
        "flock /run/x -c 'mail {to}'",
        "flock -w 5 /run/x sh -c 'mail {to}'",
        "script -qc 'mail {to}' /dev/null",
        "watch mail {to}",
        "awk 'BEGIN { print \"{to}\" }'",
        "awk -F : '{to}'",
        "su alice -- -c 'mail {to}'",
        "python3-dbg -c {to}",
        "bash-static -c {to}",
        "perl5.36-x86_64-linux-gnu -e {to}",
        "csh -fc 'mail {to}'",
        "timeout 5 ssh host echo '\"{id}\"'",
    ] {
        assert!(refused(line).is_some(), "{line}");
    }
}

#[test]
fn values_that_stay_values_are_not() {
    for line in [
        "mail {to}",
        "./sync --to={to} {id}",
        "sh -c 'mail \"$1\"' sh {to}",
        "sh -c 'echo ${id} ${to}'",
        "sh -c 'awk \"{ print }\"' sh {to}",
        "sh ./script.sh -c {to}",
        "sh -e ./script.sh {to}",
        "python3 sync.py -c {to} --eval {id}",
        "python3 -m mail -c {to}",
        "python3 -c 'import sys' {to}",
        "sh -e run.sh -p {to}",
        "bash -euo pipefail script.sh -c {to}",
        "sh -c 'mail \"$1\"' sh -c {to}",
        "bash -c 'mail \"$1\"' bash -e {to}",
        "python3 -E sync.py -c {to}",
        "python3 -c 'import sys' -c {to}",
        "python3 -c 'import sys' --eval {to}",
        "node -e 1 -- -p {to}",
        "node --enable-source-maps app.js -e {to}",
        "perl -e 1 -- -e {to}",
        "perl -pe s/a/b/ -- {to}",
        "awk -v to={to} 'BEGIN { print to }'",
        "awk -f x.awk {to}",
        "nice -n 5 ./sync {to}",
        "flock /run/x ./sync {to}",
        "runuser -u www -- ./sync {to}",
        "ssh-keygen -F {to}",
        "node-gyp -p {to}",
        "busybox mail {to}",
        "node app.js {id}",
        "su alice -c 'mail \"$1\"' -- sh {to}",
        "env MAIL={to} ./sync",
        "ssh host mail",
        "ssh -i key -p 22 user@{to} mail",
        "curl -fsS https://example.com/{id} -e {to}",
        "timeout 5 ./sync -c {to}",
    ] {
        assert_eq!(refused(line), None, "{line}");
    }
}

#[test]
fn the_message_shows_the_way_out() {
    assert_eq!(
        refused("sh -c 'mail {to}'").unwrap(),
        "sh would run the record's {to} as code, in \"mail {to}\"; give it as an argument of its \
         own, as in sh -c 'mail \"$1\"' sh {to}"
    );
}
