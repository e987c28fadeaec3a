
// A page that nobody makes any more must not pass for the truth. A minute after the next one was due this
// one is loaded again, and if it is still the old one, it says so in red.
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
    + due.textContent + " UTC, and has not come. What stands below may be wrong. Does cron still make the page?";
})();
