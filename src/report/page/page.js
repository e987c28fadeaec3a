
// Says so where the next page is overdue, with a minute's grace: a page that nobody makes any more
// must not pass for the truth.
(() => {
  const due = document.getElementById("due");
  const late = document.getElementById("late");
  const title = document.title;
  const look = () => {
    const secs = Math.floor((Date.now() - Date.parse(due.dateTime)) / 1000);
    const isLate = secs > 60;
    document.documentElement.classList.toggle("late", isLate);
    document.title = isLate ? "Out of date: " + title : title;
    const says = "Out of date: the next page was due at " + due.textContent
      + " UTC, and has not come. What stands below may be wrong. Does cron still make the page?";
    if (late.textContent !== (isLate ? says : "")) late.textContent = isLate ? says : "";
  };
  look();
  setInterval(look, 10000);
})();
