use super::*;

fn tell(cases: &[(&str, &str)]) {
    for (stderr, expected) in cases {
        assert_eq!(error_line(stderr.as_bytes()).as_deref(), Some(*expected), "{stderr}");
    }
}

/// Nothing tells of an error: the last line is as good as any.
fn tell_nothing(cases: &[&str]) {
    for stderr in cases {
        assert_eq!(error_line(stderr.as_bytes()), None, "{stderr}");
    }
}

const PYTHON: &str = "\
Traceback (most recent call last):
  File \"/srv/sync.py\", line 5, in <module>
    raise RuntimeError(\"ERP down\")
RuntimeError: ERP down
";

const PYTHON_CHAINED: &str = "\
Traceback (most recent call last):
  File \"/srv/sync.py\", line 4, in sync
    raise ConnectionRefusedError(111, \"Connection refused\")
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File \"/srv/sync.py\", line 7, in <module>
    sync()
  File \"/srv/sync.py\", line 6, in sync
    raise RuntimeError(\"ERP down\") from e
RuntimeError: ERP down
";

const PYTHON_OWN: &str = "\
Traceback (most recent call last):
  File \"/srv/sync.py\", line 3, in <module>
    {}[7]
    ~~^^^
KeyError: 7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File \"/srv/sync.py\", line 5, in <module>
    raise DoesNotExist(\"no order 7\")
orders.DoesNotExist: no order 7
Sentry is attempting to send 0 pending events
";

const PYTHON_GROUP: &str = "  + Exception Group Traceback (most recent call last):
  |   File \"/srv/sync.py\", line 4, in main
  |     async with asyncio.TaskGroup() as g:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File \"/srv/sync.py\", line 2, in f
    |     async def f(n): raise ValueError(f\"bad {n}\")
    |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    | ValueError: bad 1
    +------------------------------------
";

#[test]
fn of_python_the_last_exception() {
    let sentry = "Sentry is attempting to send 0 pending events\nWaiting up to 2 seconds\n\
                  Press Ctrl-C to quit\n";
    tell(&[
        (PYTHON, "RuntimeError: ERP down"),
        (PYTHON_CHAINED, "RuntimeError: ERP down"),
        (&format!("{PYTHON}{sentry}"), "RuntimeError: ERP down"),
        (&PYTHON.replace('\n', "\r\n"), "RuntimeError: ERP down"),
        (PYTHON_OWN, "orders.DoesNotExist: no order 7"),
        (PYTHON_GROUP, "| ValueError: bad 1"),
        (
            "  File \"/srv/sync.py\", line 1\n    a b\n    ^^^\nSyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax",
        ),
    ]);
}

const NODE: &str = "\
/srv/sync.js:2
  throw new Error(\"ERP down\");
  ^

Error: ERP down
    at sync (/srv/sync.js:2:9)
    at Object.<anonymous> (/srv/sync.js:4:1)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)
    at node:internal/main/run_main_module:28:49

Node.js v20.20.2
";

const NODE_AT_THE_MARGIN: &str = "\
/srv/sync.js:1
throw new TypeError(\"x is not a function\");
^

TypeError: x is not a function
    at Object.<anonymous> (/srv/sync.js:1:7)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)

Node.js v20.20.2
";

const NODE_CAUSE: &str = "\
/srv/sync.js:2
async function main() { throw new Error(\"could not sync\", {cause: e}); }
                              ^

Error: could not sync
    at main (/srv/sync.js:2:87) {
  [cause]: TypeError: fetch failed
      at node:internal/deps/undici/undici:14976:13
      at async main (/srv/sync.js:2:31) {
    [cause]: Error: bad port
        at makeNetworkError (node:internal/deps/undici/undici:9495:35)
        at fetch (node:internal/deps/undici/undici:10576:20)
  }
}

Node.js v20.20.2
";

const NODE_REJECTION: &str = "\
node:internal/process/promises:389
      new UnhandledPromiseRejection(reason);
      ^

UnhandledPromiseRejection: The promise rejected with the reason \"#<Object>\".
    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7)
    at process.processTicksAndRejections (node:internal/process/task_queues:96:32) {
  code: 'ERR_UNHANDLED_REJECTION'
}

Node.js v20.20.2
";

#[test]
fn of_node_the_error_before_its_stack() {
    let reason = "UnhandledPromiseRejection: The promise rejected with the reason \"#<Object>\".";
    tell(&[
        (NODE, "Error: ERP down"),
        (NODE_AT_THE_MARGIN, "TypeError: x is not a function"),
        (NODE_CAUSE, "Error: could not sync"),
        (NODE_REJECTION, reason),
    ]);
}

const PHP: &str = "\
PHP Fatal error:  Uncaught RuntimeException: ERP down in /srv/sync.php:3
Stack trace:
#0 /srv/sync.php(6): sync()
#1 /srv/Error.php(9): Error->handle('Exception')
#2 {main}
  thrown in /srv/sync.php on line 3
";

#[test]
fn of_php_the_exception_before_its_frames() {
    let error = "PHP Fatal error:  Uncaught RuntimeException: ERP down in /srv/sync.php:3";
    tell(&[(PHP, error)]);
}

const RUBY: &str = "\
sync.rb:2:in 'Sync#run': ERP down (RuntimeError)
\tfrom sync.rb:5:in 'Error.wrap'
\tfrom sync.rb:8:in '<main>'
";

#[test]
fn of_ruby_the_line_with_the_class() {
    tell(&[(RUBY, "sync.rb:2:in 'Sync#run': ERP down (RuntimeError)")]);
}

const JAVA: &str = "\
Exception in thread \"main\" java.lang.RuntimeException: ERP down
\tat Main$ErrorHandler.handle(Main.java:3)
\tat Main.main(Main.java:5)
";

const JAVA_CAUSE: &str = "\
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.connect0(Native Method)
\tat org.example.ErrorHandler.handle(Error: not this)
\t... 1 more
";

#[test]
fn of_java_the_last_cause() {
    tell(&[
        (JAVA, "Exception in thread \"main\" java.lang.RuntimeException: ERP down"),
        (
            &format!("{JAVA}{JAVA_CAUSE}"),
            "Caused by: java.net.ConnectException: Connection refused",
        ),
    ]);
    tell_nothing(&["\tat org.example.ErrorHandler.handle(Error: not this)\n"]);
}

const GO: &str = "\
panic: ERP down

goroutine 1 [running]:
panic({0x45e0a0?, 0x4b8d60?})
\t/usr/local/go/src/runtime/panic.go:785 +0x132
main.sync(...)
\t/srv/panic.go:6
main.main()
\t/srv/sync.go:10 +0x25
exit status 2
";

#[test]
fn of_go_the_panic_before_its_goroutines() {
    let deadlock = "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [select]:\n";
    tell(&[(GO, "panic: ERP down"), (deadlock, deadlock.lines().next().unwrap())]);
    // log.Fatal
    tell_nothing(&["2026/11/21 03:40:00 ERP down\n"]);
}

const RUST_PANIC: &str = "
thread 'main' panicked at src/main.rs:2:5:
ERP down
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
";

const RUST_BACKTRACE: &str = "
thread 'main' panicked at src/main.rs:2:5:
ERP down
stack backtrace:
   0: std::panicking::begin_panic::<&str>
             at /rustc/59807616/library/std/src/panicking.rs:761:5
   1: sync::main
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
";

const ANYHOW: &str = "\
Error: could not sync order 7

Caused by:
    0: could not connect to 127.0.0.1:1
    1: Connection refused (os error 111)
";

const ANYHOW_ALONE: &str = "\
Error: could not sync order 7

Caused by:
    Connection refused (os error 111)
";

#[test]
fn of_rust_the_message_below_the_place_and_the_innermost_cause() {
    let panicked = "thread 'main' panicked at src/main.rs:2:5: ERP down";
    let cause = "Caused by: Connection refused (os error 111)";
    let backtrace = "\nStack backtrace:\n   0: anyhow::Error::msg\n             at x.rs:10:14\n";
    tell(&[
        (RUST_PANIC, panicked),
        (RUST_BACKTRACE, panicked),
        (ANYHOW, cause),
        (&format!("{ANYHOW}{backtrace}"), cause),
        (ANYHOW_ALONE, cause),
        ("Error: no\n\nCaused by:\n    404: Not Found\n", "Caused by: 404: Not Found"),
        ("Caused by:\n    0: a\n       b: c\n    1: d\n       e: f\n", "Caused by: d"),
        ("Caused by:\n", "Caused by:"),
    ]);
}

#[test]
fn of_shells_and_tools_the_last_line_or_the_one_that_says_error() {
    tell(&[
        (
            "+ sync\nfatal: unable to access 'https://x/'\nbye\n",
            "fatal: unable to access 'https://x/'",
        ),
        ("\x1b[31mERROR\x1b[0m no stock\nDone.\n", "[31mERROR[0m no stock"),
        ("psql: FATAL:  no role\nbye\n", "psql: FATAL:  no role"),
        ("bc-error: no number\nbye\n", "bc-error: no number"),
        ("kernel: Panic, no init\nbye\n", "kernel: Panic, no init"),
        ("ERROR: these are late:\n  order 7\nDone.\n", "ERROR: these are late: order 7"),
        ("AggregateError:\n    at x (y.js:1:2)\n", "AggregateError:"),
        ("Sync error: no stock\n  Exception: indented\n", "Sync error: no stock"),
        ("sync\n  Exception: indented\n  at home\n", "Exception: indented"),
        ("Error: first\nError: \u{202e}last\n", "Error: \\u{202e}last"),
    ]);
    tell_nothing(&[
        "",
        " \n\t\n",
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server\n",
        "cat: /none: No such file or directory\n",
        "Errors: 0\nERROR_LEVEL=1\nErrorHandler is ready\n",
    ]);
}
