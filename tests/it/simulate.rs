//! simulate: the load of policies, before a crontab is changed.

use crate::testenv::*;

#[test]
fn each_attempt_is_a_line() {
    let env = TestEnv::empty();
    let args = "simulate --records 2 --policy constant:delay=5m,spread=0 --for 10m";
    let ran = env.run(&format!("{args} --jsonl")).success();
    let line = |id: &str, attempt, at, delay| {
        format!(
            "{{\"policy\":\"constant:delay=5m,spread=0\",\"id\":{id},\"attempt\":{attempt},\"at\":{at},\"delay\":{delay}}}\n"
        )
    };
    let expected: String = [(1, 0, 0), (2, 300, 300), (3, 600, 300)]
        .into_iter()
        .flat_map(|(attempt, at, delay)| ["1", "2"].map(|id| line(id, attempt, at, delay)))
        .collect();
    assert_eq!(ran.stdout, expected);
}

#[test]
fn policies_are_compared_in_a_table_and_in_charts() {
    let env = TestEnv::empty();
    let ran = env.run("simulate --every 1s --policy sidekiq --policy even --fibonacci").success();
    let mut lines = ran.stdout.lines();
    let cells =
        |line: Option<&str>| line.unwrap().split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(cells(lines.next())[..2], ["POLICY", "attempts"]);
    // The 100 records fail in step, ten times in two hours.
    assert_eq!(cells(lines.next())[..3], ["fibonacci", "1000", "100"]);
    assert_eq!(cells(lines.next())[..2], ["sidekiq", "900"]);
    let even = cells(lines.next());
    assert_eq!(even[..2], ["even", "1543"]);
    assert!(even[5].parse::<f64>().unwrap() < 0.2, "{even:?}");
    assert_eq!(ran.stdout.matches("retries in each 1m 40s").count(), 3);
}

#[test]
fn a_bar_holds_whole_ticks() {
    let env = TestEnv::empty();
    let args = "simulate --policy list:0s --every 1s --for";
    for (span, each, to) in [("10s", "1s", "11s"), ("4m", "4s", "4m")] {
        let chart = env.run(&format!("{args} {span}")).success().stdout;
        let axis = chart.lines().last().unwrap();
        assert!(
            axis.contains(&format!("retries in each {each} ")) && axis.ends_with(to),
            "{chart}"
        );
        // Every record in every tick: no bar but the first, which lacks the first attempts, is
        // lower than the others.
        let top = chart.lines().find(|line| line.contains('|')).unwrap();
        let (_, bars) = top.split_once('|').unwrap();
        assert!(bars.trim_start().chars().all(|c| c == '█'), "{chart}");
    }
}

#[test]
fn what_is_archived_is_not_tried_again() {
    let env = TestEnv::empty();
    let attempts = |args: &str| {
        let ran = env.run(&format!("simulate --policy even --jsonl --for 1day {args}")).success();
        assert_eq!(ran.stderr, "", "what is not real is not logged");
        ran.stdout.lines().count()
    };
    assert_eq!(attempts("--max-attempts 4"), 400);
    assert_eq!(attempts("--max-attempts 4 --records 2"), 8);
}

/// The picture that a simulation draws; it is well-formed, and no larger than a page can spare.
fn picture(env: &TestEnv, args: &str) -> String {
    env.run(&format!("simulate --svg load.svg {args}")).success();
    let svg = env.read("load.svg");
    assert!(svg.len() <= 60_000, "{} bytes", svg.len());
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap();
        assert!(!text.contains('>'), "{text}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert_eq!(open, [""; 0]);
    for entity in svg.split('&').skip(1) {
        assert!(
            ["amp;", "lt;", "gt;"].iter().any(|name| entity.starts_with(name)),
            "&{entity:.20}"
        );
    }
    svg
}

/// All texts between two texts.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).map(|rest| rest.split_once(to).unwrap().0).collect()
}

