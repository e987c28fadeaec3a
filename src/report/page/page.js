
// An outdated page must not look current. A minute after the next page was due, the browser loads the page again. If it
// is still the old one, it says so in red.
(() => {
  const due = document.getElementById("due");
  const left = Date.parse(due.dateTime) + 60000 - Date.now();
  if (left > 0) {
    // No timer is longer than 24 days.
    setTimeout(() => location.reload(), Math.min(left + 1000, 2 ** 31 - 1));
    return;
  }
  document.documentElement.classList.add("late");
  document.title = "Out of date: " + document.title;
  document.getElementById("late").textContent = "Out of date: the next page was due at "
    + due.textContent + " UTC. The page may be wrong: does cron still make it?";
})();