/// The headlines of the panels, without markup.
fn headlines(svg: &str) -> Vec<String> {
    let markup = ["<tspan class=\"name\">", "<tspan class=\"note\">", "</tspan>"];
    let plain = |text: &str| markup.iter().fold(text.to_string(), |text, it| text.replace(it, ""));
    let headlines = between(svg, "<text class=\"headline\"", "</text>");
    headlines.iter().map(|line| plain(line.split_once('>').unwrap().1).trim().to_string()).collect()
}

const FOUR: &str =
    "--policy constant:delay=5m,spread=0% --policy sidekiq --policy buckets --policy even";

#[test]
fn the_picture_has_a_panel_for_each_policy_and_a_dot_for_each_retry() {
    let env = TestEnv::empty();
    let args = "--policy constant:delay=5m,spread=0 --policy even";
    let svg = picture(&env, args);
    assert!(svg.starts_with("<svg ") && svg.contains(" role=\"img\""), "{svg}");
    let title = "Retries of 100 records in 2h under 2 policies";
    assert_contains(&svg, &format!("<title id=\"title\">{title}</title>"));
    let description = between(&svg, "<desc id=\"description\">", "</desc>")[0];
    assert_eq!(description, headlines(&svg).join("; "));
    // The first attempt is none.
    let dots = between(&svg, "<g class=\"dots\">", "</g>");
    let counts: Vec<_> = dots.iter().map(|dots| dots.matches("h0").count()).collect();
    assert_eq!(counts, [2_400, 1_229]);
    env.run(&format!("simulate {args} --svg no/such/dir.svg"))
        .fails(1, &["could not write no/such/dir.svg"]);
}

#[test]
fn a_panel_says_in_words_what_it_shows() {
    let env = TestEnv::empty();
    let svg = picture(&env, &format!("--for 1h --every 1s {FOUR}"));
    assert_eq!(
        headlines(&svg),
        [
            "constant:delay=5m,spread=0%: peak 100 in 15s, nothing for 4m 59s",
            "sidekiq: peak 58 in 15s, nothing for 16m 26s",
            "buckets: peak 140 in 15s, nothing for 1m 16s",
            "even: peak 21 in 15s",
        ]
    );
    // The simulation's own figures for sidekiq's peak and silence.
    let args = "simulate --for 1h --every 1s --policy sidekiq --jsonl";
    let mut at: Vec<i64> = Vec::new();
    for line in env.run(args).success().stdout.lines() {
        let line = json(line);
        at.extend(line["at"].as_i64().filter(|_| line["attempt"] != 1));
    }
    let peak = (0..240).map(|bin| at.iter().filter(|at| **at / 15 == bin).count()).max();
    let silence = at.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap();
    assert_eq!((peak, silence), (Some(58), 16 * 60 + 26));
    // Other runs.
    let said = |args: &str| headlines(&picture(&env, args)).join("; ");
    assert_eq!(said("--policy list:1d"), "list:1d: no retries");
    assert_eq!(
        said("--policy constant:delay=30m,spread=0 --records 1 --for 1h"),
        "constant:delay=30m,spread=0: peak 1 in 1m, nothing for 29m"
    );
}

/// Height of the highest bar of each panel, and the peak that its headline names.
fn heights(svg: &str) -> Vec<(f64, f64)> {
    let bars = between(svg, "<path class=\"load\" d=\"", "\"");
    let height = |path: &&str| {
        let heights = path.split("V-").skip(1).map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<f64>().unwrap()
        });
        heights.fold(0.0, f64::max)
    };
    let peak = |headline: &String| {
        between(headline, "peak ", " in")[0].replace(',', "").parse::<f64>().unwrap()
    };
    bars.iter().map(height).zip(headlines(svg).iter().map(peak)).collect()
}

#[test]
fn all_panels_have_one_scale_of_the_load() {
    let env = TestEnv::empty();
    for args in ["--for 1h --every 1s", "--progressive --records 1000"] {
        let svg = picture(&env, &format!("{args} {FOUR}"));
        let heights = heights(&svg);
        let most = heights
            .iter()
            .copied()
            .fold((0.0, 0.0), |one, other| if other.1 > one.1 { other } else { one });
        for (height, peak) in &heights {
            let expected = most.0 * (peak / most.1).sqrt();
            assert!((height - expected).abs() <= 1.0, "{heights:?}");
            assert!(*height >= 20.0, "ten pixels are seen: {heights:?}");
        }
        assert_eq!(svg.matches("<use href=\"#frame\"/>").count(), heights.len());
        assert_eq!(svg.matches(">retries in ").count(), 1, "the axis is drawn once");
    }
}

#[test]
fn the_colours_are_those_of_the_retries_that_occur() {
    let env = TestEnv::empty();
    let labels = |svg: &str| {
        let legend = svg.split_once("number of the retry").unwrap().1.split_once("<g ").unwrap().0;
        between(legend, "y=\"86\">", "</text>").join(" ")
    };
    let three = picture(&env, "--policy even --max-attempts 4");
    assert_eq!(labels(&three), "1 2 3");
    let css = |svg: &str| {
        between(svg, "{stroke:#", "}").into_iter().map(String::from).collect::<Vec<_>>()
    };
    // On white and on black, after the grid and the axis.
    let colours: Vec<_> = css(&three);
    assert_eq!(colours.len(), 2 * (2 + 3), "{colours:?}");
    assert_lacks(&three, "class=\"c3\"");
    let many = picture(&env, "--policy constant:delay=1m,spread=0 --policy even --for 1h");
    assert_eq!(labels(&many), "1 2 3 4 5 6 8 10 12 15 20 30 50");
    // The first and the last retry have the ends of the scale, however many there are.
    let many = css(&many);
    assert_eq!((&many[2], &many[14]), (&colours[2], &colours[4]));
    // Of records that have failed before, the numbers go on.
    let env = TestEnv::with_records(5, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 6, LAST_FAILURE = DATE_INSERTED");
    let args = format!("--from-table --policy constant:delay=5m --for 10m --now @{MIDNIGHT}");
    assert_eq!(labels(&picture(&env, &format!("{args} --policy constant:delay=2m"))), "6 8 10");
}

#[test]
fn the_picture_is_light_or_dark_by_css_alone() {
    let svg = picture(&TestEnv::empty(), "--policy even --for 1h");
    let (light, dark) = svg.split_once("@media (prefers-color-scheme: dark) {").unwrap();
    let dark = dark.split_once("</style>").unwrap().0;
    // Each colour of one has its counterpart in the other.
    let coloured = |css: &str| {
        let rules = css.split_once("<style>").map_or(css, |(_, css)| css).split('}');
        let rules = rules.filter(|rule| rule.contains("fill:#") || rule.contains("stroke:#"));
        let selectors = rules.flat_map(|rule| rule.trim().split_once('{').unwrap().0.split(','));
        selectors.map(String::from).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(coloured(light).len() > 8 && light.contains(".paper{fill:#fff}"), "{light}");
    assert_eq!(coloured(light), coloured(dark));
    assert!(!svg.contains(" fill=") && !svg.contains(" stroke="), "attributes give way to nothing");
}

#[test]
fn a_picture_of_very_much_is_small_and_has_bars_alone() {
    let env = TestEnv::empty();
    let policies = "--policy constant:delay=1m,spread=0 --policy list:1d";
    let svg = picture(&env, &format!("--records 10000 --for 2m {policies}"));
    let peak = "constant:delay=1m,spread=0: peak 10,000 in 1m";
    assert_eq!(headlines(&svg)[0], format!("{peak} (bars alone: 20,000 retries)"));
    assert_eq!(svg.matches("h0").count(), 0);
    // The other panels keep their dots.
    let policies = "--policy list:0s --policy sidekiq";
    let svg = picture(&env, &format!("--for 20m --every 1s --records 12 {policies}"));
    assert_eq!(headlines(&svg)[0], "list:0s: peak 60 in 5s (bars alone: 14,400 retries)");
    assert!(!headlines(&svg)[1].contains("bars alone"));
    let dots: Vec<_> = between(&svg, "<g class=\"dots\">", "</g>")
        .iter()
        .map(|dots| dots.matches("h0").count())
        .collect();
    assert!(dots[0] == 0 && dots[1] > 50, "{dots:?}");
}

/// The lines of a simulation at a terminal of so many columns.
fn at_terminal(columns: u16, args: &str) -> Vec<String> {
    let ran = TestEnv::empty().at_terminal(columns, &format!("simulate {args}"), "").exits(0);
    ran.stdout.lines().map(|line| line.trim_end_matches('\r').to_string()).collect()
}

#[test]
fn charts_are_as_wide_as_the_terminal() {
    for columns in [1, 40, 61, 130] {
        for args in [
            "--every 1s --for 1h --policy constant:delay=5m,spread=0% --policy sidekiq",
            "--for 1d --policy list:1m,2m,3m,4m,5m,6m,7m,8m,9m,10m,11m,12m,13m,14m",
            "--for 100d --records 2 --progressive 100d/80m",
        ] {
            let lines = at_terminal(columns, args);
            let width = |line: &String| line.chars().count();
            let widest = lines.iter().map(width).max().unwrap();
            assert!(columns < 40 || widest <= usize::from(columns), "{columns}: {lines:#?}");
            let axis = lines.iter().find(|line| line.contains(" +--")).unwrap();
            assert_eq!(width(axis), usize::from(columns).max(21), "{lines:#?}");
        }
    }
    let env = TestEnv::empty();
    let piped = env.run("simulate --every 1s --for 1h --policy even");
    let axis = format!("\n      0 +{}\n", "-".repeat(72));
    assert!(piped.success().stdout.contains(&axis), "a pipe has no width");
}

#[test]
fn charts_have_one_scale() {
    let env = TestEnv::empty();
    let shown = env.run(&format!("simulate --for 1h --every 1s {FOUR}")).success().stdout;
    let charts: Vec<_> = shown.split("\n\n").skip(1).collect();
    assert_eq!(charts.len(), 4);
    let height = |chart: &&str| {
        chart.lines().filter(|line| line.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'])).count()
    };
    let heights: Vec<_> = charts.iter().map(height).collect();
    assert_eq!(heights, [3, 3, 6, 2]);
    for (chart, peak) in charts.iter().zip(["100", "109", "241", "63"]) {
        assert!(chart.lines().nth(1).unwrap().starts_with("    241 |"), "{chart}");
        assert_contains(chart.lines().next().unwrap(), &format!("peak {peak} in 50s"));
    }
}

#[test]
fn the_load_of_the_real_table_is_foretold() {
    let env = TestEnv::with_records(200, MIDNIGHT - 3 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = CASE ID % 4 WHEN 0 THEN 'SUCCESS' ELSE 'ERROR' END");
    let ran = env.run_at(MIDNIGHT, "simulate --from-table --progressive --for 2days").success();
    // 150 failed records of three days are tried once an hour, 150 in the first tick of all.
    for line in ["2026-11-21      3600", "2026-11-22      3600"] {
        assert_contains(&ran.stdout, line);
    }
    // Half a day, from within a tick on: 1,800 attempts in 144 ticks, as on whole days.
    let half = "simulate --from-table --progressive --for 12h";
    let ran = env.run_at(MIDNIGHT + 12 * HOUR - 60, half).success();
    let day = ran.stdout.lines().find(|line| line.starts_with("2026-11-21 ")).unwrap();
    let cells: Vec<_> = day.split_whitespace().collect();
    assert_eq!((cells[1], cells[3]), ("1800", "12.5"), "{}", ran.stdout);
    assert_eq!(env.statuses().matches("ERROR").count(), 150, "nothing is written");
    // And it is what passes do.
    for now in (MIDNIGHT..MIDNIGHT + HOUR).step_by(300) {
        env.run_at(now, "process --progressive --joblog joblog -- false").silent();
    }
    assert_eq!(env.read("joblog").lines().count(), 150);
    env.run("simulate --from-table --policy even --records 7").fails(2, &["--records"]);
    TestEnv::empty().run("simulate --from-table --policy even").fails(1, &["no database at"]);
}

#[test]
fn a_simulation_needs_a_policy_and_no_database() {
    let env = TestEnv::empty();
    env.run("simulate").fails(2, &["no policy: use --policy SPEC, --fibonacci or --progressive"]);
    env.run("simulate --policy odd").fails(2, &["no policy \"odd\""]);
    let simulate = |policy: &str| {
        let mut command = env.command(&format!("simulate --records 1 {policy}"));
        command.env_remove("BACKLOG_DB").ran().success().stdout
    };
    simulate("--policy even");
    // The only queue of backlog.toml is the one that is meant; of several none need be chosen.
    let queues = "[queue.mails]\nprogressive = true\n[queue.orders]\nfibonacci = true\n";
    env.write("backlog.toml", queues);
    simulate("--policy even");
    std::fs::write(env.path("backlog.toml"), queues.split_once("[queue.orders]").unwrap().0)
        .unwrap();
    assert!(simulate("").contains("\nprogressive: "));
}

#[test]
fn a_line_that_is_behind_is_foretold_as_it_will_catch_up() {
    let env = TestEnv::new();
    for id in 1..=60 {
        // One in six is dated a day ahead, and NEW.
        env.insert_one(id, MIDNIGHT - (id % 6 * 2 - 1) * DAY - id * 60);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID % 6 <> 0");
    let mode = "--progressive 1d/5m,5d/1h,30d/6h";
    let pass = |now, rest: &str| {
        env.run_at(now, &format!("process {mode} {rest} -- false")).all_failed();
    };
    pass(MIDNIGHT - 3 * HOUR, "");
    env.insert_one(61, MIDNIGHT + DAY);
    let args = format!("simulate --from-table --jsonl --for 4h {mode}");
    let simulated = env.run_at(MIDNIGHT, &args).success().stdout;
    for now in (MIDNIGHT..=MIDNIGHT + 4 * HOUR).step_by(300) {
        pass(now, "--joblog joblog");
    }
    let joblog = env.read("joblog");
    let tried = |lines: &str, instant: &dyn Fn(&serde_json::Value) -> i64| {
        let line = |line: &str| {
            let line = json(line);
            (instant(&line), line["id"].as_i64().unwrap())
        };
        let mut tried: Vec<_> = lines.lines().map(line).collect();
        tried.sort_unstable();
        tried
    };
    let at = |line: &serde_json::Value| line["at"].as_i64().unwrap();
    let started_at = |line: &serde_json::Value| {
        let text = line["started_at"].as_str().unwrap();
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        part(11..13) * HOUR + part(14..16) * MINUTE
    };
    let (simulated, tried) = (tried(&simulated, &at), tried(&joblog, &started_at));
    assert!(simulated.len() > 100 && simulated.contains(&(0, 61)), "{simulated:?}");
    assert_eq!(simulated, tried);
}

#[test]
fn the_limits_of_the_queue_hold_in_a_simulation_of_its_table() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 2, LAST_FAILURE = DATE_INSERTED");
    let args = format!("simulate --from-table --jsonl --fibonacci --for 1day --now @{MIDNIGHT}");
    let mut command = env.command(&args);
    let output = command.env("MAX_DEFAULT_RETRY_ATTEMPTS", "4").output().unwrap();
    assert_eq!(ran(&output).success().stdout.lines().count(), 2);
}
